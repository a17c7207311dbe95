"""Gradients of windows: what an operator read may be a view of what another one made.

Heads are cut out of a projection by views, a mask is spread by `expand`, a row is selected. The
gradient arrives in the shape of the window and is needed in that of the whole tensor.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from glassformer.trace.memory import View

__all__ = ["cut", "same", "spread", "without"]


def same(one: View, other: View) -> bool:
    """Whether two windows show the same cells in the same places."""
    return (one.shape, one.offset) == (other.shape, other.offset) and all(
        a == b or size == 1
        for a, b, size in zip(one.strides, other.strides, one.shape, strict=True)
    )


def spread(gradient: Tensor, window: View, whole: View) -> Tensor:
    """The gradient of a window as a gradient of the whole tensor; 0 where it does not look."""
    if same(window, whole):
        return gradient
    repeated = [
        axis
        for axis, (size, stride) in enumerate(zip(window.shape, window.strides, strict=True))
        if stride == 0 and size > 1
    ]
    if repeated:
        gradient = gradient.sum(repeated, keepdim=True)
    sizes = [1 if axis in repeated else size for axis, size in enumerate(window.shape)]
    order = sorted(range(window.ndim), key=lambda axis: -window.strides[axis])
    place = window.offset - whole.offset
    if not _are_distinct(window, sizes, order):
        sums = gradient.new_zeros(_extent(whole))
        sums = sums.index_add(0, _addresses(window, sizes, place), gradient.reshape(-1))
        return sums.as_strided(whole.shape, whole.strides, 0)
    if math.prod(sizes) == whole.numel and _is_dense(whole):
        return _rearranged(gradient.permute(order), whole)
    canvas = gradient.new_zeros(_extent(whole))
    canvas.as_strided(sizes, window.strides, place).copy_(gradient)
    return canvas.as_strided(whole.shape, whole.strides, 0)


def cut(gradient: Tensor, window: View, whole: View) -> Tensor:
    """The part of a whole tensor's gradient that a window shows."""
    if same(window, whole):
        return gradient
    canvas = gradient.new_zeros(_extent(whole))
    canvas.as_strided(whole.shape, whole.strides, 0).copy_(gradient)
    return canvas.as_strided(window.shape, window.strides, window.offset - whole.offset)


def without(gradient: Tensor, window: View, whole: View) -> Tensor:
    """A whole tensor's gradient with 0 in the part that a window shows."""
    canvas = gradient.new_zeros(_extent(whole))
    canvas.as_strided(whole.shape, whole.strides, 0).copy_(gradient)
    canvas.as_strided(window.shape, window.strides, window.offset - whole.offset).zero_()
    return canvas.as_strided(whole.shape, whole.strides, 0)


def _rearranged(in_memory_order: Tensor, whole: View) -> Tensor:
    """From the order in which the cells lie in memory to the axes of the whole tensor."""
    order = sorted(range(whole.ndim), key=lambda axis: -whole.strides[axis])
    back = sorted(range(whole.ndim), key=lambda place: order[place])
    rearranged = in_memory_order.reshape([whole.shape[axis] for axis in order]).permute(back)
    # One copy here, so that a product over all positions finds them in a row, as in autograd.
    return rearranged.contiguous()


def _extent(view: View) -> int:
    """The places in memory from a window's first cell to its last."""
    return 1 + sum((size - 1) * s for size, s in zip(view.shape, view.strides, strict=True))


def _is_dense(view: View) -> bool:
    return _extent(view) == view.numel


def _are_distinct(window: View, sizes: list[int], order: list[int]) -> bool:
    """Whether a window shows each cell once: `unfold` and `as_strided` may show one in several."""
    reach = 1
    for axis in reversed(order):
        if sizes[axis] > 1:
            if window.strides[axis] < reach:
                return False
            reach = window.strides[axis] * sizes[axis]
    return True


def _addresses(window: View, sizes: list[int], start: int) -> Tensor:
    """The place in memory of each cell of a window; no step of the trace."""
    with _disable_current_modes():
        addresses = torch.tensor(start)
        for axis, size in enumerate(sizes):
            addresses = addresses.unsqueeze(-1) + torch.arange(size) * window.strides[axis]
        return addresses.reshape(-1)
