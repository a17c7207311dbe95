"""How a lesson writes a cell's arithmetic: short names, and no index for a batch of one.

`encoder.blocks.0.attention.projected_queries[0, 2, k]` reads `queries[2, k]`. The arithmetic itself
is the trace's expression; only names change, and a branch that was not taken is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from glassformer.trace import Cell, Trace, text
from glassformer.trace.evaluate import evaluate
from glassformer.trace.expressions import Choose, Entry, Expression, Lookup, Named, Scalar
from glassformer.trace.render.latex_math import (
    MathWriter,
    NumbersWriter,
    math_name,
    math_number,
    math_symbol,
)
from glassformer.trace.render.words import Words

__all__ = [
    "DIGITS",
    "Definition",
    "Shown",
    "TexFormula",
    "cell_name",
    "entry_text",
    "number",
    "short_name",
    "shown_formula",
    "taken_branch",
    "tex",
]

DIGITS = 4
_MOST_TERMS = 8
_SYMBOLS = {
    "to_queries.weight": "W_Q",
    "to_queries.bias": "b_Q",
    "to_keys.weight": "W_K",
    "to_keys.bias": "b_K",
    "to_values.weight": "W_V",
    "to_values.bias": "b_V",
    "to_output.weight": "W_O",
    "to_output.bias": "b_O",
    "expand.weight": "W_1",
    "expand.bias": "b_1",
    "contract.weight": "W_2",
    "contract.bias": "b_2",
    "to_vocabulary.weight": "W_vocab",
    "embedding.weight": "E",
    "projected_queries": "queries",
    "projected_keys": "keys",
    "projected_values": "values",
    "looked_up": "embedded",
    "position_vectors": "positions",
    "summed": "x",
}
_OPERATORS = frozenset(["div", "mul", "pow", "expand", "neg"])
# The unnamed operators of the sinusoids, where they are traced alone.
_ALONE = {"div": "exponent", "to": "position"}
# Stands after a name for each leading axis of size 1, whose 0 is then left out of the index.
_LEFT_OUT = "⌫"
_INDEXED = re.compile(rf"({_LEFT_OUT}+)(\[(?:0, )*)?")
# A row that runs over several axes of a step, as the trace writes it.
_FLATTENED = re.compile(rf"view\(\w+{_LEFT_OUT}*\)\[(?:0, )*")


@dataclass(frozen=True, slots=True)
class Definition:
    """A symbol that stands for a part: m, Z, μ."""

    symbol: str
    symbols: str
    numbers: str
    value: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A cell's arithmetic as plain text."""

    name: str
    symbols: str
    numbers: str
    value: str
    definitions: tuple[Definition, ...]

    def to_dict(self) -> dict[str, Any]:
        """As data."""
        return {
            "name": self.name,
            "symbols": self.symbols,
            "numbers": self.numbers,
            "value": self.value,
            "where": [
                {"symbol": d.symbol, "symbols": d.symbols, "numbers": d.numbers, "value": d.value}
                for d in self.definitions
            ],
        }


def number(value: Scalar, digits: int = DIGITS) -> str:
    """A number inside a sentence, with a minus that is not a hyphen."""
    return text.number(value, digits).replace("-", "−")


def short_name(name: str) -> str:
    """A step's name without the modules around it, in the symbols of the field."""
    if name.startswith("update.") and name.endswith(".weight"):
        return f"new {short_name(name.removeprefix('update.').removesuffix('.weight'))}"
    if name in _ALONE:
        return _ALONE[name]
    if name.startswith("gradients.") and ".through." in name:
        of, _, through = name.partition(".through.")
        return f"{short_name(of)} through {short_name(through)}"
    gradient = name.startswith("gradients.")
    parts = name.split(".")
    if gradient and len(parts) > 2 and parts[-1] in _OPERATORS:
        parts.pop()  # the gradient of a step, computed by this operator
    ending = ".".join(parts[-2:])
    if len(parts) > 1 and parts[-1].isdigit():  # a second step of the same name
        ending = parts[-2]
    shown = _SYMBOLS.get(ending) or _SYMBOLS.get(parts[-1])
    if shown is None:
        shown = ending if parts[-1] in ("weight", "bias") else ending.rpartition(".")[2]
    return f"∂{shown}" if gradient else shown


