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
    return _with_bias(call, index, _gathered(call, call.view("input"), index))


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(call: Call, index: Index) -> Expression:
    """Σ of x · W, plus b, over channels and the inputs whose copy of the kernel reaches here."""
    return _with_bias(call, index, _spread(call, call.view("input"), index))


@rule("convolution")
def either_convolution(call: Call, index: Index) -> Expression:
    """A convolution, or a transposed one."""
    make = transposed_convolution if call.flag("transposed") else convolution
    return make(call, index)


def _with_bias(call: Call, index: Index, result: Expression) -> Expression:
    bias, space = call.maybe_view("bias"), call.view("weight").ndim - 2
    return result if bias is None else add(result, cell(bias, index[len(index) - space - 1]))


def _gathered(call: Call, x: View, index: Index) -> Expression:
    """Σ over channels and window of x · W."""
    parameter = call.view("weight")
    space = parameter.ndim - 2
    batch, (out, *places) = index[: x.ndim - space - 1], index[x.ndim - space - 1 :]
    width = parameter.shape[1]
    group = out // (parameter.shape[0] // call.integer("groups"))
    into = [Axis("c", width, start=group * width)]
    across = [Axis("c", width)]
    for axis in range(space):
        under = _window(call, axis, places[axis], x.shape[x.ndim - space + axis], parameter)
        into.append(under[0])
        across.append(under[1])
    if any(axis.size == 0 for axis in across):
        return Number(0)
    return total(multiply(Entry(x, (*batch, *into)), Entry(parameter, (out, *across))), *across)


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


def _spread(call: Call, x: View, index: Index) -> Expression:
    """Σ of x · W over channels and the positions of x whose copy of the kernel reaches here."""
    parameter = call.view("weight")
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
        return Number(0)
    kernel = Entry(parameter, (channel, into, *(own for _, own in pairs)))
    return total(multiply(Entry(x, (*batch, *axes)), kernel), *axes)


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


@rule("convolution_backward")
def convolution_input_gradient(call: Call, index: Index) -> Expression:
    """g · W over all places that an input cell had a part in."""
    g = call.view("grad_output")
    return _gathered(call, g, index) if call.flag("transposed") else _spread(call, g, index)


@rule("convolution_backward", output=1)
def convolution_weight_gradient(call: Call, index: Index) -> Expression:
    """Σ over batch and positions of g times the input cell that this weight multiplied there."""
    first, second = call.view("grad_output"), call.view("input")
    if call.flag("transposed"):
        first, second = second, first
    channel, other, *kernel = index
    width = call.view("weight").shape[1]
    group = channel // (first.shape[1] // call.integer("groups"))
    batch = Axis("b", first.shape[0])
    along: list[Axis] = [batch]
    beneath: list[int | Axis] = [batch, group * width + other]
    for axis, place in enumerate(kernel):
        stride, dilation = each(call.bound["stride"], axis), each(call.bound["dilation"], axis)
        shift = place * dilation - each(call.bound["padding"], axis)
        start = max(0, -(shift // stride))
        end = min(first.shape[axis + 2], (second.shape[axis + 2] - 1 - shift) // stride + 1)
        size = max(0, end - start)
        along.append(Axis(LETTERS[axis], size, start=start))
        beneath.append(Axis(LETTERS[axis], size, start=start * stride + shift, step=stride))
    left = Entry(first, (batch, channel, *along[1:]))
    return total(multiply(left, Entry(second, tuple(beneath))), *along)


@rule("convolution_backward", output=2)
def convolution_bias_gradient(call: Call, index: Index) -> Expression:
    """Σ g over batch and positions."""
    g = call.view("grad_output")
    axes = [Axis("b", g.shape[0]), *(Axis(LETTERS[n], size) for n, size in enumerate(g.shape[2:]))]
    return total(Entry(g, (axes[0], index[0], *axes[1:])), *axes)
