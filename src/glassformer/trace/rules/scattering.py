"""Cells written at positions that other cells give.

The cells of the index that send a value to a position are among its operands: the value is chosen
because they name it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from glassformer.trace.calls import Call
from glassformer.trace.evaluate import evaluate
from glassformer.trace.expressions import (
    Choose,
    Entry,
    Expression,
    Function,
    Number,
    Operation,
    add,
    divide,
    multiply,
)
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.indexing import Places, all_of
from glassformer.trace.rules.operands import broadcast, cell
from glassformer.trace.rules.registry import rule

__all__: list[str] = []


@rule("index_put")
def index_put(call: Call, index: Index) -> Expression:
    """The value written at this position, else what stood there."""
    own, values = call.view("self"), call.view("values")
    before = cell(own, *index)
    given = call.bound["indices"]
    hits = np.argwhere(_matches(_written(own, given), index)).tolist()
    if not hits:
        return before
    places = Places(own, given)
    if not call.flag("accumulate"):
        sent = _sent_here(own, places, tuple(hits[-1]), index)
        return Choose(sent, broadcast(values, tuple(hits[-1])), before)
    result: Expression = before
    for hit in map(tuple, hits):
        sent = _sent_here(own, places, hit, index)
        result = add(result, Choose(sent, broadcast(values, hit), Number(0)))
    return result


def _sent_here(own: View, places: Places, hit: Index, index: Index) -> Expression:
    """That the cells of the index tensors send a value to this position."""
    wanted, conditions = places.at(hit)
    for part, place, size in zip(wanted, index, own.shape, strict=True):
        if isinstance(part, Entry):
            conditions.append(_names(part, place, size))
    return all_of(conditions)


def _names(chosen: Entry, place: int, size: int) -> Expression:
    """That a cell of an index tensor holds this position; negative, it counts from the end."""
    negative = evaluate(chosen) < 0
    return Operation("=", chosen, Number(place - size if negative else place))


def _written(own: View, given: Sequence[View | None]) -> list[npt.NDArray[np.int64]]:
    """For each axis of the target, the position that every value goes to."""
    grid = np.arange(own.numel).reshape(own.shape)
    key = tuple(slice(None) if view is None else view.array for view in given)
    flat = grid[key]
    return [np.asarray(axis) for axis in np.unravel_index(flat, own.shape)]


def _matches(written: list[npt.NDArray[np.int64]], index: Index) -> npt.NDArray[np.bool_]:
    hits = np.ones(written[0].shape, dtype=bool)
    for axis, place in zip(written, index, strict=True):
        hits &= axis == place
    return hits


@rule("scatter", "scatter_add", "scatter_reduce")
def scatter(call: Call, index: Index) -> Expression:
    """The value that the index tensor sends here, else what stood there; joined if it reduces."""
    own, chosen = call.view("self"), call.view("index")
    source = call.bound["src"] if "src" in call.bound else call.bound["value"]
    axis = call.axis("dim", own.ndim)
    places = _scattered(chosen, axis, index)
    before = cell(own, *index)
    if not places:
        return before
    how = "sum" if call.operator.name == "scatter_add" else call.bound.get("reduce")
    if how is None:
        sent = _names(cell(chosen, *places[-1]), *_along(own, axis, index))
        return Choose(sent, _value(source, places[-1]), before)
    join, neutral = _JOINS[how]
    values: list[Expression] = [before] if call.bound.get("include_self", True) else []
    for place in places:
        sent = _names(cell(chosen, *place), *_along(own, axis, index))
        values.append(Choose(sent, _value(source, place), Number(neutral)))
    joined = values[0]
    for value in values[1:]:
        joined = join(joined, value)
    return divide(joined, len(values)) if how == "mean" else joined


def _along(own: View, axis: int, index: Index) -> tuple[int, int]:
    """The position on one axis and its size; a tensor of one number has position 0 of 1."""
    return (index[axis], own.shape[axis]) if index else (0, 1)


_Join = Callable[[Expression, Expression], Expression]
# How values that meet are joined, and the number that leaves the others as they are.
_JOINS: dict[str, tuple[_Join, float]] = {
    "sum": (add, 0),
    "add": (add, 0),
    "mean": (add, 0),
    "prod": (multiply, 1),
    "multiply": (multiply, 1),
    "amax": (lambda one, other: Function("max", (one, other)), -math.inf),
    "amin": (lambda one, other: Function("min", (one, other)), math.inf),
}


def _scattered(chosen: View, axis: int, index: Index) -> list[Index]:
    """The cells of the index tensor that name this position."""
    if not index:
        return [()]  # a tensor of one number has but one position
    if any(
        place >= size
        for other, (place, size) in enumerate(zip(index, chosen.shape, strict=True))
        if other != axis
    ):
        return []
    line = np.moveaxis(chosen.array, axis, -1)[index[:axis] + index[axis + 1 :]]
    hits = np.flatnonzero(line == index[axis])
    return [(*index[:axis], int(hit), *index[axis + 1 :]) for hit in hits]


def _value(source: View | float, place: Index) -> Expression:
    return cell(source, *place) if isinstance(source, View) else Number(source)


@rule("index_add", "index_copy")
def index_add(call: Call, index: Index) -> Expression:
    """What stood here, with every source row that the index sends here added (or put) in."""
    own, chosen, source = call.view("self"), call.view("index"), call.view("source")
    axis = call.axis("dim", own.ndim)
    result: Expression = cell(own, *index)
    for row, sent in _rows(chosen, *_along(own, axis, index)):
        value = cell(source, *index[:axis], row, *index[axis + 1 :])
        if call.operator.name == "index_copy":
            result = Choose(sent, value, cell(own, *index))
        else:
            added = multiply(call.number_of("alpha"), value)
            result = add(result, Choose(sent, added, Number(0)))
    return result


@rule("index_fill")
def index_fill(call: Call, index: Index) -> Expression:
    """The fill value in the rows that the index names."""
    own = call.view("self")
    before = cell(own, *index)
    rows = _rows(call.view("index"), *_along(own, call.axis("dim", own.ndim), index))
    fill = broadcast(call.operand("value"), ())
    return Choose(rows[0][1], fill, before) if rows else before


def _rows(chosen: View, place: int, size: int) -> list[tuple[int, Expression]]:
    """The cells of a list of positions that name this one: where they stand, and that they do."""
    listed = np.atleast_1d(chosen.array).astype(np.int64)
    rows = np.flatnonzero(np.where(listed < 0, listed + size, listed) == place).tolist()
    return [
        (row, _names(cell(chosen, *((row,) if chosen.ndim else ())), place, size)) for row in rows
    ]
