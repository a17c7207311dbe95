"""Formulas as text, TeX and MathML: three printers of one tree, with one table of precedence.

text      Σₖ x[2, k]·W_Q[1, k]    1 × 0 + 2 × 1
TeX       \\sum_{k} x_{2,k} \\cdot (W_Q)_{1,k}
MathML    what browsers render without scripts
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from string import Formatter
from typing import ClassVar, Generic, TypeVar

from glassformer.language import Language
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.formula import notation as n
from glassformer.tracing.formula.naming import Symbol
from glassformer.tracing.formula.notation import number
from glassformer.tracing.formula.places import Place

ATOM = 9
_WEAK, _COMPARISON, SUM, PRODUCT, POWER = 0, 1, 2, 3, 4
"""Precedence, weakest first; layout such as a fraction bar needs none."""
_SIGN_STRENGTHS = {
    **dict.fromkeys(("or", "xor", "and", "|", "&"), _WEAK),
    **dict.fromkeys(("+", "−"), SUM),
    **dict.fromkeys(("·", "×", "÷", "mod"), PRODUCT),
}
_TIGHT = frozenset(["−", "÷", "mod"])
_DIVISIONS = frozenset(["÷", "mod"])
_STRENGTHS: dict[type, int] = {
    n.Fraction: PRODUCT, n.Power: POWER, n.Minus: SUM, n.BigSum: SUM, n.Cases: _WEAK,
}  # fmt: skip
"""Kinds with a fixed precedence; all others are atoms."""

Printed = TypeVar("Printed")


@dataclass(frozen=True)
class Printer(ABC, Generic[Printed]):
    """Prints formulas in one format: `inside` writes one without brackets, `bracketed` with them.

    The words inside formulas are in `language`. `laid_out` are the kinds that the format's layout
    sets apart without brackets.
    """

    digits: int
    language: Language

    laid_out: ClassVar[tuple[type, ...]] = ()
    powers_of_ten: ClassVar[bool] = False
    """Whether 1.5e-05 is written as the product 1.5 × 10⁻⁵."""

    def write(self, formula: n.Formula, outer: int = 0) -> Printed:
        """The formula, in brackets if it is weaker than its surroundings."""
        weaker = self.strength(formula) < outer and not self.is_laid_out(formula)
        return self.bracketed(formula) if weaker else self.inside(formula)

    def is_laid_out(self, formula: n.Formula) -> bool:
        """Whether the layout shows where it begins and ends."""
        return isinstance(formula, self.laid_out)

    def base(self, power: n.Power) -> Printed:
        """What is raised: in brackets unless it is one sign, whatever the layout."""
        is_atom = self.strength(power.base) >= ATOM
        return self.inside(power.base) if is_atom else self.bracketed(power.base)

    def strength(self, formula: n.Formula) -> int:
        """The precedence of a formula: one weaker than its surroundings needs brackets."""
        match formula:
            case n.Infix(sign=sign):
                return _SIGN_STRENGTHS.get(sign, _COMPARISON)
            case n.Value(number=value, is_constant=is_constant):
                if value < 0:
                    return SUM if is_constant else _COMPARISON  # an operand: after any operator
                shown = number(value, self.digits) if self.powers_of_ten else ""
                return PRODUCT if "e+" in shown or "e-" in shown else ATOM
            case n.TermList(sign=sign, terms=terms, others=others):
                return SUM if sign == "Σ" and len(terms) + bool(others) > 1 else PRODUCT
            case _:
                return _STRENGTHS.get(type(formula), ATOM)

    def sides(self, formula: n.Infix) -> tuple[Printed, Printed]:
        """Both sides of an operator; a − (b − c) keeps its brackets, (a − b) − c does not.

        Neither does a factor (a / b)·c, which would read as a / (b·c).
        """
        own = self.strength(formula)
        tight = formula.sign in _TIGHT or own == _COMPARISON
        outer = [own, own + tight]
        for at, side in enumerate((formula.left, formula.right)):
            divides = isinstance(side, n.Infix) and side.sign in _DIVISIONS
            if own == PRODUCT and (divides or isinstance(side, n.Fraction)):
                outer[at] = POWER
        return self.write(formula.left, outer[0]), self.write(formula.right, outer[1])

    def others(self, count: int) -> str:
        """How many terms are not written, in words."""
        return n.say["others"].say(self.language, count=count)

    @abstractmethod
    def inside(self, formula: n.Formula) -> Printed: ...

    @abstractmethod
    def bracketed(self, formula: n.Formula) -> Printed: ...


# --- text ---

_SUBSCRIPTS = {"k": "ₖ", "l": "ₗ", "m": "ₘ", "n": "ₙ", "j": "ⱼ", "p": "ₚ", "s": "ₛ"}
_DIGITS_BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

Pieces = list[tuple[str, e.Entry | e.Lookup | None]]
"""Text in pieces; a piece that is an operand comes with its expression."""


class _TextPrinter(Printer[Pieces]):
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
                over, under = self.write(above, PRODUCT), self.write(below, PRODUCT + 1)
                return [*over, (" / ", None), *under]
            case n.Power(exponent=exponent):
                raised = self.write(exponent, POWER + 1)
                return [*self.base(formula), ("^", None), *raised]
            case n.Minus(body=body):
                return [("−", None), *self.write(body, PRODUCT)]
            case n.Root(body=body):
                bare = isinstance(body, n.Value) and self.strength(body) == ATOM
                return self._listed("√" if bare else "√(", (body,), "" if bare else ")")
            case n.Bars(body=body):
                return self._listed("|", (body,), "|")
            case n.Applied():
                return self._call(formula)
            case n.BigSum(sign=sign, letters=letters, body=body):
                return [(f"{sign}{_below(letters)} ", None), *self.write(body, PRODUCT)]
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
        return self._listed("", listed.terms, rest, joint, PRODUCT)

    def _cases(self, cases: n.Cases) -> Pieces:
        pieces: Pieces = []
        for plain, field, _, _ in Formatter().parse(n.say["choice"].say(self.language)):
            pieces.append((plain, None))
            pieces += [] if field is None else self.write(getattr(cases, field))
        return pieces


def _below(letters: tuple[str, ...]) -> str:
    lowered = []
    for letter, sign, end in (written.partition("≤") for written in letters):
        lowered += [_SUBSCRIPTS.get(letter, f"_{letter}"), sign, end.translate(_DIGITS_BELOW)]
    return "".join(lowered)


def _tex_below(letters: tuple[str, ...]) -> str:
    return f"_{{{','.join(letters)}}}".replace("≤", r" \le ")


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


# --- TeX ---
# Brackets around nothing tall stay plain, so that TeX may break the line.

_WIDEST_FRACTION = 150
"""Characters of TeX above or below a fraction bar: about half the page width."""
_ON_ONE_LINE = "{}"
"""Marks a fraction without a bar; TeX sets nothing for it."""
_TEX_SIGNS = {
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
_TEX_FUNCTIONS = frozenset(
    ["exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "max", "min"]
)
_TEX_LETTERS = {"μ": r"\mu", "σ": r"\sigma", "γ": r"\gamma", "β": r"\beta", "σ²": r"\sigma^2"}
_TEX_SPECIAL = {
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
        _TEX_SPECIAL.get(mark, mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}")
        for mark in plain
    )


def number_to_tex(value: e.Scalar, digits: int = 4) -> str:
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


def _tex_word(word: str) -> str:
    """Single letters in italics, longer words upright."""
    if len(word) == 1 or word in _TEX_LETTERS:
        return _TEX_LETTERS.get(word, word if word.isascii() else rf"\text{{{word}}}")
    return rf"\mathrm{{{escaped(word)}}}" if word.isascii() else rf"\text{{{escaped(word)}}}"


def symbol_to_tex(symbol: Symbol, places: str = "") -> str:
    """A symbol with its indices; one with a subscript of its own is put in brackets."""
    lead = {"∂": r"\partial ", "new ": r"\text{new }"}.get(symbol.lead, symbol.lead)
    below = f"_{{{_tex_word(symbol.below)}}}" if len(symbol.below) > 1 else f"_{symbol.below}"
    whole = _tex_word(symbol.base) + (below if symbol.below else "") + "'" * symbol.primes
    if not places:
        return lead + whole
    return rf"{lead}({whole})_{{{places}}}" if symbol.below else rf"{lead}{whole}_{{{places}}}"


class _TexPrinter(Printer[str]):
    laid_out = (n.Fraction, n.Cases)
    powers_of_ten = True

    def bracketed(self, formula: n.Formula) -> str:
        return _tex_bracketed(self.inside(formula))

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
                return f"{left_side} {_TEX_SIGNS.get(sign, sign)} {right_side}"
            case n.Fraction(above=above, below=below):
                return self._fraction(above, below)
            case n.Power(exponent=exponent):
                return rf"{{{self.base(formula)}}}^{{{write(exponent)}}}"
            case n.Minus(body=body):
                return f"-{write(body, PRODUCT)}"
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
                return rf"{command}{_tex_below(letters)} {write(body, PRODUCT)}"
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
        over, under = self.write(above, PRODUCT), self.write(below, POWER)
        return rf"{_ON_ONE_LINE}{over} \mathbin{{/}} {under}"

    def _call(self, call: n.Applied) -> str:
        arguments = [self.write(part) for part in call.arguments]
        if call.name == "not":
            return rf"\neg {self.write(call.arguments[0], ATOM)}"
        if call.others:
            arguments.append(self._left_out(call.others, None))
        rank = rf"^{{({call.rank})}}" if call.rank else ""
        name = call.name.replace(" ", "-")
        word = f"\\{name}" if name in _TEX_FUNCTIONS else rf"\operatorname{{{escaped(name)}}}"
        below = _tex_below(call.letters) if call.letters else ""
        return f"{word}{rank}{below}{_tex_bracketed(', '.join(arguments))}"

    def _terms(self, listed: n.TermList) -> str:
        parts = [self.write(term, PRODUCT) for term in listed.terms]
        if listed.others:
            parts.append(self._left_out(listed.others, listed.rest))
        return (" + " if listed.sign == "Σ" else r" \times ").join(parts)

    def _left_out(self, count: int, rest: float | None) -> str:
        note = rf"\text{{{escaped(self.others(count))}}}"
        if rest is not None:
            note = f"{note}: {number_to_tex(rest, self.digits)}"
        return rf"\underbrace{{\cdots}}_{{{note}}}"


def _tex_bracketed(inside: str) -> str:
    tall = re.search(r"\\(frac|sum|prod|begin)", inside) and len(inside) < _WIDEST_FRACTION
    return rf"\left({inside}\right)" if tall else f"({inside})"


def to_tex(formula: n.Formula, digits: int = 4, language: Language = "en") -> str:
    """The formula as LaTeX math, without dollar signs."""
    return _TexPrinter(digits, language).write(formula)


# --- MathML ---


def _sign(sign: str) -> str:
    return f"<mo>{escape(sign)}</mo>"


def _mathml_word(word: str) -> str:
    """Single letters in italics, longer words upright."""
    variant = "" if len(word) == 1 else ' mathvariant="normal"'
    return f"<mi{variant}>{escape(word)}</mi>"


def _row(inside: str) -> str:
    return f"<mrow>{inside}</mrow>"


def _mathml_bracketed(inside: str) -> str:
    return _row(f"{_sign('(')}{inside}{_sign(')')}")


def number_to_mathml(value: e.Scalar, digits: int = 4) -> str:
    """A number, with `e-07` written as a power of ten."""
    mantissa, _, exponent = number(value, digits).replace("-", "−").partition("e")
    if not exponent:
        return f"<mn>{escape(mantissa)}</mn>"
    power = str(int(exponent.replace("−", "-"))).replace("-", "−")
    return f"<mn>{mantissa}</mn>{_sign('×')}<msup><mn>10</mn><mn>{power}</mn></msup>"


def symbol_to_mathml(symbol: Symbol, places: str = "") -> str:
    """A symbol with its indices; one with a subscript of its own is put in brackets."""
    lead = f"<mtext>{escape(symbol.lead)}</mtext>" if symbol.lead else ""
    whole = _mathml_word(symbol.base)
    if symbol.below:
        whole = f"<msub>{whole}{_mathml_word(symbol.below)}</msub>"
    if symbol.primes:
        whole = f"<msup>{whole}{_sign('′' * symbol.primes)}</msup>"
    if places:
        whole = f"<msub>{_mathml_bracketed(whole) if symbol.below else whole}{places}</msub>"
    return lead + whole


class _MathmlPrinter(Printer[str]):
    laid_out = (n.Fraction, n.Cases, n.Power)
    powers_of_ten = True

    def bracketed(self, formula: n.Formula) -> str:
        return _mathml_bracketed(self.inside(formula))

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
                return f"{_sign('−')}{write(body, PRODUCT)}"
            case n.Root(body=body):
                return f"<msqrt>{write(body)}</msqrt>"
            case n.Bars(body=body):
                return _row(f"{_sign('|')}{write(body)}{_sign('|')}")
            case n.Applied():
                return self._call(formula)
            case n.BigSum(sign=sign, letters=letters, body=body):
                letter = f"<mi>{','.join(letters)}</mi>"
                operator = "∑" if sign == "Σ" else "∏"
                return f"<munder>{_sign(operator)}{letter}</munder>{write(body, PRODUCT)}"
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
        name = _mathml_word(f"{call.name} #{call.rank}" if call.rank else call.name)
        if call.letters:
            name = f"<munder>{name}<mi>{','.join(call.letters)}</mi></munder>"
        return name + _mathml_bracketed(_sign(",").join(inside))

    def _terms(self, listed: n.TermList) -> str:
        parts = [self.write(term, PRODUCT) for term in listed.terms]
        parts += [self._left_out(listed)] if listed.others else []
        return _sign("+" if listed.sign == "Σ" else "×").join(parts)

    def _left_out(self, listed: n.TermList) -> str:
        note = f"<mtext>{escape(self.others(listed.others))}</mtext>"
        shown = _sign("…") if listed.rest is None else number_to_mathml(listed.rest, self.digits)
        return f"<munder>{_row(shown)}{note}</munder>"


def to_mathml(
    formula: n.Formula, digits: int = 4, language: Language = "en", *, is_summand: bool = False
) -> str:
    """The formula as MathML, without the enclosing `<math>`; a negative summand in brackets."""
    return _MathmlPrinter(digits, language).write(formula, PRODUCT if is_summand else _WEAK)
