"""Cells chosen by a condition, by position, or by their size."""

from __future__ import annotations

import math

import numpy as np
import torch

from glassformer.trace.calls import Call
from glassformer.trace.evaluate import gathered
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Entry,
    Expression,
    Function,
    Number,
    Operation,
    Reduce,
)
from glassformer.trace.memory import Index, as_floats
from glassformer.trace.rules.operands import LETTERS, broadcast, cell, row
from glassformer.trace.rules.registry import Build, rule

__all__: list[str] = []


@rule("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(call: Call, index: Index) -> Expression:
    """The first value where the condition holds, else the second."""
    return Choose(
        broadcast(call.operand("condition"), index),
        broadcast(call.operand("self"), index),
        broadcast(call.operand("other"), index),
    )


@rule("masked_fill")
def masked_fill(call: Call, index: Index) -> Expression:
    """The fill value where the operator's mask is True, else the cell."""
    return Choose(
        broadcast(call.operand("mask"), index),
        broadcast(call.operand("value"), index),
        broadcast(call.operand("self"), index),
    )


@rule("tril", "triu")
def triangle(call: Call, index: Index) -> Expression:
    """The cell on this side of the diagonal, 0 on the other."""
    beyond = index[-1] - index[-2] - call.integer("diagonal")
    keeps = beyond <= 0 if call.operator.name == "tril" else beyond >= 0
    return cell(call.view("self"), *index) if keeps else Number(0)


def _rank_taken(call: Call, index: Index, axis: int, descending: bool) -> int:
    """The rank of the cell that stands in a place, equal ones counted in their order.

    Of equal cells the kernel takes whichever it likes, unless it was asked to be stable: then the
    one it took has another rank than its place says.
    """
    x, made = call.view("self"), call.outputs[-1]
    assert made is not None
    row = as_floats(np.moveaxis(x.array, axis, -1)[(*index[:axis], *index[axis + 1 :])])
    order = np.argsort(-row if descending else row, kind="stable")
    taken, rank = int(made.array[index]), index[axis]
    is_tie = bool(row[taken] == row[order[rank]])
    return int(np.flatnonzero(order == taken)[0]) if is_tie else rank


def _ranked(place_of: bool) -> Build:
    """The value of a given rank along an axis, or the place where it stands."""

    def build(call: Call, index: Index) -> Expression:
        x = call.view("self")
        if not index:
            return Number(0) if place_of else Entry(x, ())
        axis = call.axis("dim", x.ndim)
        parts: list[int | Axis] = list(index)
        rank = index[axis]
        j = Axis("j", x.shape[axis])
        parts[axis] = j
        descending = call.flag("largest") or call.flag("descending")
        if place_of:
            return Reduce(
                "place largest" if descending else "place smallest",
                Entry(x, tuple(parts)),
                (j,),
                _rank_taken(call, index, axis, descending),
            )
        return Reduce("largest" if descending else "smallest", Entry(x, tuple(parts)), (j,), rank)

    return build


def _first_nan(cells: Expression, axes: tuple[Axis, ...], place_of: bool) -> Expression:
    """A NaN is the median of any row that has one."""
    found = Function("isnan", (cells,))
    if place_of:
        return Reduce("argmax", found, axes)
    return Choose(Reduce("any", found, axes), Number(math.nan), Number(0))


def _middle(place_of: bool) -> Build:
    """The lower of the middle values (median), or the k-th smallest; or where it stands."""

    def build(call: Call, index: Index) -> Expression:
        x = call.view("self")
        if not x.ndim:
            return Number(0) if place_of else Entry(x, ())
        whole = call.bound.get("dim") is None
        axes = tuple(range(x.ndim)) if whole else (call.axis("dim", x.ndim),)
        cells, running = row(x, index, axes, call.flag("keepdim"))
        values = gathered(Reduce("min", cells, tuple(running)))
        known = int(np.count_nonzero(~np.isnan(values)))
        if call.operator.name == "median" and known < len(values):
            return _first_nan(cells, tuple(running), place_of)
        rank = call.integer("k") - 1 if "k" in call.bound else max(0, (known - 1) // 2)
        if not place_of:
            return Reduce("smallest", cells, tuple(running), rank)
        made = call.outputs[1]
        assert made is not None
        order = np.argsort(values, kind="stable")
        taken = int(made.array[index])
        is_tie = values[taken] == values[order[rank]] or known < len(values)
        here = int(np.flatnonzero(order == taken)[0]) if is_tie else rank
        return Reduce("place smallest", cells, tuple(running), here)

    return build


rule("median", "nanmedian", "kthvalue")(_middle(place_of=False))
rule("median", "nanmedian", "kthvalue", output=1)(_middle(place_of=True))


@rule("nonzero")
def nonzero(call: Call, index: Index) -> Expression:
    """Along one axis, the place of the cell that is the n-th that is not 0."""
    x, (rank, axis) = call.view("self"), index
    axes = tuple(Axis(LETTERS[place], size) for place, size in enumerate(x.shape))
    cells = Entry(x, axes)
    holds = cells if x.dtype == torch.bool else Operation("≠", cells, Number(0))
    place: Expression = Reduce("place largest", holds, axes, rank)
    inner = math.prod(x.shape[axis + 1 :])
    place = Operation("//", place, Number(inner)) if inner > 1 else place
    return Operation("%", place, Number(x.shape[axis])) if axis else place


rule("topk", "sort")(_ranked(place_of=False))
rule("topk", "sort", output=1)(_ranked(place_of=True))
rule("argsort")(_ranked(place_of=True))
