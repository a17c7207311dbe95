"""Cells read from or written to positions given by other cells: embedding, gather, scatter."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import evaluate
from glassformer.tracing.arithmetic.rules.rule_notation import formula
from glassformer.tracing.arithmetic.rules.rule_registry import broadcast, cell, rule, running
from glassformer.tracing.capture.memory import Index, View, flat_place, index_of
from glassformer.tracing.capture.operator_calls import Call


@rule("embedding")
def embedding(call: Call, index: Index) -> e.Expression:
    """The table's row for the id at this position."""
    ids = call.view("indices")
    return e.Lookup(call.view("weight"), (cell(ids, *index[: ids.ndim]), *index[ids.ndim :]))


@rule("embedding_dense_backward", sums_like="grad_output")
def embedding_gradient(call: Call, index: Index) -> e.Expression:
    """Σ g over the positions with this row's id; 0 for the padding row."""
    g, ids = call.view("grad_output"), call.view("indices")
    if index[0] == call.integer("padding_idx"):
        return e.Number(0)
    axes = running(ids.shape)
    here = e.Operation("=", cell(ids, *axes), e.Number(index[0]))
    gathered = e.total(e.Choose(here, cell(g, *axes, *index[1:]), e.Number(0)), *axes)
    if call.flag("scale_grad_by_freq"):
        count = e.total(e.Choose(here, e.Number(1), e.Number(0)), *axes)
        return gathered / e.Function("max", (count, e.Number(1)))
    return gathered


@rule("embedding_renorm")
def shortened(call: Call, index: Index) -> e.Expression:
    """A row that is looked up is rescaled if its norm exceeds the maximum."""
    table, most, order = call.view("self"), call.number_of("max_norm"), call.number_of("norm_type")
    before = cell(table, *index)
    if index[0] not in call.view("indices").array:
        return before
    k = e.Axis("k", table.shape[1])
    powers = e.Function("abs", (cell(table, index[0], k),)) ** float(order)
    norm = e.Named("‖x‖", e.total(powers, k) ** (1 / float(order)))
    return _SHORTENED.of(x=before, norm=norm, most=float(most))


_SHORTENED = formula("x·(most/(norm + 1e-7)) if norm > most else x")


@rule("gather")
def gather(call: Call, index: Index) -> e.Expression:
    """The cell whose position along one axis is given by the index tensor."""
    source = call.view("self")
    place = cell(call.view("index"), *index)
    if source.ndim == 0:
        return cell(source)
    axis = call.axis("dim", source.ndim)
    return e.Lookup(source, (*index[:axis], place, *index[axis + 1 :]))


@rule("index_select")
def index_select(call: Call, index: Index) -> e.Expression:
    """The cell whose position along one axis is given by a list of positions."""
    source, chosen = call.view("self"), call.view("index")
    if not index:
        return cell(source)
    axis = call.axis("dim", source.ndim)
    place = cell(chosen, *((index[axis],) if chosen.ndim else ()))
    return e.Lookup(source, (*index[:axis], place, *index[axis + 1 :]))


@rule("masked_scatter")
def masked_scatter(call: Call, index: Index) -> e.Expression:
    """The source's n-th cell at the mask's n-th True, the old value elsewhere."""
    own, mask, source = (call.view(name) for name in ("self", "mask", "source"))
    made = call.made()
    written, before = broadcast(mask, index), broadcast(own, index)
    trues = np.broadcast_to(mask.array, made.shape)
    if not trues[index]:
        return before
    earlier = int(np.count_nonzero(trues.ravel()[: flat_place(index, made.shape)]))
    return e.Choose(written, cell(source, *index_of(earlier, source.shape)), before)


@rule("_unique")
def unique(call: Call, index: Index) -> e.Expression:
    """The first cell with this value."""
    source, made = call.view("self"), call.made()
    first = int(np.flatnonzero(source.array.ravel() == made.array[index])[0])
    return cell(source, *index_of(first, source.shape))


@rule("searchsorted", "bucketize")
def searchsorted(call: Call, index: Index) -> e.Expression:
    """How many of the sorted numbers are less than a value (with `right`: or equal to it).

    NaN sorts after all numbers.
    """
    is_bucketize = call.operator.name == "bucketize"
    numbers = call.view("boundaries" if is_bucketize else "sorted_sequence")
    value = broadcast(call.operand("self"), index)
    right = call.flag("right") or call.bound.get("side") == "right"
    k = e.Axis("k", numbers.shape[-1])
    row = index[: numbers.ndim - 1]
    below = e.Operation("≤" if right else "<", cell(numbers, *row, k), value)
    return _SORTED.of(value=value, size=k.size, count=e.total(below, k))


_SORTED = formula("unless(isnan(value), size, count)")


