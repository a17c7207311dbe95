"""Expressions as plain text: in symbols (`Σₖ x[0, k]·W[2, k]`) and in numbers (`1×0 + 2×1`).

A cell of an operand is written under the name of the step that wrote it, wherever views have
taken it since. A long sum shows its largest terms and one number for the rest.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glassformer.trace.entries import axis_text, entry_name
from glassformer.trace.evaluate import Evaluation, Floats, gathered
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Convert,
    Entry,
    Expression,
    Function,
    Lookup,
    Named,
    Number,
    Operation,
    Reduce,
    Scalar,
    fix,
    walk,
)
from glassformer.trace.largest import largest_terms

__all__ = [
    "ENGLISH",
    "MOST_TERMS",
    "Phrases",
    "definitions",
    "entry_name",
    "linked_numbers",
    "number",
    "numbers",
    "places",
    "symbols",
]

MOST_TERMS = 8

_STRENGTH = {"or": 0, "xor": 0, "and": 0, "|": 0, "&": 0, "+": 2, "-": 2, "*": 3, "/": 3, "//": 3}
_STRENGTH |= {"%": 3, "^": 4}
_COMPARISON, _ATOM = 1, 9
_SUBSCRIPTS = {"k": "ₖ", "l": "ₗ", "m": "ₘ", "n": "ₙ", "j": "ⱼ", "p": "ₚ", "s": "ₛ"}
_KINDS = {"sum": "Σ", "product": "Π", "any": "any", "all": "all"}


def number(value: Scalar, digits: int = 4) -> str:
    """A number for readers: `digits` significant digits, whole numbers as such."""
    if isinstance(value, bool):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 10 ** max(digits, 6):
        return str(int(value))
    return f"{value:.{digits}g}"


@dataclass(frozen=True, slots=True)
class Phrases:
    """The words inside formulas, which a language may replace."""

    others: str = "{count} others"
    choice: str = "if {condition}: {yes}, else {no}"


ENGLISH = Phrases()


class _Writer(ABC):
    """The walk that both texts share; they differ in how leaves and sums are written."""

    times = "·"
    phrases = ENGLISH

    def write(self, expression: Expression, outer: int = 0) -> str:
        """The text, in brackets where it binds weaker than what stands around it."""
        text, strength = self._piece(expression)
        return f"({text})" if strength < outer else text

    def _piece(self, expression: Expression) -> tuple[str, int]:
        match expression:
            case Number(value=value):
                return self.constant(value)
            case Entry():
                return self.entry(expression)
            case Lookup():
                return self.lookup(expression)
            case Operation():
                return self._operation(expression)
            case Function(name="neg", arguments=(inner,)):
                return f"−{self.write(inner, 3)}", 2
            case Function(name="sqrt", arguments=(inner,)):
                return f"√({self.write(inner)})", _ATOM
            case Function(name="abs", arguments=(inner,)):
                return f"|{self.write(inner)}|", _ATOM
            case Function(name=name, arguments=arguments):
                return f"{name}({', '.join(map(self.write, arguments))})", _ATOM
            case Reduce():
                return self.reduce(expression)
            case Choose():
                return self.choose(expression)
            case Convert(dtype=dtype, body=body):
                return f"{str(dtype).removeprefix('torch.')}({self.write(body)})", _ATOM
            case Named():
                return self.named(expression)

    def _operation(self, operation: Operation) -> tuple[str, int]:
        sign = {"*": self.times, "-": "−", "//": "÷", "%": "mod"}.get(
            operation.operator, operation.operator
        )
        strength = _STRENGTH.get(operation.operator, _COMPARISON)
        left = self.write(operation.left, strength)
        tight = operation.operator in ("-", "/", "//", "%", "^")
        right = self.write(operation.right, strength + tight)
        spaced = sign not in ("^", "·")
        return (f"{left} {sign} {right}" if spaced else f"{left}{sign}{right}"), strength

    def constant(self, value: Scalar) -> tuple[str, int]:
        text = number(value)
        return text, _ATOM if not text.startswith("-") else 2

    @abstractmethod
    def entry(self, entry: Entry) -> tuple[str, int]: ...

    @abstractmethod
    def lookup(self, lookup: Lookup) -> tuple[str, int]: ...

    @abstractmethod
    def reduce(self, reduce: Reduce) -> tuple[str, int]: ...

    @abstractmethod
    def choose(self, choose: Choose) -> tuple[str, int]: ...

    @abstractmethod
    def named(self, part: Named) -> tuple[str, int]: ...


class _Symbols(_Writer):
    def __init__(self, rename: Callable[[str], str], phrases: Phrases) -> None:
        self._rename = rename
        self.phrases = phrases

    def entry(self, entry: Entry) -> tuple[str, int]:
        return entry_name(entry, self._rename), _ATOM

    def lookup(self, lookup: Lookup) -> tuple[str, int]:
        parts = [
            axis_text(part)
            if isinstance(part, Axis)
            else str(part)
            if isinstance(part, int)
            else self.write(part)
            for part in lookup.index
        ]
        owner, _ = lookup.view.owner((0,) * lookup.view.ndim)
        return f"{self._rename(owner.name)}[{', '.join(parts)}]", _ATOM

    def reduce(self, reduce: Reduce) -> tuple[str, int]:
        letters = "".join(_SUBSCRIPTS.get(axis.letter, f"_{axis.letter}") for axis in reduce.axes)
        kind = _KINDS.get(reduce.kind, reduce.kind)
        if reduce.kind in ("sum", "product"):
            return f"{kind}{letters} {self.write(reduce.body, 3)}", 2
        return f"{kind}{_rank(reduce)}{letters}({self.write(reduce.body)})", _ATOM

    def choose(self, choose: Choose) -> tuple[str, int]:
        condition = self.write(choose.condition)
        yes, no = self.write(choose.yes), self.write(choose.no)
        return self.phrases.choice.format(condition=condition, yes=yes, no=no), 0

    def named(self, part: Named) -> tuple[str, int]:
        return part.symbol, _ATOM


def _rank(reduce: Reduce) -> str:
    """Which of the largest (or smallest) it takes: ` #2`."""
    return f" #{reduce.rank + 1}" if "est" in reduce.kind else ""


class _Numbers(_Writer):
    times = "×"

    def __init__(self, digits: int, most: int, named: dict[int, Floats] | None = None) -> None:
        self._digits = digits
        self._most = most
        self._named = {} if named is None else named

    def constant(self, value: Scalar) -> tuple[str, int]:
        text = number(value, self._digits)
        return text, 2 if text.startswith("-") else _ATOM

    def entry(self, entry: Entry) -> tuple[str, int]:
        return self._value(entry)

    def lookup(self, lookup: Lookup) -> tuple[str, int]:
        return self._value(lookup)

    def named(self, part: Named) -> tuple[str, int]:
        return self._value(part)

    def _value(self, expression: Expression) -> tuple[str, int]:
        text = number(self._evaluate(expression), self._digits)
        # A negative number needs brackets after any operator.
        return (text, _ATOM) if not text.startswith("-") else (f"({text})", _ATOM)

    def choose(self, choose: Choose) -> tuple[str, int]:
        return self._piece(choose.yes if self._evaluate(choose.condition) else choose.no)

    def _evaluate(self, expression: Expression) -> float:
        return Evaluation(expression, named=self._named).value

    def reduce(self, reduce: Reduce) -> tuple[str, int]:
        values = gathered(reduce, self._named)
        shown = largest_terms(values, self._most, reduce.kind)
        joint = {"sum": " + ", "product": " × "}.get(reduce.kind, ", ")
        parts = [self.write(fix(reduce.body, places(reduce, place)), 3) for place in shown]
        if len(shown) < len(values):
            rest = np.delete(values, shown)
            others = self.phrases.others.format(count=len(rest))
            if reduce.kind == "sum":
                with np.errstate(invalid="ignore"):  # ∞ − ∞ is NaN, and is shown as such
                    parts.append(f"({others}: {number(float(rest.sum()), self._digits)})")
            else:
                parts.append(f"… {others}")
        text = joint.join(parts)
        if reduce.kind in ("sum", "product"):
            return text, 2 if len(parts) > 1 else 3
        return f"{reduce.kind}{_rank(reduce)}({text})", _ATOM


class _Linked(_Numbers):
    """Numbers in which each operand is marked, so that it can become a link."""

    # Characters that no number has: they open and close an operand.
    opening, closing = "\x02", "\x03"

    def __init__(self, digits: int, most: int) -> None:
        super().__init__(digits, most)
        self.operands: list[Entry | Lookup] = []

    def entry(self, entry: Entry) -> tuple[str, int]:
        return self._marked(entry)

    def lookup(self, lookup: Lookup) -> tuple[str, int]:
        return self._marked(lookup)

    def _marked(self, operand: Entry | Lookup) -> tuple[str, int]:
        text, strength = self._value(operand)
        place = len(self.operands)
        self.operands.append(operand)
        return f"{self.opening}{place} {text}{self.closing}", strength


def places(reduce: Reduce, place: int) -> dict[str, int]:
    """The letters' values for the n-th term."""
    at = np.unravel_index(place, [axis.size for axis in reduce.axes])
    return {axis.letter: int(p) for axis, p in zip(reduce.axes, at, strict=True)}


