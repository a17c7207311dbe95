"""A cell: one number of a trace, the arithmetic that made it, its summands and its operands."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from glassformer.errors import TraceError, expect_whole
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import (
    Evaluation,
    Precisions,
    at_precisions,
    evaluate,
)
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.formula import MOST_TERMS, number
from glassformer.tracing.notes import Explanation, notebook_markdown

if TYPE_CHECKING:
    from glassformer.tracing.capture.source_lines import Line
    from glassformer.tracing.explanation import Card
    from glassformer.tracing.influence import Dependent
    from glassformer.tracing.steps import Role, Step

MOST_LISTED = 4096
"""How many terms `to_dict` lists by default: enough for most models' rows."""


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of a cell: its value, its arithmetic, and the cells it multiplies."""

    value: float
    body: e.Expression
    places: dict[str, int]
    """The values of the summation letters in this term."""

    @property
    def expression(self) -> e.Expression:
        """The term on its own."""
        return e.fix(self.body, self.places) if self.places else self.body

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The operands of this term."""
        return tuple(leaves(self.expression))


class Terms(Sequence[Term]):
    """The summands of a cell, each made on access, so that thousands of them cost little.

    `values` holds the values of all.
    """

    def __init__(self, evaluation: Evaluation | None) -> None:
        """The summands of an evaluated expression; a given number has none."""
        self._sums = [] if evaluation is None else list(e.summands_of(evaluation.expression))
        values = [
            evaluation.terms(part)
            if isinstance(part, e.Reduce) and part.kind == "sum"
            else np.array([evaluation.of(part)])
            for part in self._sums
            if evaluation is not None
        ]
        self.values = np.concatenate([np.empty(0), *values])
        self._ends = np.cumsum([len(part) for part in values], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> Term: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Term, ...]: ...

    def __getitem__(self, place: int | slice) -> Term | tuple[Term, ...]:
        if isinstance(place, slice):
            return tuple(self[at] for at in range(*place.indices(len(self))))
        at = range(len(self))[place]
        which = int(np.searchsorted(self._ends, at, side="right"))
        part, before = self._sums[which], int(self._ends[which - 1]) if which else 0
        value = float(self.values[at])
        if isinstance(part, e.Reduce) and part.kind == "sum":
            return Term(value, part.body, part.places(at - before))
        return Term(value, part, {})


