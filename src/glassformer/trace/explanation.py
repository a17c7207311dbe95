"""One cell explained: as text for a reader, as data for a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.trace import text
from glassformer.trace.cells import Cell, Terms, leaves, term_values
from glassformer.trace.evaluate import Evaluation
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

__all__ = ["explain", "expression_data", "to_dict"]


def explain(cell: Cell, depth: int, terms: int, digits: int) -> str:
    """The cell's arithmetic, then that of the operands shown, `depth` levels down."""
    lines = _lines(cell, terms, digits)
    if depth > 1:
        for operand in _shown_operands(cell, terms):
            below = explain(operand, depth - 1, terms, digits)
            lines.extend(f"    {line}" for line in below.splitlines())
    return "\n".join(lines)


def _lines(cell: Cell, terms: int, digits: int) -> list[str]:
    value = text.number(cell.value, digits)
    expression = cell.expression
    what = cell.step.op if expression is not None else cell.role
    if cell.index in cell.step.pinned:
        what = "set by an edit"
    lines = [f"{cell.name} = {value}  ({what}{', expanded' if cell.step.expanded else ''})"]
    if expression is None:
        if cell.step.is_opaque and cell.index not in cell.step.pinned:
            operands = ", ".join(o.step.name if o.step else o.argument for o in cell.step.operands)
            lines.append(f"  no rule for {cell.step.op}; made from {operands}")
        return lines
    shown = text.numbers(expression, digits, terms)
    lines.append(f"  = {cell.formula}")
    if isinstance(expression, Entry):
        return lines  # a copy: the operand says the rest
    lines.append(f"  = {shown}")
    values = term_values(expression)
    if len(values) > 1 and shown != (sums := _sum_line(cell, values, terms, digits)):
        lines.append(f"  = {sums}")
    for symbol, (formula, numbers, part) in cell.definitions.items():
        lines.append(f"  {symbol} = {formula} = {numbers} = {text.number(part, digits)}")
    again = Evaluation(expression)
    difference = again.relative_difference(float(cell.value))
    lines.append(f"  float64: {text.number(again.value, 9)}, relative difference {difference:.1e}")
    if cell.source is not None and cell.source.text:
        file = Path(cell.source.file).name
        lines.append(f"  {file}:{cell.source.number}: {cell.source.text}")
    return lines


def _sum_line(cell: Cell, values: npt.NDArray[np.float64], most: int, digits: int) -> str:
    """The summands multiplied out: `0 + 0 + 2 = 2`."""
    if len(values) > most:
        positive = float(values[values > 0].sum())
        negative = float(values[values < 0].sum())
        parts = f"{text.number(positive, digits)} − {text.number(-negative, digits)}"
        return f"{parts} (positive and negative terms)"
    parts = " + ".join(
        f"({v})" if v.startswith("-") else v
        for v in (text.number(value, digits) for value in values.tolist())
    )
    return f"{parts} = {text.number(cell.value, digits)}"


def _shown_operands(cell: Cell, most: int) -> list[Cell]:
    """The operands of the terms that the text shows."""
    expression = cell.expression
    if expression is None:
        return []
    terms = Terms(expression)
    if len(terms) <= most:
        return _first_operands(expression, 2 * most)
    largest = np.argsort(-np.abs(terms.values), kind="stable")[:most].tolist()
    return list(dict.fromkeys(operand for place in largest for operand in terms[place].cells))


def _first_operands(expression: Expression, most: int) -> list[Cell]:
    """The first operands of a formula, without looking for the other thousands."""
    found: dict[Cell, None] = {}
    for cell in leaves(expression):
        found.setdefault(cell)
        if len(found) == most:
            break
    return list(found)


def to_dict(cell: Cell, depth: int) -> dict[str, Any]:
    """The cell as data: plain dicts, lists, strings and numbers.

    `depth` levels of arithmetic; at the last, operands are named with their values and roles.
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
    data["expanded"] = cell.step.expanded
    data["opaque"] = cell.step.is_opaque
    if cell.source is not None:
        data["source"] = {
            "file": cell.source.file, "line": cell.source.number, "text": cell.source.text
        }  # fmt: skip
    expression = cell.expression
    if expression is None:
        return data
    data["formula"] = cell.formula
    data["numbers"] = cell.numbers
    data["definitions"] = [
        {"symbol": symbol, "formula": formula, "numbers": numbers, "value": value}
        for symbol, (formula, numbers, value) in cell.definitions.items()
    ]
    again = Evaluation(expression)
    data["recomputed"] = again.value
    data["difference"] = again.relative_difference(float(cell.value))
    data["expression"] = expression_data(expression)
    data["terms"] = [
        {"value": term.value, "cells": [operand.name for operand in term.cells]}
        for term in cell.terms
    ]
    data["operands"] = [to_dict(operand, depth - 1) for operand in cell.operands]
    return data


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
