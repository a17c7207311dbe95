"""Convolutions: a sum of products over a window of the input, and the other way round."""

from __future__ import annotations

from glassformer.trace.calls import Call
from glassformer.trace.expressions import Axis, Entry, Expression, Number, add, multiply, total
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.operands import LETTERS, cell
from glassformer.trace.rules.registry import rule
from glassformer.trace.rules.windows import each, window

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
    dilation, length = each(call.bound["dilation"], axis), parameter.shape[axis + 2]
    padding = call.bound["padding"]
    if padding == "same":
        before = dilation * (length - 1) // 2
    else:
        before = 0 if padding == "valid" else each(padding, axis)
    start = place * each(call.bound["stride"], axis) - before
    return window(LETTERS[axis], start, length, size, dilation)


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(call: Call, index: Index) -> Expression:
    """Σ of x · W, plus b, over channels and the inputs whose copy of the kernel reaches here."""
    x, parameter, bias = call.view("input"), call.view("weight"), call.maybe_view("bias")
    space = parameter.ndim - 2
    batch, (out, *places) = index[: x.ndim - space - 1], index[x.ndim - space - 1 :]
    group, into = divmod(out, parameter.shape[1])
    width = parameter.shape[0] // call.integer("groups")
    channel = Axis("c", width, start=group * width)
    pairs = [
        _reaching(call, axis, places[axis], x.shape[x.ndim - space + axis], parameter)
        for axis in range(space)
    ]
    axes = (channel, *(own for own, _ in pairs))
    if any(axis.size == 0 for axis in axes):
        result: Expression = Number(0)
    else:
        kernel = Entry(parameter, (channel, into, *(own for _, own in pairs)))
        result = total(multiply(Entry(x, (*batch, *axes)), kernel), *axes)
    return result if bias is None else add(result, cell(bias, out))


def _reaching(call: Call, axis: int, place: int, size: int, parameter: View) -> tuple[Axis, Axis]:
    """The input's positions whose copy of the kernel reaches an output, and the kernel's places.

    As the one goes up, the other goes down.
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


def _run(positions: list[int], axis: int) -> Axis:
    """Positions at equal distances, as a letter that runs over them."""
    step = positions[1] - positions[0] if len(positions) > 1 else 1
    return Axis(LETTERS[axis], len(positions), start=positions[0] if positions else 0, step=step)
