"""Formulas as text, TeX and MathML: a format is a template for each kind of formula.

text      Σₖ x[2, k]·W_Q[1, k]    1 × 0 + 2 × 1
TeX       \\sum_{k} x_{2,k} \\cdot (W_Q)_{1,k}
MathML    what browsers render without scripts
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from string import Formatter
from typing import ClassVar, Literal

from glassformer.language import Language
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.formula import notation as n
from glassformer.tracing.formula.naming import Symbol
from glassformer.tracing.formula.notation import number
from glassformer.tracing.formula.places import Place

_WEAK, _COMPARISON, _SUM, _PRODUCT, _POWER, _ATOM, _BARE = 0, 1, 2, 3, 4, 8, 9
"""Precedence, weakest first; layout such as a fraction bar needs none."""
_IN_TEMPLATES = {"": _WEAK, "product": _PRODUCT, "power": _POWER, "atom": _ATOM, "bare": _BARE}
_SIGN_STRENGTHS = {
    **dict.fromkeys(("or", "xor", "and", "|", "&"), _WEAK),
    **dict.fromkeys(("+", "−"), _SUM),
    **dict.fromkeys(("·", "×", "÷", "mod"), _PRODUCT),
}
_TIGHT = frozenset(["−", "÷", "mod"])
_DIVISIONS = frozenset(["÷", "mod"])
_STRENGTHS: dict[type, int] = {
    n.Fraction: _PRODUCT, n.Power: _POWER, n.Minus: _SUM, n.BigSum: _SUM, n.Cases: _WEAK,
}  # fmt: skip
"""Kinds with a fixed precedence; all others are atoms."""
_SUBSCRIPTS = {"k": "ₖ", "l": "ₗ", "m": "ₘ", "n": "ₙ", "j": "ⱼ", "p": "ₚ", "s": "ₛ"}
_DIGITS_BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

_ON_ONE_LINE = "{}"
"""Marks a fraction of TeX that is too wide for a bar; TeX sets nothing for it."""

Pieces = list[tuple[str, e.Entry | e.Lookup | None]]
"""What is printed, in pieces; a piece that is an operand comes with its expression."""


def text_of(pieces: Pieces) -> str:
    """The pieces as one string."""
    return "".join([text for text, _ in pieces])


Templates = dict[type | str, str]
"""How kinds of formulas, and operators that are not written between their sides, are written."""


@dataclass(frozen=True)
class _Printer:
    """Prints formulas as text; other formats replace templates, signs and brackets.

    In a template, `{above:product}` is a part, in brackets where it is weaker than a product. The
    words inside formulas are in `language`.
    """

    digits: int
    language: Language

    templates: ClassVar[Templates] = {
        n.Fraction: "{above:product} / {below:power}",
        n.Power: "{base:atom}^{exponent:atom}",
        n.Minus: "−{body:product}",
        n.Root: "√{body:bare}",
        n.Bars: "|{body}|",
        n.BigSum: "{sign}{letters} {body:product}",
    }
    wide: ClassVar[Templates] = {}
    """Templates for formulas that are too wide for the usual one."""
    signs: ClassVar[Mapping[str, str]] = {"·": "·", "Σ": "Σ", "Π": "Π"}
    """Operators that are not written as they are, between spaces."""
    comma: ClassVar[str] = ", "
    laid_out: ClassVar[tuple[type, ...]] = ()
    """The kinds that the format's layout sets apart without brackets, except as bases of powers."""
    powers_of_ten: ClassVar[bool] = False
    """Whether 1.5e-05 is written as the product 1.5 × 10⁻⁵."""
    number = staticmethod(number)

    def whole(self, formula: n.Formula, within: Within) -> Pieces:
        """A whole formula."""
        outer = _PRODUCT if within == "sum" else _WEAK
        if within == "equation" and isinstance(formula, n.Infix):
            outer = _SUM
        return self.write(formula, outer)

    def write(self, formula: n.Formula, outer: int = _WEAK) -> Pieces:
        """The formula, in brackets if it is weaker than its surroundings."""
        pieces = self.inside(formula)
        if self.strength(formula) >= outer:
            return pieces
        is_apart = outer < _ATOM and isinstance(formula, self.laid_out)
        if is_apart and not text_of(pieces).startswith(_ON_ONE_LINE):
            return pieces
        if isinstance(formula, n.Value):  # the brackets belong to the number
            return [(text_of(self.bracketed(pieces)), formula.operand)]
        return self.bracketed(pieces)

    def strength(self, formula: n.Formula) -> int:
        """The precedence of a formula: one weaker than its surroundings needs brackets."""
        match formula:
            case n.Infix(sign=sign):
                return _SIGN_STRENGTHS.get(sign, _COMPARISON)
            case n.Value(number=value, is_constant=is_constant):
                if value < 0:
                    return _SUM if is_constant else _COMPARISON  # an operand: after any operator
                shown = number(value, self.digits) if self.powers_of_ten else ""
                return _PRODUCT if "e+" in shown or "e-" in shown else _BARE
            case n.TermList(sign=sign, terms=terms, others=others):
                return _SUM if sign == "Σ" and len(terms) + bool(others) > 1 else _PRODUCT
            case _:
                return _STRENGTHS.get(type(formula), _ATOM)

    def inside(self, formula: n.Formula) -> Pieces:
        """The formula without brackets around it."""
        match formula:
            case n.Value(number=value, operand=operand):
                return [(self.number(value, self.digits), operand)]
            case n.Leaf():
                return self.leaf(formula)
            case n.Infix(sign=sign) if sign not in self.templates:
                return self.infix(formula)
            case n.Applied():
                return self.call(formula)
            case n.TermList(sign=sign, terms=terms, others=others, rest=rest):
                written = [self.write(term, _PRODUCT) for term in terms]
                written += [self.left_out(others, rest)] if others else []
                return _joined(written, self.sign("+" if sign == "Σ" else "×"))
            case _:
                return self.filled(formula)

    def filled(self, formula: n.Formula) -> Pieces:
        """The template of a formula with its parts in their places; text has cases in words."""
        kind = formula.sign if isinstance(formula, n.Infix) else type(formula)
        template = self.templates.get(kind) or n.say["choice"].say(self.language)
        if kind in self.wide and self.is_wide(formula):
            template = self.wide[kind]
        pieces: Pieces = []
        for plain, name, outer in _parsed(template):
            pieces.append((plain, None))
            if name == "sign":
                pieces.append((self.sign(getattr(formula, name)), None))
            elif name == "letters":
                pieces.append((self.letters(getattr(formula, name)), None))
            elif name == "otherwise":
                pieces.append((self.said(name), None))
            elif name:
                pieces += self.write(getattr(formula, name), outer)
        return pieces

    def infix(self, formula: n.Infix) -> Pieces:
        """Both sides of an operator; a − (b − c) keeps its brackets, (a − b) − c does not.

        Neither does a factor (a / b)·c, which would read as a / (b·c).
        """
        own = self.strength(formula)
        tight = formula.sign in _TIGHT or own == _COMPARISON
        sides = []
        for side, outer in ((formula.left, own), (formula.right, own + tight)):
            divides = isinstance(side, n.Infix) and side.sign in _DIVISIONS
            is_quotient = own == _PRODUCT and (divides or isinstance(side, n.Fraction))
            sides.append(self.write(side, _POWER if is_quotient else outer))
        return _joined(sides, self.sign(formula.sign))

    def call(self, call: n.Applied) -> Pieces:
        """A function of its arguments."""
        arguments = [self.write(part) for part in call.arguments]
        arguments += [self.left_out(call.others, None)] if call.others else []
        return [(self.function(call), None), *self.bracketed(_joined(arguments, self.comma))]

    def sign(self, sign: str) -> str:
        """An operator with the space around it, or a Σ."""
        return self.signs.get(sign) or f" {sign} "

    def said(self, key: str, **fields: object) -> str:
        """A word inside formulas."""
        return n.say[key].say(self.language, **fields)

    # --- what the formats write in their own way ---

    def is_wide(self, formula: n.Formula) -> bool:  # noqa: ARG002
        return False

    def bracketed(self, pieces: Pieces) -> Pieces:
        return [("(", None), *pieces, (")", None)]

    def leaf(self, leaf: n.Leaf) -> Pieces:
        """A symbol with its places."""
        if all(isinstance(place, Place) for place in leaf.places):
            return [(str(leaf), leaf.operand)]
        places = _joined(map(self.place, leaf.places), self.comma)
        return [(f"{leaf.symbol}[", None), *places, ("]", None)]

    def place(self, place: Place | n.Formula) -> Pieces:
        return [(str(place), None)] if isinstance(place, Place) else self.write(place)

    def function(self, call: n.Applied) -> str:
        """The name of a function, with its rank and its letters."""
        rank = f" #{call.rank}" if call.rank else ""
        return f"{call.name}{rank}{self.letters(call.letters)}"

    def letters(self, letters: tuple[str, ...]) -> str:
        """The letters under a Σ."""
        lowered = []
        for letter, sign, end in (written.partition("≤") for written in letters):
            lowered += [_SUBSCRIPTS.get(letter, f"_{letter}"), sign, end.translate(_DIGITS_BELOW)]
        return "".join(lowered)

    def left_out(self, count: int, rest: float | None) -> Pieces:
        """The terms that are not written: how many, and their sum."""
        said = self.said("others", count=count)
        if rest is None:
            return [(f"… {said}", None)]
        return [(self.said("rest", others=said, sum=self.number(rest, self.digits)), None)]


