"""The arithmetic of one cell, as a small tree over the cells it was computed from.

A rule builds this tree once. The formula in symbols, the formula in numbers, the recomputation in
float64, LaTeX and a spreadsheet formula all walk the same tree, so they cannot disagree.

    Number                      a constant of the operator
    Entry                       a cell of an operand, or a row of cells along running axes
    Lookup                      a cell whose position is itself computed (the row of an embedding)
    Operation                   a + b, a − b, a · b, a / b, a ^ b, comparisons and logic
    Function                    exp(a), max(a, b), …
    Reduce                      Σ, max, … of a body over running axes
    Choose                      one of two branches, depending on a condition
    Convert                     a cast to another dtype
    Named                       a part with a symbol of its own: μ, σ², m

A running axis is an `Axis`: a letter that takes the values start, start + step, ….

A new kind of expression takes four edits: its class here (with `parts` and `with_parts` if it holds
other expressions, and a place in `Expression`); its value in `float64_values.Evaluation._of`; how
it is written in `formula.notation`; and its spreadsheet formula in `documents.workbook_formulas`.
Everything else (operands, labels, edits, JSON, lessons) goes through `parts`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch

from glassformer.tracing.capture.memory import Index, View, index_of

Scalar = bool | int | float
OperatorSign = Literal[
    "+", "-", "*", "/", "^", "//", "%", "=", "≠", "<", "≤", ">", "≥", "and", "or", "xor", "&", "|"
]
ReduceKind = Literal[
    "sum",
    "product",
    "max",
    "min",
    "any",
    "all",
    "argmax",
    "argmin",
    "last argmax",
    "last argmin",
    "largest",
    "smallest",
    "place largest",
    "place smallest",
]


@dataclass(frozen=True, slots=True)
class Axis:
    """A letter that runs over `size` positions of an operand's axis."""

    letter: str
    size: int
    start: int = 0
    step: int = 1
    ends: bool = False
    """Whether formulas write where it ends: a running sum's `k ≤ 3`."""


class _Node:
    """The interface of every expression; the defaults serve expressions without parts."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The expressions directly below."""
        return ()

    def with_parts(self, parts: Sequence[Expression]) -> Expression:  # noqa: ARG002
        """A copy with other expressions below."""
        return cast("Expression", self)

    def fixed(self, places: dict[str, int]) -> Expression:  # noqa: ARG002
        """A copy in which the letters of its own positions are replaced by values."""
        return cast("Expression", self)

    # So that rules can write `x * w + b`. (`self` is always one of the classes below.)

    def __add__(self: Any, other: Expression | Scalar) -> Expression:
        return Operation("+", self, other if isinstance(other, _Node) else Number(other))

    def __radd__(self: Any, other: Scalar) -> Expression:
        return Operation("+", Number(other), self)

    def __sub__(self: Any, other: Expression | Scalar) -> Expression:
        return Operation("-", self, other if isinstance(other, _Node) else Number(other))

    def __mul__(self: Any, other: Expression | Scalar) -> Expression:
        return Operation("*", self, other if isinstance(other, _Node) else Number(other))

    def __rmul__(self: Any, other: Scalar) -> Expression:
        """A leading factor of 1 is left out."""
        return self if other == 1 else Operation("*", Number(other), self)

    def __truediv__(self: Any, other: Expression | Scalar) -> Expression:
        """A divisor of 1, the mean of one number, is left out."""
        if other == 1:
            return cast("Expression", self)
        return Operation("/", self, other if isinstance(other, _Node) else Number(other))

    def __pow__(self: Any, other: Scalar) -> Expression:
        return Operation("^", self, Number(other))

    def __rpow__(self: Any, other: Scalar) -> Expression:
        return Operation("^", Number(other), self)

    def __neg__(self: Any) -> Expression:
        return Function("neg", (self,))


@dataclass(frozen=True, slots=True)
class Number(_Node):
    """A constant passed to the operator."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Entry(_Node):
    """A cell of an operand; with running axes in the index, one cell per value of each."""

    view: View
    index: tuple[int | Axis, ...]

    def at(self, places: dict[str, int]) -> Index:
        """The cell read where the letters have these values; a letter without one is 0."""
        return tuple([
            part if isinstance(part, int) else part.start + part.step * places.get(part.letter, 0)
            for part in self.index
        ])  # fmt: skip

    def fixed(self, places: dict[str, int]) -> Entry:
        return Entry(self.view, tuple([_fix_place(part, places) for part in self.index]))


@dataclass(frozen=True, slots=True)
class Lookup(_Node):
    """A cell of an operand at a position given by other cells (embedding, gather, index).

    `wrap`: negative positions count from the end.
    """

    view: View
    index: tuple[int | Axis | Expression, ...]
    wrap: bool = False

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The computed positions."""
        return tuple(part for part in self.index if not isinstance(part, int | Axis))

    def with_parts(self, parts: Sequence[Expression]) -> Lookup:
        given = iter(parts)
        index = (part if isinstance(part, int | Axis) else next(given) for part in self.index)
        return Lookup(self.view, tuple(index), self.wrap)

    def fixed(self, places: dict[str, int]) -> Lookup:
        index = (
            _fix_place(part, places) if isinstance(part, int | Axis) else part
            for part in self.index
        )
        return Lookup(self.view, tuple(index), self.wrap)


