"""Windows that slide over the input: convolutions and pooling."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce

import numpy as np

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.rules.rule_registry import LETTERS, Build, cell, rule
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call


def each(value: list[int] | int, axis: int) -> int:
    """The setting for one axis; a single number applies to all."""
    if isinstance(value, int):
        return value
    return value[axis] if len(value) > 1 else value[0]


def window(
    letter: str, start: int, length: int, size: int, dilation: int = 1
) -> tuple[e.Axis, e.Axis]:
    """The positions on an axis of `size` that a window covers, and the positions in the window.

    A window may extend beyond either end of the axis, over the padding.
    """
    inside = [place for place in range(length) if 0 <= start + place * dilation < size]
    first = inside[0] if inside else 0
    under = e.Axis(letter, len(inside), start=start + first * dilation, step=dilation)
    return under, e.Axis(letter, len(inside), start=first)


# --- convolutions ---


@rule("conv1d", "conv2d", "conv3d")
def convolution(call: Call, index: Index) -> e.Expression:
    """Σ x · W over channels and window, plus b; padding contributes nothing."""
    return _with_bias(call, index, _gathered(call, call.view("input"), index))


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(call: Call, index: Index) -> e.Expression:
    """Σ x · W over channels and the inputs whose copy of the kernel reaches this cell, plus b."""
    return _with_bias(call, index, _spread(call, call.view("input"), index))


@rule("convolution")
def either_convolution(call: Call, index: Index) -> e.Expression:
    make = transposed_convolution if call.flag("transposed") else convolution
    return make(call, index)


def _with_bias(call: Call, index: Index, result: e.Expression) -> e.Expression:
    bias, space = call.maybe_view("bias"), call.view("weight").ndim - 2
    return result if bias is None else result + cell(bias, index[len(index) - space - 1])


def _gathered(call: Call, x: View, index: Index) -> e.Expression:
    """Σ x · W over channels and window."""
    parameter = call.view("weight")
    space = parameter.ndim - 2
    batch, (out, *places) = index[: x.ndim - space - 1], index[x.ndim - space - 1 :]
    width = parameter.shape[1]
    group = out // (parameter.shape[0] // call.integer("groups"))
    into = [e.Axis("s", width, start=group * width)]
    across = [e.Axis("s", width)]
    for axis in range(space):
        under = _window(call, axis, places[axis], x.shape[x.ndim - space + axis], parameter)
        into.append(under[0])
        across.append(under[1])
    if any(axis.size == 0 for axis in across):
        return e.Number(0)
    return e.total(e.Entry(x, (*batch, *into)) * e.Entry(parameter, (out, *across)), *across)


def _window(call: Call, axis: int, place: int, size: int, parameter: View) -> tuple[e.Axis, e.Axis]:
    """The input positions under the kernel along one axis, and the kernel positions."""
    dilation, length = each(call.bound["dilation"], axis), parameter.shape[axis + 2]
    padding = call.bound["padding"]
    if padding == "same":
        before = dilation * (length - 1) // 2
    else:
        before = 0 if padding == "valid" else each(padding, axis)
    start = place * each(call.bound["stride"], axis) - before
    return window(LETTERS[axis], start, length, size, dilation)


def _spread(call: Call, x: View, index: Index) -> e.Expression:
    """Σ x · W over channels and the positions of x whose copy of the kernel reaches this cell."""
    parameter = call.view("weight")
    space = parameter.ndim - 2
    batch, (out, *places) = index[: x.ndim - space - 1], index[x.ndim - space - 1 :]
    group, into = divmod(out, parameter.shape[1])
    width = parameter.shape[0] // call.integer("groups")
    channel = e.Axis("s", width, start=group * width)
    pairs = [
        _reaching(call, axis, places[axis], x.shape[x.ndim - space + axis], parameter)
        for axis in range(space)
    ]
    axes = (channel, *(own for own, _ in pairs))
    if any(axis.size == 0 for axis in axes):
        return e.Number(0)
    kernel = e.Entry(parameter, (channel, into, *(own for _, own in pairs)))
    return e.total(e.Entry(x, (*batch, *axes)) * kernel, *axes)


def _reaching(
    call: Call, axis: int, place: int, size: int, parameter: View
) -> tuple[e.Axis, e.Axis]:
    """The input positions whose copy of the kernel reaches an output, and the kernel positions.

    As one increases, the other decreases.
    """
    stride, dilation = each(call.bound["stride"], axis), each(call.bound["dilation"], axis)
    from_start = place + each(call.bound["padding"], axis)
    found = [
        (position, kernel)
        for kernel in reversed(range(parameter.shape[axis + 2]))
        for position, rest in [divmod(from_start - kernel * dilation, stride)]
        if rest == 0 and 0 <= position < size
    ]
    return _run([position for position, _ in found], axis), _run([own for _, own in found], axis)


def _run(positions: list[int], axis: int) -> e.Axis:
    """Equally spaced positions as a running axis."""
    step = positions[1] - positions[0] if len(positions) > 1 else 1
    return e.Axis(LETTERS[axis], len(positions), start=positions[0] if positions else 0, step=step)


@rule("convolution_backward")
def convolution_input_gradient(call: Call, index: Index) -> e.Expression:
    """Σ g · W over all outputs that an input cell contributed to."""
    g = call.view("grad_output")
    return _gathered(call, g, index) if call.flag("transposed") else _spread(call, g, index)


@rule("convolution_backward", output=1)
def convolution_weight_gradient(call: Call, index: Index) -> e.Expression:
    """Σ over batch and positions of g times the input cell that this weight multiplied."""
    first, second = call.view("grad_output"), call.view("input")
    if call.flag("transposed"):
        first, second = second, first
    channel, other, *kernel = index
    width = call.view("weight").shape[1]
    group = channel // (first.shape[1] // call.integer("groups"))
    batch = e.Axis("s", first.shape[0])
    along: list[e.Axis] = [batch]
    beneath: list[int | e.Axis] = [batch, group * width + other]
    for axis, place in enumerate(kernel):
        stride, dilation = each(call.bound["stride"], axis), each(call.bound["dilation"], axis)
        shift = place * dilation - each(call.bound["padding"], axis)
        start = max(0, -(shift // stride))
        end = min(first.shape[axis + 2], (second.shape[axis + 2] - 1 - shift) // stride + 1)
        size = max(0, end - start)
        along.append(e.Axis(LETTERS[axis], size, start=start))
        beneath.append(e.Axis(LETTERS[axis], size, start=start * stride + shift, step=stride))
    left = e.Entry(first, (batch, channel, *along[1:]))
    return e.total(left * e.Entry(second, tuple(beneath)), *along)


@rule("convolution_backward", output=2)
def convolution_bias_gradient(call: Call, index: Index) -> e.Expression:
    """Σ g over batch and positions."""
    g = call.view("grad_output")
    axes = [
        e.Axis("s", g.shape[0]),
        *(e.Axis(LETTERS[n], size) for n, size in enumerate(g.shape[2:])),
    ]
    return e.total(e.Entry(g, (axes[0], index[0], *axes[1:])), *axes)


# --- pooling: the maximum or the mean under a window ---

_Axes = tuple[e.Axis, ...]
_Window = Callable[[Call, Index, int, int], e.Axis]
"""The positions under the window of an output cell along one axis, given also by its place."""


def _pooled(window_on: _Window, call: Call, index: Index, space: int) -> tuple[e.Entry, _Axes]:
    """The cells under the windows of one output cell, and their axes."""
    x = call.view("self")
    lead = x.ndim - space
    axes = tuple(window_on(call, index, axis, lead + axis) for axis in range(space))
    return e.Entry(x, (*index[:lead], *axes)), axes


def _starts(call: Call, axis: int, place: int) -> tuple[int, int]:
    """Where the window of an output position begins, and its length."""
    length = each(call.bound["kernel_size"], axis)
    stride = each(call.bound["stride"] or length, axis)
    return place * stride - each(call.bound["padding"], axis), length


def _sliding(call: Call, index: Index, axis: int, at: int) -> e.Axis:
    start, length = _starts(call, axis, index[at])
    dilation = each(call.bound.get("dilation", 1), axis)
    return window(LETTERS[axis], start, length, call.view("self").shape[at], dilation)[0]


def _adaptive(call: Call, index: Index, axis: int, at: int) -> e.Axis:
    """For a given output size."""
    place, size, out = index[at], call.view("self").shape[at], call.made().shape[at]
    start, end = place * size // out, -(-(place + 1) * size // out)
    return e.Axis(LETTERS[axis], end - start, start=start)


def _at_random(call: Call, index: Index, axis: int, at: int) -> e.Axis:
    """With windows shifted at random."""
    space = len(index) - at + axis
    batch, channel = (0, *index[: at - axis])[-2:]
    place, size, out = index[at], call.view("self").shape[at], call.made().shape[at]
    length = each(call.bound["kernel_size"], axis)
    # In 2-d, the kernel uses the first number for the last axis.
    number = space - 1 - axis if space == 2 else axis
    share = float(call.view("random_samples").array[batch, channel, number])
    stride = np.float32(size - length) / np.float32(out - 1) if out > 1 else np.float32(0)
    start = size - length
    if place < out - 1:
        start = int(np.float32(place + share) * stride) - int(np.float32(share) * stride)
    return e.Axis(LETTERS[axis], length, start=start)


def _largest(window_on: _Window, space: int) -> Build:
    def build(call: Call, index: Index) -> e.Expression:
        return e.Reduce("max", *_pooled(window_on, call, index, space))

    return build


def _place_of_largest(window_on: _Window, space: int) -> Build:
    """The flat position of the maximum in the whole input."""

    def build(call: Call, index: Index) -> e.Expression:
        x = call.view("self")
        cells, axes = _pooled(window_on, call, index, space)
        found = e.Named("p", e.Reduce("argmax", cells, axes))
        parts: list[e.Expression] = []
        for number, axis in enumerate(axes):
            inner = math.prod(other.size for other in axes[number + 1 :])
            rest: e.Expression = e.Operation("//", found, e.Number(inner)) if inner > 1 else found
            digit = e.Operation("%", rest, e.Number(axis.size)) if number else rest
            row = math.prod(x.shape[x.ndim - space + number + 1 :])
            parts.append(row * (axis.start + axis.step * digit))
        return reduce(operator.add, parts)

    return build


def _mean(window_on: _Window, space: int) -> Build:
    def build(call: Call, index: Index) -> e.Expression:
        cells, axes = _pooled(window_on, call, index, space)
        return e.total(cells, *axes) / _divisor(call, index, axes)

    return build


def _divisor(call: Call, index: Index, axes: _Axes) -> int:
    """What a window's sum is divided by: its number of cells, with or without the padding."""
    given = call.bound.get("divisor_override")
    if given is not None:
        return int(given)
    if not call.flag("count_include_pad"):
        return math.prod(axis.size for axis in axes)
    x, count = call.view("self"), 1
    for axis in range(len(axes)):
        start, length = _starts(call, axis, index[x.ndim - len(axes) + axis])
        padded = x.shape[x.ndim - len(axes) + axis] + each(call.bound["padding"], axis)
        count *= min(start + length, padded) - start
    return count


for _space in (1, 2, 3):
    rule(f"max_pool{_space}d", f"max_pool{_space}d_with_indices")(_largest(_sliding, _space))
    rule(f"max_pool{_space}d_with_indices", output=1)(_place_of_largest(_sliding, _space))
    rule(f"adaptive_max_pool{_space}d")(_largest(_adaptive, _space))
    rule(f"adaptive_max_pool{_space}d", output=1)(_place_of_largest(_adaptive, _space))
    rule(f"avg_pool{_space}d")(_mean(_sliding, _space))
    rule(f"adaptive_avg_pool{_space}d")(_mean(_adaptive, _space))
for _space in (2, 3):
    rule(f"_adaptive_avg_pool{_space}d")(_mean(_adaptive, _space))
    rule(f"fractional_max_pool{_space}d")(_largest(_at_random, _space))
    rule(f"fractional_max_pool{_space}d", output=1)(_place_of_largest(_at_random, _space))
