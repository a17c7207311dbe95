"""One cell explained: as text for a reader, as data for a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.language import Language, spoken, words
from glassformer.trace import text
from glassformer.trace.cells import Cell, Terms, leaves, term_values
from glassformer.trace.evaluate import Evaluation, Floats
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
)
from glassformer.trace.largest import largest_terms
from glassformer.trace.precision import relation
from glassformer.trace.source import source_parts

__all__ = ["NOT_REPRODUCED", "explain", "expression_data", "to_dict"]

say = words(__name__)
NOT_REPRODUCED = "this rule does not reproduce the stored number"


def explain(cell: Cell, depth: int, terms: int, digits: int) -> str:
    """The cell's arithmetic, then that of the operands shown, `depth` levels down."""
    lines = _lines(cell, terms, digits)
    if depth > 1:
        for operand in _shown_operands(cell, terms):
            below = explain(operand, depth - 1, terms, digits)
            lines.extend(f"    {line}" for line in below.splitlines())
    return "\n".join(lines)


def _lines(cell: Cell, terms: int, digits: int) -> list[str]:
    if cell.is_unwritten:
        return [say("unwritten", cell=cell.name, op=cell.step.op)]
    value = text.number(cell.value, digits)
    expression = cell.expression
    what = cell.step.op if expression is not None else say(f"role {cell.role}")
    if cell.index in cell.step.pinned:
        what = say("edited")
    lines = [f"{cell.name} = {value}  ({what}{say('expanded') if cell.step.expanded else ''})"]
    if expression is None:
        if cell.step.is_opaque and cell.index not in cell.step.pinned:
            operands = ", ".join(o.step.name if o.step else o.argument for o in cell.step.operands)
            lines.append(say("no rule", op=cell.step.op, operands=operands))
        return lines
    named: dict[int, Floats] = {}  # m is in every term of Z, and Z in several lines: once is enough
    again = Evaluation(expression, named=named)
    difference = again.relative_difference(float(cell.value), cell.step.dtype)
    sign = relation(difference, cell.step.dtype)
    shown = text.numbers(expression, digits, terms, named, phrases=_phrases(spoken()))
    lines.append(f"  {sign} {cell.formula}")
    if sign == "≠":
        lines.append(say("not reproduced", value=text.number(again.value, digits)))
    if isinstance(expression, Entry):
        return lines  # a copy: the operand says the rest
    lines.append(f"  {sign} {shown}")
    values = term_values(expression, named)
    total = float(cell.value) if sign == "=" else again.value
    if len(values) > 1 and shown != (sums := _sum_line(total, values, terms, digits)):
        lines.append(f"  {sign} {sums}")
    for symbol, (formula, numbers, part) in cell.definitions_in(expression, named).items():
        lines.append(f"  {symbol} = {formula} = {numbers} = {text.number(part, digits)}")
    lines.append(say("difference", value=text.number(again.value, 9), difference=difference))
    if cell.source is not None and cell.source.text:
        file = Path(cell.source.file).name
        lines.append(f"  {file}:{cell.source.number}: {cell.source.text}")
    return lines


@cache
def _phrases(language: Language) -> text.Phrases:
    return text.Phrases(others=say["others"].say(language), choice=say["choice"].say(language))


def _sum_line(total: float, values: npt.NDArray[np.float64], most: int, digits: int) -> str:
    """The summands multiplied out: `0 + 0 + 2 = 2`."""
    if len(values) > most:
        positive = float(values[values > 0].sum())
        negative = float(values[values < 0].sum())
        parts = f"{text.number(positive, digits)} − {text.number(-negative, digits)}"
        return say("positive and negative", parts=parts)
    parts = " + ".join(
        f"({v})" if v.startswith("-") else v
        for v in (text.number(value, digits) for value in values.tolist())
    )
    return f"{parts} = {text.number(total, digits)}"


def _shown_operands(cell: Cell, most: int) -> list[Cell]:
    """The operands of the terms that the text shows."""
    expression = cell.expression
    if expression is None:
        return []
    terms = Terms(expression)
    if len(terms) <= most:
        return list(islice(_each_once(leaves(expression)), 2 * most))
    largest = np.argsort(-np.abs(terms.values), kind="stable")[:most].tolist()
    return list(dict.fromkeys(operand for place in largest for operand in terms[place].cells))


