"""How a lesson writes a cell's arithmetic: short names, places counted from 1, W as x · W uses it.

`encoder.blocks.0.attention.projected_queries[0, 2, k]` reads `queries[3, k]`. The arithmetic itself
is the trace's expression; only names change, a branch that was not taken is left out, and so is a
sum over an axis of size 1, whose letter would stand nowhere. Three things differ from the trace,
whose addresses stay those of Python and PyTorch:

- A batch of one has no index.
- Rows, columns and entries are counted from 1, as the texts and the figures count them.
- A linear map's parameters stand with one column for each output, as in x · W; PyTorch stores the
  transposed matrix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from glassformer.errors import TraceError
from glassformer.trace import Cell, Step, Trace, text
from glassformer.trace.evaluate import evaluate
from glassformer.trace.explanation import NOT_REPRODUCED
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Convert,
    Entry,
    Expression,
    Function,
    Lookup,
    Named,
    Operation,
    Reduce,
    Scalar,
    fix,
    walk,
)
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
    "is_turned",
    "number",
    "place_labels",
    "short_name",
    "shown_expression",
    "shown_formula",
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
# Around a name, with how many leading axes are left out, T where it is turned, and the axis that
# is numbered by word ids: `⌫scores⌫2⌫`.
_MARK = "⌫"
_MARKED = re.compile(rf"{_MARK}([^{_MARK}]+){_MARK}(\d+)(T?)(?:i(\d+))?{_MARK}")
# A row that runs over several axes of a step, as the trace writes it.
_FLATTENED = re.compile(rf"view\({_MARK}[^)]+{_MARK}\)(?=\[)")
# The axis of a step, as it is stored, that may have a place for each word of the vocabulary.
_WORD_AXES = {"E": 0, "W_vocab": 0, "logits": -1, "probabilities": -1}
_SUM = re.compile(r"(?:(\d+)\+)?(\d*)([a-z])")
_DIGIT = re.compile(r"([a-z])(?:÷\d+(?: mod \d+)?| mod \d+)")
# A reduction over one value is that value.
_PLAIN = frozenset(["sum", "product", "max", "min"])


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


@lru_cache(maxsize=16)
def _used(trace: Trace, op: str) -> frozenset[str]:
    """The parameters that an operator takes as its `weight`."""
    steps = (step for step in trace if step.op == op)
    operands = (operand for step in steps for operand in step.operands)
    return frozenset(o.step.name for o in operands if o.argument == "weight" and o.step is not None)


def is_turned(step: Step) -> bool:
    """Whether a lesson shows a step transposed: a linear map's parameters, old, new, ∂.

    PyTorch stores them with one row for each output. A table that is looked into row by row, too,
    stays as it is.
    """
    name = step.name.removeprefix("gradients.")
    if name.startswith("update."):
        name = name.removeprefix("update.").removesuffix(".weight")
    maps = _used(step.trace, "linear") - _used(step.trace, "embedding")
    return len(step.shape) == 2 and name in maps


def _word_axis(step: Step) -> int | None:
    """The axis whose places are word ids, which keep the numbers that the words have."""
    axis = _WORD_AXES.get(short_name(step.name))
    sizes = {step.trace[name].shape[0] for name in _used(step.trace, "embedding")}
    if axis is None or not step.shape or step.shape[axis] not in sizes:
        return None
    return axis % len(step.shape)


def _left_out(step: Step) -> int:
    """How many leading axes of a step have size 1 and no index."""
    return next((axis for axis, size in enumerate(step.shape) if size != 1), len(step.shape))


def _marked(trace: Trace, name: str) -> str:
    if name not in trace:
        return f"{_MARK}{short_name(name)}{_MARK}0{_MARK}"
    step = trace[name]
    words = "" if (axis := _word_axis(step)) is None else f"i{axis}"
    how = f"{_left_out(step)}{'T' * is_turned(step)}{words}"
    return f"{_MARK}{short_name(name)}{_MARK}{how}{_MARK}"


def _for_readers(shown: str) -> str:
    """The trace's text with marked names as a lesson writes them and their places as it counts."""
    shown = _FLATTENED.sub(f"{_MARK}flattened{_MARK}1{_MARK}", shown)
    written = ""
    while found := _MARKED.search(shown):
        name, left_out, turned, words = found.groups()
        written += shown[: found.start()]
        inside, shown = _bracketed(shown[found.end() :])
        given = list(_parts(inside))
        flat = next((row for part in given if (row := _DIGIT.fullmatch(part))), None)
        if flat is not None:  # one letter over several axes
            name, places = "flattened", [flat[1]]
        else:
            keeps = None if words is None else int(words)
            places = [
                part if axis == keeps and part.isdigit() else _from_one(part)
                for axis, part in enumerate(given)
            ][int(left_out) :]
        written += name + (f"[{', '.join(reversed(places) if turned else places)}]" * bool(places))
    return written + shown


def _bracketed(rest: str) -> tuple[str, str]:
    """What stands in the brackets that a text begins with, and what follows them."""
    if not rest.startswith("["):
        return "", rest
    depth = 0
    for place, sign in enumerate(rest):
        depth += (sign == "[") - (sign == "]")
        if depth == 0:
            return rest[1:place], rest[place + 1 :]
    raise AssertionError(f"a bracket stays open: {rest}")