_MASKS = (torch.bool, torch.uint8)


@dataclass(frozen=True, slots=True)
class _MaskAxis:
    """One axis of a mask among the indices: it selects the positions of its Trues."""

    mask: View
    found: npt.NDArray[np.int64]
    """The positions of its Trues, one per row."""
    axis: int

    @property
    def shape(self) -> Index:
        """The shape of the equivalent index tensor."""
        return (len(self.found),)


class _Selection:
    """The indices of `x[…]`: what they select, and which of their cells select it."""

    def __init__(self, source: View, given: Sequence[View | None]) -> None:
        self._indices: list[View | _MaskAxis | None] = []
        for view in given:
            if view is not None and view.dtype in _MASKS:
                found = np.argwhere(view.array)
                self._indices += [_MaskAxis(view, found, axis) for axis in range(view.ndim)]
            else:
                self._indices.append(view)
        self._indices += [None] * (source.ndim - len(self._indices))
        given_axes = [axis for axis, part in enumerate(self._indices) if part is not None]
        self._shape = np.broadcast_shapes(*(p.shape for p in self._indices if p is not None))
        # Adjacent index tensors put the selected axis in their place, others in front.
        together = given_axes == list(range(given_axes[0], given_axes[-1] + 1))
        self._start = given_axes[0] if together else 0

    def at(self, index: Index) -> tuple[list[int | e.Expression], list[e.Expression]]:
        """For a selected cell: its index in the source, and the mask cells that selected it."""
        chosen = index[self._start : self._start + len(self._shape)]
        others = iter(index[: self._start] + index[self._start + len(self._shape) :])
        places: list[int | e.Expression] = []
        masks: dict[int, e.Expression] = {}
        for part in self._indices:
            if part is None:
                places.append(next(others))
            elif isinstance(part, View):
                places.append(broadcast(part, chosen))
            else:
                at = part.found[chosen[-1] if len(part.found) > 1 else 0].tolist()
                places.append(at[part.axis])
                masks[id(part.mask)] = cell(part.mask, *at)
        return places, list(masks.values())


def all_of(conditions: list[e.Expression]) -> e.Expression:
    """The conjunction of the conditions."""
    joined = conditions[0]
    for condition in conditions[1:]:
        joined = e.Operation("and", joined, condition)
    return joined


@rule("index", "_unsafe_index")
def index_by_tensors(call: Call, index: Index) -> e.Expression:
    """The cell at the positions given by the index tensors, or selected by a mask."""
    source = call.view("self")
    places, masks = _Selection(source, call.bound["indices"]).at(index)
    value: e.Expression = e.Lookup(source, tuple(places), wrap=True)
    return e.Choose(all_of(masks), value, e.Number(0)) if masks else value


@rule("masked_select")
def masked_select(call: Call, index: Index) -> e.Expression:
    """The cell at the mask's n-th True."""
    source, mask = call.view("self"), call.view("mask")
    shape = np.broadcast_shapes(source.shape, mask.shape)
    found = np.argwhere(np.broadcast_to(mask.array, shape))[index[0]]
    at = tuple(int(place) for place in found)
    return e.Choose(broadcast(mask, at), broadcast(source, at), e.Number(0))


# --- cells written at positions given by other cells ---
#
# The index cells that send a value to a position are among its operands: they decide which value
# ends up there.


_Sent = tuple[e.Expression, e.Expression]
"""The condition that a value is sent to a cell, and the value."""
# How values are combined, with the neutral element.
_JOINS: dict[str, tuple[e.Join, float]] = {
    "sum": (operator.add, 0),
    "add": (operator.add, 0),
    "mean": (operator.add, 0),
    "prod": (operator.mul, 1),
    "multiply": (operator.mul, 1),
    "amax": (lambda one, other: e.Function("max", (one, other)), -math.inf),
    "amin": (lambda one, other: e.Function("min", (one, other)), math.inf),
}


def _joined(
    before: e.Expression, sent: Sequence[_Sent], how: str | None = None, counts_before: bool = True
) -> e.Expression:
    """The last value sent, or all of them combined, with the old value if it counts."""
    if not sent:
        return before
    if how is None:
        return e.Choose(*sent[-1], before)
    join, neutral = _JOINS[how]
    parts = [before] if counts_before else []
    parts += [e.Choose(here, value, e.Number(neutral)) for here, value in sent]
    joined = e.combined(parts, join)
    return joined / len(parts) if how == "mean" else joined


