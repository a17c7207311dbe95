"""A formula: what is written, not how. Text, TeX, MathML and JSON are made from it.

It is made once from a cell's expression, in symbols (`Σₖ x[2, k]·W_Q[1, k]`) or in numbers, where a
long sum has its largest terms and one number for the rest. Sums over one term are no sums, and of a
softmax only the branch that was taken is written.

Every printer takes its brackets from the one table of strengths here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.trace import expressions as e
from glassformer.trace.evaluate import Evaluation, Floats, gathered
from glassformer.trace.formula.naming import Sight, Symbol
from glassformer.trace.formula.places import Place, place_of, written_places
from glassformer.trace.largest import largest_terms

if TYPE_CHECKING:
    from glassformer.trace.cells import Cell
    from glassformer.trace.steps import Step

MOST_TERMS = 8


@dataclass(frozen=True, slots=True)
class Leaf:
    """A cell, or a row of cells along letters: `W_Q[1, k]`."""

    symbol: Symbol
    places: tuple[Place | Formula, ...] = ()
    operand: e.Entry | e.Lookup | None = None
    step: Step | None = None
    """Whose cells these are; None of a named part."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number: a constant of the operator, or the value of an operand."""

    number: e.Scalar
    operand: e.Entry | e.Lookup | None = None
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class Infix:
    """An operator between two parts: + − · × ÷ mod, comparisons and logic."""

    sign: str
    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Fraction:
    """One part over another."""

    above: Formula
    below: Formula


@dataclass(frozen=True, slots=True)
class Power:
    """A base with an exponent."""

    base: Formula
    exponent: Formula


@dataclass(frozen=True, slots=True)
class Minus:
    """The negative."""

    body: Formula


@dataclass(frozen=True, slots=True)
class Root:
    """The square root."""

    body: Formula


@dataclass(frozen=True, slots=True)
class Bars:
    """The absolute value."""

    body: Formula


@dataclass(frozen=True, slots=True)
class Applied:
    """A function of its arguments, over letters perhaps: `exp(a)`, `maxⱼ(x[j])`.

    `rank`: which of the largest or smallest it takes, counted from 1; 0 if it takes none.
    """

    name: str
    arguments: tuple[Formula, ...]
    letters: tuple[str, ...] = ()
    rank: int = 0
    others: int = 0
    """How many arguments are not written."""


@dataclass(frozen=True, slots=True)
class BigSum:
    """Σ, or Π, over letters."""

    sign: str
    letters: tuple[str, ...]
    body: Formula


@dataclass(frozen=True, slots=True)
class TermList:
    """The terms of a Σ or Π in numbers, and what those that are not written add up to."""

    sign: str
    terms: tuple[Formula, ...]
    others: int = 0
    rest: float | None = None


@dataclass(frozen=True, slots=True)
class Cases:
    """One of two branches, by a condition."""

    condition: Formula
    yes: Formula
    no: Formula


Formula = (
    Leaf
    | Value
    | Infix
    | Fraction
    | Power
    | Minus
    | Root
    | Bars
    | Applied
    | BigSum
    | TermList
    | Cases
)

ATOM = 9
_WEAK, _COMPARISON, SUM, PRODUCT, POWER = 0, 1, 2, 3, 4
_STRENGTH = {
    **dict.fromkeys(("or", "xor", "and", "|", "&"), _WEAK),
    **dict.fromkeys(("+", "−"), SUM),
    **dict.fromkeys(("·", "×", "÷", "mod"), PRODUCT),
}
_SIGNS = {"-": "−", "*": "·", "//": "÷", "%": "mod"}
_TIGHT = frozenset(["−", "÷", "mod"])


def strength(formula: Formula) -> int:
    """How strongly a formula holds together, where no layout sets it off."""
    match formula:
        case Infix(sign=sign):
            return _STRENGTH.get(sign, _COMPARISON)
        case Fraction():
            return PRODUCT
        case Power():
            return POWER
        case Minus() | BigSum():
            return SUM
        case TermList(sign=sign, terms=terms, others=others):
            return SUM if sign == "Σ" and len(terms) + bool(others) > 1 else PRODUCT
        case Value(number=number, is_constant=is_constant):
            negative = not isinstance(number, bool) and number < 0
            return ATOM if not negative else SUM if is_constant else _COMPARISON
        case Cases():
            return _WEAK
        case _:
            return ATOM


