"""Cells written at positions that other cells give.

The cells of the index that send a value to a position are among its operands: the value is chosen
because they name it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from glassformer.tracing.arithmetic.expressions import (
    Choose,
    Entry,
    Expression,
    Function,
    Number,
    Operation,
    add,
    divide,
    multiply,
    sum_of,
)
from glassformer.tracing.arithmetic.float64_values import evaluate
from glassformer.tracing.arithmetic.rules.indexing import Places, all_of, unravelled
from glassformer.tracing.arithmetic.rules.rule_operands import broadcast, cell
from glassformer.tracing.arithmetic.rules.rule_registry import rule
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call


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
    sent_here = [_sent_here(own, places, hit, index) for hit in map(tuple, hits)]
    added = [
        Choose(sent, broadcast(values, tuple(hit)), Number(0))
        for sent, hit in zip(sent_here, hits, strict=True)
    ]
    return sum_of([before, *added])


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
    axis = call.axis("dim", own.ndim) if index else 0
    places = _scattered(chosen, axis, index)
    before = cell(own, *index)
    if not places:
        return before
    how = "sum" if call.operator.name == "scatter_add" else call.bound.get("reduce")
    if how is None:
        sent = _names(cell(chosen, *places[-1]), *_along(own, axis, index))
        return Choose(sent, _value(source, places[-1]), before)
    here = _along(own, axis, index)
    sent_here = [(_names(cell(chosen, *place), *here), _value(source, place)) for place in places]
    return _joined(how, [before] if call.bound.get("include_self", True) else [], sent_here)


def _joined(
    how: str, values: list[Expression], sent: list[tuple[Expression, Expression]]
) -> Expression:
    """What stood here (if it counts) and the values sent here, made into one number."""
    join, neutral = _JOINS[how]
    parts = [*values, *(Choose(here, value, Number(neutral)) for here, value in sent)]
    joined = _halved(parts, join)
    return divide(joined, len(parts)) if how == "mean" else joined


def _halved(parts: list[Expression], join: _Join) -> Expression:
    """The parts joined two by two: of many, no deep tree."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_halved(parts[:middle], join), _halved(parts[middle:], join))


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
    if not chosen.ndim:
        return [()] if chosen.array.item() == index[axis] else []
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


@rule("index_add", "index_copy", "index_reduce")
def index_add(call: Call, index: Index) -> Expression:
    """What stood here, with every source row that the index sends here added (put, joined) in."""
    own, chosen, source = call.view("self"), call.view("index"), call.view("source")
    before = cell(own, *index)
    axis = call.axis("dim", own.ndim) if index else 0
    sent: list[tuple[Expression, Expression]] = []
    for row, here in _rows(chosen, *_along(own, axis, index)):
        at = (*index[:axis], row, *index[axis + 1 :]) if source.ndim else ()
        sent.append((here, cell(source, *at)))
    if not sent:
        return before
    if call.operator.name == "index_copy":
        return Choose(sent[-1][0], sent[-1][1], before)
    if call.operator.name == "index_reduce":
        values: list[Expression] = [before] if call.flag("include_self") else []
        return _joined(str(call.bound["reduce"]), values, sent)
    alpha = call.number_of("alpha")
    added = [Choose(here, multiply(alpha, value), Number(0)) for here, value in sent]
    return sum_of([before, *added])


@rule("index_fill")
def index_fill(call: Call, index: Index) -> Expression:
    """The fill value in the rows that the index names."""
    own = call.view("self")
    before = cell(own, *index)
    axis = call.axis("dim", own.ndim) if index else 0
    rows = _rows(call.view("index"), *_along(own, axis, index))
    fill = broadcast(call.operand("value"), ())
    return Choose(rows[0][1], fill, before) if rows else before


def _rows(chosen: View, place: int, size: int) -> list[tuple[int, Expression]]:
    """The cells of a list of positions that name this one: where they stand, and that they do."""
    listed = np.atleast_1d(chosen.array).astype(np.int64)
    rows = np.flatnonzero(np.where(listed < 0, listed + size, listed) == place).tolist()
    return [
        (row, _names(cell(chosen, *((row,) if chosen.ndim else ())), place, size)) for row in rows
    ]


@rule("put")
def put(call: Call, index: Index) -> Expression:
    """The value sent to this position, counted row by row, else what stood there."""
    own, chosen, source = call.view("self"), call.view("index"), call.view("source")
    before, here = cell(own, *index), int(np.ravel_multi_index(index, own.shape)) if index else 0
    listed = chosen.array.astype(np.int64) % max(1, own.numel)
    sent: list[Expression] = []
    for place in np.argwhere(listed == here).tolist():
        named = _names(cell(chosen, *place), here, own.numel)
        at = unravelled(
            int(np.ravel_multi_index(place, chosen.shape)) if place else 0, source.shape
        )
        sent.append(Choose(named, cell(source, *at), Number(0)))
    if not sent:
        return before
    if call.flag("accumulate"):
        return sum_of([before, *sent])
    last = sent[-1]
    assert isinstance(last, Choose)
    return Choose(last.condition, last.yes, before)
