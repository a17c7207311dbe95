"""Expressions as LaTeX mathematics, in symbols and in numbers: a walk over the same tree.

Sums that are long show their largest terms and `\\cdots` with what the others add up to. Brackets
stay plain where nothing tall stands inside, so that TeX may break a long line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from glassformer.trace import text
from glassformer.trace.evaluate import evaluate, gathered
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
)
from glassformer.trace.largest import largest_terms
from glassformer.trace.precision import Relation
from glassformer.trace.render.words import Words

__all__ = [
    "MathWriter",
    "NumbersWriter",
    "escaped",
    "math_name",
    "math_number",
    "math_relation",
    "math_symbol",
]

_ATOM = 9
_WIDEST_FRACTION = 150
"""Characters of TeX above or below a fraction's line: about half a page's width."""
_STRENGTH = {"or": 0, "xor": 0, "and": 0, "|": 0, "&": 0, "+": 2, "-": 2, "*": 3, "%": 3, "^": 4}
_COMPARISON = 1
_SIGNS = {
    "≠": r"\neq",
    "≤": r"\leq",
    "≥": r"\geq",
    "and": r"\wedge",
    "or": r"\vee",
    "xor": r"\oplus",
    "&": r"\mathbin{\&}",
    "|": r"\mathbin{|}",
    "%": r"\bmod",
}
_FUNCTIONS = frozenset(["exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "max", "min"])
_SYMBOLS = {"μ": r"\mu", "σ²": r"\sigma^2", "σ": r"\sigma"}
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_"},
}


def escaped(plain: str) -> str:
    """Text that LaTeX shows as it is; control characters, which no font has, as `�`."""
    return "".join(
        _SPECIAL.get(mark, mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}")
        for mark in plain
    )


def math_relation(sign: Relation) -> str:
    """= or ≠."""
    return _SIGNS.get(sign, sign)


def math_symbol(symbol: str) -> str:
    """A part's symbol: μ, σ², m."""
    return _SYMBOLS.get(symbol, symbol if symbol.isascii() else rf"\text{{{escaped(symbol)}}}")


