"""A formula: what is written, not how. Text, TeX, MathML and JSON are made from it.

It is made once from a cell's expression, in symbols (`Σₖ x[2, k]·W_Q[1, k]`) or in numbers, where a
long sum shows its largest terms and one number for the rest. Sums over one term are not written as
sums.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.language import words
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import Evaluation, largest_terms
from glassformer.tracing.formula.naming import Sight, Symbol
from glassformer.tracing.formula.places import (
    Part,
    Place,
    looked_up_parts,
    place_of,
    written_places,
)

if TYPE_CHECKING:
    from glassformer.tracing.cells import Cell
    from glassformer.tracing.steps import Step

say = words(__name__)
MOST_TERMS = 8


_SIGNS = {"-": "−", "*": "·", "//": "÷", "%": "mod"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A cell, or a row of cells along letters: `W_Q[1, k]`."""

    symbol: Symbol
    places: tuple[Place | Formula, ...] = ()
    operand: e.Entry | e.Lookup | None = None

    def __str__(self) -> str:
        """Plain text; only for leaves whose places are not formulas themselves."""
        places = ", ".join(map(str, self.places))
        return f"{self.symbol}[{places}]" if places else str(self.symbol)


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
    above: Formula
    below: Formula


@dataclass(frozen=True, slots=True)
class Power:
    """A base with an exponent."""

    base: Formula
    exponent: Formula


@dataclass(frozen=True, slots=True)
class Minus:
    body: Formula


@dataclass(frozen=True, slots=True)
class Root:
    body: Formula


@dataclass(frozen=True, slots=True)
class Bars:
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


def number(value: e.Scalar, digits: int = 4) -> str:
    """A number with `digits` significant digits; integers without a decimal point."""
    if isinstance(value, bool):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 10 ** max(digits, 6):
        return str(int(value))
    return f"{value:.{digits}g}"


def exact_number(value: e.Scalar) -> str:
    """A number with the fewest digits that give the same float32; with 9 digits if it is none."""
    is_short = isinstance(value, float) and value == value // 1 and abs(value) < 10**9
    if isinstance(value, float) and math.isfinite(value) and not is_short:
        with np.errstate(over="ignore"):
            single = np.float32(value)
        if float(single) == value:
            value = float(str(single))
    return number(value, 9)


def summands(formula: Formula) -> Iterator[Formula]:
    """The terms of a sum; any other formula is its own only term."""
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
    """Formulas joined by equals signs."""
    first, *others = sides
    for side in others:
        first = Infix("=", first, side)
    return first


# --- from expressions ---


def _plus(left: Formula, right: Formula) -> Formula:
    """left + right; a − b rather than a + −b."""
    match right:
        case Minus(body=body):
            return Infix("−", left, body)
        case Infix(sign="+" | "−" as sign, left=first, right=last) if _begins_with_minus(first):
            return Infix(sign, _plus(left, first), last)
        case _:
            return Infix("+", left, right)


def _begins_with_minus(formula: Formula) -> bool:
    while isinstance(formula, Infix) and formula.sign in "+−":
        formula = formula.left
    return isinstance(formula, Minus)


class _Builder(ABC):
    times: ClassVar[str] = "·"

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
            case e.Operation(operator="+", left=left, right=right):
                return _plus(self.build(left), self.build(right))
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
                return self.reduce(expression)
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


@dataclass
class SymbolWriter(_Builder):
    """Makes formulas in symbols, and records what the symbols stand for."""

    sight: Sight
    steps: dict[Symbol, Step] = field(default_factory=dict)
    """The symbols of operands written so far, with their steps."""
    definitions: dict[str, tuple[e.Named, Formula]] = field(default_factory=dict)
    """The symbols of named parts written so far (μ, m, Z), each after those it needs."""
    _letters: dict[str, str] = field(default_factory=dict)
    """Other letters for those of the reduction being written."""

    def leaf(self, expression: e.Entry | e.Lookup | e.Named) -> Formula:
        """A cell or row as symbol and places; a named part as its symbol."""
        if isinstance(expression, e.Named):
            if expression.symbol not in self.definitions:
                written = self.build(expression.body)
                self.definitions[expression.symbol] = expression, written
            return Leaf(Symbol(expression.symbol))
        names = self.sight.names
        places: Sequence[Place | Formula] | None
        if isinstance(expression, e.Lookup):
            owner, parts = looked_up_parts(expression)
            places = None if parts is None else self._places(parts)
        else:
            owner, places = written_places(expression, names.find)
        symbol = self.sight.symbol(owner)
        self.steps[symbol] = owner
        if places is None:
            window = tuple(self._places(expression.index))
            return Leaf(Symbol(f"view({symbol})"), window, expression)
        if names.is_textbook:
            digits = [p for p in places if isinstance(p, Place) and p.is_digit]
            if digits:
                whole = Place(0, digits[0].letters[:1]).lettered(self._letters)
                return Leaf(Symbol("flattened"), (whole,), expression)
        shown: list[Place | Formula] = []
        for axis, first in names.axes(owner):
            place = places[axis]
            if isinstance(place, Place) and (first or self._letters):
                place = place.counted_from(first).lettered(self._letters)
            shown.append(place)
        return Leaf(symbol, tuple(shown), expression)

    def _places(self, index: tuple[Part, ...]) -> list[Place | Formula]:
        return [
            place_of(part).lettered(self._letters)
            if isinstance(part, int | e.Axis)
            else self.build(part)
            for part in index
        ]

    def reduce(self, reduce: e.Reduce) -> Formula:
        """Σ over letters, or a function of a row."""
        written, around = written_letters(reduce), self._letters
        self._letters = {own: other for own, other in written.items() if own != other}
        body = self.build(reduce.body)
        self._letters = around
        first = 1 if self.sight.names.is_textbook else 0
        ends = {axis.letter: axis.size - 1 + first for axis in reduce.axes if axis.ends}
        letters = tuple(
            f"{letter}≤{ends[own]}" if own in ends else letter for own, letter in written.items()
        )
        if not letters and reduce.kind in _OF_ONE:
            return body
        if reduce.kind in ("sum", "product"):
            return BigSum("Σ" if reduce.kind == "sum" else "Π", letters, body)
        return Applied(reduce.kind, (body,), letters, _rank(reduce))

    def choose(self, choose: e.Choose) -> Formula:
        return Cases(self.build(choose.condition), self.build(choose.yes), self.build(choose.no))


