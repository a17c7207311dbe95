"""One cell explained: worked out once, as a `Card`, for every form in which it is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from glassformer.language import Language, spoken, words
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import (
    Evaluation,
    RunningSums,
    evaluate,
    gathered,
    largest_terms,
)
from glassformer.tracing.capture.source_lines import source_parts
from glassformer.tracing.cells import Cell, Terms, distinct, leaves
from glassformer.tracing.formula import (
    MOST_TERMS,
    Formula,
    Names,
    NumberWriter,
    Symbol,
    SymbolWriter,
    leaf_of,
    number,
    to_text,
)
from glassformer.tracing.formula.notation import Leaf, Value
from glassformer.tracing.formula.places import Part, looked_up_parts, place_of, written_places

if TYPE_CHECKING:
    from glassformer.tracing.steps import Step

_MOST_FACTORS = 4_096
say = words(__name__)
NOT_REPRODUCED = "this rule does not reproduce the stored number"


@dataclass(frozen=True, slots=True)
class Summand:
    """A summand of a cell: its value, its arithmetic, and its share of Σ|summands|."""

    value: float
    symbols: str
    numbers: str
    share: float
    expression: e.Expression
    number_tree: Formula


@dataclass(frozen=True, slots=True)
class Definition:
    """A symbol of the formula that stands for a part (μ, m, Z)."""

    symbol: str
    symbols: str
    numbers: str
    value: float
    expression: e.Expression
    tree: Formula
    number_tree: Formula


class EquationChain(NamedTuple):
    """left = symbols = numbers = value."""

    left: Formula
    symbols: Formula
    numbers: Formula
    value: Formula


class Card:
    """A cell worked out: its formula in symbols and in numbers, and what these give.

    `most` is the number of terms of a long sum that are written, `digits` the significant digits of
    numbers, `language` that of words inside formulas, `names` the symbols (by default the trace's).
    Texts, definitions and summands are computed on first use.
    """

    def __init__(
        self,
        cell: Cell,
        most: int = MOST_TERMS,
        digits: int = 4,
        language: Language = "en",
        names: Names | None = None,
    ) -> None:
        self.cell = cell
        self.digits = digits
        self.language: Language = language
        self.most = most
        self._text = partial(to_text, digits=digits, language=language)
        expression = cell.step.expression(cell.index)
        if isinstance(expression, e.Choose) and "softmax" in cell.step.op:
            taken = evaluate(expression.condition)  # a row may be fully masked
            expression = expression.yes if taken else expression.no
        self.expression = expression
        """Its arithmetic, of a softmax the branch taken; None if there is none."""
        self.is_copy = isinstance(self.expression, e.Entry)
        """Whether the cell is another cell, moved."""

        self._evaluation = Evaluation(self.expression or e.Number(cell.value))
        self.recomputed = self._evaluation.value
        """The value in float64 from the operands shown."""
        self.difference = self._evaluation.relative_difference(float(cell.value), cell.step.dtype)
        """|value − recomputed|, relative to max(|value|, Σ|terms|, largest |operand|)."""
        self.relation: Literal["=", "≠"] = "=" if self.difference <= cell.step.tolerance else "≠"
        """Between the arithmetic and the stored number; ≠ where the rule does not reproduce it."""
        self.running_sum: float | None = None
        """What the arithmetic gives if every partial sum is rounded as the operator rounds it."""
        if self.relation == "≠" and self.expression and (sums := cell.step.dtype_of_sums):
            self.running_sum = RunningSums(self.expression, sums).value

        self.sight = (names or cell.step.trace.naming).sight(cell.step)
        self._symbols = SymbolWriter(self.sight)
        self._numbers = NumberWriter(self._evaluation, most)
        self.name_tree = leaf_of(cell, self.sight)
        """The cell by its symbol."""
        self.name = str(self.name_tree)
        """`Q[2, 1]`."""
        self.tree: Formula = self.name_tree
        """The formula in symbols."""
        if self.expression is not None:
            self.tree = self._symbols.build(self.expression)
        self.number_tree = self._numbers.build(self._evaluation.expression)
        """The formula in numbers."""

    # --- the formula ---

    @cached_property
    def formula(self) -> str:
        """The formula in symbols as text; empty where there is none."""
        return "" if self.expression is None else self._text(self.tree)

    @cached_property
    def numbers(self) -> str:
        """The formula in numbers as text; empty where there is none."""
        return "" if self.expression is None else self._text(self.number_tree)

    @property
    def sides(self) -> tuple[str, str]:
        """Both texts as they stand beside an equals sign: a comparison in brackets."""
        if self.expression is None:
            return "", ""
        write = partial(self._text, within="equation")
        return write(self.tree), write(self.number_tree)

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """The symbols that stand for parts, each after those it needs."""
        found: list[Definition] = []
        for part, tree in self._symbols.definitions.values():
            numbers = self._numbers.build(part.body)
            value = self._evaluation.of(part)
            shown = self._text(tree), self._text(numbers)
            found.append(Definition(part.symbol, *shown, value, part.body, tree, numbers))
        return tuple(found)

    @property
    def equations(self) -> tuple[EquationChain, ...]:
        """The cell's equation, then those of its named parts; none for a given number."""
        if self.expression is None:
            return ()
        own = EquationChain(self.name_tree, self.tree, self.number_tree, self.value_tree)
        return (
            own,
            *(
                EquationChain(Leaf(Symbol(d.symbol)), d.tree, d.number_tree, Value(d.value))
                for d in self.definitions
            ),
        )

    @property
    def operands(self) -> tuple[Step, ...]:
        """The steps whose numbers the formula in symbols uses."""
        return tuple(self._symbols.steps.values())

    @property
    def legend(self) -> dict[str, str]:
        """The formula's symbols with the names of their steps, where these differ."""
        name, module = self.sight.names.name, self.cell.step.module
        named = {str(symbol): name(step, module) for symbol, step in self._symbols.steps.items()}
        return {symbol: name for symbol, name in named.items() if symbol != name}

    @property
    def value_tree(self) -> Formula:
        """The stored number."""
        return Value(self.cell.value)

    @property
    def value(self) -> str:
        """The stored number as text."""
        return number(self.cell.value, self.digits)

    # --- summands ---

    @cached_property
    def terms(self) -> Terms:
        """Every summand; of another formula the whole."""
        return Terms(None if self.expression is None else self._evaluation)

    @cached_property
    def parts(self) -> tuple[Summand, ...]:
        """The largest summands in their original order; none if the cell is not a sum."""
        return tuple(map(self.part, self._shown)) if len(self.terms) > 1 else ()

    @cached_property
    def _shown(self) -> list[int]:
        return largest_terms(self.terms.values, self.most)

    @cached_property
    def _whole(self) -> float:
        values = self.terms.values
        return float(np.abs(values[np.isfinite(values)]).sum()) or 1.0

    def part(self, place: int) -> Summand:
        """The summand at a place."""
        term = self.terms[place]
        expression = term.expression
        numbers = self._numbers.build(expression)
        symbols = self._text(self._symbols.build(expression))
        share = min(1.0, abs(term.value) / self._whole)
        return Summand(term.value, symbols, self._text(numbers), share, expression, numbers)

    @property
    def others(self) -> int:
        """How many summands are not among the parts."""
        return len(self.terms) - len(self.parts) if self.parts else 0

    @property
    def rest(self) -> float:
        """What the others add up to."""
        if not self.others:
            return 0.0
        with np.errstate(invalid="ignore"):
            return float(np.delete(self.terms.values, self._shown).sum())

    def factors(self) -> tuple[list[npt.NDArray[np.float64]], npt.NDArray[np.float64]]:
        """The two rows of a dot product and their products; nothing where there is none."""
        for part in [] if self.expression is None else e.summands_of(self.expression):
            match part:
                case e.Reduce(kind="sum", body=e.Operation(operator="*"), axes=axes) if (
                    math.prod(axis.size for axis in axes) <= _MOST_FACTORS
                ):
                    rows = [gathered(e.Reduce("sum", side, axes)) for side in part.body.parts]
                    return rows, self._evaluation.terms(part)
        return [], np.empty(0)

    # --- around it ---

    @property
    def is_given(self) -> bool:
        """Whether nothing was computed: a parameter, an input, a constant."""
        return self.expression is None and not self.cell.step.is_opaque

    @property
    def is_unwritten(self) -> bool:
        """Whether it is uninitialised memory, or a copy of some."""
        return (self.expression is None or self.is_copy) and self.cell.is_unwritten

    @property
    def place(self) -> str:
        """`package/module.py:12` of the line that made it, or nothing."""
        return "" if self.cell.source is None else self.cell.source.place

    @property
    def line(self) -> str:
        """The source line that made it, or nothing."""
        return self.cell.source.text if self.cell.source is not None else ""


def explain(cell: Cell, depth: int, terms: int, digits: int) -> str:
    """The cell's arithmetic, then that of the operands shown, `depth` levels down."""
    card = Card(cell, terms, digits, spoken())
    if card.is_unwritten:
        return say("unwritten", cell=cell.name, op=cell.step.op)
    lines = _lines(card, terms, digits)
    if depth > 1:
        for operand in _shown_operands(card, terms):
            below = explain(operand, depth - 1, terms, digits)
            lines.extend(f"    {line}" for line in below.splitlines())
    return "\n".join(lines)


def _lines(card: Card, most: int, digits: int) -> list[str]:
    cell, step = card.cell, card.cell.step
    what = step.op if card.expression is not None else say(f"role {step.role}")
    if cell.index in step.pinned:
        what = say("edited")
    shown = number(cell.value, digits)
    lines = [f"{cell.name} = {shown}  ({what}{say('expanded') if step.expanded else ''})"]
    if card.expression is None:
        if step.is_opaque and cell.index not in step.pinned:
            operands = ", ".join(o.step.name if o.step else o.argument for o in step.operands)
            lines.append(say("no rule", op=step.op, operands=operands))
        return lines
    sign = card.relation
    symbols, numbers = card.sides
    has_symbol = str(card.sight.symbol(step)) != step.name
    lines.append(f"  {f'{card.name} ' if has_symbol else ''}{sign} {symbols}")
    if legend := ", ".join(f"{symbol}: {name}" for symbol, name in card.legend.items()):
        lines.append(say("with", legend=legend))
    if sign == "≠":
        lines.append(say("not reproduced", value=number(card.recomputed, digits)))
        if card.running_sum is not None:
            dtype = str(step.dtype_of_sums).removeprefix("torch.")
            lines.append(say("sums", dtype=dtype, value=number(card.running_sum, digits)))
    if card.is_copy:
        return lines  # the rest is the operand's
    lines.append(f"  {sign} {numbers}")
    values = card.terms.values
    total = float(cell.value) if sign == "=" else card.recomputed
    if len(values) > 1 and numbers != (sums := _sum_line(total, values, most, digits)):
        lines.append(f"  {sign} {sums}")
    for part in card.definitions:
        value = number(part.value, digits)
        lines.append(f"  {part.symbol} = {part.symbols} = {part.numbers} = {value}")
    again = number(card.recomputed, 9)
    lines.append(say("difference", value=again, difference=card.difference))
    if step.line is not None and (text := step.line.text):
        lines.append(f"  {Path(step.line.file).name}:{step.line.number}: {text}")
    return lines


def _sum_line(total: float, values: npt.NDArray[np.float64], most: int, digits: int) -> str:
    """The summands multiplied out: `0 + 0 + 2 = 2`."""
    if len(values) > most:
        positive = float(values[values > 0].sum())
        negative = float(values[values < 0].sum())
        parts = f"{number(positive, digits)} − {number(-negative, digits)}"
        return say("positive and negative", parts=parts)
    parts = " + ".join(
        f"({v})" if v.startswith("-") else v
        for v in (number(value, digits) for value in values.tolist())
    )
    return f"{parts} = {number(total, digits)}"


def _shown_operands(card: Card, most: int) -> list[Cell]:
    """The operands of the terms that the text shows."""
    if card.expression is None:
        return []
    terms = card.terms
    if len(terms) <= most:
        return list(islice(distinct(leaves(card.expression)), 2 * most))
    largest = np.argsort(-np.abs(terms.values), kind="stable")[:most].tolist()
    return list(dict.fromkeys(operand for place in largest for operand in terms[place].cells))


def to_dict(cell: Cell, depth: int, most: int | None) -> dict[str, Any]:
    """The cell as data: plain dicts, lists, strings and numbers.

    `depth` levels of arithmetic; at the last, operands are named with their values and roles. Of
    more than `most` terms (None: all are listed) the largest are, the sum of the others under
    `others`, and their operands; `complete` says whether every term and operand is there.
    """
    step = cell.step
    data: dict[str, Any] = {
        "cell": cell.name,
        "step": step.name,
        "index": list(cell.index),
        "value": cell.value,
        "role": step.role,
    }
    if depth < 1:
        return data
    data["dtype"] = str(step.dtype).removeprefix("torch.")
    data["op"] = step.op
    data["stage"] = step.stage
    data["expanded"] = step.expanded
    data["opaque"] = step.is_opaque
    card = Card(cell)
    data["unwritten"] = card.is_unwritten
    if cell.source is not None:
        data["source"] = source_parts(cell.source)
    data["symbol"] = card.name
    if card.expression is None:
        return data
    data["formula"] = card.formula
    data["numbers"] = card.numbers
    data["definitions"] = [
        {"symbol": d.symbol, "formula": d.symbols, "numbers": d.numbers, "value": d.value}
        for d in card.definitions
    ]
    data["legend"] = card.legend
    data["recomputed"] = card.recomputed
    data["difference"] = card.difference
    data["reproduced"] = card.relation == "="
    data["expression"] = expression_data(card.expression)
    data.update(_listed(card.expression, card.terms, depth, most))
    return data


def _listed(expression: e.Expression, terms: Terms, depth: int, most: int | None) -> dict[str, Any]:
    """The terms of a cell and its operands as data: all of them, or of many the largest."""
    limit = None if most is None else 2 * most + 1  # a term is usually a product of two cells
    places = range(len(terms)) if most is None else largest_terms(terms.values, most)
    shown = [terms[place] for place in places]
    cells = [list(islice(leaves(term.expression), limit)) for term in shown]
    whole = len(shown) == len(terms)
    read = leaves(expression) if whole else chain.from_iterable(cells)
    operands = list(islice(distinct(read), limit))
    full = any(len(part) == limit for part in (operands, *cells))
    listed: dict[str, Any] = {"complete": whole and not full}
    listed["terms"] = [
        {"value": term.value, "cells": [operand.name for operand in below]}
        for term, below in zip(shown, cells, strict=True)
    ]
    if not whole:
        rest = np.delete(terms.values, places)
        listed["others"] = {"count": len(rest), "value": float(rest.sum())}
    listed["operands"] = [to_dict(operand, depth - 1, most) for operand in operands]
    return listed


def expression_data(expression: e.Expression) -> dict[str, Any]:
    """The tree as nested dicts; cells are named by the step that wrote them."""
    kind = type(expression).__name__.lower()
    if isinstance(expression, e.Entry):
        return {"kind": kind, "cell": _address(expression)}
    if isinstance(expression, e.Lookup):
        owner, parts = looked_up_parts(expression)
        if parts is None:
            name, parts = f"view({owner.name})", expression.index
        else:
            name = owner.name
        return {"kind": kind, "step": name, "index": [_position(part) for part in parts]}
    data: dict[str, Any] = {"kind": kind}
    for name in expression.__match_args__:
        data["reduction" if name == "kind" else name] = _plain(getattr(expression, name))
    if isinstance(expression, e.Reduce):
        data["axes"] = [{"letter": axis.letter, "size": axis.size} for axis in expression.axes]
    return data


def _position(part: Part) -> Any:
    """One part of a lookup's index: `2`, `k`, `3+2k`, or a computed position."""
    if isinstance(part, int):
        return part
    return str(place_of(part)) if isinstance(part, e.Axis) else expression_data(part)


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, e.Axis):
        return value.letter
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return expression_data(value)


def _address(entry: e.Entry) -> str:
    """The cells that an entry reads, with every axis of their step: `scores[0, k]`."""
    owner, places = written_places(entry, lambda view, index: view.owner(index))
    if places is None:
        return f"view({owner.name})[{', '.join(str(place_of(part)) for part in entry.index)}]"
    return f"{owner.name}[{', '.join(map(str, places))}]" if places else owner.name
