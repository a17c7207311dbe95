"""Derivatives of operators in which a whole row takes part: softmax, norms, sums, look-ups."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.trace.training.derivatives.registry import Forward, Gradients, derivative

__all__: list[str] = []

aten = torch.ops.aten


@derivative("softmax", "_softmax", "_safe_softmax")
def softmax(forward: Forward, g: Tensor) -> Gradients:
    """yᵢ · (gᵢ − Σⱼ gⱼ yⱼ): what raises one weight lowers the others."""
    y = forward.output
    yield "self", aten._softmax_backward_data(g, y, forward.call.integer("dim"), y.dtype)


@derivative("log_softmax", "_log_softmax")
def log_softmax(forward: Forward, g: Tensor) -> Gradients:
    """gᵢ − exp(yᵢ) · Σⱼ gⱼ."""
    y = forward.output
    yield "self", aten._log_softmax_backward_data(g, y, forward.call.integer("dim"), y.dtype)


@derivative("layer_norm")
def layer_norm(forward: Forward, g: Tensor) -> Gradients:
    """Through the mean and the deviation of the row as well as through the cell itself."""
    shape = list(forward.call.bound["normalized_shape"])
    x, gain, bias = forward["input"], forward.operand("weight"), forward.operand("bias")
    # The mean and the deviation, which the forward operator kept to itself.
    again, mean, scale = aten.native_layer_norm(x, shape, gain, bias, forward.number("eps"))
    forward.note("again", again)
    forward.note("mean", mean)
    forward.note("reciprocal_deviation", scale)
    wanted = [name in forward.wanted for name in ("input", "weight", "bias")]
    made = aten.native_layer_norm_backward(g, x, shape, mean, scale, gain, bias, wanted)
    for name, is_wanted, gradient in zip(("input", "weight", "bias"), wanted, made, strict=True):
        if is_wanted:
            yield name, gradient


@derivative("nll_loss_nd")
def nll_loss(forward: Forward, g: Tensor) -> Gradients:
    """−g / n to the log-probability of each target that counts, 0 to all others."""
    x, target, weight = forward["self"], forward["target"], forward.operand("weight")
    settings = (forward.number("reduction"), forward.number("ignore_index"))
    plain = x.ndim < 3
    run = aten.nll_loss_forward if plain else aten.nll_loss2d_forward
    back = aten.nll_loss_backward if plain else aten.nll_loss2d_backward
    if x.ndim > 2 and x.ndim != 4:  # the kernel wants two axes of positions
        x, target = x.reshape(*x.shape[:2], 1, -1), target.reshape(len(target), 1, -1)
        g = g.reshape(target.shape) if g.ndim else g
    again, count = run(x, target, weight, *settings)
    forward.note("again", again)
    forward.note("count", count)
    yield "self", back(g, x, target, weight, *settings, count).reshape(forward.shape("self"))


@derivative("embedding")
def embedding(forward: Forward, g: Tensor) -> Gradients:
    """Each row of the table gathers the gradients of the positions that looked it up."""
    rows = forward.shape("weight")[0]
    padding, by_count = forward.number("padding_idx"), forward.call.flag("scale_grad_by_freq")
    ids = forward["indices"]
    yield "weight", aten.embedding_dense_backward(g, ids, rows, padding, by_count)


@derivative("sum")
def total(forward: Forward, g: Tensor) -> Gradients:
    """Each summand gets g."""
    yield "self", _spread(forward, g)


@derivative("mean")
def mean(forward: Forward, g: Tensor) -> Gradients:
    """Each summand gets g / n."""
    count = forward.call.view("self").numel // max(1, g.numel())
    yield "self", _spread(forward, g / count)


def _spread(forward: Forward, g: Tensor) -> Tensor:
    """The gradient of a reduction at each of the cells that it gathered."""
    shape = forward.shape("self")
    if not forward.call.flag("keepdim"):
        for axis in forward.call.axes("dim", len(shape)):
            g = g.unsqueeze(axis)
    return g.expand(shape)


@derivative("cat", "concat")
def cat(forward: Forward, g: Tensor) -> Gradients:
    """Each piece gets its part of g."""
    axis, start = forward.call.axis("dim", g.ndim), 0
    for place, piece in enumerate(forward.call.views("tensors")):
        if piece.shape == (0,):
            continue
        if f"tensors.{place}" in forward.wanted:
            yield f"tensors.{place}", g.narrow(axis, start, piece.shape[axis])
        start += piece.shape[axis]


@derivative("stack")
def stack(forward: Forward, g: Tensor) -> Gradients:
    """Each piece gets its part of g."""
    axis = forward.call.axis("dim", g.ndim)
    for place in range(g.size(axis)):
        if f"tensors.{place}" in forward.wanted:
            yield f"tensors.{place}", g.select(axis, place)


@derivative(
    "clone", "contiguous", "to", "_to_copy", "reshape", "flatten", "unflatten", "_unsafe_view",
    "_reshape_copy", "view_copy",
)  # fmt: skip
def copy(forward: Forward, g: Tensor) -> Gradients:
    """A copy, in whatever shape, hands its gradient back."""
    name = forward.call.operator.parameters[0]
    yield name, g.reshape(forward.shape(name))