@cache
def _parsed(template: str) -> list[tuple[str, str | None, int]]:
    parts = Formatter().parse(template)
    return [(plain, name, _IN_TEMPLATES[outer or ""]) for plain, name, outer, _ in parts]


def _joined(parts: Iterable[Pieces], joint: str) -> Pieces:
    pieces: Pieces = []
    for place, part in enumerate(parts):
        pieces += [(joint, None), *part] if place else part
    return pieces


Within = Literal["", "equation", "sum"]
"""Where a formula will stand, since that may need brackets: a = (b = c), a + (−b)."""


class _DocumentPrinter(_Printer):
    """Text beside matrices and sentences, whose numbers have a minus instead of a hyphen."""

    @staticmethod
    def number(value: e.Scalar, digits: int = 4) -> str:
        return number(value, digits).replace("-", "−")


def to_text(
    formula: n.Formula,
    digits: int = 4,
    language: Language = "en",
    *,
    within: Within = "",
    minus: bool = False,
) -> str:
    """The formula as plain text; its numbers can be typed, unless they have a real minus."""
    printer = _DocumentPrinter if minus else _Printer
    return text_of(printer(digits, language).whole(formula, within))


def to_pieces(
    formula: n.Formula, digits: int = 4, language: Language = "en", *, within: Within = ""
) -> Pieces:
    """The text in pieces, operands with their expressions, the text between them joined."""
    joined: Pieces = []
    for text, operand in _Printer(digits, language).whole(formula, within):
        if operand is None and joined and joined[-1][1] is None:
            joined[-1] = (joined[-1][0] + text, None)
        elif text:
            joined.append((text, operand))
    return joined