_OF_ONE = frozenset(["sum", "product", "max", "min"])
"""Reductions that leave a single value unchanged: they are not written."""


def written_letters(reduce: e.Reduce) -> dict[str, str]:
    """The letters of a reduction that are written, and as what: Σₘ is Σₖ if k and l run over 1.

    A body with letters of its own keeps its letters.
    """
    long = [axis.letter for axis in reduce.axes if axis.size > 1]
    if len(long) < len(reduce.axes) and not any(
        isinstance(part, e.Reduce | e.Lookup) for part in (e.walk(reduce.body) if long else ())
    ):
        return dict(zip(long, sorted(axis.letter for axis in reduce.axes), strict=False))
    return dict(zip(long, long, strict=True))


@dataclass
class NumberWriter(_Builder):
    """Makes formulas in the numbers of an evaluation, with `most` terms of a long sum."""

    evaluation: Evaluation
    most: int = MOST_TERMS
    _at: dict[str, int] = field(default_factory=dict)
    """The values of the letters, inside a term."""

    times: ClassVar[str] = "×"

    def leaf(self, expression: e.Entry | e.Lookup | e.Named) -> Formula:
        if isinstance(expression, e.Named):
            return Value(self.evaluation.of(expression))
        if isinstance(expression, e.Entry):
            index = expression.at(self._at)
            one = e.Entry(expression.view, index)
            return Value(float(expression.view.array[index]), one)
        whole = e.fix(expression, self._at)
        assert isinstance(whole, e.Lookup)
        return Value(self.evaluation.of(whole), whole)

    def choose(self, choose: e.Choose) -> Formula:
        taken = self.evaluation.of(e.fix(choose.condition, self._at))
        return self.build(choose.yes if taken else choose.no)

    def reduce(self, reduce: e.Reduce) -> Formula:
        around = self._at
        if around:
            fixed = e.fix(reduce, around)
            assert isinstance(fixed, e.Reduce)
            reduce = fixed
        values = self.evaluation.terms(reduce)
        shown = largest_terms(values, self.most, reduce.kind)
        terms: list[Formula] = []
        for place in shown:
            self._at = reduce.places(place)
            terms.append(self.build(reduce.body))
        self._at = around
        others = len(values) - len(shown)
        if len(values) == 1 and reduce.kind in _OF_ONE:
            return terms[0]
        if reduce.kind not in ("sum", "product"):
            return Applied(reduce.kind, tuple(terms), (), _rank(reduce), others)
        sign = "Σ" if reduce.kind == "sum" else "Π"
        if reduce.kind == "product" or not others:
            return TermList(sign, tuple(terms), others)
        with np.errstate(invalid="ignore"):  # ∞ − ∞ is NaN, and is shown as such
            return TermList(sign, tuple(terms), others, float(np.delete(values, shown).sum()))


def _rank(reduce: e.Reduce) -> int:
    """Which of the largest or smallest it takes, counted from 1; 0 for other reductions."""
    return reduce.rank + 1 if "est" in reduce.kind else 0


def leaf_of(cell: Cell, sight: Sight) -> Leaf:
    """A cell by its symbol and its places: `Q[2, 1]`."""
    step, index = sight.names.seat(cell.step, cell.index)
    places = tuple([Place(index[axis] + first) for axis, first in sight.names.axes(step)])
    return Leaf(sight.symbol(step), places)


def to_json(formula: Formula) -> dict[str, Any]:
    """The tree as plain data: its kind, and its parts by their names."""
    data: dict[str, Any] = {"kind": type(formula).__name__.lower()}
    for part in fields(formula):
        if part.name != "operand":
            data[part.name] = _json(getattr(formula, part.name))
    return data


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(part) for part in value]
    if isinstance(value, Symbol | Place):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else to_json(value)
