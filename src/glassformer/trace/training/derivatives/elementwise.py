"""Derivatives of operators that work cell by cell: arithmetic, activations, choices."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.trace.training.derivatives.registry import Forward, Gradients, derivative, fold

__all__: list[str] = []

aten = torch.ops.aten


@derivative("add")
def add(forward: Forward, g: Tensor) -> Gradients:
    """A sum hands its gradient on, unchanged, to both sides."""
    if "self" in forward.wanted:
        yield "self", fold(g, forward.shape("self"))
    if "other" in forward.wanted:
        alpha = forward.call.bound.get("alpha", 1)
        yield "other", fold(g if alpha == 1 else g * alpha, forward.shape("other"))


@derivative("sub")
def subtract(forward: Forward, g: Tensor) -> Gradients:
    """g to the left, −g to the right."""
    if "self" in forward.wanted:
        yield "self", fold(g, forward.shape("self"))
    if "other" in forward.wanted:
        alpha = forward.call.bound.get("alpha", 1)
        yield "other", fold(-g if alpha == 1 else g * -alpha, forward.shape("other"))


@derivative("neg")
def negate(_forward: Forward, g: Tensor) -> Gradients:
    """−g."""
    yield "self", -g


@derivative("mul")
def multiply(forward: Forward, g: Tensor) -> Gradients:
    """g times the other factor."""
    if "self" in forward.wanted:
        yield "self", fold(g * forward.operand("other"), forward.shape("self"))
    if "other" in forward.wanted:
        yield "other", fold(g * forward["self"], forward.shape("other"))


@derivative("div.Tensor", "div.Scalar")
def divide(forward: Forward, g: Tensor) -> Gradients:
    """g / b to the dividend, −g · (a / b) / b to the divisor."""
    b = forward.operand("other")
    if "self" in forward.wanted:
        yield "self", fold(g / b, forward.shape("self"))
    if "other" in forward.wanted:
        yield "other", fold(-g * (forward["self"] / b / b), forward.shape("other"))


@derivative("relu")
def relu(forward: Forward, g: Tensor) -> Gradients:
    """g where the output is positive."""
    yield "self", aten.threshold_backward(g, forward.output, 0)


@derivative("gelu")
def gelu(forward: Forward, g: Tensor) -> Gradients:
    """g times the slope of the curve at x."""
    how = str(forward.call.bound["approximate"])
    yield "self", aten.gelu_backward(g, forward["self"], approximate=how)


@derivative("silu")
def silu(forward: Forward, g: Tensor) -> Gradients:
    """g times the slope of the curve at x."""
    yield "self", aten.silu_backward(g, forward["self"])


@derivative("tanh")
def tanh(forward: Forward, g: Tensor) -> Gradients:
    """g · (1 − y²)."""
    yield "self", aten.tanh_backward(g, forward.output)


@derivative("sigmoid")
def sigmoid(forward: Forward, g: Tensor) -> Gradients:
    """g · y · (1 − y)."""
    yield "self", aten.sigmoid_backward(g, forward.output)


@derivative("masked_fill.Scalar")
def masked_fill(forward: Forward, g: Tensor) -> Gradients:
    """What was filled in does not depend on the cell: 0 there, g elsewhere."""
    yield "self", fold(g.masked_fill(forward["mask"], 0), forward.shape("self"))


@derivative("where.self", "where.ScalarOther", "where.ScalarSelf")
def where(forward: Forward, g: Tensor) -> Gradients:
    """g to the side that was chosen, 0 to the other."""
    condition = forward["condition"]
    if "self" in forward.wanted:
        yield "self", fold(torch.where(condition, g, 0.0), forward.shape("self"))
    if "other" in forward.wanted:
        yield "other", fold(torch.where(condition, 0.0, g), forward.shape("other"))
