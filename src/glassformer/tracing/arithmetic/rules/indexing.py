"""Cells found at positions that other cells give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from glassformer.tracing.arithmetic.expressions import (
    Axis,
    Choose,
    Expression,
    Function,
    Lookup,
    Named,
    Number,
    Operation,
    Reduce,
    divide,
    multiply,
    power,
    total,
)
from glassformer.tracing.arithmetic.rules.rule_notation import formula
from glassformer.tracing.arithmetic.rules.rule_operands import broadcast, cell, running
from glassformer.tracing.arithmetic.rules.rule_registry import rule
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call


@rule("embedding")
def embedding(call: Call, index: Index) -> Expression:
    """The table's row for the id at this position."""
    ids = call.view("indices")
    return Lookup(call.view("weight"), (cell(ids, *index[: ids.ndim]), *index[ids.ndim :]))


@rule("embedding_dense_backward")
def embedding_gradient(call: Call, index: Index) -> Expression:
    """Σ g over the positions whose id is this row; 0 for the padding's row."""
    g, ids = call.view("grad_output"), call.view("indices")
    if index[0] == call.integer("padding_idx"):
        return Number(0)
    axes = running(ids.shape)
    here = Operation("=", cell(ids, *axes), Number(index[0]))
    gathered = total(Choose(here, cell(g, *axes, *index[1:]), Number(0)), *axes)
    if call.flag("scale_grad_by_freq"):
        count = total(Choose(here, Number(1), Number(0)), *axes)
        return divide(gathered, Function("max", (count, Number(1))))
    return gathered


@rule("embedding_renorm")
def shortened(call: Call, index: Index) -> Expression:
    """A row that is looked up and too long is shortened to the largest norm allowed."""
    table, most, order = call.view("self"), call.number_of("max_norm"), call.number_of("norm_type")
    before = cell(table, *index)
    if index[0] not in call.view("indices").array:
        return before
    k = Axis("k", table.shape[1])
    powers = power(Function("abs", (cell(table, index[0], k),)), float(order))
    norm = Named("‖x‖", power(total(powers, k), 1 / float(order)))
    return _SHORTENED.of(x=before, norm=norm, most=float(most))


_SHORTENED = formula("x·(most/(norm + 1e-7)) if norm > most else x")


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
    if not index:
        return cell(source)
    axis = call.axis("dim", source.ndim)
    place = cell(chosen, *((index[axis],) if chosen.ndim else ()))
    return Lookup(source, (*index[:axis], place, *index[axis + 1 :]))


@rule("take")
def take(call: Call, index: Index) -> Expression:
    """The cell at a position counted row by row; a negative one counts from the end."""
    source = call.view("self")
    flat = int(call.view("index").array[index]) % source.numel
    return cell(source, *unravelled(flat, source.shape))


def unravelled(place: int, shape: Index) -> Index:
    """The index of the n-th cell, counted row by row."""
    return tuple(int(part) for part in np.unravel_index(place, shape))


@rule("masked_scatter")
def masked_scatter(call: Call, index: Index) -> Expression:
    """At the mask's n-th True the source's n-th cell, elsewhere what stood there."""
    own, mask, source = (call.view(name) for name in ("self", "mask", "source"))
    made = call.outputs[0]
    assert made is not None
    written, before = broadcast(mask, index), broadcast(own, index)
    trues = np.broadcast_to(mask.array, made.shape)
    if not trues[index]:
        return before
    earlier = int(np.count_nonzero(trues.ravel()[: np.ravel_multi_index(index, made.shape)]))
    return Choose(written, cell(source, *unravelled(earlier, source.shape)), before)


@rule("_unique")
def unique(call: Call, index: Index) -> Expression:
    """The first cell that has this value."""
    source, made = call.view("self"), call.outputs[0]
    assert made is not None
    first = int(np.flatnonzero(source.array.ravel() == made.array[index])[0])
    return cell(source, *unravelled(first, source.shape))


@rule("searchsorted", "bucketize")
def searchsorted(call: Call, index: Index) -> Expression:
    """How many of the sorted numbers lie below a value (`right`: or are equal to it).

    A NaN is sorted behind all of them.
    """
    is_bucketize = call.operator.name == "bucketize"
    numbers = call.view("boundaries" if is_bucketize else "sorted_sequence")
    value = broadcast(call.operand("self"), index)
    right = call.flag("right") or call.bound.get("side") == "right"
    k = Axis("k", numbers.shape[-1])
    row = index[: numbers.ndim - 1]
    below = Operation("≤" if right else "<", cell(numbers, *row, k), value)
    return _SORTED.of(value=value, size=k.size, count=total(below, k))


_SORTED = formula("unless(isnan(value), size, count)")


@rule("isin")
def isin(call: Call, index: Index) -> Expression:
    """Whether a value is among the test elements."""
    first, second = call.operator.parameters[:2]
    element, tests = broadcast(call.operand(first), index), call.operand(second)
    found: Expression
    if isinstance(tests, View) and tests.ndim:
        axes = running(tests.shape)
        same = Operation("=", element, cell(tests, *axes))
        found = Reduce("any", same, axes) if tests.numel else Number(False)
    else:
        found = Operation("=", element, broadcast(tests, ()))
    return Function("not", (found,)) if call.flag("invert") else found


_MASKS = (torch.bool, torch.uint8)


