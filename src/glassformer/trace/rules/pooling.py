"""Pooling: the largest number under a window, or the mean of those under it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from glassformer.trace.calls import Call
from glassformer.trace.expressions import (
    Axis,
    Entry,
    Expression,
    Named,
    Number,
    Operation,
    Reduce,
    add,
    divide,
    multiply,
    total,
)
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.operands import LETTERS
from glassformer.trace.rules.registry import Build, rule
from glassformer.trace.rules.windows import each, window

__all__: list[str] = []

_Windows = Callable[[Call, Index, int], list[Axis]]


def _pooled(x: View, index: Index, axes: list[Axis]) -> Entry:
    """The cells under the windows of one output cell."""
    return Entry(x, (*index[: x.ndim - len(axes)], *axes))


def _starts(call: Call, axis: int, place: int) -> tuple[int, int]:
    """Where the window of an output position begins, and its length."""
    length = each(call.bound["kernel_size"], axis)
    stride = each(call.bound["stride"] or length, axis)
    return place * stride - each(call.bound["padding"], axis), length


def _sliding(call: Call, index: Index, space: int) -> list[Axis]:
    """The input's positions under the windows of one output cell."""
    x = call.view("self")
    axes = []
    for axis in range(space):
        start, length = _starts(call, axis, index[x.ndim - space + axis])
        dilation = each(call.bound.get("dilation", 1), axis)
        size = x.shape[x.ndim - space + axis]
        axes.append(window(LETTERS[axis], start, length, size, dilation)[0])
    return axes


def _adaptive(call: Call, index: Index, space: int) -> list[Axis]:
    """The input's positions for one output cell, where the output's size was asked for."""
    x, made = call.view("self"), call.outputs[0]
    assert made is not None
    axes = []
    for axis in range(space):
        place, size, out = (part[x.ndim - space + axis] for part in (index, x.shape, made.shape))
        start, end = place * size // out, -(-(place + 1) * size // out)
        axes.append(Axis(LETTERS[axis], end - start, start=start))
    return axes


def _at_random(call: Call, index: Index, space: int) -> list[Axis]:
    """The input's positions for one output cell, where random numbers shift the windows."""
    x, made, shares = call.view("self"), call.outputs[0], call.view("random_samples")
    assert made is not None
    lead = index[: x.ndim - space]
    batch, channel = (0, *lead)[-2:]
    axes = []
    for axis in range(space):
        size, out = (part[x.ndim - space + axis] for part in (x.shape, made.shape))
        length, place = each(call.bound["kernel_size"], axis), index[x.ndim - space + axis]
        # The last axis takes the first number, as the kernel does.
        share = float(shares.array[batch, channel, space - 1 - axis if space == 2 else axis])
        stride = np.float32(size - length) / np.float32(out - 1) if out > 1 else np.float32(0)
        start = size - length
        if place < out - 1:
            start = int(np.float32(place + share) * stride) - int(np.float32(share) * stride)
        axes.append(Axis(LETTERS[axis], length, start=start))
    return axes


def _largest(windows: _Windows, space: int) -> Build:
    def build(call: Call, index: Index) -> Expression:
        axes = windows(call, index, space)
        return Reduce("max", _pooled(call.view("self"), index, axes), tuple(axes))

    return build


def _place_of_largest(windows: _Windows, space: int) -> Build:
    """Where the largest stands, counted row by row over the whole input."""

    def build(call: Call, index: Index) -> Expression:
        x, axes = call.view("self"), windows(call, index, space)
        found = Named("p", Reduce("argmax", _pooled(x, index, axes), tuple(axes)))
        place: Expression | None = None
        for number, axis in enumerate(axes):
            inner = math.prod(other.size for other in axes[number + 1 :])
            rest: Expression = Operation("//", found, Number(inner)) if inner > 1 else found
            digit = Operation("%", rest, Number(axis.size)) if number else rest
            here = add(axis.start, multiply(axis.step, digit))
            row = math.prod(x.shape[x.ndim - space + number + 1 :])
            part = multiply(row, here)
            place = part if place is None else add(place, part)
        assert place is not None
        return place

    return build


def _mean(space: int) -> Build:
    def build(call: Call, index: Index) -> Expression:
        axes = _sliding(call, index, space)
        cells = _pooled(call.view("self"), index, axes)
        return divide(total(cells, *axes), _divisor(call, index, axes))

    return build


def _divisor(call: Call, index: Index, axes: list[Axis]) -> int:
    """By how much a window's sum is divided: its cells, those in the padding counted or not."""
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


def _adaptive_mean(space: int) -> Build:
    def build(call: Call, index: Index) -> Expression:
        axes = _adaptive(call, index, space)
        cells = _pooled(call.view("self"), index, axes)
        return divide(total(cells, *axes), math.prod(axis.size for axis in axes))

    return build


for _space in (1, 2, 3):
    rule(f"max_pool{_space}d", f"max_pool{_space}d_with_indices")(_largest(_sliding, _space))
    rule(f"max_pool{_space}d_with_indices", output=1)(_place_of_largest(_sliding, _space))
    rule(f"adaptive_max_pool{_space}d")(_largest(_adaptive, _space))
    rule(f"adaptive_max_pool{_space}d", output=1)(_place_of_largest(_adaptive, _space))
    rule(f"avg_pool{_space}d")(_mean(_space))
    rule(f"adaptive_avg_pool{_space}d")(_adaptive_mean(_space))
for _space in (2, 3):
    rule(f"_adaptive_avg_pool{_space}d")(_adaptive_mean(_space))
    rule(f"fractional_max_pool{_space}d")(_largest(_at_random, _space))
    rule(f"fractional_max_pool{_space}d", output=1)(_place_of_largest(_at_random, _space))
