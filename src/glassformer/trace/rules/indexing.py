"""Cells found, or written, at positions that other cells give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from glassformer.trace.calls import Call
from glassformer.trace.expressions import (
    Choose,
    Expression,
    Function,
    Lookup,
    Number,
    add,
    divide,
    multiply,
)
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.operands import broadcast, cell
from glassformer.trace.rules.registry import rule

__all__: list[str] = []


@rule("embedding")
def embedding(call: Call, index: Index) -> Expression:
    """The table's row for the id at this position."""
    ids = call.view("indices")
    return Lookup(call.view("weight"), (cell(ids, *index[: ids.ndim]), *index[ids.ndim :]))


@rule("gather")
def gather(call: Call, index: Index) -> Expression:
    """The cell whose position along one axis the index tensor gives."""
    source = call.view("self")
    place = cell(call.view("index"), *index)
    if source.ndim == 0:
        return cell(source)
    axis = call.axis("dim", source.ndim)
    return Lookup(source, (*index[:axis], place, *index[axis + 1 :]))


@rule("index_select")
def index_select(call: Call, index: Index) -> Expression:
    """The cell at the position that the index names along one axis."""
    source, chosen = call.view("self"), call.view("index")
    axis = call.axis("dim", source.ndim)
    place = cell(chosen, *((index[axis],) if chosen.ndim else ()))
    return Lookup(source, (*index[:axis], place, *index[axis + 1 :]))


@rule("take")
def take(call: Call, index: Index) -> Expression:
    """The cell at a position counted row by row."""
    source = call.view("self")
    flat = int(call.view("index").array[index])
    at = np.unravel_index(flat, source.shape)
    return cell(source, *(int(place) for place in at))


class _Places:
    """The indices of `x[…]`: which are given, and what they select."""

    def __init__(self, source: View, given: list[View | None]) -> None:
        self.source = source
        self.masks = [view for view in given if view is not None and view.dtype in _MASKS]
        self.given = given

    def at(self, index: Index) -> tuple[list[int | Expression], Expression | None]:
        """For an output cell: the source's index, and the mask cell that selected it, if any."""
        if self.masks:
            return self._by_mask(index)
        indexed = [axis for axis, view in enumerate(self.given) if view is not None]
        shape = np.broadcast_shapes(*(self.given[axis].shape for axis in indexed))  # type: ignore[union-attr]  # indexed holds no None
        together = indexed == list(range(indexed[0], indexed[-1] + 1))
        start = indexed[0] if together else 0
        chosen = index[start : start + len(shape)]
        others = iter(index[:start] + index[start + len(shape) :])
        places: list[int | Expression] = []
        for axis in range(self.source.ndim):
            view = self.given[axis] if axis < len(self.given) else None
            places.append(next(others) if view is None else broadcast(view, chosen))
        return places, None

    def _by_mask(self, index: Index) -> tuple[list[int | Expression], Expression | None]:
        """One mask over leading axes: the place of its n-th True."""
        mask = self.masks[0]
        before = next(axis for axis, view in enumerate(self.given) if view is mask)
        found = np.argwhere(mask.array)[index[before]]
        at = [int(place) for place in found]
        return [*index[:before], *at, *index[before + 1 :]], cell(mask, *at)


_MASKS = (torch.bool, torch.uint8)


@rule("index")
def index_by_tensors(call: Call, index: Index) -> Expression:
    """The cell at the positions that the index tensors give, or that a mask selects."""
    source = call.view("self")
    places, mask = _Places(source, list(call.bound["indices"])).at(index)
    value: Expression = Lookup(source, tuple(places), wrap=True)
    return value if mask is None else Choose(mask, value, Number(0))


@rule("masked_select")
def masked_select(call: Call, index: Index) -> Expression:
    """The cell at the mask's n-th True."""
    source, mask = call.view("self"), call.view("mask")
    shape = np.broadcast_shapes(source.shape, mask.shape)
    found = np.argwhere(np.broadcast_to(mask.array, shape))[index[0]]
    at = tuple(int(place) for place in found)
    return Choose(broadcast(mask, at), broadcast(source, at), Number(0))


@rule("index_put")
def index_put(call: Call, index: Index) -> Expression:
    """The value written at this position, else what stood there."""
    own, values = call.view("self"), call.view("values")
    before = cell(own, *index)
    written = _written(own, list(call.bound["indices"]))
    places = np.argwhere(_matches(written, index))
    if not len(places):
        return before
    if call.flag("accumulate"):
        result: Expression = before
        for place in places:
            result = add(result, broadcast(values, tuple(int(p) for p in place)))
        return result
    return broadcast(values, tuple(int(p) for p in places[-1]))


def _written(own: View, given: list[View | None]) -> list[npt.NDArray[np.int64]]:
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
    places = _scattered(chosen, call.axis("dim", own.ndim), index)
    values = [_value(source, place) for place in places]
    before = cell(own, *index)
    how = "sum" if call.operator.name == "scatter_add" else call.bound.get("reduce")
    if how is None or not values:
        return values[-1] if values else before
    if call.bound.get("include_self", True):
        values.insert(0, before)
    joined = values[0]
    for value in values[1:]:
        joined = _JOINS[how](joined, value)
    return divide(joined, len(values)) if how == "mean" else joined


_JOINS: dict[str, Callable[[Expression, Expression], Expression]] = {
    "sum": add,
    "add": add,
    "mean": add,
    "prod": multiply,
    "multiply": multiply,
    "amax": lambda one, other: Function("max", (one, other)),
    "amin": lambda one, other: Function("min", (one, other)),
}


def _scattered(chosen: View, axis: int, index: Index) -> list[Index]:
    """The cells of the index tensor that name this position."""
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
    rows = np.flatnonzero(np.atleast_1d(chosen.array) == index[axis])
    places = [(*index[:axis], int(row), *index[axis + 1 :]) for row in rows]
    before = cell(own, *index)
    if call.operator.name == "index_copy":
        return cell(source, *places[-1]) if places else before
    result: Expression = before
    for place in places:
        result = add(result, cell(source, *place))
    return result


@rule("index_fill")
def index_fill(call: Call, index: Index) -> Expression:
    """The fill value in the rows that the index names."""
    own, chosen = call.view("self"), call.view("index")
    named = index[call.axis("dim", own.ndim)] in np.atleast_1d(chosen.array)
    return broadcast(call.operand("value"), ()) if named else cell(own, *index)
