"""Softmax and the norms: a cell against the others of its row."""

from __future__ import annotations

import math

import torch

from glassformer.trace.calls import Call
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Entry,
    Expression,
    Function,
    Named,
    Number,
    Operation,
    Reduce,
    add,
    divide,
    multiply,
    power,
    subtract,
    total,
)
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.operands import LETTERS, cell, row
from glassformer.trace.rules.registry import rule

__all__: list[str] = []


def _softmax_parts(call: Call, index: Index) -> tuple[Expression, Expression, Named, Named]:
    """The cell, its exponential, the row's maximum m, and the sum Z of the exponentials."""
    x = call.view("self")
    axes: tuple[Axis, ...] = ()
    if not index:
        own = body = cell(x)
        largest = Named("m", own)
    else:
        axis = call.axis("dim", x.ndim)
        j = Axis("j", x.shape[axis])
        parts: list[int | Axis] = list(index)
        parts[axis] = j
        own, body, axes = cell(x, *index), Entry(x, tuple(parts)), (j,)
        largest = Named("m", Reduce("max", body, axes))
    exponentials = Function("exp", (subtract(body, largest),))
    z = Named("Z", Reduce("sum", exponentials, axes) if axes else exponentials)
    return own, Function("exp", (subtract(own, largest),)), largest, z


@rule("softmax", "_softmax")
def softmax(call: Call, index: Index) -> Expression:
    """exp(xᵢ − m) / Σⱼ exp(xⱼ − m), m the row's maximum."""
    _, exponential, _, z = _softmax_parts(call, index)
    return divide(exponential, z)


@rule("_safe_softmax")
def safe_softmax(call: Call, index: Index) -> Expression:
    """Softmax, and 0 for a row in which everything is masked."""
    _, exponential, largest, z = _softmax_parts(call, index)
    nothing = Operation("=", largest, Number(-math.inf))
    return Choose(nothing, Number(0), divide(exponential, z))


@rule("log_softmax", "_log_softmax")
def log_softmax(call: Call, index: Index) -> Expression:
    """xᵢ − m − log Σⱼ exp(xⱼ − m)."""
    own, _, largest, z = _softmax_parts(call, index)
    return subtract(subtract(own, largest), Function("log", (z,)))


def _row(view: View, index: Index, axes: range) -> tuple[Entry, tuple[Axis, ...]]:
    """The cells over the normalised axes that a cell is compared with."""
    running = tuple(Axis(LETTERS[place], view.shape[axis]) for place, axis in enumerate(axes))
    lead = index[: view.ndim - len(running)]
    return Entry(view, (*lead, *running)), running


def _moments(row: Entry, axes: tuple[Axis, ...]) -> tuple[Named, Named]:
    """The mean μ and the biased variance σ² of a row."""
    count = math.prod(axis.size for axis in axes)
    mean = Named("μ", divide(total(row, *axes), count))
    variance = Named("σ²", divide(total(power(subtract(row, mean), 2), *axes), count))
    return mean, variance


def _scaled(value: Expression, parameter: View | None, bias: View | None, at: Index) -> Expression:
    if parameter is not None:
        value = multiply(value, cell(parameter, *at))
    return value if bias is None else add(value, cell(bias, *at))


@rule("layer_norm", "native_layer_norm")
def layer_norm(call: Call, index: Index) -> Expression:
    """(x − μ) / √(σ² + ε) · γ + β, σ² biased."""
    x = call.view("input")
    count = len(call.bound["normalized_shape"])
    row, axes = _row(x, index, range(x.ndim - count, x.ndim))
    mean, variance = _moments(row, axes)
    root = Function("sqrt", (add(variance, float(call.number_of("eps"))),))
    normed = divide(subtract(cell(x, *index), mean), root)
    at = index[x.ndim - count :]
    return _scaled(normed, call.maybe_view("weight"), call.maybe_view("bias"), at)


@rule("native_layer_norm", output=1)
def layer_norm_mean(call: Call, index: Index) -> Expression:
    """μ of the row."""
    x = call.view("input")
    count = len(call.bound["normalized_shape"])
    row, axes = _row(x, index, range(x.ndim - count, x.ndim))
    return _moments(row, axes)[0].body


@rule("native_layer_norm", output=2)
def layer_norm_scale(call: Call, index: Index) -> Expression:
    """1 / √(σ² + ε) of the row."""
    x = call.view("input")
    count = len(call.bound["normalized_shape"])
    row, axes = _row(x, index, range(x.ndim - count, x.ndim))
    variance = _moments(row, axes)[1]
    return divide(1, Function("sqrt", (add(variance, float(call.number_of("eps"))),)))


@rule("rms_norm")
def rms_norm(call: Call, index: Index) -> Expression:
    """x / √(mean of x² + ε) · γ."""
    x = call.view("input")
    count = len(call.bound["normalized_shape"])
    row, axes = _row(x, index, range(x.ndim - count, x.ndim))
    size = math.prod(axis.size for axis in axes)
    eps = call.bound.get("eps")
    eps = torch.finfo(x.dtype).eps if eps is None else float(eps)
    mean_square = Named("s", divide(total(power(row, 2), *axes), size))
    normed = divide(cell(x, *index), Function("sqrt", (add(mean_square, eps),)))
    return _scaled(normed, call.maybe_view("weight"), None, index[x.ndim - count :])