@dataclass(frozen=True, slots=True)
class Operation(_Node):
    """An operator between two expressions."""

    operator: OperatorSign
    left: Expression
    right: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    def with_parts(self, parts: Sequence[Expression]) -> Operation:
        return Operation(self.operator, *parts)


@dataclass(frozen=True, slots=True)
class Function(_Node):
    """A function of one or more expressions; `name` is a key of `float64_values.FUNCTIONS`."""

    name: str
    arguments: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_parts(self, parts: Sequence[Expression]) -> Function:
        return Function(self.name, tuple(parts))


class _WithBody(_Node):
    __slots__ = ()

    body: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.body,)

    def with_parts(self, parts: Sequence[Expression]) -> Expression:
        return replace(cast("Reduce", self), body=parts[0])


@dataclass(frozen=True, slots=True)
class Reduce(_WithBody):
    """A body reduced over running axes: its sum, its maximum, the position of the maximum, ….

    The last four kinds give the value of a certain `rank`, counted from 0, or its position.
    """

    kind: ReduceKind
    body: Expression
    axes: tuple[Axis, ...]
    rank: int = 0

    def places(self, number: int) -> dict[str, int]:
        """The values of the letters in the n-th term."""
        at = index_of(number, [axis.size for axis in self.axes])
        return {axis.letter: place for axis, place in zip(self.axes, at, strict=True)}

    def term(self, number: int) -> Expression:
        """The n-th term."""
        return fix(self.body, self.places(number))


@dataclass(frozen=True, slots=True)
class Choose(_Node):
    """`yes` if the condition holds, else `no`."""

    condition: Expression
    yes: Expression
    no: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.condition, self.yes, self.no)

    def with_parts(self, parts: Sequence[Expression]) -> Choose:
        return Choose(*parts)


@dataclass(frozen=True, slots=True)
class Convert(_WithBody):
    """A value cast to a dtype: rounded to a shorter float, or truncated to an integer."""

    dtype: torch.dtype
    body: Expression


@dataclass(frozen=True, slots=True)
class Named(_WithBody):
    """A part shown as a symbol (μ, m), with its definition beside the formula."""

    symbol: str
    body: Expression


Expression = Number | Entry | Lookup | Operation | Function | Reduce | Choose | Convert | Named


def total(body: Expression, *axes: Axis) -> Expression:
    """Σ of the body over the running axes; 0 if there is nothing to add up."""
    if not axes:
        return body
    return Reduce("sum", body, axes) if all(axis.size for axis in axes) else Number(0)


def sum_of(terms: Sequence[Expression]) -> Expression:
    """term + term + …."""
    return combined(terms, operator.add) if terms else Number(0)


Join = Callable[[Expression, Expression], Expression]


def combined(parts: Sequence[Expression], join: Join) -> Expression:
    """The parts joined as a balanced tree, so that many of them do not nest deeply."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(combined(parts[:middle], join), combined(parts[middle:], join))


def summands_of(expression: Expression) -> Iterator[Expression]:
    """The parts of an expression that are added up; a Σ is one of them."""
    match expression:
        case Operation(operator="+", left=left, right=right):
            yield from summands_of(left)
            yield from summands_of(right)
        case _:
            yield expression


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it; shared parts appear once."""
    seen: set[int] = set()
    stack = [expression]
    while stack:
        part = stack.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            stack.extend(reversed(part.parts))


def mapped(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """A copy with `change` applied to each part directly below."""
    parts = expression.parts
    return expression.with_parts([change(part) for part in parts]) if parts else expression


def _fix_place(part: int | Axis, places: dict[str, int]) -> int | Axis:
    if isinstance(part, Axis) and part.letter in places:
        return part.start + part.step * places[part.letter]
    return part


def fix(expression: Expression, places: dict[str, int]) -> Expression:
    """A copy with letters replaced by values: one term of a sum, for example."""
    if isinstance(expression, Named):
        return expression  # a named part is self-contained: no outer letter occurs in it
    if isinstance(expression, Reduce):
        bound = {axis.letter for axis in expression.axes}
        places = {letter: at for letter, at in places.items() if letter not in bound}
    return mapped(expression.fixed(places), lambda part: fix(part, places))
