"""What an audit finds: printed and recomputed numbers compared, and a verdict for each step.

A printed number is right if the values it may stand for (half a unit of its last digit either way)
and the values the formula may give (for any unprinted digits of its inputs) overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from glassformer.audit.example import Example, PrintedDigits, PrintedStep
from glassformer.audit.formulas.bounds import Array, BoundedNumbers, Mask, Value, WordList
from glassformer.language import Bilingual, Language, words

say = words("glassformer.audit.audit")

CellMask = NDArray[np.bool_]

# Tolerance for float64 rounding, relative to the numbers compared.
_ROOM = 1e-11


@dataclass(frozen=True, eq=False)
class PrintComparison:
    """Which printed cells are right, wrong, or open because too little is printed to decide."""

    right: CellMask
    wrong: CellMask
    open: CellMask
    same_shape: bool = True

    @property
    def checked(self) -> int:
        """How many cells could be decided."""
        return int(self.right.sum() + self.wrong.sum())


def compare(step: PrintedStep, value: Value) -> PrintComparison:
    """Compare what is printed of a step with a value computed for it."""
    if isinstance(step.printed, WordList):
        return _compare_words(step, value)
    assert isinstance(step.printed, PrintedDigits)
    digits = step.printed
    if not isinstance(value, BoundedNumbers) or value.shape != digits.values.shape:
        nowhere = np.zeros(digits.values.shape, dtype=bool)
        return PrintComparison(nowhere, digits.shown, nowhere, same_shape=False)
    meets = overlap(digits, value)
    unbounded = (np.isinf(value.low) | np.isinf(value.high)) & (value.low != value.high)
    unbounded |= np.isnan(value.low) | np.isnan(value.high)
    shown = digits.shown
    return PrintComparison(shown & meets & ~unbounded, shown & ~meets, shown & meets & unbounded)


def overlap(digits: PrintedDigits, value: BoundedNumbers) -> CellMask:
    """Where a computed number may be what the printed digits stand for."""
    with np.errstate(all="ignore"):
        low, high = digits.bounds
        size = np.maximum(np.abs(digits.values), np.abs(value.mid))
        room = _ROOM * np.where(np.isfinite(size), np.maximum(size, 1e-3), 1.0)
        meets = (value.low <= high + room) & (value.high >= low - room)
    # NaN compares false with everything; an unknown number contradicts nothing.
    return np.asarray(meets | np.isnan(value.low) | np.isnan(value.high))


def _compare_words(step: PrintedStep, value: Value) -> PrintComparison:
    assert isinstance(step.printed, WordList)
    printed = step.printed.items
    nowhere = np.zeros(len(printed), dtype=bool)
    if not isinstance(value, WordList) or len(value.items) != len(printed):
        return PrintComparison(nowhere, ~nowhere, nowhere, same_shape=False)
    unknown = np.array([item is None for item in value.items], dtype=bool)
    same = np.array(same_words(step, printed, value.items), dtype=bool)
    return PrintComparison(same & ~unknown, ~same & ~unknown, unknown)


def same_words(
    step: PrintedStep, printed: tuple[str | None, ...], computed: tuple[str | None, ...]
) -> list[bool]:
    """Compare word by word, by the step's own rule for case and order."""

    def plain(word: str | None) -> str:
        return (word or "").casefold() if step.ignore_case else (word or "")

    if step.any_order:
        left = Counter(map(plain, computed))
        same = []
        for word in map(plain, printed):
            same.append(left[word] > 0)
            left[word] -= 1
        return same
    return [plain(a) == plain(b) for a, b in zip(printed, computed, strict=True)]


