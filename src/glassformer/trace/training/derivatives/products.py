"""Derivatives of linear layers and matrix products.

Every weight and every input of a product gets the sum, over all products it took part in, of the
other factor times the gradient of the result.
"""

from __future__ import annotations

import math

from torch import Tensor

from glassformer.trace.training.derivatives.registry import Forward, Gradients, derivative, fold

__all__: list[str] = []


@derivative("linear")
def linear(forward: Forward, g: Tensor) -> Gradients:
    """∂L/∂x = g · W;  ∂L/∂W[o, k] = Σ g[…, o] · x[…, k];  ∂L/∂b[o] = Σ g[…, o]."""
    if "input" in forward.wanted:
        yield "input", g @ forward["weight"]
    if "weight" in forward.wanted:
        yield "weight", _rows(g).mT @ _rows(forward["input"])
    if "bias" in forward.wanted:
        yield "bias", _rows(g).sum(0) if g.ndim > 1 else g


def _rows(x: Tensor) -> Tensor:
    """All positions below each other."""
    return x.reshape(math.prod(x.shape[:-1]), x.size(-1))


@derivative("matmul", "mm", "bmm", "mv", "dot")
def matmul(forward: Forward, g: Tensor) -> Gradients:
    """∂L/∂A = g · Bᵀ;  ∂L/∂B = Aᵀ · g."""
    first, second = forward.call.operator.parameters[:2]
    a, b = forward[first], forward[second]
    g = g if b.ndim > 1 else g.unsqueeze(-1)
    g = g if a.ndim > 1 else g.unsqueeze(-2)
    left = a if a.ndim > 1 else a.unsqueeze(0)
    right = b if b.ndim > 1 else b.unsqueeze(1)
    if first in forward.wanted:
        yield first, fold(g @ right.mT, left.shape).reshape(a.shape)
    if second in forward.wanted:
        if right.ndim == 2:
            yield second, (_rows(left).mT @ _rows(g)).reshape(b.shape)
        else:
            yield second, fold(left.mT @ g, right.shape).reshape(b.shape)


@derivative("addmm")
def addmm(forward: Forward, g: Tensor) -> Gradients:
    """As a product, and the added matrix: β · g."""
    alpha, beta = forward.number("alpha"), forward.number("beta")
    scaled = g if alpha == 1 else g * alpha
    if "mat1" in forward.wanted:
        yield "mat1", scaled @ forward["mat2"].mT
    if "mat2" in forward.wanted:
        yield "mat2", forward["mat1"].mT @ scaled
    if "self" in forward.wanted:
        yield "self", fold(g if beta == 1 else g * beta, forward.shape("self"))