def to_dict(cell: Cell, depth: int, most: int | None) -> dict[str, Any]:
    """The cell as data: plain dicts, lists, strings and numbers.

    `depth` levels of arithmetic; at the last, operands are named with their values and roles. Of
    more than `most` terms (None: all are listed) the largest are, the sum of the others under
    `others`, and their operands; `complete` says whether every term and operand is there.
    """
    data: dict[str, Any] = {
        "cell": cell.name,
        "step": cell.step.name,
        "index": list(cell.index),
        "value": cell.value,
        "role": cell.role,
    }
    if depth < 1:
        return data
    data["dtype"] = str(cell.step.dtype).removeprefix("torch.")
    data["op"] = cell.step.op
    data["stage"] = cell.step.stage
    data["expanded"] = cell.step.expanded
    data["opaque"] = cell.step.is_opaque
    data["unwritten"] = cell.is_unwritten
    if cell.source is not None:
        data["source"] = source_parts(cell.source)
    expression = cell.expression
    if expression is None:
        return data
    named: dict[int, Floats] = {}
    again = Evaluation(expression, named=named)
    data["formula"] = cell.formula
    data["numbers"] = text.numbers(expression, named=named)
    data["definitions"] = [
        {"symbol": symbol, "formula": formula, "numbers": numbers, "value": value}
        for symbol, (formula, numbers, value) in cell.definitions_in(expression, named).items()
    ]
    data["recomputed"] = again.value
    difference = again.relative_difference(float(cell.value), cell.step.dtype)
    data["difference"] = difference
    data["reproduced"] = relation(difference, cell.step.dtype) == "="
    data["expression"] = expression_data(expression)
    data.update(_listed(expression, Terms(expression, named), depth, most))
    return data


def _listed(expression: Expression, terms: Terms, depth: int, most: int | None) -> dict[str, Any]:
    """The terms of a cell and its operands as data: all of them, or of many the largest."""
    limit = None if most is None else 2 * most + 1  # a term is mostly a product of two cells
    places = range(len(terms)) if most is None else largest_terms(terms.values, most)
    shown = [terms[place] for place in places]
    cells = [list(islice(leaves(term.expression), limit)) for term in shown]
    whole = len(shown) == len(terms)
    read = leaves(expression) if whole else chain.from_iterable(cells)
    operands = list(islice(_each_once(read), limit))
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


def _each_once(cells: Iterable[Cell]) -> Iterator[Cell]:
    """The cells without repeats, one by one: of thousands the first may be enough."""
    seen: set[Cell] = set()
    for cell in cells:
        if cell not in seen:
            seen.add(cell)
            yield cell


def expression_data(expression: Expression) -> dict[str, Any]:
    """The tree as nested dicts; entries by the name of the step that wrote them."""
    below = expression_data
    match expression:
        case Number(value=value):
            return {"kind": "number", "value": value}
        case Entry():
            return {"kind": "entry", "cell": text.entry_name(expression, str)}
        case Lookup(view=view, index=index):
            owner, _ = view.owner((0,) * view.ndim)
            parts = [
                part if isinstance(part, int)
                else part.letter if isinstance(part, Axis)
                else below(part)
                for part in index
            ]  # fmt: skip
            return {"kind": "lookup", "step": owner.name, "index": parts}
        case Operation(operator=operator, left=left, right=right):
            sides = {"left": below(left), "right": below(right)}
            return {"kind": "operation", "operator": operator, **sides}
        case Function(name=name, arguments=arguments):
            return {"kind": "function", "name": name, "arguments": [below(a) for a in arguments]}
        case Reduce(kind=kind, body=body, axes=axes, rank=rank):
            running = [{"letter": axis.letter, "size": axis.size} for axis in axes]
            head = {"reduction": kind, "rank": rank, "axes": running}
            return {"kind": "reduce", **head, "body": below(body)}
        case Choose(condition=condition, yes=yes, no=no):
            sides = {"condition": below(condition), "yes": below(yes), "no": below(no)}
            return {"kind": "choose", **sides}
        case Convert(dtype=dtype, body=body):
            into = str(dtype).removeprefix("torch.")
            return {"kind": "convert", "dtype": into, "body": below(body)}
        case Named(symbol=symbol, body=body):
            return {"kind": "named", "symbol": symbol, "body": below(body)}
