"""Formulas as plain text: `Σₖ x[2, k]·W_Q[1, k]`, `1 × 0 + 2 × 1`; and numbers for readers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from string import Formatter

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.formula import notation as n
from glassformer.tracing.formula.places import Place

_SUBSCRIPTS = {"k": "ₖ", "l": "ₗ", "m": "ₘ", "n": "ₙ", "j": "ⱼ", "p": "ₚ", "s": "ₛ"}

Operand = e.Entry | e.Lookup


def number(value: e.Scalar, digits: int = 4) -> str:
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
    otherwise: str = "otherwise"


ENGLISH = Phrases()


class _TextPrinter(n.Printer):
    """Writes pieces, one after the other; a piece that is an operand knows it."""

    def __init__(self, digits: int, phrases: Phrases) -> None:
        self._digits = digits
        self._phrases = phrases
        self.pieces: list[tuple[str, Operand | None]] = []

    def _say(self, text: str, operand: Operand | None = None) -> None:
        self.pieces.append((text, operand))

    def write(self, formula: n.Formula, outer: int = 0) -> None:
        """The formula, in brackets where it needs them."""
        if not self.needs_brackets(formula, outer):
            self._inside(formula)
        elif isinstance(formula, n.Value):  # the brackets belong to the number
            self._say(f"({number(formula.number, self._digits)})", formula.operand)
        else:
            self._say("(")
            self._inside(formula)
            self._say(")")

    def _inside(self, formula: n.Formula) -> None:
        match formula:
            case n.Value(number=value, operand=operand):
                self._say(number(value, self._digits), operand)
            case n.Leaf(symbol=symbol, places=places, operand=operand):
                self._leaf(str(symbol), places, operand)
            case n.Infix(sign=sign):
                self._infix(sign, formula)
            case n.Fraction(above=above, below=below):
                self.write(above, n.PRODUCT)
                self._say(" / ")
                self.write(below, n.PRODUCT + 1)
            case n.Power(base=base, exponent=exponent):
                self.write(base, n.POWER)
                self._say("^")
                self.write(exponent, n.POWER + 1)
            case n.Minus(body=body):
                self._say("−")
                self.write(body, n.PRODUCT)
            case n.Root(body=body):
                self._say("√")
                bare = isinstance(body, n.Value) and body.strength == n.ATOM
                self._listed("" if bare else "(", (body,), "" if bare else ")")
            case n.Bars(body=body):
                self._listed("|", (body,), "|")
            case n.Applied():
                self._call(formula)
            case n.BigSum(sign=sign, letters=letters, body=body):
                self._say(f"{sign}{_below(letters)} ")
                self.write(body, n.PRODUCT)
            case n.TermList():
                self._terms(formula)
            case n.Cases():
                self._cases(formula)

    def _leaf(
        self, symbol: str, places: tuple[Place | n.Formula, ...], operand: Operand | None
    ) -> None:
        if not places:
            return self._say(symbol, operand)
        if all(isinstance(place, Place) for place in places):
            return self._say(f"{symbol}[{', '.join(map(str, places))}]", operand)
        self._say(f"{symbol}[")
        for number_, place in enumerate(places):
            self._say(", " if number_ else "")
            if isinstance(place, Place):
                self._say(str(place))
            else:
                self.write(place)
        return self._say("]")

    def _infix(self, sign: str, formula: n.Infix) -> None:
        self.write(formula.left, formula.strength)
        self._say(sign if sign == "·" else f" {sign} ")
        self.write(formula.right, formula.strength_right)

    def _listed(
        self, opening: str, parts: tuple[n.Formula, ...], closing: str, joint: str = ", ",
        outer: int = 0,
    ) -> None:  # fmt: skip
        self._say(opening)
        for place, part in enumerate(parts):
            if place:
                self._say(joint)
            self.write(part, outer)
        self._say(closing)

    def _call(self, call: n.Applied) -> None:
        rank = f" #{call.rank}" if call.rank else ""
        others = f", … {self._phrases.others.format(count=call.others)}" if call.others else ""
        self._listed(f"{call.name}{rank}{_below(call.letters)}(", call.arguments, f"{others})")

    def _terms(self, listed: n.TermList) -> None:
        joint = " + " if listed.sign == "Σ" else " × "
        self._listed("", listed.terms, "", joint, n.PRODUCT)
        if listed.others:
            said = self._phrases.others.format(count=listed.others)
            rest = (
                f"({said}: {number(listed.rest, self._digits)})" if listed.rest is not None else ""
            )
            self._say(f"{joint if listed.terms else ''}{rest or f'… {said}'}")

    def _cases(self, cases: n.Cases) -> None:
        for plain, field, _, _ in Formatter().parse(self._phrases.choice):
            self._say(plain)
            if field is not None:
                self.write(getattr(cases, field))


def _below(letters: tuple[str, ...]) -> str:
    return "".join(_SUBSCRIPTS.get(letter, f"_{letter}") for letter in letters)


def to_text(formula: n.Formula, digits: int = 4, phrases: Phrases = ENGLISH) -> str:
    """The formula as plain text."""
    printer = _TextPrinter(digits, phrases)
    printer.write(formula)
    return "".join(text for text, _ in printer.pieces)


def to_pieces(
    formula: n.Formula, digits: int = 4, phrases: Phrases = ENGLISH
) -> list[tuple[str, Operand | None]]:
    """The text in pieces: each operand with the expression that reads it, the rest without."""
    printer = _TextPrinter(digits, phrases)
    printer.write(formula)
    joined: list[tuple[str, Operand | None]] = []
    for text, operand in printer.pieces:
        if operand is None and joined and joined[-1][1] is None:
            joined[-1] = (joined[-1][0] + text, None)
        elif text:
            joined.append((text, operand))
    return joined