def symbols(
    expression: Expression, rename: Callable[[str], str] = str, phrases: Phrases = ENGLISH
) -> str:
    """The formula in symbols; `rename` shortens the names of steps."""
    return _Symbols(rename, phrases).write(expression)


def numbers(
    expression: Expression,
    digits: int = 4,
    most: int = MOST_TERMS,
    named: dict[int, Floats] | None = None,
    phrases: Phrases = ENGLISH,
) -> str:
    """The formula with the operands' numbers in place; `named` as of `Evaluation`."""
    writer = _Numbers(digits, most, named)
    writer.phrases = phrases
    written = writer.write(expression)
    alone = written.startswith("(-") and written.find(")") == len(written) - 1
    return written[1:-1] if alone else written


def linked_numbers(
    expression: Expression,
    digits: int = 4,
    most: int = MOST_TERMS,
    phrases: Phrases = ENGLISH,
) -> list[tuple[str, Entry | Lookup | None]]:
    """`numbers` in pieces: each operand with the expression that reads it, the rest without."""
    writer = _Linked(digits, most)
    writer.phrases = phrases
    written = writer.write(expression)
    pieces: list[tuple[str, Entry | Lookup | None]] = []
    for part in re.split(f"({writer.opening}[^{writer.closing}]*{writer.closing})", written):
        if part.startswith(writer.opening):
            place, _, number = part.strip(writer.opening + writer.closing).partition(" ")
            pieces.append((number, writer.operands[int(place)]))
        elif part:
            pieces.append((part, None))
    if len(pieces) == 1 and pieces[0][0].startswith("(-"):
        return [(pieces[0][0].strip("()"), pieces[0][1])]
    return pieces


def definitions(expression: Expression) -> list[Named]:
    """The named parts (μ, σ², m), each after those it needs."""
    found = {part.symbol: part for part in walk(expression) if isinstance(part, Named)}
    return sorted(found.values(), key=lambda part: len(list(walk(part.body))))
