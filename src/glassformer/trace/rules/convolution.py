"""Convolutions: a sum of products over a window of the input."""

from __future__ import annotations

from glassformer.trace.calls import Call
from glassformer.trace.expressions import Axis, Entry, Expression, Number, add, multiply, total
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.operands import LETTERS, cell
from glassformer.trace.rules.registry import rule

__all__: list[str] = []


@rule("conv1d", "conv2d", "conv3d")
def convolution(call: Call, index: Index) -> Expression:
    """Σ over channels and window of x · W, plus b; the window stops at the padding."""
    x, parameter, bias = call.view("input"), call.view("weight"), call.maybe_view("bias")
    space = parameter.ndim - 2
    batch, (out, *places) = index[: x.ndim - space - 1], index[x.ndim - space - 1 :]
    width = parameter.shape[1]
    group = out // (parameter.shape[0] // call.integer("groups"))
    into = [Axis("c", width, start=group * width)]
    across = [Axis("c", width)]
    for axis in range(space):
        window = _window(call, axis, places[axis], x.shape[x.ndim - space + axis], parameter)
        into.append(window[0])
        across.append(window[1])
    if any(axis.size == 0 for axis in across):
        result: Expression = Number(0)
    else:
        product = multiply(Entry(x, (*batch, *into)), Entry(parameter, (out, *across)))
        result = total(product, *across)
    return result if bias is None else add(result, cell(bias, out))


def _window(call: Call, axis: int, place: int, size: int, parameter: View) -> tuple[Axis, Axis]:
    """The input's positions under the kernel along one axis, and the kernel's own."""
    stride, dilation = _each(call.bound["stride"], axis), _each(call.bound["dilation"], axis)
    length = parameter.shape[axis + 2]
    padding = call.bound["padding"]
    if padding == "same":
        before = dilation * (length - 1) // 2
    else:
        before = 0 if padding == "valid" else _each(padding, axis)
    start = place * stride - before
    inside = [k for k in range(length) if 0 <= start + k * dilation < size]
    first = inside[0] if inside else 0
    letter = LETTERS[axis]
    return (
        Axis(letter, len(inside), start=start + first * dilation, step=dilation),
        Axis(letter, len(inside), start=first),
    )


def _each(value: list[int] | int, axis: int) -> int:
    """A setting for one axis; a single number serves all."""
    if isinstance(value, int):
        return value
    return value[axis] if len(value) > 1 else value[0]