def is_tight(formula: Infix) -> bool:
    """Whether the right side needs brackets where the left does not: a − (b − c)."""
    return formula.sign in _TIGHT or strength(formula) == _COMPARISON


class Printer(ABC):
    """What the printers share: brackets. `laid_out` are the kinds that need none."""

    laid_out: tuple[type, ...] = ()

    def needs_brackets(self, formula: Formula, outer: int) -> bool:
        """Whether a formula binds weaker than what stands around it."""
        return outer > 0 and strength(formula) < outer and not isinstance(formula, self.laid_out)

    @abstractmethod
    def write(self, formula: Formula, outer: int = 0) -> Any:
        """The formula, in brackets where it needs them."""

    def sides(self, formula: Infix) -> tuple[Any, Any]:
        """Both sides of an operator, in brackets where they need them."""
        own = strength(formula)
        return self.write(formula.left, own), self.write(formula.right, own + is_tight(formula))


def summands(formula: Formula) -> Iterator[Formula]:
    """What is added up; anything else is the only one."""
    match formula:
        case Infix(sign="+", left=left, right=right):
            yield from summands(left)
            yield from summands(right)
        case TermList(sign="Σ", terms=terms, others=others, rest=rest) if terms:
            yield from terms
            if others:
                yield TermList("Σ", (), others, rest)
        case _:
            yield formula


def equals(*sides: Formula) -> Formula:
    """One formula after the other, with signs of equality between them."""
    first, *others = sides
    for side in others:
        first = Infix("=", first, side)
    return first


# --- from expressions ---


class _Builder(ABC):
    times = "·"

    def build(self, expression: e.Expression) -> Formula:
        match expression:
            case e.Number(value=value):
                return Value(value, is_constant=True)
            case e.Entry() | e.Lookup() | e.Named():
                return self.leaf(expression)
            case e.Operation(operator="/", left=left, right=right):
                return Fraction(self.build(left), self.build(right))
            case e.Operation(operator="^", left=left, right=right):
                return Power(self.build(left), self.build(right))
            case e.Operation(operator=operator, left=left, right=right):
                sign = self.times if operator == "*" else _SIGNS.get(operator, operator)
                return Infix(sign, self.build(left), self.build(right))
            case e.Function(name="neg", arguments=(inner,)):
                return Minus(self.build(inner))
            case e.Function(name="sqrt", arguments=(inner,)):
                return Root(self.build(inner))
            case e.Function(name="abs", arguments=(inner,)):
                return Bars(self.build(inner))
            case e.Function(name=name, arguments=arguments):
                return Applied(name, tuple(map(self.build, arguments)))
            case e.Reduce():
                single = e.without_single_terms(expression)
                return self.reduce(single) if isinstance(single, e.Reduce) else self.build(single)
            case e.Choose():
                return self.choose(expression)
            case e.Convert(dtype=dtype, body=body):
                return Applied(str(dtype).removeprefix("torch."), (self.build(body),))

    @abstractmethod
    def leaf(self, expression: e.Entry | e.Lookup | e.Named) -> Formula: ...

    @abstractmethod
    def reduce(self, reduce: e.Reduce) -> Formula: ...

    @abstractmethod
    def choose(self, choose: e.Choose) -> Formula: ...


class _Symbols(_Builder):
    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def leaf(self, expression: e.Entry | e.Lookup | e.Named) -> Formula:
        if isinstance(expression, e.Named):
            return Leaf(Symbol(expression.symbol))
        names = self._sight.names
        if isinstance(expression, e.Lookup):
            owner, _ = expression.view.owner((0,) * expression.view.ndim)
            parts = [
                place_of(part) if isinstance(part, int | e.Axis) else self.build(part)
                for part in expression.index
            ]
            if len(parts) != len(owner.shape):  # looked up in another shape than was written
                return Leaf(self._sight.symbol(owner), tuple(parts), expression, owner)
            return self._written(expression, owner, parts)
        owner, places = written_places(expression, names.find)
        symbol = self._sight.symbol(owner)
        if places is None:
            window = tuple(map(place_of, expression.index))
            return Leaf(Symbol(f"view({symbol})"), window, expression, owner)
        if any(place.is_digit for place in places) and names.is_textbook:
            letter = next(place.letters[0] for place in places if place.is_digit)
            return Leaf(Symbol("flattened"), (Place(0, (letter,)),), expression, owner)
        return self._written(expression, owner, places)

    def _written(
        self, operand: e.Entry | e.Lookup, owner: Step, places: Sequence[Place | Formula]
    ) -> Leaf:
        shown = (
            part.counted_from(first) if isinstance(part := places[axis], Place) else part
            for axis, first in self._sight.names.axes(owner)
        )
        return Leaf(self._sight.symbol(owner), tuple(shown), operand, owner)

    def reduce(self, reduce: e.Reduce) -> Formula:
        letters = tuple(axis.letter for axis in reduce.axes)
        body = self.build(reduce.body)
        if reduce.kind in ("sum", "product"):
            return BigSum("Σ" if reduce.kind == "sum" else "Π", letters, body)
        return Applied(reduce.kind, (body,), letters, _rank(reduce))

    def choose(self, choose: e.Choose) -> Formula:
        return Cases(self.build(choose.condition), self.build(choose.yes), self.build(choose.no))