# --- TeX ---
# Brackets around nothing tall stay plain, so that TeX may break the line.

_WIDEST_FRACTION = 150
"""Characters of TeX above or below a fraction bar: about half the page width."""
_TEX_SIGNS = {
    **{
        sign: f" {command} "
        for sign, command in {
            "≠": r"\neq", "≤": r"\leq", "≥": r"\geq", "and": r"\wedge", "or": r"\vee",
            "xor": r"\oplus", "&": r"\mathbin{\&}", "|": r"\mathbin{|}", "mod": r"\bmod",
            "−": "-", "·": r"\cdot", "×": r"\times",
        }.items()
    },
    "Σ": r"\sum",
    "Π": r"\prod",
}  # fmt: skip
_TEX_FUNCTIONS = frozenset(
    ["exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "max", "min"]
)
_TEX_LETTERS = {
    "μ": r"\mu", "σ": r"\sigma", "γ": r"\gamma", "β": r"\beta", "σ²": r"\sigma^2",
    "ḡ": r"\bar{g}",
}  # fmt: skip
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


class _TexPrinter(_Printer):
    templates: ClassVar[Templates] = {
        n.Fraction: r"\frac{{{above}}}{{{below}}}",
        n.Power: "{{{base:atom}}}^{{{exponent}}}",
        n.Minus: "-{body:product}",
        n.Root: r"\sqrt{{{body}}}",
        n.Bars: r"\left|{body}\right|",
        n.BigSum: "{sign}{letters} {body:product}",
        n.Cases: r"\begin{{cases}} \displaystyle {yes} & {condition} \\ \displaystyle {no} & "
        r"\text{{{otherwise}}} \end{{cases}}",
        "÷": r"\left\lfloor \frac{{{left}}}{{{right}}} \right\rfloor",
    }
    wide: ClassVar[Templates] = {
        n.Fraction: r"{{}}{above:product} \mathbin{{/}} {below:power}",  # _ON_ONE_LINE
        n.Root: "({body})^{{1/2}}",
    }
    signs = _TEX_SIGNS
    laid_out = (n.Fraction, n.Cases)
    powers_of_ten = True
    number = staticmethod(number_to_tex)

    def said(self, key: str, **fields: object) -> str:
        return escaped(super().said(key, **fields))

    def is_wide(self, formula: n.Formula) -> bool:
        """Whether a fraction bar or the line of a root would be about as long as the page."""
        match formula:
            case n.Fraction(above=above, below=below):
                parts: tuple[n.Formula, ...] = (above, below)
            case n.Root(body=body):
                parts = (body,)
            case _:
                return False
        return any(len(text_of(self.write(part))) > _WIDEST_FRACTION for part in parts)

    def bracketed(self, pieces: Pieces) -> Pieces:
        inside = text_of(pieces)
        tall = re.search(r"\\(frac|sum|prod|begin)", inside) and len(inside) < _WIDEST_FRACTION
        return [(rf"\left({inside}\right)" if tall else f"({inside})", None)]

    def leaf(self, leaf: n.Leaf) -> Pieces:
        places = text_of(_joined(map(self.place, leaf.places), ","))
        return [(symbol_to_tex(leaf.symbol, places), leaf.operand)]

    def place(self, place: Place | n.Formula) -> Pieces:
        if not isinstance(place, Place):
            return self.write(place)
        shown = str(place).replace("÷", r"\div ").replace(" mod ", r" \bmod ")
        return [(shown.replace("−", "-"), None)]

    def call(self, call: n.Applied) -> Pieces:
        if call.name == "not":
            return [(r"\neg ", None), *self.write(call.arguments[0], _ATOM)]
        return super().call(call)

    def function(self, call: n.Applied) -> str:
        rank = rf"^{{({call.rank})}}" if call.rank else ""
        name = call.name.replace(" ", "-")
        word = f"\\{name}" if name in _TEX_FUNCTIONS else rf"\operatorname{{{escaped(name)}}}"
        return f"{word}{rank}{self.letters(call.letters)}"

    def letters(self, letters: tuple[str, ...]) -> str:
        return f"_{{{','.join(letters)}}}".replace("≤", r" \le ") if letters else ""

    def left_out(self, count: int, rest: float | None) -> Pieces:
        note = rf"\text{{{self.said('others' if rest is None else 'others are', count=count)}}}"
        if rest is not None:
            note += self.number(rest, self.digits)
        return [(rf"\underbrace{{\cdots}}_{{{note}}}", None)]


def to_tex(
    formula: n.Formula, digits: int = 4, language: Language = "en", *, within: Within = ""
) -> str:
    """The formula as LaTeX math, without dollar signs."""
    return text_of(_TexPrinter(digits, language).whole(formula, within))


# --- MathML ---


def _mathml_word(word: str) -> str:
    """Single letters in italics, longer words upright."""
    variant = "" if len(word) == 1 else ' mathvariant="normal"'
    return f"<mi{variant}>{escape(word)}</mi>"


def _mathml_bracketed(inside: str) -> str:
    return f"<mrow><mo>(</mo>{inside}<mo>)</mo></mrow>"


def number_to_mathml(value: e.Scalar, digits: int = 4) -> str:
    """A number, with `e-07` written as a power of ten."""
    mantissa, _, exponent = number(value, digits).replace("-", "−").partition("e")
    if not exponent:
        return f"<mn>{escape(mantissa)}</mn>"
    power = str(int(exponent.replace("−", "-"))).replace("-", "−")
    return f"<mn>{mantissa}</mn><mo>×</mo><msup><mn>10</mn><mn>{power}</mn></msup>"


def symbol_to_mathml(symbol: Symbol, places: str = "") -> str:
    """A symbol with its indices; one with a subscript of its own is put in brackets."""
    lead = f"<mtext>{escape(symbol.lead)}</mtext>" if symbol.lead else ""
    whole = _mathml_word(symbol.base)
    if symbol.below:
        whole = f"<msub>{whole}{_mathml_word(symbol.below)}</msub>"
    if symbol.primes:
        whole = f"<msup>{whole}<mo>{'′' * symbol.primes}</mo></msup>"
    if places:
        whole = f"<msub>{_mathml_bracketed(whole) if symbol.below else whole}{places}</msub>"
    return lead + whole


def _mathml_places(shown: str) -> str:
    """Indices; a letter is slanted, as below the Σ that it runs over."""
    written = [
        f"<mi>{piece}</mi>" if piece.isalpha() else f"<mtext>{escape(piece)}</mtext>"
        for piece in re.findall(r"[^\W\d_]|[\W\d_]+", shown)
    ]
    return f"<mrow>{''.join(written)}</mrow>"


class _MathmlPrinter(_Printer):
    templates: ClassVar[Templates] = {
        n.Fraction: "<mfrac><mrow>{above}</mrow><mrow>{below}</mrow></mfrac>",
        n.Power: "<msup><mrow>{base:atom}</mrow><mrow>{exponent}</mrow></msup>",
        n.Minus: "<mo>−</mo>{body:product}",
        n.Root: "<msqrt>{body}</msqrt>",
        n.Bars: "<mrow><mo>|</mo>{body}<mo>|</mo></mrow>",
        n.BigSum: "<munder>{sign}{letters}</munder>{body:product}",
        n.Cases: "<mrow><mo>{{</mo><mtable><mtr><mtd>{yes}</mtd><mtd>{condition}</mtd></mtr>"
        "<mtr><mtd>{no}</mtd><mtd><mtext>{otherwise}</mtext></mtd></mtr></mtable></mrow>",
    }
    laid_out = (n.Fraction, n.Cases, n.Power)
    powers_of_ten = True
    comma = "<mo>,</mo>"
    number = staticmethod(number_to_mathml)

    def said(self, key: str, **fields: object) -> str:
        return escape(super().said(key, **fields))

    def bracketed(self, pieces: Pieces) -> Pieces:
        return [(_mathml_bracketed(text_of(pieces)), None)]

    def leaf(self, leaf: n.Leaf) -> Pieces:
        if all(isinstance(place, Place) for place in leaf.places):
            shown = ",".join(map(str, leaf.places))
            places = _mathml_places(shown) if shown else ""
        else:
            written = text_of(_joined(map(self.place, leaf.places), self.comma))
            places = f"<mrow>{written}</mrow>"
        return [(symbol_to_mathml(leaf.symbol, places), leaf.operand)]

    def place(self, place: Place | n.Formula) -> Pieces:
        if isinstance(place, Place):
            return [(_mathml_places(str(place)), None)]
        return self.write(place)

    def function(self, call: n.Applied) -> str:
        name = _mathml_word(f"{call.name} #{call.rank}" if call.rank else call.name)
        return f"<munder>{name}{self.letters(call.letters)}</munder>" if call.letters else name

    def sign(self, sign: str) -> str:
        return f"<mo>{escape({'Σ': '∑', 'Π': '∏'}.get(sign, sign))}</mo>"

    def letters(self, letters: tuple[str, ...]) -> str:
        return f"<mi>{','.join(letters)}</mi>"

    def left_out(self, count: int, rest: float | None) -> Pieces:
        note = f"<mtext>{self.said('others', count=count)}</mtext>"
        shown = "<mo>…</mo>" if rest is None else self.number(rest, self.digits)
        if rest is not None and rest < 0:
            shown = text_of(self.bracketed([(shown, None)]))
        return [(f"<munder><mrow>{shown}</mrow>{note}</munder>", None)]


def to_mathml(
    formula: n.Formula, digits: int = 4, language: Language = "en", *, within: Within = ""
) -> str:
    """The formula as MathML, without the enclosing `<math>`."""
    return text_of(_MathmlPrinter(digits, language).whole(formula, within))