@dataclass(frozen=True, eq=False, slots=True)
class Cell:
    """One number. Its operands are cells again, down to parameters and inputs."""

    step: Step
    index: Index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and (self.step, self.index) == (other.step, other.index)

    def __hash__(self) -> int:
        return hash((id(self.step), self.index))

    def __repr__(self) -> str:
        return f"<cell {self.name} = {number(self.value)}>"

    def _repr_markdown_(self) -> str:
        """For notebooks: the formula in symbols and in numbers."""
        return notebook_markdown(self)

    @property
    def name(self) -> str:
        """`scores[0, 1]`."""
        return (
            f"{self.step.name}[{', '.join(map(str, self.index))}]" if self.index else self.step.name
        )

    @property
    def value(self) -> e.Scalar:
        """The number, as the run computed it."""
        value: e.Scalar = self.step.view.array[self.index].item()
        return value

    def __float__(self) -> float:
        return float(self.value)

    @property
    def is_unwritten(self) -> bool:
        """Whether it is uninitialised memory, or a copy of such a cell."""
        step, index = self.step, self.index
        while not step.is_unwritten:
            if index in step.pinned:
                return False
            expression = step.expression(index)
            if expression is None:
                return step.rule is not None
            if not isinstance(expression, e.Entry):
                return False
            step, index = expression.view.owner(expression.at({}))
        return index not in step.pinned

    @property
    def role(self) -> Role:
        """parameter, input, activation or constant."""
        return self.step.role

    @property
    def source(self) -> Line | None:
        """The source line that made it."""
        return self.step.line

    @property
    def expression(self) -> e.Expression | None:
        """Its arithmetic as a tree; None for given numbers and operators without a rule."""
        return self.step.expression(self.index)

    def card(self, most: int = MOST_TERMS, digits: int = 4) -> Card:
        """Its arithmetic worked out: formulas in symbols and numbers, and their result."""
        from glassformer.tracing.explanation import Card

        return Card(self, most, digits)

    @property
    def formula(self) -> str:
        """Its arithmetic in symbols."""
        if self.step.is_opaque:
            return f"{self.step.op}(…)"
        card = self.card()
        return card.formula or card.name

    @property
    def numbers(self) -> str:
        """Its arithmetic in numbers."""
        return self.card().numbers or number(self.value)

    @property
    def definitions(self) -> dict[str, tuple[str, str, float]]:
        """Named parts of the formula (μ, m): each in symbols, in numbers, and its value."""
        found = self.card().definitions
        return {part.symbol: (part.symbols, part.numbers, part.value) for part in found}

    @property
    def recomputed(self) -> float:
        """Its value in float64 from the operands shown."""
        expression = self.expression
        return float(self.value) if expression is None else evaluate(expression)

    @property
    def difference(self) -> float:
        """|value − recomputed|, relative to max(|value|, Σ|terms|, largest |operand|)."""
        expression = self.expression
        if expression is None:
            return 0.0
        return Evaluation(expression).relative_difference(float(self.value), self.step.dtype)

    @property
    def reproduced(self) -> bool:
        """Whether its arithmetic gives the stored number, up to the rounding of its dtype."""
        return self.difference <= self.step.tolerance

    @property
    def operands(self) -> tuple[Cell, ...]:
        """The cells it was computed from, each once, in the order of the formula."""
        expression = self.expression
        return () if expression is None else tuple(distinct(leaves(expression)))

    @property
    def terms(self) -> Terms:
        """The summands of a sum; any other formula is one term, a given number none."""
        expression = self.expression
        return Terms(None if expression is None else Evaluation(expression))

    def dependents(self) -> list[Dependent]:
        """The cells computed directly from this one, by step."""
        from glassformer.tracing.influence import dependents

        return dependents(self)

    def path(self) -> list[Cell]:
        """From this cell back along the largest contributions to a parameter or input."""
        from glassformer.tracing.influence import path

        return path(self)

    def at_precisions(self, decimals: int = 2) -> Precisions:
        """The cell in float32, in bfloat16, and from operands rounded to `decimals`."""
        return at_precisions(self.expression, self.value, decimals)

    def explain(self, depth: int = 1, terms: int = MOST_TERMS, digits: int = 4) -> Explanation:
        """The arithmetic as plain text; `depth` levels of operands below it."""
        from glassformer.tracing.explanation import explain

        for name, value in (("depth", depth), ("terms", terms), ("digits", digits)):
            expect_whole(value, name, error=TraceError)
        return Explanation(explain(self, depth, terms, digits))

    def to_dict(self, depth: int = 1, terms: int | None = MOST_LISTED) -> dict[str, Any]:
        """The cell as data, with at most `terms` terms, the largest; None: all of them."""
        from glassformer.tracing.explanation import to_dict

        expect_whole(depth, "depth", least=0, error=TraceError)
        if terms is not None:
            expect_whole(terms, "terms", error=TraceError)
        return to_dict(self, depth, terms)


def leaves(expression: e.Expression) -> Iterator[Cell]:
    """The cells that an expression reads, in order; of a choice, the chosen side."""
    for view, places in reads(expression):
        for index in product(*places):
            yield Cell(*view.owner(index))


def reads(expression: e.Expression) -> Iterator[tuple[View, list[range]]]:
    """The blocks that an expression reads: a window, and places on each of its axes.

    Of a choice, the condition and the branch taken. A sum whose reads depend on cells is unrolled.
    """
    match expression:
        case e.Entry(view=view, index=index):
            yield view, [_places(part) for part in index]
        case e.Lookup(view=view, index=index, wrap=wrap):
            places = zip(index, view.shape, strict=True)
            yield view, [_places(part, size if wrap else 0) for part, size in places]
            for part in expression.parts:
                yield from reads(part)
        case e.Choose(condition=condition, yes=yes, no=no):
            yield from reads(condition)
            yield from reads(yes if evaluate(condition) else no)
        case e.Reduce(body=body, axes=axes) if any(
            isinstance(part, e.Lookup | e.Choose) for part in e.walk(body)
        ):
            for place in range(math.prod(axis.size for axis in axes)):
                yield from reads(expression.term(place))
        case _:
            for part in expression.parts:
                yield from reads(part)


