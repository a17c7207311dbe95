"""Formulas as LaTeX math: `Q_{2,1} = \\sum_{k} x_{2,k} \\, (W_Q)_{1,k}`.

Brackets around nothing tall stay plain, so that TeX may break the line.
"""

from __future__ import annotations

import math
import re

from glassformer.language import Language
from glassformer.tracing.arithmetic.expressions import Scalar
from glassformer.tracing.formula import notation as n
from glassformer.tracing.formula.naming import Symbol
from glassformer.tracing.formula.notation import number
from glassformer.tracing.formula.places import Place

_WIDEST_FRACTION = 150
"""Characters of TeX above or below a fraction bar: about half the page width."""
_ON_ONE_LINE = "{}"
"""Marks a fraction without a bar; TeX sets nothing for it."""
_SIGNS = {
    "≠": r"\neq",
    "≤": r"\leq",
    "≥": r"\geq",
    "and": r"\wedge",
    "or": r"\vee",
    "xor": r"\oplus",
    "&": r"\mathbin{\&}",
    "|": r"\mathbin{|}",
    "mod": r"\bmod",
    "−": "-",
    "·": r"\cdot",
    "×": r"\times",
}
_FUNCTIONS = frozenset(["exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "max", "min"])
_LETTERS = {"μ": r"\mu", "σ": r"\sigma", "γ": r"\gamma", "β": r"\beta", "σ²": r"\sigma^2"}
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_"},
}


def escaped(plain: str) -> str:
    """Escape text for LaTeX; control characters become `�`."""
    return "".join(
        _SPECIAL.get(mark, mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}")
        for mark in plain
    )


def number_to_tex(value: Scalar, digits: int = 4) -> str:
    """A number, with `e-07` written as a power of ten."""
    if isinstance(value, bool):
        return rf"\text{{{value}}}"
    if math.isnan(value):
        return r"\mathrm{NaN}"
    if math.isinf(value):
        return r"\infty" if value > 0 else r"-\infty"
    shown = number(value, digits)
    mantissa, _, exponent = shown.partition("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}" if exponent else shown


def _word(word: str) -> str:
    """Single letters in italics, longer words upright."""
    if len(word) == 1 or word in _LETTERS:
        return _LETTERS.get(word, word if word.isascii() else rf"\text{{{word}}}")
    return rf"\mathrm{{{escaped(word)}}}" if word.isascii() else rf"\text{{{escaped(word)}}}"


def symbol_to_tex(symbol: Symbol, places: str = "") -> str:
    """A symbol with its indices; one with a subscript of its own is put in brackets."""
    lead = {"∂": r"\partial ", "new ": r"\text{new }"}.get(symbol.lead, symbol.lead)
    below = f"_{{{_word(symbol.below)}}}" if len(symbol.below) > 1 else f"_{symbol.below}"
    whole = _word(symbol.base) + (below if symbol.below else "") + "'" * symbol.primes
    if not places:
        return lead + whole
    return rf"{lead}({whole})_{{{places}}}" if symbol.below else rf"{lead}{whole}_{{{places}}}"


class _TexPrinter(n.Printer[str]):
    laid_out = (n.Fraction, n.Cases)
    powers_of_ten = True

    def bracketed(self, formula: n.Formula) -> str:
        return _bracketed(self.inside(formula))

    def inside(self, formula: n.Formula) -> str:
        write = self.write
        match formula:
            case n.Value(number=value):
                return number_to_tex(value, self.digits)
            case n.Leaf(symbol=symbol, places=places):
                return symbol_to_tex(symbol, ",".join(map(self._place, places)))
            case n.Infix(sign="÷", left=left, right=right):
                return rf"\left\lfloor \frac{{{write(left)}}}{{{write(right)}}} \right\rfloor"
            case n.Infix(sign=sign):
                left_side, right_side = self.sides(formula)
                return f"{left_side} {_SIGNS.get(sign, sign)} {right_side}"
            case n.Fraction(above=above, below=below):
                return self._fraction(above, below)
            case n.Power(exponent=exponent):
                return rf"{{{self.base(formula)}}}^{{{write(exponent)}}}"
            case n.Minus(body=body):
                return f"-{write(body, n.PRODUCT)}"
            case n.Root(body=body):
                inside = write(body)
                wide = len(inside) > _WIDEST_FRACTION
                return rf"({inside})^{{1/2}}" if wide else rf"\sqrt{{{inside}}}"
            case n.Bars(body=body):
                return rf"\left|{write(body)}\right|"
            case n.Applied():
                return self._call(formula)
            case n.BigSum(sign=sign, letters=letters, body=body):
                command = r"\sum" if sign == "Σ" else r"\prod"
                return rf"{command}_{{{','.join(letters)}}} {write(body, n.PRODUCT)}"
            case n.TermList():
                return self._terms(formula)
            case n.Cases(condition=condition, yes=yes, no=no):
                large, otherwise = r"\displaystyle ", escaped(n.say["otherwise"].say(self.language))
                rows = rf"{large}{write(yes)} & {write(condition)} \\ {large}{write(no)} & "
                return rf"\begin{{cases}} {rows}\text{{{otherwise}}} \end{{cases}}"

    def _place(self, place: Place | n.Formula) -> str:
        if not isinstance(place, Place):
            return self.write(place)
        shown = str(place).replace("÷", r"\div ").replace(" mod ", r" \bmod ")
        return shown.replace("−", "-")

    def is_laid_out(self, formula: n.Formula) -> bool:
        return super().is_laid_out(formula) and not self.inside(formula).startswith(_ON_ONE_LINE)

    def _fraction(self, above: n.Formula, below: n.Formula) -> str:
        """A fraction, on one line if it is too wide."""
        over, under = self.write(above), self.write(below)
        if max(len(over), len(under)) <= _WIDEST_FRACTION:
            return rf"\frac{{{over}}}{{{under}}}"
        over, under = self.write(above, n.PRODUCT), self.write(below, n.POWER)
        return rf"{_ON_ONE_LINE}{over} \mathbin{{/}} {under}"

    def _call(self, call: n.Applied) -> str:
        arguments = [self.write(part) for part in call.arguments]
        if call.name == "not":
            return rf"\neg {self.write(call.arguments[0], n.ATOM)}"
        if call.others:
            arguments.append(self._left_out(call.others, None))
        rank = rf"^{{({call.rank})}}" if call.rank else ""
        name = call.name.replace(" ", "-")
        word = f"\\{name}" if name in _FUNCTIONS else rf"\operatorname{{{escaped(name)}}}"
        below = f"_{{{','.join(call.letters)}}}" if call.letters else ""
        return f"{word}{rank}{below}{_bracketed(', '.join(arguments))}"

    def _terms(self, listed: n.TermList) -> str:
        parts = [self.write(term, n.PRODUCT) for term in listed.terms]
        if listed.others:
            parts.append(self._left_out(listed.others, listed.rest))
        return (" + " if listed.sign == "Σ" else r" \times ").join(parts)

    def _left_out(self, count: int, rest: float | None) -> str:
        note = rf"\text{{{escaped(self.others(count))}}}"
        if rest is not None:
            note = f"{note}: {number_to_tex(rest, self.digits)}"
        return rf"\underbrace{{\cdots}}_{{{note}}}"


def _bracketed(inside: str) -> str:
    tall = re.search(r"\\(frac|sum|prod|begin)", inside) and len(inside) < _WIDEST_FRACTION
    return rf"\left({inside}\right)" if tall else f"({inside})"


def to_tex(formula: n.Formula, digits: int = 4, language: Language = "en") -> str:
    """The formula as LaTeX math, without dollar signs."""
    return _TexPrinter(digits, language).write(formula)
