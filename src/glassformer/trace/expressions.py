"""The arithmetic of one cell as a small tree over the cells it was made from.

A rule writes this tree once. The formula in symbols, the formula in numbers, the recomputation in
float64, LaTeX and a spreadsheet formula are all walks over the same tree, so they cannot disagree.

    Number                      a constant of the operator
    Entry                       a cell of an operand, or a row of cells along running axes
    Lookup                      a cell whose position is itself computed (an embedding's row)
    Operation                   a + b, a − b, a · b, a / b, a ^ b, comparisons and logic
    Function                    exp(a), max(a, b), …
    Reduce                      Σ, max, … of a body over running axes
    Choose                      one of two branches, by a condition
    Convert                     a cast to another dtype
    Named                       a part with a symbol of its own: μ, σ², m

A running axis is an `Axis`: a letter that takes the values start, start + step, ….
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from glassformer.trace.memory import View

__all__ = [
    "Axis",
    "Choose",
    "Convert",
    "Entry",
    "Expression",
    "Function",
    "Lookup",
    "Named",
    "Number",
    "Operation",
    "Operator",
    "Reduce",
    "ReduceKind",
    "Scalar",
    "add",
    "children",
    "divide",
    "fix",
    "multiply",
    "power",
    "subtract",
    "sum_of",
    "total",
    "walk",
]

Scalar = bool | int | float
Operator = Literal[
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

    def at(self, place: int) -> int:
        """The position on the operand's axis for the letter's value `place`."""
        return self.start + place * self.step


@dataclass(frozen=True, slots=True)
class Number:
    """A constant that the operator was given."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Entry:
    """A cell of an operand; with running axes in the index, one cell for each of their values."""

    view: View
    index: tuple[int | Axis, ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A cell of an operand at a position that other cells give (embedding, gather, index).

    `wrap`: the operator counts negative positions from the end.
    """

    view: View
    index: tuple[int | Axis | Expression, ...]
    wrap: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator between two expressions."""

    operator: Operator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one or more expressions; the names are the keys of `evaluate.FUNCTIONS`."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Reduce:
    """A body gathered over running axes: a sum, a largest value, the place of the largest, ….

    The last four kinds take the value of a `rank`, counted from 0, or the place where it stands.
    """

    kind: ReduceKind
    body: Expression
    axes: tuple[Axis, ...]
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Choose:
    """`yes` where the condition holds, else `no`."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Convert:
    """A value cast to a dtype: rounded to a shorter float, or cut to an integer."""

    dtype: torch.dtype
    body: Expression


@dataclass(frozen=True, slots=True)
class Named:
    """A part that a reader knows by a symbol; shown as the symbol, and defined beside."""

    symbol: str
    body: Expression


Expression = Number | Entry | Lookup | Operation | Function | Reduce | Choose | Convert | Named


def _lift(value: Expression | Scalar) -> Expression:
    return Number(value) if isinstance(value, bool | int | float) else value


def add(left: Expression | Scalar, right: Expression | Scalar) -> Expression:
    """left + right."""
    return Operation("+", _lift(left), _lift(right))


def subtract(left: Expression | Scalar, right: Expression | Scalar) -> Expression:
    """left − right."""
    return Operation("-", _lift(left), _lift(right))


def multiply(left: Expression | Scalar, right: Expression | Scalar) -> Expression:
    """left · right; a factor that is the number 1 is left out."""
    left, right = _lift(left), _lift(right)
    if isinstance(left, Number) and left.value == 1:
        return right
    return Operation("*", left, right)


def divide(left: Expression | Scalar, right: Expression | Scalar) -> Expression:
    """left / right."""
    return Operation("/", _lift(left), _lift(right))


def power(left: Expression | Scalar, right: Expression | Scalar) -> Expression:
    """left ^ right."""
    return Operation("^", _lift(left), _lift(right))


def total(body: Expression, *axes: Axis) -> Expression:
    """Σ of the body over the running axes; 0 where there is nothing to add up."""
    if not axes:
        return body
    return Reduce("sum", body, axes) if all(axis.size for axis in axes) else Number(0)


def sum_of(terms: Sequence[Expression]) -> Expression:
    """term + term + …; halved again and again, so that a long sum is no deep tree."""
    if not terms:
        return Number(0)
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return add(sum_of(terms[:middle]), sum_of(terms[middle:]))


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly below one."""
    match expression:
        case Operation(left=left, right=right):
            return (left, right)
        case Function(arguments=arguments):
            return arguments
        case Reduce(body=body) | Convert(body=body) | Named(body=body):
            return (body,)
        case Choose(condition=condition, yes=yes, no=no):
            return (condition, yes, no)
        case Lookup(index=index):
            return tuple(part for part in index if not isinstance(part, int | Axis))
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, a shared part once."""
    seen: set[int] = set()
    stack = [expression]
    while stack:
        part = stack.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            stack.extend(reversed(children(part)))


def fix(expression: Expression, places: dict[str, int]) -> Expression:
    """The expression with letters replaced by values: one term of a sum, for example."""

    def place(part: int | Axis) -> int | Axis:
        if isinstance(part, Axis) and part.letter in places:
            return part.at(places[part.letter])
        return part

    match expression:
        case Entry(view=view, index=index):
            return Entry(view, tuple(place(part) for part in index))
        case Lookup(view=view, index=index, wrap=wrap):
            parts = tuple(
                place(part) if isinstance(part, int | Axis) else fix(part, places) for part in index
            )
            return Lookup(view, parts, wrap)
        case Operation(operator=operator, left=left, right=right):
            return Operation(operator, fix(left, places), fix(right, places))
        case Function(name=name, arguments=arguments):
            return Function(name, tuple(fix(part, places) for part in arguments))
        case Reduce(kind=kind, body=body, axes=axes, rank=rank):
            bound = {axis.letter for axis in axes}
            free = {letter: at for letter, at in places.items() if letter not in bound}
            return Reduce(kind, fix(body, free), axes, rank)
        case Choose(condition=condition, yes=yes, no=no):
            return Choose(fix(condition, places), fix(yes, places), fix(no, places))
        case Convert(dtype=dtype, body=body):
            return Convert(dtype, fix(body, places))
        case Named() | Number():
            return expression  # a named part stands on its own: no letter reaches into it