def _marked(trace: Trace, name: str) -> str:
    shape = trace[name].shape if name in trace else ()
    ones = next((axis for axis, size in enumerate(shape) if size != 1), 0)
    return short_name(name) + _LEFT_OUT * ones


def _without_ones(shown: str) -> str:
    def kept(found: re.Match[str]) -> str:
        marks, opening = found.groups()
        return "" if opening is None else "[" + "0, " * (opening.count("0") - len(marks))

    return _INDEXED.sub(kept, _FLATTENED.sub("flattened[", shown))


def cell_name(cell: Cell) -> str:
    """`scores[2, 1]`."""
    inside = f"[{', '.join(map(str, cell.index))}]" if cell.index else ""
    return _without_ones(_marked(cell.step.trace, cell.step.name) + inside)


def entry_text(entry: Entry | Lookup, trace: Trace) -> str:
    """An operand's cell or row by its short name: `queries[2, k]`."""
    return _without_ones(text.symbols(entry, lambda name: _marked(trace, name)))


def taken_branch(cell: Cell) -> Expression | None:
    """The cell's expression; of a softmax the branch that is not for fully masked rows."""
    expression = cell.expression
    if isinstance(expression, Choose) and "softmax" in cell.step.op:
        return expression.yes if evaluate(expression.condition) else expression.no
    return expression


def shown_formula(cell: Cell) -> Shown:
    """Symbols, numbers and value of a cell."""
    trace, expression = cell.step.trace, taken_branch(cell)
    value = text.number(cell.value, DIGITS)
    if expression is None:
        return Shown(cell_name(cell), "", "", value, ())

    def symbols(part: Expression) -> str:
        return _without_ones(text.symbols(part, lambda name: _marked(trace, name)))

    definitions = tuple(
        Definition(
            part.symbol,
            symbols(part.body),
            text.numbers(part.body, DIGITS, _MOST_TERMS),
            text.number(evaluate(part.body), DIGITS),
        )
        for part in text.definitions(expression)
    )
    numbers = text.numbers(expression, DIGITS, _MOST_TERMS)
    return Shown(cell_name(cell), symbols(expression), numbers, value, definitions)


class _LessonMath(MathWriter):
    """The trace's LaTeX, with a lesson's names."""

    def __init__(self, trace: Trace, words: Words) -> None:
        super().__init__(short_name, words)
        self._trace = trace

    def leaf(self, expression: Entry | Lookup | Named) -> tuple[str, int]:
        """A cell by its short name."""
        if isinstance(expression, Named):
            return super().leaf(expression)
        return tex_name(entry_text(expression, self._trace)), 9


def tex_name(named: str) -> str:
    """`W_Q[0, k]` as mathematics: the part after `_` stands above, the places below."""
    for lead, command in (("∂", r"\partial "), ("new ", r"\text{new }")):
        if named.startswith(lead):
            return command + tex_name(named.removeprefix(lead))
    name, bracket, places = named.partition("[")
    base, _, below = name.partition("_")
    if not (len(base) == 1 and below):
        return math_name(named)
    inside = rf"\,{places.removesuffix(']').replace(' ', '')}" if bracket else ""
    return rf"{base}^{{{below}}}_{{{inside}}}" if inside else rf"{base}^{{{below}}}"


@dataclass(frozen=True, slots=True)
class TexFormula:
    """A cell's arithmetic as LaTeX mathematics: lines without the dollar signs."""

    lines: tuple[str, ...]


def tex(cell: Cell, words: Words) -> TexFormula:
    """Symbols, numbers and the named parts of a cell."""
    expression = taken_branch(cell)
    name, value = tex_name(cell_name(cell)), math_number(cell.value, DIGITS)
    if expression is None:
        return TexFormula((f"{name} = {value}",))
    symbols = _LessonMath(cell.step.trace, words)
    numbers = NumbersWriter(words, DIGITS, _MOST_TERMS)
    in_numbers = numbers.write(expression)
    lines = [f"{name} = {symbols.write(expression)}"]
    lines.append(f"= {value}" if in_numbers == value else f"= {in_numbers} = {value}")
    for part in text.definitions(expression):
        symbol = math_symbol(part.symbol)
        last = math_number(evaluate(part.body), DIGITS)
        lines.append(rf"{symbol} = {symbols.write(part.body)}")
        lines.append(f"= {numbers.write(part.body)} = {last}")
    return TexFormula(tuple(lines))