@dataclass(frozen=True)
class Committed:
    """One slip as it was made: where in the formula, and in which cells (None: in all)."""

    kind: str
    name: Bilingual
    detail: Bilingual
    cells: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class SlipExplanation:
    """Slips that together reproduce what is printed."""

    slips: tuple[Committed, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(slip.kind for slip in self.slips)


Verdict: TypeAlias = Literal["agrees", "wrong", "follows", "unchecked", "given"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "wrong", "follows", "unchecked", "given")


@dataclass(frozen=True, eq=False)
class StepResult:
    """The verdict on one step.

    `from_print` is its value from the printed inputs, `end_to_end` from the given ones; `causes`
    are the wrong steps that a step follows from; `reason` says why a step cannot be checked, or why
    no input could give what is printed. `note` adds to the verdict: that the misprint is above, or
    that the search for the cause ended early.
    """

    step: PrintedStep
    verdict: Verdict
    from_print: Value | None = None
    end_to_end: Value | None = None
    comparison: PrintComparison | None = None
    explanations: tuple[SlipExplanation, ...] = ()
    reason: Bilingual | None = None
    causes: tuple[str, ...] = ()
    note: Bilingual | None = None

    @property
    def right(self) -> Value | None:
        """What should stand there: from the printed inputs if the step itself is wrong."""
        match self.verdict:
            case "wrong":
                return self.from_print
            case "follows" | "unchecked":
                return self.end_to_end
            case _:
                return None

    @property
    def off(self) -> Array | None:
        """Distance of each printed number from the nearest possible one; 0 if it is right."""
        digits, value = self.step.printed, self.from_print
        if not isinstance(digits, PrintedDigits) or not isinstance(value, BoundedNumbers):
            return None
        if digits.values.shape != value.shape:
            return None
        with np.errstate(invalid="ignore"):  # −∞ from −∞ is no distance
            printed = digits.values
            distance = np.maximum(np.maximum(printed - value.high, value.low - printed), 0.0)
        wrong = self.comparison.wrong if self.comparison else False
        return np.where(wrong, distance, 0.0)

    def slip(self, language: Language, counted_from: int = 0) -> str | None:
        """The likely slips in words, alternatives that fit equally well joined by "or".

        Rows and columns are counted as in Python, or from 1 for readers of a text.
        """
        if not self.explanations:
            if self.verdict != "wrong" or self.note is not None:
                return None
            return say["no known slip"].say(language)
        joint, choice = say["; and also "].say(language), say["; or "].say(language)
        return choice.join(
            joint.join(_say(slip, language, counted_from) for slip in explanation.slips)
            for explanation in self.explanations
        )

    def to_dict(self, language: Language = "en") -> dict[str, Any]:
        """As `audit --json` writes it."""
        return {
            "id": self.step.id,
            "verdict": self.verdict,
            "slip": self.slip(language),
            "right": _plain(self.right),
            "note": None if self.note is None else self.note.say(language),
            "reason": None if self.reason is None else self.reason.say(language),
        }


@dataclass(frozen=True, eq=False)
class Audit:
    """The verdicts on a whole example."""

    example: Example
    results: tuple[StepResult, ...]

    def __getitem__(self, id_: str) -> StepResult:
        step = self.example[id_]
        return next(result for result in self.results if result.step is step)

    @property
    def counts(self) -> dict[Verdict, int]:
        counter = Counter(result.verdict for result in self.results)
        return {verdict: counter[verdict] for verdict in VERDICTS}

    @property
    def ok(self) -> bool:
        return self.counts["wrong"] == 0

    def to_dict(self, language: Language = "en") -> dict[str, Any]:
        """As `audit --json` writes it."""
        steps = [result.to_dict(language) for result in self.results]
        return {"example": self.example.name, "steps": steps}


def _say(slip: Committed, language: Language, counted_from: int) -> str:
    text = say[": "].say(language).join((slip.name.say(language), slip.detail.say(language)))
    if slip.cells is None:
        return text
    cells = tuple(tuple(place + counted_from for place in cell) for cell in slip.cells)
    where = _places(cells, language)
    return say["{text} (only in {where})"].say(language, text=text, where=where)


def _places(cells: tuple[tuple[int, ...], ...], language: Language) -> str:
    """Cells in short form: rows × columns if they form a block."""
    axes = [sorted(set(axis)) for axis in zip(*cells, strict=True)]
    if len(axes) == 2 and len(axes[0]) * len(axes[1]) == len(cells) > 1:
        comma = say[", "].say(language)
        rows, columns = (comma.join(map(str, axis)) for axis in axes)
        places = say.both("rows {rows} × columns {columns}", rows=rows, columns=columns)
        return places.say(language)
    listed = ", ".join(f"[{', '.join(map(str, cell))}]" for cell in cells[:6])
    return f"{listed}, … ({len(cells)})" if len(cells) > 6 else listed


def _plain(value: Value | None) -> Any:
    """A value as JSON: null if unknown, "-inf" for −∞."""
    match value:
        case None:
            return None
        case WordList(items=items, single=single):
            return items[0] if single else list(items)
        case Mask(allowed=allowed):
            return allowed.tolist()
        case BoundedNumbers(mid=mid):
            return _listed(mid.tolist())


def _listed(cells: Any) -> Any:
    if isinstance(cells, list):
        return [_listed(cell) for cell in cells]
    if np.isnan(cells):
        return None
    if np.isinf(cells):
        return "inf" if cells > 0 else "-inf"
    return round(cells, 12) + 0.0  # drop float64 noise; −0.0 becomes 0


# --- number by number ---
# The printed numbers of a step one by one: what is printed, the verdict on it, what is right.


@dataclass(frozen=True)
class PrintedCell:
    """A number or word where it is printed; `verdict` is None where nothing is printed."""

    index: tuple[int, ...]
    text: str
    verdict: Verdict | None
    right: str | None
    """What should stand there, where it is something else."""


def printed_cells(result: StepResult) -> list[PrintedCell]:
    """The cells of a step in reading order; none if it prints neither numbers nor words."""
    printed = result.step.printed
    if isinstance(printed, WordList):
        return list(_words(result, printed))
    return list(_numbers(result, printed)) if isinstance(printed, PrintedDigits) else []


def _numbers(result: StepResult, digits: PrintedDigits) -> Iterator[PrintedCell]:
    right = _fitting(result.right, digits.values.shape)
    for at in np.ndindex(digits.values.shape):
        places = int(digits.decimals[at])
        verdict = _verdict(result, at) if digits.shown[at] else None
        other = right_text(right, at, places) if right is not None and _differs(verdict) else None
        yield PrintedCell(at, number_text(float(digits.values[at]), places), verdict, other)


def _words(result: StepResult, printed: WordList) -> Iterator[PrintedCell]:
    right, found = result.right, result.comparison
    fits = found is None or found.same_shape  # a word too many would shift the others
    others = right.items if fits and isinstance(right, WordList) else ()
    for at, word in enumerate(printed.items):
        verdict = _verdict(result, (at,))
        other = others[at] if at < len(others) and _differs(verdict) else None
        yield PrintedCell((at,), word or "…", verdict, other)


def _differs(verdict: Verdict | None) -> bool:
    return verdict in ("wrong", "follows")


def _fitting(value: Value | None, shape: tuple[int, ...]) -> BoundedNumbers | None:
    return value if isinstance(value, BoundedNumbers) and value.shape == shape else None


def _verdict(result: StepResult, at: tuple[int, ...]) -> Verdict:
    """The step's verdict, for a number that the comparison does not except from it."""
    found = result.comparison
    if found is None:
        return result.verdict
    if found.wrong[at]:
        return result.verdict
    if found.open[at]:
        return "unchecked"
    return "agrees" if result.verdict == "wrong" else result.verdict


# --- numbers as text -------------------------------------------------------------------------


def right_text(value: BoundedNumbers, at: tuple[int, ...], places: int) -> str:
    """The right number to the printed decimals, or its range if it is not known."""
    if np.isnan(value.mid[at]):
        low, high = float(value.low[at]), float(value.high[at])
        if np.isinf(low) and np.isinf(high):
            return "?"
        return f"{number_text(low, places)} … {number_text(high, places)}"
    return number_text(float(value.mid[at]), places)


def number_text(number: float, places: int) -> str:
    """A number with `places` decimals; "…" where none is printed."""
    if np.isnan(number):
        return "…"
    if np.isinf(number):
        return "∞" if number > 0 else "−∞"
    text = f"{number + 0.0:.{max(min(places, 12), 0)}f}"
    if places >= 12 and "." in text:
        text = f"{number:.4g}"  # a printed formula: all digits would only distract
    return text.replace("-", "−")