def math_number(number: Scalar, digits: int = 4) -> str:
    """A number, powers of ten spelt out."""
    if isinstance(number, bool):
        return rf"\text{{{number}}}"
    if math.isnan(number):
        return r"\mathrm{NaN}"
    if math.isinf(number):
        return r"\infty" if number > 0 else r"-\infty"
    shown = text.number(number, digits)
    mantissa, _, exponent = shown.partition("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}" if exponent else shown


def math_name(named: str) -> str:
    """`scores[0, k]` as an upright name with its places below."""
    name, bracket, places = named.partition("[")
    upright = rf"\mathrm{{{escaped(name)}}}" if name.isascii() else rf"\text{{{escaped(name)}}}"
    if not bracket:
        return upright
    for sign, written in ((", ", ","), ("÷", r"\div "), (" mod ", r" \bmod "), ("−", "-")):
        places = places.replace(sign, written)
    return rf"{upright}_{{{places.removesuffix(']')}}}"


def _bracketed(inside: str) -> str:
    tall = re.search(r"\\(frac|sum|prod|begin)", inside) and len(inside) < _WIDEST_FRACTION
    return rf"\left({inside}\right)" if tall else f"({inside})"


class MathWriter:
    """The formula in symbols; `rename` shortens the names of steps."""

    times = r" \cdot "

    def __init__(self, rename: Callable[[str], str], words: Words) -> None:
        self._rename = rename
        self._words = words

    def write(self, expression: Expression, outer: int = 0) -> str:
        """The mathematics, in brackets where it binds weaker than what stands around it."""
        written, strength = self._piece(expression)
        return _bracketed(written) if strength < outer else written

    def _piece(self, expression: Expression) -> tuple[str, int]:
        match expression:
            case Number(value=value):
                number = math_number(value)
                return number, 2 if number.startswith("-") else _ATOM
            case Entry() | Lookup() | Named():
                return self.leaf(expression)
            case Operation():
                return self._operation(expression)
            case Function(name=name, arguments=arguments):
                return self._function(name, arguments)
            case Reduce():
                return self.reduce(expression)
            case Choose():
                return self.choose(expression)
            case Convert(dtype=dtype, body=body):
                name = str(dtype).removeprefix("torch.")
                return rf"\operatorname{{{name}}}{_bracketed(self.write(body))}", _ATOM

    def _operation(self, operation: Operation) -> tuple[str, int]:
        operator, left, right = operation.operator, operation.left, operation.right
        match operator:
            case "/":
                return self._quotient(left, right)
            case "//":
                inside = rf"\frac{{{self.write(left)}}}{{{self.write(right)}}}"
                return rf"\left\lfloor {inside} \right\rfloor", _ATOM
            case "^":
                return rf"{{{self.write(left, _ATOM)}}}^{{{self.write(right)}}}", 4
            case "*":
                return f"{self.write(left, 3)}{self.times}{self.write(right, 3)}", 3
            case _:
                strength = _STRENGTH.get(operator, _COMPARISON)
                tight = operator in ("-", "%") or strength == _COMPARISON
                sign = _SIGNS.get(operator, operator)
                return (
                    f"{self.write(left, strength)} {sign} {self.write(right, strength + tight)}",
                    strength,
                )

    def _quotient(self, left: Expression, right: Expression) -> tuple[str, int]:
        """A fraction; on one line where it is too wide for TeX to place."""
        above, below = self.write(left), self.write(right)
        if max(len(above), len(below)) <= _WIDEST_FRACTION:
            return rf"\frac{{{above}}}{{{below}}}", _ATOM - 1
        return rf"{self.write(left, 3)} \mathbin{{/}} {self.write(right, 4)}", 3

    def _function(self, name: str, arguments: tuple[Expression, ...]) -> tuple[str, int]:
        inside = ", ".join(map(self.write, arguments))
        match name:
            case "neg":
                return f"-{self.write(arguments[0], 3)}", 2
            case "sqrt" if len(inside) > _WIDEST_FRACTION:
                return rf"({inside})^{{1/2}}", 4
            case "sqrt":
                return rf"\sqrt{{{inside}}}", _ATOM
            case "abs":
                return rf"\left|{inside}\right|", _ATOM
            case "not":
                return rf"\neg {self.write(arguments[0], _ATOM)}", 4
            case _:
                word = f"\\{name}" if name in _FUNCTIONS else rf"\operatorname{{{name}}}"
                return f"{word}{_bracketed(inside)}", _ATOM

    def leaf(self, expression: Entry | Lookup | Named) -> tuple[str, int]:
        """A cell by its name, a named part by its symbol."""
        match expression:
            case Entry():
                return math_name(text.entry_name(expression, self._rename)), _ATOM
            case Named(symbol=symbol):
                return math_symbol(symbol), _ATOM
            case Lookup(view=view, index=index):
                owner, _ = view.owner((0,) * view.ndim)
                places = (
                    str(part)
                    if isinstance(part, int)
                    else part.letter
                    if isinstance(part, Axis)
                    else self.write(part)
                    for part in index
                )
                name = math_name(self._rename(owner.name))
                return rf"{name}_{{{','.join(places)}}}", _ATOM

    def reduce(self, reduce: Reduce) -> tuple[str, int]:
        """Σ over letters, or a function of a row."""
        below = ",".join(axis.letter for axis in reduce.axes)
        if reduce.kind in ("sum", "product"):
            sign = r"\sum" if reduce.kind == "sum" else r"\prod"
            if len(reduce.axes) == 1:
                sign = rf"{sign}_{{{below}=0}}^{{{reduce.axes[0].size - 1}}}"
            else:
                sign = rf"{sign}_{{{below}}}"
            return f"{sign} {self.write(reduce.body, 3)}", 2
        inside = _bracketed(self.write(reduce.body))
        return rf"{_reduction(reduce)}_{{{below}}}{inside}", _ATOM

    def choose(self, choose: Choose) -> tuple[str, int]:
        """Both branches, as cases."""
        yes, no = self.write(choose.yes), self.write(choose.no)
        condition, otherwise = self.write(choose.condition), escaped(self._words["otherwise"])
        large = r"\displaystyle "
        cases = rf"{large}{yes} & {condition} \\ {large}{no} & \text{{{otherwise}}}"
        return rf"\begin{{cases}} {cases} \end{{cases}}", _ATOM


class NumbersWriter(MathWriter):
    """The formula with the operands' numbers in place."""

    times = r" \times "

    def __init__(self, words: Words, digits: int, most: int) -> None:
        super().__init__(str, words)
        self._digits = digits
        self._most = most

    def leaf(self, expression: Entry | Lookup | Named) -> tuple[str, int]:
        """The number."""
        inside = expression.body if isinstance(expression, Named) else expression
        number = math_number(evaluate(inside), self._digits)
        return (f"({number})" if number.startswith("-") else number), _ATOM

    def choose(self, choose: Choose) -> tuple[str, int]:
        """The branch that was taken."""
        return self._piece(choose.yes if evaluate(choose.condition) else choose.no)

    def reduce(self, reduce: Reduce) -> tuple[str, int]:
        """The largest terms, and what the others add up to."""
        values = gathered(reduce)
        shown = largest_terms(values, self._most, reduce.kind)
        parts = [self.write(fix(reduce.body, text.places(reduce, place)), 3) for place in shown]
        others = len(values) - len(shown)
        if others:
            note = rf"\text{{{escaped(self._words['others'].format(count=others))}}}"
            if reduce.kind == "sum":
                with np.errstate(invalid="ignore"):
                    rest = float(np.delete(values, shown).sum())
                note = f"{note}: {math_number(rest, self._digits)}"
            parts.append(rf"\underbrace{{\cdots}}_{{{note}}}")
        if reduce.kind == "sum":
            return " + ".join(parts), 2 if len(parts) > 1 else 3
        if reduce.kind == "product":
            return self.times.join(parts), 3
        return rf"{_reduction(reduce)}{_bracketed(', '.join(parts))}", _ATOM


def _reduction(reduce: Reduce) -> str:
    if reduce.kind in ("max", "min"):
        return f"\\{reduce.kind}"
    rank = rf"^{{({reduce.rank + 1})}}" if "est" in reduce.kind else ""
    return rf"\operatorname{{{reduce.kind.replace(' ', '-')}}}{rank}"
