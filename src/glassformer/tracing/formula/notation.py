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
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import (
    Evaluation,
    Floats,
    gathered,
    largest_terms,
)
from glassformer.tracing.formula.naming import Sight, Symbol
from glassformer.tracing.formula.places import Place, place_of, written_places

if TYPE_CHECKING:
    from glassformer.tracing.cells import Cell
    from glassformer.tracing.steps import Step

MOST_TERMS = 8


ATOM = 9
_WEAK, _COMPARISON, SUM, PRODUCT, POWER = 0, 1, 2, 3, 4
"""How strongly the kinds of formulas hold together, where no layout sets them off."""
_STRENGTH = {
    **dict.fromkeys(("or", "xor", "and", "|", "&"), _WEAK),
    **dict.fromkeys(("+", "−"), SUM),
    **dict.fromkeys(("·", "×", "÷", "mod"), PRODUCT),
}
_SIGNS = {"-": "−", "*": "·", "//": "÷", "%": "mod"}
_TIGHT = frozenset(["−", "÷", "mod"])


@dataclass(frozen=True, slots=True)
class Leaf:
    """A cell, or a row of cells along letters: `W_Q[1, k]`."""

    strength: ClassVar[int] = ATOM

    symbol: Symbol
    places: tuple[Place | Formula, ...] = ()
    operand: e.Entry | e.Lookup | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A number: a constant of the operator, or the value of an operand."""

    number: e.Scalar
    operand: e.Entry | e.Lookup | None = None
    is_constant: bool = False

    @property
    def strength(self) -> int:
        """A negative number needs brackets; that of an operand after any operator."""
        if isinstance(self.number, bool) or not self.number < 0:
            return ATOM
        return SUM if self.is_constant else _COMPARISON


@dataclass(frozen=True, slots=True)
class Infix:
    """An operator between two parts: + − · × ÷ mod, comparisons and logic."""

    sign: str
    left: Formula
    right: Formula

    @property
    def strength(self) -> int:
        """By its sign."""
        return _STRENGTH.get(self.sign, _COMPARISON)

    @property
    def strength_right(self) -> int:
        """What the right side needs to go without brackets: more, in a − (b − c)."""
        own = self.strength
        return own + (self.sign in _TIGHT or own == _COMPARISON)


@dataclass(frozen=True, slots=True)
class Fraction:
    """One part over another."""

    strength: ClassVar[int] = PRODUCT

    above: Formula
    below: Formula


@dataclass(frozen=True, slots=True)
class Power:
    """A base with an exponent."""

    strength: ClassVar[int] = POWER

    base: Formula
    exponent: Formula


@dataclass(frozen=True, slots=True)
class Minus:
    """The negative."""

    strength: ClassVar[int] = SUM

    body: Formula


@dataclass(frozen=True, slots=True)
class Root:
    """The square root."""

    strength: ClassVar[int] = ATOM

    body: Formula


@dataclass(frozen=True, slots=True)
class Bars:
    """The absolute value."""

    strength: ClassVar[int] = ATOM

    body: Formula


@dataclass(frozen=True, slots=True)
class Applied:
    """A function of its arguments, over letters perhaps: `exp(a)`, `maxⱼ(x[j])`.

    `rank`: which of the largest or smallest it takes, counted from 1; 0 if it takes none.
    """

    strength: ClassVar[int] = ATOM

    name: str
    arguments: tuple[Formula, ...]
    letters: tuple[str, ...] = ()
    rank: int = 0
    others: int = 0
    """How many arguments are not written."""


@dataclass(frozen=True, slots=True)
class BigSum:
    """Σ, or Π, over letters."""

    strength: ClassVar[int] = SUM

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

    @property
    def strength(self) -> int:
        """That of a sum, unless it has one term."""
        return SUM if self.sign == "Σ" and len(self.terms) + bool(self.others) > 1 else PRODUCT


@dataclass(frozen=True, slots=True)
class Cases:
    """One of two branches, by a condition."""

    strength: ClassVar[int] = _WEAK

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


class Printer(ABC):
    """What the printers share: brackets. `laid_out` are the kinds that need none."""

    laid_out: tuple[type, ...] = ()

    def needs_brackets(self, formula: Formula, outer: int) -> bool:
        """Whether a formula binds weaker than what stands around it."""
        return formula.strength < outer and not isinstance(formula, self.laid_out)

    @abstractmethod
    def write(self, formula: Formula, outer: int = 0) -> Any:
        """The formula, in brackets where it needs them."""

    def sides(self, formula: Infix) -> tuple[Any, Any]:
        """Both sides of an operator, in brackets where they need them."""
        left = self.write(formula.left, formula.strength)
        return left, self.write(formula.right, formula.strength_right)


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
        """The formula of an expression."""
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


class SymbolWriter(_Builder):
    """Makes formulas in symbols, and notes which symbols stand for which steps."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self.seen: dict[Symbol, Step] = {}

    def leaf(self, expression: e.Entry | e.Lookup | e.Named) -> Formula:
        """A cell or row by its symbol and places."""
        if isinstance(expression, e.Named):
            return Leaf(Symbol(expression.symbol))
        names = self._sight.names
        if isinstance(expression, e.Lookup):
            owner, _ = expression.view.owner((0,) * expression.view.ndim)
            parts = [
                place_of(part) if isinstance(part, int | e.Axis) else self.build(part)
                for part in expression.index
            ]
            symbol = self._symbol(owner)
            if len(parts) != len(owner.shape):  # looked up in another shape than was written
                return Leaf(symbol, tuple(parts), expression)
            return Leaf(symbol, self._written(owner, parts), expression)
        owner, places = written_places(expression, names.find)
        symbol = self._symbol(owner)
        if places is None:
            window = tuple(map(place_of, expression.index))
            return Leaf(Symbol(f"view({symbol})"), window, expression)
        if names.is_textbook and any(place.is_digit for place in places):
            letter = next(place.letters[0] for place in places if place.is_digit)
            return Leaf(Symbol("flattened"), (Place(0, (letter,)),), expression)
        return Leaf(symbol, self._written(owner, places), expression)

    def _symbol(self, step: Step) -> Symbol:
        symbol = self._sight.symbol(step)
        self.seen[symbol] = step
        return symbol

    def _written(
        self, owner: Step, places: Sequence[Place | Formula]
    ) -> tuple[Place | Formula, ...]:
        """The places on the axes that are written, counted as the names count."""
        return tuple([
            part.counted_from(first) if first and isinstance(part := places[axis], Place)
            else places[axis]
            for axis, first in self._sight.names.axes(owner)
        ])  # fmt: skip

    def reduce(self, reduce: e.Reduce) -> Formula:
        """Σ over letters, or a function of a row."""
        letters = tuple(axis.letter for axis in reduce.axes)
        body = self.build(reduce.body)
        if reduce.kind in ("sum", "product"):
            return BigSum("Σ" if reduce.kind == "sum" else "Π", letters, body)
        return Applied(reduce.kind, (body,), letters, _rank(reduce))

    def choose(self, choose: e.Choose) -> Formula:
        """Both branches."""
        return Cases(self.build(choose.condition), self.build(choose.yes), self.build(choose.no))