@dataclass(frozen=True, slots=True)
class _Masked:
    """One axis of a mask among the indices: it selects the places of its Trues."""

    mask: View
    found: npt.NDArray[np.int64]
    """The places of its Trues, one row each."""
    axis: int

    @property
    def shape(self) -> Index:
        """That of the index tensor it stands for."""
        return (len(self.found),)


class Places:
    """The indices of `x[…]`: what they select, and which cells of theirs do it."""

    def __init__(self, source: View, given: Sequence[View | None]) -> None:
        self._indices: list[View | _Masked | None] = []
        for view in given:
            if view is not None and view.dtype in _MASKS:
                found = np.argwhere(view.array)
                self._indices += [_Masked(view, found, axis) for axis in range(view.ndim)]
            else:
                self._indices.append(view)
        self._indices += [None] * (source.ndim - len(self._indices))
        given_axes = [axis for axis, part in enumerate(self._indices) if part is not None]
        self._shape = np.broadcast_shapes(*(p.shape for p in self._indices if p is not None))
        # Indices on neighbouring axes select in their place, others in front.
        together = given_axes == list(range(given_axes[0], given_axes[-1] + 1))
        self._start = given_axes[0] if together else 0

    def at(self, index: Index) -> tuple[list[int | Expression], list[Expression]]:
        """For a selected cell: the source's index, and the mask cells that selected it."""
        chosen = index[self._start : self._start + len(self._shape)]
        others = iter(index[: self._start] + index[self._start + len(self._shape) :])
        places: list[int | Expression] = []
        masks: dict[int, Expression] = {}
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


def all_of(conditions: list[Expression]) -> Expression:
    """All conditions at once."""
    joined = conditions[0]
    for condition in conditions[1:]:
        joined = Operation("and", joined, condition)
    return joined


@rule("index", "_unsafe_index")
def index_by_tensors(call: Call, index: Index) -> Expression:
    """The cell at the positions that the index tensors give, or that a mask selects."""
    source = call.view("self")
    places, masks = Places(source, call.bound["indices"]).at(index)
    value: Expression = Lookup(source, tuple(places), wrap=True)
    return Choose(all_of(masks), value, Number(0)) if masks else value


@rule("masked_select")
def masked_select(call: Call, index: Index) -> Expression:
    """The cell at the mask's n-th True."""
    source, mask = call.view("self"), call.view("mask")
    shape = np.broadcast_shapes(source.shape, mask.shape)
    found = np.argwhere(np.broadcast_to(mask.array, shape))[index[0]]
    at = tuple(int(place) for place in found)
    return Choose(broadcast(mask, at), broadcast(source, at), Number(0))


# --- the log-probability at the place of a target ---

_NONE, _MEAN = 0, 1


@rule("nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward")
def nll_loss(call: Call, index: Index) -> Expression:
    """−Σ w[t] · x[…, t] / Σ w[t] over the targets t that are not ignored."""
    if call.integer("reduction") == _NONE:
        return multiply(-1, _likelihood(call, index)[0])
    axes = running(call.view("target").shape)
    likelihood, counted = (total(part, *axes) for part in _likelihood(call, axes))
    if call.integer("reduction") == _MEAN:
        likelihood = divide(likelihood, counted)
    return Function("neg", (likelihood,))


@rule("nll_loss_forward", "nll_loss2d_forward", output=1)
def nll_loss_weight(call: Call, _index: Index) -> Expression:
    """Σ w[t] over the targets that count."""
    if call.integer("reduction") == _NONE:
        return Number(0)  # torch leaves it at 0, and does not read it
    axes = running(call.view("target").shape)
    return total(_likelihood(call, axes)[1], *axes)


def _likelihood(call: Call, places: tuple[int | Axis, ...]) -> tuple[Expression, Expression]:
    """w[t] · x[n, t, …] of one target (or of a running one), and the w[t] that counts for it."""
    x, targets, parameter = call.view("self"), call.view("target"), call.maybe_view("weight")
    target, ignore = cell(targets, *places), call.integer("ignore_index")
    ignored = bool((targets.array == ignore).any())
    # An ignored target is no class: any class stands in for it, and is then not used.
    chosen: Expression = Function("max", (target, Number(0))) if ignored else target
    batch = places[:1] if x.ndim > 1 else ()
    value: Expression = Lookup(x, (*batch, chosen, *places[1:]))
    weight: Expression = Number(1)
    if parameter is not None:
        weight = Lookup(parameter, (chosen,))
        value = multiply(weight, value)
    if not ignored:
        return value, weight
    skip = Operation("=", target, Number(ignore))
    return Choose(skip, Number(0), value), Choose(skip, Number(0), weight)


@rule("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_gradient(call: Call, index: Index) -> Expression:
    """−g · w[c] / Σw where c is the position's target and counts, else 0."""
    x, targets, weight = call.view("self"), call.view("target"), call.maybe_view("weight")
    g = call.view("grad_output")
    place, own = (index[:1] + index[2:], index[1]) if x.ndim > 1 else ((), index[0])
    target = cell(targets, *(place if targets.ndim else ()))
    value: Expression = cell(g, *(place if g.ndim else ()))
    if weight is not None:
        value = multiply(value, cell(weight, own))
    if call.integer("reduction") == _MEAN:
        value = divide(value, cell(call.view("total_weight")))
    if own == call.integer("ignore_index"):
        return Number(0)
    return Choose(Operation("=", target, Number(own)), Function("neg", (value,)), Number(0))