@rule("index_put", sums_like="self")
def index_put(call: Call, index: Index) -> e.Expression:
    """The value written at this position (all of them added up), else the old value."""
    own, values = call.view("self"), call.view("values")
    given = call.bound["indices"]
    hits = list(map(tuple, np.argwhere(_matches(_written(own, given), index)).tolist()))
    if not hits:
        return cell(own, *index)
    accumulates, places = call.flag("accumulate"), _Selection(own, given)
    sent = [
        (_sent_here(own, places, hit, index), broadcast(values, hit))
        for hit in (hits if accumulates else hits[-1:])
    ]
    return _joined(cell(own, *index), sent, "sum" if accumulates else None)


def _sent_here(own: View, places: _Selection, hit: Index, index: Index) -> e.Expression:
    """The condition that the index tensors send a value to this position."""
    wanted, conditions = places.at(hit)
    for part, place, size in zip(wanted, index, own.shape, strict=True):
        if isinstance(part, e.Entry):
            conditions.append(_names(part, place, size))
    return all_of(conditions)


def _names(chosen: e.Entry, place: int, size: int) -> e.Expression:
    """The condition that an index cell equals this position (or its negative equivalent)."""
    negative = evaluate(chosen) < 0
    return e.Operation("=", chosen, e.Number(place - size if negative else place))


def _written(own: View, given: Sequence[View | None]) -> list[npt.NDArray[np.int64]]:
    """For each axis of the target, the position to which every value goes."""
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
def scatter(call: Call, index: Index) -> e.Expression:
    """The value that the index tensor sends here, combined with the old one if it reduces."""
    own, chosen = call.view("self"), call.view("index")
    source = call.bound["src"] if "src" in call.bound else call.bound["value"]
    axis = call.axis("dim", own.ndim) if index else 0
    how = "sum" if call.operator.name == "scatter_add" else call.bound.get("reduce")
    here = _along(own, axis, index)
    sent = [
        (
            _names(cell(chosen, *place), *here),
            cell(source, *place) if isinstance(source, View) else e.Number(source),
        )
        for place in _scattered(chosen, axis, index)
    ]
    return _joined(cell(own, *index), sent, how, call.bound.get("include_self", True))


def _along(own: View, axis: int, index: Index) -> tuple[int, int]:
    """The position on an axis and the axis's size; (0, 1) for a tensor without axes."""
    return (index[axis], own.shape[axis]) if index else (0, 1)


def _scattered(chosen: View, axis: int, index: Index) -> list[Index]:
    """The cells of the index tensor that refer to this position."""
    if not chosen.numel:
        return []
    if not index:  # a tensor without axes has only one position
        return [tuple(place) for place in np.ndindex(chosen.shape)]
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


@rule("index_add", "index_copy", "index_reduce")
def index_add(call: Call, index: Index) -> e.Expression:
    """The old value, with every source row that the index sends here added (or put, reduced)."""
    own, chosen, source = call.view("self"), call.view("index"), call.view("source")
    axis = call.axis("dim", own.ndim) if index else 0
    alpha = call.bound.get("alpha", 1)
    sent: list[_Sent] = []
    for row, here in _rows(chosen, *_along(own, axis, index)):
        at = (*index[:axis], row, *index[axis + 1 :]) if source.ndim else ()
        sent.append((here, alpha * cell(source, *at)))
    how = "sum" if call.operator.name == "index_add" else call.bound.get("reduce")
    return _joined(cell(own, *index), sent, how, call.bound.get("include_self", True))


@rule("index_fill")
def index_fill(call: Call, index: Index) -> e.Expression:
    """The fill value in the rows listed in the index."""
    own = call.view("self")
    axis = call.axis("dim", own.ndim) if index else 0
    rows = _rows(call.view("index"), *_along(own, axis, index))
    fill = broadcast(call.operand("value"), ())
    return _joined(cell(own, *index), [(here, fill) for _, here in rows[:1]])


def _rows(chosen: View, place: int, size: int) -> list[tuple[int, e.Expression]]:
    """The entries of a list of positions that equal this one, with the condition for each."""
    listed = np.atleast_1d(chosen.array).astype(np.int64)
    rows = np.flatnonzero(np.where(listed < 0, listed + size, listed) == place).tolist()
    return [
        (row, _names(cell(chosen, *((row,) if chosen.ndim else ())), place, size)) for row in rows
    ]


@rule("put")
def put(call: Call, index: Index) -> e.Expression:
    """The value sent to this flat position, else the old value."""
    own, chosen, source = call.view("self"), call.view("index"), call.view("source")
    here = flat_place(index, own.shape)
    listed = chosen.array.astype(np.int64) % max(1, own.numel)
    sent: list[_Sent] = []
    for place in np.argwhere(listed == here).tolist():
        value = cell(source, *index_of(flat_place(place, chosen.shape), source.shape))
        sent.append((_names(cell(chosen, *place), here, own.numel), value))
    return _joined(cell(own, *index), sent, "sum" if call.flag("accumulate") else None)
