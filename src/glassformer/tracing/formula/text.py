"""Formulas as plain text: `Σₖ x[2, k]·W_Q[1, k]`, `1 × 0 + 2 × 1`."""

from __future__ import annotations

from collections.abc import Sequence
from string import Formatter

from glassformer.language import Language
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.formula import notation as n
from glassformer.tracing.formula.notation import number
from glassformer.tracing.formula.places import Place

_SUBSCRIPTS = {"k": "ₖ", "l": "ₗ", "m": "ₘ", "n": "ₙ", "j": "ⱼ", "p": "ₚ", "s": "ₛ"}

Operand = e.Entry | e.Lookup


Pieces = list[tuple[str, Operand | None]]
"""Text in pieces; a piece that is an operand comes with its expression."""


class _TextPrinter(n.Printer[Pieces]):
    def bracketed(self, formula: n.Formula) -> Pieces:
        if isinstance(formula, n.Value):  # the brackets belong to the number
            return [(f"({number(formula.number, self.digits)})", formula.operand)]
        return [("(", None), *self.inside(formula), (")", None)]

    def inside(self, formula: n.Formula) -> Pieces:
        match formula:
            case n.Value(number=value, operand=operand):
                return [(number(value, self.digits), operand)]
            case n.Leaf(symbol=symbol, places=places, operand=operand):
                if all(isinstance(place, Place) for place in places):
                    return [(str(formula), operand)]
                return self._listed(f"{symbol}[", places, "]")
            case n.Infix(sign=sign):
                left, right = self.sides(formula)
                return [*left, (sign if sign == "·" else f" {sign} ", None), *right]
            case n.Fraction(above=above, below=below):
                over, under = self.write(above, n.PRODUCT), self.write(below, n.PRODUCT + 1)
                return [*over, (" / ", None), *under]
            case n.Power(exponent=exponent):
                raised = self.write(exponent, n.POWER + 1)
                return [*self.base(formula), ("^", None), *raised]
            case n.Minus(body=body):
                return [("−", None), *self.write(body, n.PRODUCT)]
            case n.Root(body=body):
                bare = isinstance(body, n.Value) and self.strength(body) == n.ATOM
                return self._listed("√" if bare else "√(", (body,), "" if bare else ")")
            case n.Bars(body=body):
                return self._listed("|", (body,), "|")
            case n.Applied():
                return self._call(formula)
            case n.BigSum(sign=sign, letters=letters, body=body):
                return [(f"{sign}{_below(letters)} ", None), *self.write(body, n.PRODUCT)]
            case n.TermList():
                return self._terms(formula)
            case n.Cases():
                return self._cases(formula)

    def _listed(
        self, opening: str, parts: Sequence[n.Formula | Place], closing: str, joint: str = ", ",
        outer: int = 0,
    ) -> Pieces:  # fmt: skip
        pieces: Pieces = [(opening, None)]
        for place, part in enumerate(parts):
            if place:
                pieces.append((joint, None))
            pieces += [(str(part), None)] if isinstance(part, Place) else self.write(part, outer)
        return [*pieces, (closing, None)]

    def _call(self, call: n.Applied) -> Pieces:
        rank = f" #{call.rank}" if call.rank else ""
        others = f", … {self.others(call.others)}" if call.others else ""
        opening = f"{call.name}{rank}{_below(call.letters)}("
        return self._listed(opening, call.arguments, f"{others})")

    def _terms(self, listed: n.TermList) -> Pieces:
        joint = " + " if listed.sign == "Σ" else " × "
        rest = ""
        if listed.others:
            said = self.others(listed.others)
            sum_of_others = "" if listed.rest is None else number(listed.rest, self.digits)
            rest = f"({said}: {sum_of_others})" if sum_of_others else f"… {said}"
            rest = f"{joint if listed.terms else ''}{rest}"
        return self._listed("", listed.terms, rest, joint, n.PRODUCT)

    def _cases(self, cases: n.Cases) -> Pieces:
        pieces: Pieces = []
        for plain, field, _, _ in Formatter().parse(n.say["choice"].say(self.language)):
            pieces.append((plain, None))
            pieces += [] if field is None else self.write(getattr(cases, field))
        return pieces


def _below(letters: tuple[str, ...]) -> str:
    return "".join(_SUBSCRIPTS.get(letter, f"_{letter}") for letter in letters)


def to_text(formula: n.Formula, digits: int = 4, language: Language = "en") -> str:
    """The formula as plain text."""
    return "".join([text for text, _ in _TextPrinter(digits, language).write(formula)])


def to_pieces(formula: n.Formula, digits: int = 4, language: Language = "en") -> Pieces:
    """The text in pieces, operands with their expressions, the text between them joined."""
    joined: Pieces = []
    for text, operand in _TextPrinter(digits, language).write(formula):
        if operand is None and joined and joined[-1][1] is None:
            joined[-1] = (joined[-1][0] + text, None)
        elif text:
            joined.append((text, operand))
    return joined