class _Numbers(_Builder):
    times = "×"

    def __init__(self, most: int, named: dict[int, Floats]) -> None:
        self._most = most
        self._named = named

    def leaf(self, expression: e.Entry | e.Lookup | e.Named) -> Formula:
        operand = None if isinstance(expression, e.Named) else expression
        return Value(self._evaluate(expression), operand)

    def _evaluate(self, expression: e.Expression) -> float:
        return Evaluation(expression, named=self._named).value

    def choose(self, choose: e.Choose) -> Formula:
        return self.build(choose.yes if self._evaluate(choose.condition) else choose.no)

    def reduce(self, reduce: e.Reduce) -> Formula:
        values = gathered(reduce, self._named)
        shown = largest_terms(values, self._most, reduce.kind)
        terms = tuple(self.build(reduce.term(place)) for place in shown)
        others = len(values) - len(shown)
        if reduce.kind not in ("sum", "product"):
            return Applied(reduce.kind, terms, (), _rank(reduce), others)
        if reduce.kind == "product" or not others:
            return TermList("Σ" if reduce.kind == "sum" else "Π", terms, others)
        with np.errstate(invalid="ignore"):  # ∞ − ∞ is NaN, and is shown as such
            return TermList("Σ", terms, others, float(np.delete(values, shown).sum()))


def _rank(reduce: e.Reduce) -> int:
    """Which of the largest (or smallest) it takes, counted from 1."""
    return reduce.rank + 1 if "est" in reduce.kind else 0


def in_symbols(expression: e.Expression, sight: Sight) -> Formula:
    """The formula of an expression, its operands by their symbols."""
    return _Symbols(sight).build(expression)


def leaf_of(cell: Cell, sight: Sight) -> Leaf:
    """A cell by its symbol and its places: `Q[2, 1]`."""
    step, index = sight.names.seat(cell.step, cell.index)
    places = tuple(Place(index[axis] + first) for axis, first in sight.names.axes(step))
    return Leaf(sight.symbol(step), places, None, step)


def cell_text(cell: Cell, sight: Sight) -> str:
    """The same as plain text."""
    step, index = sight.names.seat(cell.step, cell.index)
    places = ", ".join([str(index[axis] + first) for axis, first in sight.names.axes(step)])
    return f"{sight.symbol(step)}[{places}]" if places else str(sight.symbol(step))


def in_numbers(
    expression: e.Expression, most: int = MOST_TERMS, named: dict[int, Floats] | None = None
) -> Formula:
    """The formula with the operands' numbers in place; `named` as of `Evaluation`."""
    return _Numbers(most, {} if named is None else named).build(expression)


def leaves_of(formula: Formula) -> Iterator[Leaf]:
    """The cells and rows that a formula names, in order."""
    if isinstance(formula, Leaf):
        yield formula
    for part in _parts(formula):
        yield from leaves_of(part)


def _parts(formula: Formula) -> Iterator[Formula]:
    for field in fields(formula):
        value = getattr(formula, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Formula):
                yield part


def to_json(formula: Formula) -> dict[str, Any]:
    """The tree as plain data: its kind, and its parts by their names."""
    data: dict[str, Any] = {"kind": type(formula).__name__.lower()}
    for field in fields(formula):
        if field.name not in ("operand", "step"):
            data[field.name] = _json(getattr(formula, field.name))
    return data


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(part) for part in value]
    if isinstance(value, Symbol | Place):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else to_json(value)