def _places(part: int | e.Axis | e.Expression, wraps_at: int = 0) -> range:
    """The positions of one part of an index; a negative one wraps around at `wraps_at`."""
    if isinstance(part, e.Axis):
        return range(part.start, part.start + part.step * part.size, part.step)
    if not isinstance(part, int):
        part = int(evaluate(part))
    at = part + wraps_at if part < 0 else part
    return range(at, at + 1)


Thing = TypeVar("Thing")


def distinct(things: Iterable[Thing]) -> Iterator[Thing]:
    """Each of them once, lazily: the first few of thousands may be enough."""
    seen: set[Thing] = set()
    for thing in things:
        if thing not in seen:
            seen.add(thing)
            yield thing


def count_operands(expression: e.Expression) -> int:
    """The number of distinct cells that an expression reads."""
    addresses: dict[int, list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = defaultdict(list)
    for view, places in reads(expression):
        if view.version.base is not None:  # written in place: a cell may be in two versions
            return len(set(leaves(expression)))
        at = np.array([view.offset], dtype=np.int64)
        for axis, stride in zip(places, view.strides, strict=True):
            at = np.add.outer(at, np.array(axis, dtype=np.int64) * stride).reshape(-1)
        addresses[id(view.version)].append(at * view.dtype.itemsize)
    return sum(len(np.unique(np.concatenate(parts))) for parts in addresses.values())


# --- blocks ---
# The operands of a cell as rectangles: thousands of numbers without one `Cell` object each.

MOST_BLOCKS = 64
"""No more blocks than this are listed."""
Ends = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of cells, ends included, in a slice of a step or of an operand."""

    operand: int | None
    """The number of the operand; None for the step itself, or for a step that the rule reads."""
    step: int | None
    lead: Index
    rows: Ends
    columns: Ends


def blocks_of(expression: e.Expression, step: Step) -> list[Region]:
    """The distinct regions that the arithmetic of a step's cell reads."""
    return list(islice(distinct(_blocks(expression, step)), MOST_BLOCKS))


def _blocks(expression: e.Expression, step: Step) -> Iterator[Region]:
    for view, places in reads(expression):
        ranges = [(min(at[0], at[-1]), max(at[0], at[-1])) for at in places]
        number = next((k for k, operand in enumerate(step.operands) if operand.view is view), None)
        if number is None:  # a window made by the rule itself: refer to the step that wrote it
            owner: Step | None
            owner, first = view.owner(tuple(low for low, _ in ranges))
            ranges = [(at, at) for at in first]
        else:
            owner = step.operands[number].step
        yield from _matrices(number, None if owner is None else owner.number, ranges)


def _matrices(operand: int | None, step: int | None, ranges: list[Ends]) -> Iterator[Region]:
    """One region per matrix slice that the ranges cover."""
    rows, columns = [(0, 0), (0, 0), *ranges][-2:]
    for lead in product(*(range(low, high + 1) for low, high in ranges[:-2])):
        yield Region(operand, step, lead, rows, columns)


def blocks_of_mask(step: Step, mask: npt.NDArray[np.bool_]) -> list[Region]:
    """The marked cells of a step: one region if they form a rectangle, else one or more per row."""
    found: list[Region] = []
    shape = mask.shape if mask.ndim > 1 else (1, *mask.shape) if mask.ndim else (1, 1)
    flat = mask.reshape(-1, *shape[-2:])
    for at in np.flatnonzero(flat.any(axis=(1, 2))):
        lead = np.unravel_index(at, shape[:-2]) if mask.ndim > 2 else ()
        for rows, columns in _rectangles(flat[at]):
            ranges = [*((int(one), int(one)) for one in lead), rows, columns]
            found += _matrices(None, step.number, ranges)
            if len(found) >= MOST_BLOCKS:
                return found
    return found


def _rectangles(marked: npt.NDArray[np.bool_]) -> Iterator[tuple[Ends, Ends]]:
    rows, columns = np.flatnonzero(marked.any(axis=1)), np.flatnonzero(marked.any(axis=0))
    down, across = (int(rows[0]), int(rows[-1])), (int(columns[0]), int(columns[-1]))
    if marked[down[0] : down[1] + 1, across[0] : across[1] + 1].all():
        yield down, across
        return
    for row in rows:
        places = np.flatnonzero(marked[row])
        for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            yield (int(row), int(row)), (int(run[0]), int(run[-1]))
