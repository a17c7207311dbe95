"""A cell's arithmetic as MathML, which browsers set without any script: one more walk of the tree.

Symbols and numbers are two subclasses that differ in their leaves and sums, as in the trace's own
writers for text and LaTeX.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape

import numpy as np

from glassformer.lessons.walks.naming import (
    DIGITS,
    cell_name,
    entry_text,
    number,
    shown_expression,
)
from glassformer.trace import Cell, Trace, text
from glassformer.trace.evaluate import evaluate, gathered
from glassformer.trace.expressions import (
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
    fix,
)
from glassformer.trace.largest import largest_terms
from glassformer.trace.render.words import Words

__all__ = ["formula_mathml"]

_MOST_TERMS = 8
_STRENGTH = {"+": 2, "-": 2, "*": 3, "/": 9, "^": 9}
_ATOM = 9
_SIGNS = {"-": "−", "*": "·"}


def formula_mathml(cell: Cell, words: Words) -> str:
    """Lines of mathematics: symbols, numbers, then the parts that have a symbol of their own."""
    expression = shown_expression(cell)
    name, value = _name(cell_name(cell)), _number(float(cell.value))
    if expression is None:
        return _line(f"{name}{_sign('=')}{value}")
    symbols, numbers = _Symbols(cell.step.trace, words["otherwise"]), _Numbers()
    lines = [_line(f"{name}{_sign('=')}{symbols.write(expression)}")]
    lines.append(_result(numbers.terms(expression), value))
    for place, part in enumerate(text.definitions(expression)):
        lead = f'<span class="where">{escape(words["where"])}</span>' if place == 0 else ""
        body = f"{_word(part.symbol)}{_sign('=')}{symbols.write(part.body)}"
        lines.append(_line(body, lead))
        lines.append(_result(numbers.terms(part.body), _number(evaluate(part.body))))
    return "".join(lines)


def _result(terms: list[str], value: str) -> str:
    """Each term is mathematics of its own, since browsers break lines only between such."""
    shown = [f"{_leading('+' if place else '=')}{term}" for place, term in enumerate(terms)]
    if terms == [value]:
        shown = []
    pieces = " ".join(map(_math, [*shown, f"{_leading('=')}{value}"]))
    return f'<div class="numbers">{pieces}</div>'


def _line(mathematics: str, lead: str = "") -> str:
    return f"<div>{lead}{_math(mathematics)}</div>"


def _math(inside: str) -> str:
    return f'<math display="inline" displaystyle="true"><mrow>{inside}</mrow></math>'


def _sign(sign: str) -> str:
    return f"<mo>{escape(sign)}</mo>"


def _leading(sign: str) -> str:
    """A sign that begins a piece and still stands between two: with space on both sides."""
    return f'<mo form="infix">{sign}</mo>'


def _word(name: str) -> str:
    variant = "" if len(name) == 1 else ' mathvariant="normal"'
    return f"<mi{variant}>{escape(name)}</mi>"


def _number(value: float) -> str:
    mantissa, _, exponent = number(value, DIGITS).partition("e")
    if not exponent:
        return f"<mn>{escape(mantissa)}</mn>"
    power = str(int(exponent.replace("−", "-"))).replace("-", "−")
    return f"<mn>{mantissa}</mn>{_sign('×')}<msup><mn>10</mn><mn>{power}</mn></msup>"


def _name(named: str) -> str:
    """`W_Q[0, k]`: the name upright, the places below."""
    for lead in ("∂", "new "):
        if named.startswith(lead):
            return f"<mtext>{lead}</mtext>{_name(named.removeprefix(lead))}"
    name, bracket, places = named.partition("[")
    base, _, below = name.partition("_")
    inside = escape(places.removesuffix("]").replace(" ", ""))
    if len(base) == 1 and below and bracket:
        return f"<msubsup>{_word(base)}<mtext>{inside}</mtext>{_word(below)}</msubsup>"
    if not bracket:
        return _word(name)
    return f"<msub>{_word(name)}<mtext>{inside}</mtext></msub>"


def _bracketed(inside: str) -> str:
    return f"<mrow>{_sign('(')}{inside}{_sign(')')}</mrow>"


class _Writer(ABC):
    """The walk that both share."""

    times = "·"

    def write(self, expression: Expression, outer: int = 0) -> str:
        written, strength = self._piece(expression)
        return _bracketed(written) if strength < outer else written

    def _piece(self, expression: Expression) -> tuple[str, int]:
        match expression:
            case Number(value=value):
                return _number(float(value)), 2 if float(value) < 0 else _ATOM
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
            case Convert(body=body):  # a cast shows in no digit that a lesson prints
                return self._piece(body)

    def _operation(self, operation: Operation) -> tuple[str, int]:
        operator, left, right = operation.operator, operation.left, operation.right
        if operator == "/":
            return f"<mfrac>{_row(self.write(left))}{_row(self.write(right))}</mfrac>", _ATOM
        if operator == "^":
            return f"<msup>{_row(self.write(left, _ATOM))}{_row(self.write(right))}</msup>", _ATOM
        strength = _STRENGTH.get(operator, 1)
        sign = self.times if operator == "*" else _SIGNS.get(operator, operator)
        tight = operator == "-"
        return (
            f"{self.write(left, strength)}{_sign(sign)}{self.write(right, strength + tight)}",
            strength,
        )

    def _function(self, name: str, arguments: tuple[Expression, ...]) -> tuple[str, int]:
        if name == "sqrt":
            return f"<msqrt>{self.write(arguments[0])}</msqrt>", _ATOM
        if name == "neg":
            return f"{_sign('−')}{self.write(arguments[0], 3)}", 2
        inside = _sign(",").join(map(self.write, arguments))
        return f"{_word(name)}{_bracketed(inside)}", _ATOM

    @abstractmethod
    def leaf(self, expression: Entry | Lookup | Named) -> tuple[str, int]: ...

    @abstractmethod
    def reduce(self, reduce: Reduce) -> tuple[str, int]: ...

    @abstractmethod
    def choose(self, choose: Choose) -> tuple[str, int]: ...


def _row(inside: str) -> str:
    return f"<mrow>{inside}</mrow>"


class _Symbols(_Writer):
    def __init__(self, trace: Trace, otherwise: str) -> None:
        self._trace = trace
        self._otherwise = otherwise

    def leaf(self, expression: Entry | Lookup | Named) -> tuple[str, int]:
        if isinstance(expression, Named):
            return _word(expression.symbol), _ATOM
        return _name(entry_text(expression, self._trace)), _ATOM

    def reduce(self, reduce: Reduce) -> tuple[str, int]:
        letters = ",".join(axis.letter for axis in reduce.axes)
        below = f"<mi>{letters}</mi>"
        if reduce.kind == "sum":
            return f"<munder><mo>∑</mo>{below}</munder>{self.write(reduce.body, 3)}", 2
        inside = _bracketed(self.write(reduce.body))
        return f"<munder>{_word(reduce.kind)}{below}</munder>{inside}", _ATOM

    def choose(self, choose: Choose) -> tuple[str, int]:
        """Both branches, as cases."""
        rows = (
            f"<mtr><mtd>{self.write(choose.yes)}</mtd><mtd>{self.write(choose.condition)}</mtd>"
            f"</mtr><mtr><mtd>{self.write(choose.no)}</mtd><mtd>"
            f"<mtext>{escape(self._otherwise)}</mtext></mtd></mtr>"
        )
        return f"<mrow>{_sign('{')}<mtable>{rows}</mtable></mrow>", _ATOM


class _Numbers(_Writer):
    times = "×"

    def leaf(self, expression: Entry | Lookup | Named) -> tuple[str, int]:
        inside = expression.body if isinstance(expression, Named) else expression
        value = evaluate(inside)
        return (_bracketed(_number(value)) if value < 0 else _number(value)), _ATOM

    def choose(self, choose: Choose) -> tuple[str, int]:
        return self._piece(choose.yes if evaluate(choose.condition) else choose.no)

    def terms(self, expression: Expression) -> list[str]:
        """The summands of a sum; anything else as the only one."""
        match expression:
            case Operation(operator="+", left=left, right=right):
                return self.terms(left) + self.terms(right)
            case Reduce(kind="sum"):
                return self._parts(expression)
            case _:
                return [self.write(expression)]

    def reduce(self, reduce: Reduce) -> tuple[str, int]:
        """The parts, joined by what the reduction does."""
        parts = self._parts(reduce)
        if reduce.kind == "sum":
            return _sign("+").join(parts), 2 if len(parts) > 1 else 3
        return f"{_word(reduce.kind)}{_bracketed(_sign(',').join(parts))}", _ATOM

    def _parts(self, reduce: Reduce) -> list[str]:
        """The largest terms, and what the others add up to."""
        values = gathered(reduce)
        shown = largest_terms(values, _MOST_TERMS, reduce.kind)
        parts = [self.write(fix(reduce.body, text.places(reduce, place)), 3) for place in shown]
        others = len(values) - len(shown)
        if others and reduce.kind == "sum":
            rest = _number(float(np.delete(values, shown).sum()))
            parts.append(f"<munder>{_row(rest)}<mtext>{others} …</mtext></munder>")
        elif others:
            parts.append(_sign("…"))
        return parts