@rule("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update")
def batch_norm(call: Call, index: Index) -> Expression:
    """(x − μ) / √(σ² + ε) · γ + β with the channel's μ and σ²: running, or of the batch."""
    x, channel = call.view("input"), index[1]
    mean: Expression
    variance: Expression
    running_mean, running_variance = call.maybe_view("running_mean"), call.maybe_view("running_var")
    own = call.bound.get("training", True)  # an operator that always trains is not asked
    if own or running_mean is None or running_variance is None:
        mean, variance = _moments_of_channel(x, channel)
    else:
        mean, variance = cell(running_mean, channel), cell(running_variance, channel)
    root = Function("sqrt", (add(variance, float(call.number_of("eps"))),))
    normed = divide(subtract(cell(x, *index), mean), root)
    return _scaled(normed, call.maybe_view("weight"), call.maybe_view("bias"), (channel,))


def _moments_of_channel(x: View, channel: int) -> tuple[Named, Named]:
    axes = tuple(Axis(LETTERS[axis], size) for axis, size in enumerate(x.shape) if axis != 1)
    return _moments(Entry(x, (axes[0], channel, *axes[1:])), axes)


_WITH_MOMENTS = ("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update")


@rule(*_WITH_MOMENTS, output=1)
def batch_norm_mean(call: Call, index: Index) -> Expression:
    """μ of the channel."""
    return _moments_of_channel(call.view("input"), index[0])[0].body


@rule(*_WITH_MOMENTS, output=2)
def batch_norm_scale(call: Call, index: Index) -> Expression:
    """1 / √(σ² + ε) of the channel."""
    variance = _moments_of_channel(call.view("input"), index[0])[1]
    return divide(1, Function("sqrt", (add(variance, float(call.number_of("eps"))),)))


@rule("native_batch_norm", "_native_batch_norm_legit", output=3)
@rule("_batch_norm_with_update", output=4)
@rule("batch_norm", output=1)
def running_mean(call: Call, index: Index) -> Expression:
    """(1 − momentum) · what it was + momentum · μ of the batch."""
    mean, _ = _moments_of_channel(call.view("input"), index[0])
    return _moved(call, cell(call.view("running_mean"), *index), mean)


@rule("native_batch_norm", "_native_batch_norm_legit", output=4)
@rule("_batch_norm_with_update", output=5)
@rule("batch_norm", output=2)
def running_variance(call: Call, index: Index) -> Expression:
    """(1 − momentum) · what it was + momentum · σ² of the batch, over n − 1."""
    x = call.view("input")
    _, variance = _moments_of_channel(x, index[0])
    count = x.numel // x.shape[1]
    unbiased = divide(multiply(variance, count), count - 1)
    return _moved(call, cell(call.view("running_var"), *index), unbiased)


def _moved(call: Call, old: Expression, new: Expression) -> Expression:
    if not call.bound.get("training", True):  # the schema says that it is written to, and it is not
        return old
    momentum = float(call.number_of("momentum"))
    return add(multiply(1 - momentum, old), Operation("*", Number(momentum), new))


def _moments_of_group(call: Call, batch: int, group: int) -> tuple[Named, Named]:
    x = call.view("input")
    groups = call.integer("num_groups" if "num_groups" in call.bound else "group")
    width = x.shape[1] // groups
    channels = Axis("c", width, start=group * width)
    rest = tuple(Axis(LETTERS[place], size) for place, size in enumerate(x.shape[2:]))
    return _moments(Entry(x, (batch, channels, *rest)), (channels, *rest))


@rule("native_group_norm", output=1)
def group_norm_mean(call: Call, index: Index) -> Expression:
    """μ of the group."""
    return _moments_of_group(call, *index)[0].body


@rule("native_group_norm", output=2)
def group_norm_scale(call: Call, index: Index) -> Expression:
    """1 / √(σ² + ε) of the group."""
    variance = _moments_of_group(call, *index)[1]
    return divide(1, Function("sqrt", (add(variance, float(call.number_of("eps"))),)))


@rule("group_norm", "native_group_norm")
def group_norm(call: Call, index: Index) -> Expression:
    """Layer norm over the channels of one group and all positions."""
    x = call.view("input")
    groups = call.integer("num_groups" if "num_groups" in call.bound else "group")
    mean, variance = _moments_of_group(call, index[0], index[1] // (x.shape[1] // groups))
    root = Function("sqrt", (add(variance, float(call.number_of("eps"))),))
    normed = divide(subtract(cell(x, *index), mean), root)
    return _scaled(normed, call.maybe_view("weight"), call.maybe_view("bias"), (index[1],))


@rule("_weight_norm_interface")
def weight_norm(call: Call, index: Index) -> Expression:
    """g · v / √(Σ v²), the sum over one slice of v."""
    v, g = call.view("v"), call.view("g")
    slices, axis = _slice_length(call, index)
    direction = divide(cell(v, *index), slices)
    return multiply(cell(g, *(index[axis] if a == axis else 0 for a in range(g.ndim))), direction)


@rule("_weight_norm_interface", output=1)
def weight_norm_length(call: Call, index: Index) -> Expression:
    """√(Σ v²) of a slice."""
    return _slice_length(call, index)[0].body


def _slice_length(call: Call, index: Index) -> tuple[Named, int]:
    """The length of the slice of v that a cell belongs to, and the axis that counts the slices."""
    v = call.view("v")
    axis = call.axis("dim", v.ndim)
    entry, axes = row(v, (index[axis],), tuple(a for a in range(v.ndim) if a != axis), False)
    return Named("‖v‖", Function("sqrt", (total(power(entry, 2), *axes),))), axis