class _Numbers(_Builder):
    times = "×"

    def __init__(self, most: int, named: dict[int, Floats]) -> None:
        self._most = most
        self._named = named
        self._at: dict[str, int] = {}
        """The letters' values, inside a term."""

    def leaf(self, expression: e.Entry | e.Lookup | e.Named) -> Formula:
        if isinstance(expression, e.Named):
            return Value(self._evaluate(expression))
        one = expression.fixed(self._at) if self._at else expression
        if isinstance(one, e.Entry) and not any(isinstance(part, e.Axis) for part in one.index):
            return Value(float(one.view.array[one.index]), one)  # type: ignore[index]
        whole = e.fix(expression, self._at)
        assert isinstance(whole, e.Entry | e.Lookup)
        return Value(self._evaluate(whole), whole)

    def _evaluate(self, expression: e.Expression) -> float:
        return Evaluation(expression, named=self._named).value

    def choose(self, choose: e.Choose) -> Formula:
        taken = self._evaluate(e.fix(choose.condition, self._at))
        return self.build(choose.yes if taken else choose.no)

    def reduce(self, reduce: e.Reduce) -> Formula:
        around = self._at
        if around:
            fixed = e.fix(reduce, around)
            assert isinstance(fixed, e.Reduce)
            reduce = fixed
        values = gathered(reduce, self._named)
        shown = largest_terms(values, self._most, reduce.kind)
        terms: list[Formula] = []
        for place in shown:
            self._at = reduce.places(place)
            terms.append(self.build(reduce.body))
        self._at = around
        others = len(values) - len(shown)
        if reduce.kind not in ("sum", "product"):
            return Applied(reduce.kind, tuple(terms), (), _rank(reduce), others)
        sign = "Σ" if reduce.kind == "sum" else "Π"
        if reduce.kind == "product" or not others:
            return TermList(sign, tuple(terms), others)
        with np.errstate(invalid="ignore"):  # ∞ − ∞ is NaN, and is shown as such
            return TermList(sign, tuple(terms), others, float(np.delete(values, shown).sum()))


def _rank(reduce: e.Reduce) -> int:
    """Which of the largest (or smallest) it takes, counted from 1."""
    return reduce.rank + 1 if "est" in reduce.kind else 0


def in_symbols(expression: e.Expression, sight: Sight) -> Formula:
    """The formula of an expression, its operands by their symbols."""
    return SymbolWriter(sight).build(expression)


def leaf_of(cell: Cell, sight: Sight) -> Leaf:
    """A cell by its symbol and its places: `Q[2, 1]`."""
    step, index = sight.names.seat(cell.step, cell.index)
    places = tuple(Place(index[axis] + first) for axis, first in sight.names.axes(step))
    return Leaf(sight.symbol(step), places)


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


def to_json(formula: Formula) -> dict[str, Any]:
    """The tree as plain data: its kind, and its parts by their names."""
    data: dict[str, Any] = {"kind": type(formula).__name__.lower()}
    for field in fields(formula):
        if field.name != "operand":
            data[field.name] = _json(getattr(formula, field.name))
    return data


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(part) for part in value]
    if isinstance(value, Symbol | Place):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else to_json(value)
