"""Formulas as MathML, which browsers render without scripts."""

from __future__ import annotations

from html import escape

from glassformer.language import Language
from glassformer.tracing.arithmetic.expressions import Scalar
from glassformer.tracing.formula import notation as n
from glassformer.tracing.formula.naming import Symbol
from glassformer.tracing.formula.notation import number
from glassformer.tracing.formula.places import Place


def _sign(sign: str) -> str:
    return f"<mo>{escape(sign)}</mo>"


def _word(word: str) -> str:
    """Single letters in italics, longer words upright."""
    variant = "" if len(word) == 1 else ' mathvariant="normal"'
    return f"<mi{variant}>{escape(word)}</mi>"


def _row(inside: str) -> str:
    return f"<mrow>{inside}</mrow>"


def _bracketed(inside: str) -> str:
    return _row(f"{_sign('(')}{inside}{_sign(')')}")


def number_to_mathml(value: Scalar, digits: int = 4) -> str:
    """A number, with `e-07` written as a power of ten."""
    mantissa, _, exponent = number(value, digits).replace("-", "−").partition("e")
    if not exponent:
        return f"<mn>{escape(mantissa)}</mn>"
    power = str(int(exponent.replace("−", "-"))).replace("-", "−")
    return f"<mn>{mantissa}</mn>{_sign('×')}<msup><mn>10</mn><mn>{power}</mn></msup>"


def symbol_to_mathml(symbol: Symbol, places: str = "") -> str:
    """A symbol with its indices; one with a subscript of its own is put in brackets."""
    lead = f"<mtext>{escape(symbol.lead)}</mtext>" if symbol.lead else ""
    whole = _word(symbol.base)
    if symbol.below:
        whole = f"<msub>{whole}{_word(symbol.below)}</msub>"
    if symbol.primes:
        whole = f"<msup>{whole}{_sign('′' * symbol.primes)}</msup>"
    if places:
        whole = f"<msub>{_bracketed(whole) if symbol.below else whole}{places}</msub>"
    return lead + whole


class _MathmlPrinter(n.Printer[str]):
    laid_out = (n.Fraction, n.Cases, n.Power)
    powers_of_ten = True

    def bracketed(self, formula: n.Formula) -> str:
        return _bracketed(self.inside(formula))

    def inside(self, formula: n.Formula) -> str:
        write = self.write
        match formula:
            case n.Value(number=value):
                return number_to_mathml(value, self.digits)
            case n.Leaf(symbol=symbol, places=places):
                return symbol_to_mathml(symbol, self._places(places))
            case n.Infix(sign=sign):
                sides = self.sides(formula)
                return f"{sides[0]}{_sign(sign)}{sides[1]}"
            case n.Fraction(above=above, below=below):
                return f"<mfrac>{_row(write(above))}{_row(write(below))}</mfrac>"
            case n.Power(exponent=exponent):
                return f"<msup>{_row(self.base(formula))}{_row(write(exponent))}</msup>"
            case n.Minus(body=body):
                return f"{_sign('−')}{write(body, n.PRODUCT)}"
            case n.Root(body=body):
                return f"<msqrt>{write(body)}</msqrt>"
            case n.Bars(body=body):
                return _row(f"{_sign('|')}{write(body)}{_sign('|')}")
            case n.Applied():
                return self._call(formula)
            case n.BigSum(sign=sign, letters=letters, body=body):
                letter = f"<mi>{','.join(letters)}</mi>"
                operator = "∑" if sign == "Σ" else "∏"
                return f"<munder>{_sign(operator)}{letter}</munder>{write(body, n.PRODUCT)}"
            case n.TermList():
                return self._terms(formula)
            case n.Cases(condition=condition, yes=yes, no=no):
                rows = (
                    f"<mtr><mtd>{write(yes)}</mtd><mtd>{write(condition)}</mtd></mtr>"
                    f"<mtr><mtd>{write(no)}</mtd><mtd>"
                    f"<mtext>{escape(n.say['otherwise'].say(self.language))}</mtext></mtd></mtr>"
                )
                return _row(f"{_sign('{')}<mtable>{rows}</mtable>")

    def _places(self, places: tuple[Place | n.Formula, ...]) -> str:
        if not places:
            return ""
        if all(isinstance(place, Place) for place in places):
            return f"<mtext>{escape(','.join(map(str, places)))}</mtext>"
        parts = (
            f"<mtext>{escape(str(place))}</mtext>" if isinstance(place, Place)
            else self.write(place)
            for place in places
        )  # fmt: skip
        return _row(_sign(",").join(parts))

    def _call(self, call: n.Applied) -> str:
        inside = [self.write(part) for part in call.arguments]
        inside += [_sign("…")] if call.others else []
        name = _word(f"{call.name} #{call.rank}" if call.rank else call.name)
        if call.letters:
            name = f"<munder>{name}<mi>{','.join(call.letters)}</mi></munder>"
        return name + _bracketed(_sign(",").join(inside))

    def _terms(self, listed: n.TermList) -> str:
        parts = [self.write(term, n.PRODUCT) for term in listed.terms]
        parts += [self._left_out(listed)] if listed.others else []
        return _sign("+" if listed.sign == "Σ" else "×").join(parts)

    def _left_out(self, listed: n.TermList) -> str:
        note = f"<mtext>{escape(self.others(listed.others))}</mtext>"
        shown = _sign("…") if listed.rest is None else number_to_mathml(listed.rest, self.digits)
        return f"<munder>{_row(shown)}{note}</munder>"


def to_mathml(formula: n.Formula, digits: int = 4, language: Language = "en") -> str:
    """The formula as MathML, without the enclosing `<math>`."""
    return _MathmlPrinter(digits, language).write(formula)