def _parts(inside: str) -> Iterator[str]:
    """The places of an index; one that is looked up has brackets of its own."""
    depth, start = 0, 0
    for place, sign in enumerate(inside):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            yield inside[start:place]
            start = place + 2
    if inside:
        yield inside[start:]


def _from_one(place: str) -> str:
    """A place that counts from 0, such as `2`, `k` or `3+2k`, counted from 1, letters included."""
    if place.isdigit():
        return str(int(place) + 1)
    if found := _SUM.fullmatch(place):
        start, step = int(found[1] or 0), int(found[2] or 1)
        first = start + 1 - step
        sign = f"{first}+" if first > 0 else ""
        return f"{sign}{found[2]}{found[3]}" + (f"−{-first}" if first < 0 else "")
    return _for_readers(place)


def place_labels(step: Step, axis: int) -> tuple[str, ...]:
    """What the places of an axis are called: their labels, else numbers from 1 (words: their ids).

    An axis of size 1 that names leave out has no number either.
    """
    at = len(step.shape) + axis
    if at < 0:
        return ("",)
    if (labels := step.labels[at]) is not None:
        return labels
    if at < _left_out(step) and axis != -1:
        return ("",)
    first = 0 if at == _word_axis(step) else 1
    return tuple(str(place + first) for place in range(step.shape[at]))


def cell_name(cell: Cell) -> str:
    """`scores[3, 2]`."""
    inside = f"[{', '.join(map(str, cell.index))}]" if cell.index else ""
    return _for_readers(_marked(cell.step.trace, cell.step.name) + inside)


def entry_text(entry: Entry | Lookup, trace: Trace) -> str:
    """An operand's cell or row by its short name: `queries[3, k]`."""
    return _for_readers(text.symbols(entry, lambda name: _marked(trace, name)))


def shown_expression(cell: Cell) -> Expression | None:
    """The cell's arithmetic as a lesson shows it.

    Of a softmax the branch that is not for fully masked rows; and no sum over a single term. A
    lesson prints "=" in many ways: a rule that does not reproduce its number has no place in it.
    """
    if not cell.reproduced:
        raise TraceError(f"{cell.name}: {NOT_REPRODUCED}")
    expression = cell.expression
    if isinstance(expression, Choose) and "softmax" in cell.step.op:
        expression = expression.yes if evaluate(expression.condition) else expression.no
    return None if expression is None else _without_single_terms(expression)


def _without_single_terms(expression: Expression) -> Expression:
    """The expression with axes of size 1 taken out of its reductions."""
    if not isinstance(expression, Reduce) or expression.kind not in _PLAIN:
        return _rebuilt(expression, _without_single_terms)
    long = [axis for axis in expression.axes if axis.size > 1]
    single = {axis.letter: 0 for axis in expression.axes if axis.size == 1}
    body = _without_single_terms(fix(expression.body, single))
    if single and not any(isinstance(part, Reduce | Lookup) for part in walk(body)):
        # Σₘ reads Σₖ once k and l are gone; a body with letters of its own keeps them.
        letters = [axis.letter for axis in expression.axes]
        renamed = dict(zip((axis.letter for axis in long), letters, strict=False))
        body = _relettered(body, renamed)
        long = [replace(axis, letter=renamed[axis.letter]) for axis in long]
    return Reduce(expression.kind, body, tuple(long), expression.rank) if long else body


def _relettered(expression: Expression, letters: dict[str, str]) -> Expression:
    """The expression with other letters for its running axes."""
    if not isinstance(expression, Entry):
        return _rebuilt(expression, lambda part: _relettered(part, letters))
    places = (
        replace(place, letter=letters.get(place.letter, place.letter))
        if isinstance(place, Axis)
        else place
        for place in expression.index
    )
    return Entry(expression.view, tuple(places))


def _rebuilt(expression: Expression, inner: Callable[[Expression], Expression]) -> Expression:
    """The expression with each part directly below it put through `inner`."""
    match expression:
        case Operation(left=left, right=right):
            return replace(expression, left=inner(left), right=inner(right))
        case Function(arguments=arguments):
            return replace(expression, arguments=tuple(map(inner, arguments)))
        case Choose(condition=condition, yes=yes, no=no):
            return Choose(inner(condition), inner(yes), inner(no))
        case Reduce(body=body) | Convert(body=body) | Named(body=body):
            return replace(expression, body=inner(body))
        case _:
            return expression


def shown_formula(cell: Cell) -> Shown:
    """Symbols, numbers and value of a cell."""
    trace, expression = cell.step.trace, shown_expression(cell)
    value = text.number(cell.value, DIGITS)
    if expression is None:
        return Shown(cell_name(cell), "", "", value, ())

    def symbols(part: Expression) -> str:
        return _for_readers(text.symbols(part, lambda name: _marked(trace, name)))

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

    def reduce(self, reduce: Reduce) -> tuple[str, int]:
        """Σ over a letter, which runs over all there is."""
        if reduce.kind not in ("sum", "product"):
            return super().reduce(reduce)
        below = ",".join(axis.letter for axis in reduce.axes)
        sign = r"\sum" if reduce.kind == "sum" else r"\prod"
        return f"{sign}_{{{below}}} {self.write(reduce.body, 3)}", 2


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
    expression = shown_expression(cell)
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
