"""The search for a slip that reproduces the printed digits of a wrong step.

One slip is tried before two together, and a slip that explains every printed number before one that
explains only the wrong ones, whose cells are then listed. A fit must be too good to be chance: each
wrong cell counts by how unlikely its digits are to be met by accident, and together they must
outweigh the number of rewritings tried.

The budget is counted in numbers computed, not in seconds, so the same example gets the same answer
on any machine. A slip that raises an exception is dropped; the search goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from glassformer.audit.example import PrintedDigits, PrintedStep
from glassformer.audit.formulas import FormulaError
from glassformer.audit.formulas.bounds import Array, BoundedNumbers, Value, WordList
from glassformer.audit.formulas.evaluator import Work, WorkSpentError
from glassformer.audit.formulas.terms import Node, walk
from glassformer.audit.recomputation import FromPrint, Rewritten
from glassformer.audit.slip import Change, Scene, Slip, anywhere
from glassformer.audit.slip_catalogue import ROUNDING, rounded_before_use
from glassformer.audit.verdicts import (
    CellMask,
    Committed,
    PrintComparison,
    SlipExplanation,
    overlap,
    same_words,
)
from glassformer.language import Bilingual

# Work, in numbers computed, to inspect or copy a node of a formula, and to inspect a cell.
_EACH_NODE = 10
_EACH_CELL = 4


@dataclass(frozen=True, eq=False)
class _Try:
    """A formula with slips, the cells it may reproduce, and how closely the wrong ones."""

    made: tuple[tuple[Slip, Bilingual], ...]
    tree: Node
    fits: CellMask
    width: Array
    numbers: Array | None = None

    def gives(self, other: _Try) -> bool:
        """Whether both give the same numbers, up to the rounding of float64."""
        if self.numbers is None or other.numbers is None:
            return False
        return np.allclose(self.numbers, other.numbers, rtol=1e-9, atol=1e-12, equal_nan=True)


class SlipSearch:
    """The search for one wrong step: `one_slip` first, then `two_slips`.

    `finished` says whether everything was tried, `failed` which slips raised an exception.
    """

    def __init__(
        self,
        from_print: FromPrint,
        step: PrintedStep,
        found: PrintComparison,
        slips: Sequence[Slip],
    ) -> None:
        assert step.printed is not None
        self._from_print = from_print
        self._step = step
        self._found = found
        self._slips = slips
        self._tree = from_print.trees[step.id]
        self._right = from_print.computed[step.id]
        others = {
            other.id: from_print.faces[other.id]
            for other in from_print.example.steps
            if other.complete
            and other.id in from_print.faces
            and step.id not in {other.id, *from_print.example.ancestors(other)}
        }
        called = {other.id: other.called for other in from_print.example.steps}
        self._scene = Scene(step, self._right, step.printed, others, self._faces, called)
        self._rewritten: Rewritten
        self._work: Work
        self._singles: list[_Try] = []
        self.finished = True
        self.failed: dict[str, tuple[Bilingual, Exception]] = {}

    def one_slip(self, work: Work) -> list[SlipExplanation]:
        """The slips that explain the step alone; several where they fit equally well."""
        self._spend(work, self._try_singles)
        return self._choose([(single,) for single in self._singles])

    def two_slips(self, work: Work) -> list[SlipExplanation]:
        """The pairs of slips that explain the step together.

        A single wrong number is too little evidence to tell two slips from a misprint.
        """
        pairs: list[tuple[_Try, ...]] = []
        if self.finished and self._found.wrong.sum() > 1:
            self._spend(work, lambda: self._try_pairs(pairs))
        return self._choose(pairs)

    def _spend(self, work: Work, search: Callable[[], None]) -> None:
        self._work = work
        try:
            self._rewritten = self._from_print.rewritten(self._step, work)
            search()
        except WorkSpentError:
            self.finished = False

    def _try_singles(self) -> None:
        self._singles.extend(self._tries(self._tree, ()))

    def _try_pairs(self, pairs: list[tuple[_Try, ...]]) -> None:
        alone: dict[tuple[Slip, Bilingual], list[_Try]] = {}
        for single in self._singles:
            alone.setdefault(single.made[0], []).append(single)
        for first in self._singles:
            for second in self._tries(first.tree, first.made):
                pairs.append((first, second, *alone.get(second.made[1], ())))

    def _faces(self, node: Node) -> Value:
        return self._rewritten.faces.value(node)

    def _tries(self, tree: Node, made: tuple[tuple[Slip, Bilingual], ...]) -> Iterator[_Try]:
        seen: set[Node] = {self._tree, tree}
        size = _EACH_NODE * sum(1 for _ in walk(tree))
        cells = _EACH_CELL * self._found.wrong.size
        for slip in self._slips:
            if slip.kind in self.failed or any(slip.kind == before.kind for before, _ in made):
                continue
            self._work.take(size + cells)
            for change in self._changes(slip, tree):
                self._work.take(size)
                if change.tree in seen:
                    continue
                seen.add(change.tree)
                tried = self._try(change, (*made, (slip, change.detail)))
                if tried is not None:
                    self._work.take(tried.fits.size)
                    yield tried

    def _changes(self, slip: Slip, tree: Node) -> Iterator[Change]:
        """What a slip makes of a formula; an exception is noted and the search goes on."""
        try:
            yield from slip.rewrite(tree, self._scene)
        except WorkSpentError:
            raise
        except Exception as error:
            self.failed[slip.kind] = (slip.name, error)

    def _try(self, change: Change, made: tuple[tuple[Slip, Bilingual], ...]) -> _Try | None:
        """The cells that a rewriting reproduces; None if it cannot be computed."""
        printed = self._scene.printed
        try:
            value = self._faces(change.tree)
            if isinstance(printed, WordList):
                return self._try_words(change, made, value)
            if not isinstance(value, BoundedNumbers) or value.shape != printed.values.shape:
                return None
            if not made[1:] or self._near(value, printed):
                value = self._rewritten.bounds.value(change.tree)
        except FormulaError:
            return None
        assert isinstance(value, BoundedNumbers)
        fits = overlap(printed, value) & np.isfinite(value.low) & np.isfinite(value.high)
        fits |= (value.low == printed.values) & (value.high == printed.values)
        width = (value.high - value.low)[self._found.wrong]
        return _Try(made, change.tree, fits & printed.shown, width, value.mid)

    def _try_words(
        self, change: Change, made: tuple[tuple[Slip, Bilingual], ...], value: Value
    ) -> _Try | None:
        printed = self._scene.printed
        assert isinstance(printed, WordList)
        if not isinstance(value, WordList) or len(value.items) != len(printed.items):
            return None
        fits = np.array(same_words(self._step, printed.items, value.items), dtype=bool)
        return _Try(made, change.tree, fits, np.zeros(int(self._found.wrong.sum())))

    def _near(self, value: BoundedNumbers, printed: PrintedDigits) -> bool:
        """Whether bounds could make any wrong cell fit; computing them takes most of the time."""
        if not isinstance(self._right, BoundedNumbers) or self._right.shape != printed.values.shape:
            return True
        with np.errstate(invalid="ignore"):
            slack = 3 * (self._right.high - self._right.low) + 2 * printed.half + 1e-9
            near = np.abs(value.mid - printed.values) <= slack
        return bool((near | np.isnan(slack))[self._found.wrong].any())

    def _choose(self, groups: list[tuple[_Try, ...]]) -> list[SlipExplanation]:
        """The groups that cover all wrong cells, best first, one per set of kinds.

        Of two that give the same numbers, only the first is named: it is one mistake in two words.
        """
        tried: dict[tuple[str, ...], int] = {}
        for group in groups:
            kinds = _kinds(group)
            tried[kinds] = tried.get(kinds, 0) + 1
        found: list[tuple[bool, SlipExplanation]] = []
        seen: dict[tuple[str, ...], _Try] = {}
        for group in groups:
            kinds, full = _kinds(group), _full(group)
            if kinds in seen or not self._covers(group) or any(map(full.gives, seen.values())):
                continue
            if self._weight(group) < np.log(tried[kinds]) + _doubt(group):
                continue
            seen[kinds] = full
            whole, explanation = self._explain(group)
            found.append((not whole, explanation))
        found.sort(key=lambda pair: pair[0])
        return [explanation for partial, explanation in found if partial == found[0][0]]

    def _covers(self, group: tuple[_Try, ...]) -> bool:
        return bool(_union(group)[self._found.wrong].all())

    def _weight(self, group: tuple[_Try, ...]) -> float:
        """How surprising the fit would be by chance, in nats."""
        printed = self._scene.printed
        if isinstance(printed, WordList):
            return float(4.0 * self._found.wrong.sum())  # a word is one of many
        finite = printed.values[printed.shown & np.isfinite(printed.values)]
        sizes = [np.abs(finite).max(initial=0.0)]
        if isinstance(self._right, BoundedNumbers):
            right = self._right.mid[np.isfinite(self._right.mid)]
            sizes.append(np.abs(right).max(initial=0.0))
        scale = max(*sizes, 1e-12)
        wrong = self._found.wrong
        widths = [np.where(tried.fits[wrong], tried.width, np.inf) for tried in group]
        width = np.minimum.reduce(widths) + 2 * np.maximum(printed.half, 1e-6 * scale)[wrong]
        chance = np.clip(len(group) * width / scale, 1e-6, 1.0)
        return float(-np.log(chance).sum())

    def _explain(self, group: tuple[_Try, ...]) -> tuple[bool, SlipExplanation]:
        """Which slip was made where, with as few mixtures of slips as possible."""
        wrong, shown = self._found.wrong, self._found.wrong | self._found.right
        full = _full(group)
        if full.fits[shown].all():
            return True, SlipExplanation(tuple(_committed(*part) for part in full.made))
        used = self._mixture(group, wrong, shown)
        slips = []
        for slip, detail in full.made:
            having = [t for t in used if any(s is slip and d == detail for s, d in t.made)]
            if not having:
                continue
            without = [t for t in used if t not in having]
            needed = wrong & ~_union(without) if without else wrong
            everywhere = not without and _union(having)[shown].all()
            cells = tuple(tuple(int(i) for i in at) for at in np.argwhere(needed))
            slips.append(_committed(slip, detail, None if everywhere else cells))
        return False, SlipExplanation(tuple(slips))

    @staticmethod
    def _mixture(group: tuple[_Try, ...], wrong: CellMask, shown: CellMask) -> list[_Try]:
        """The fewest tries that cover the wrong cells; among those, the ones that cover most."""
        for count in range(1, len(group) + 1):
            covering = [used for used in combinations(group, count) if _union(used)[wrong].all()]
            if covering:
                return list(max(covering, key=lambda used: int(_union(used)[shown].sum())))
        raise AssertionError("a group that covers the wrong cells has a mixture that does")


def _union(tries: Iterable[_Try]) -> CellMask:
    """The cells that at least one of them reproduces."""
    return np.asarray(np.logical_or.reduce([tried.fits for tried in tries]))


def _kinds(group: tuple[_Try, ...]) -> tuple[str, ...]:
    return tuple(sorted({slip.kind for tried in group for slip, _ in tried.made}))


def _doubt(group: tuple[_Try, ...]) -> float:
    return sum(slip.doubt for slip, _ in _full(group).made)


def _full(group: tuple[_Try, ...]) -> _Try:
    """The try with all slips of the group."""
    return max(group, key=lambda tried: len(tried.made))


def _committed(
    slip: Slip, detail: Bilingual, cells: tuple[tuple[int, ...], ...] | None = None
) -> Committed:
    return Committed(slip.kind, slip.name, detail, cells)


_FEWEST = 6  # cells that must differ before and agree after: fewer could be chance


def rounding_behind(from_print: FromPrint, step: PrintedStep, work: Work) -> SlipExplanation | None:
    """The intermediate rounding that gives every printed digit when the printed inputs do not.

    This is only a remark: once its budget is spent there are none, and nothing depends on it.
    """
    digits, tree = step.printed, from_print.trees[step.id]
    if not isinstance(digits, PrintedDigits) or digits.values.size < _FEWEST:
        return None

    rewritten = from_print.rewritten(step, work)

    def misses(node: Node) -> int:
        with suppress(FormulaError):
            value = rewritten.faces.value(node)
            if isinstance(value, BoundedNumbers) and value.shape == digits.values.shape:
                off = np.abs(value.mid - digits.values) > digits.half * (1 + 1e-6) + 1e-12
                return int((off & digits.shown).sum())
        return digits.values.size

    try:
        if misses(tree) < _FEWEST:
            return None
        called = {other.id: other.called for other in from_print.example.steps}
        right = from_print.computed[step.id]
        scene = Scene(step, right, digits, {}, rewritten.faces.value, called)
        for change in anywhere(rounded_before_use)(tree, scene):
            if misses(change.tree) == 0:
                return SlipExplanation((Committed(ROUNDING.kind, ROUNDING.name, change.detail),))
    except WorkSpentError:
        pass
    return None
