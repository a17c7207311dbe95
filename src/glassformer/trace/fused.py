"""Fused attention and dropout, written out.

`scaled_dot_product_attention` runs as one kernel that hides its scores. The trace runs the five
lines of the textbook in its place; the result differs from the kernel's by rounding alone. A mask
is True where a query may attend; a floating-point mask is added to the scores. Dropout, which hides
its random numbers, is written out as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor

__all__ = ["attention", "dropout"]

Naming = Callable[[str], AbstractContextManager[None]]


def attention(
    named: Naming,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """scores, scaled, masked, weights, context; each step under its name."""
    if enable_gqa:
        groups = query.size(-3) // key.size(-3)
        with named("keys"):
            key = _repeat_heads(key, groups)
        with named("values"):
            value = _repeat_heads(value, query.size(-3) // value.size(-3))
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    with named("scores"):
        scores = query @ key.transpose(-2, -1)
    with named("scaled"):
        scaled = scores * factor
    if is_causal:
        attn_mask = _causal_mask(named, query.size(-2), key.size(-2))
    if attn_mask is None:
        with named("weights"):
            weights = scaled.softmax(-1)
    else:
        with named("masked"):
            if attn_mask.dtype == torch.bool:
                masked = torch.where(attn_mask, scaled, -math.inf)
            else:
                masked = scaled + attn_mask
        with named("weights"):
            weights = torch.ops.aten._safe_softmax(masked, -1)
    if dropout_p > 0:
        with named("dropped"):
            weights = dropout(weights, dropout_p)
    with named("context"):
        return weights @ value


def _repeat_heads(heads: Tensor, groups: int) -> Tensor:
    """Each head `groups` times in a row: the query heads of a group share it."""
    *batch, count, length, width = heads.shape
    spread = heads.unsqueeze(-3).expand(*batch, count, groups, length, width)
    return spread.reshape(*batch, count * groups, length, width)


def _causal_mask(named: Naming, queries: int, keys: int) -> Tensor:
    """Query i may attend to keys 0…i, counted from the first of both, as the kernel does."""
    everywhere = torch.ones(queries, keys, dtype=torch.bool)
    with named("causal_mask"):
        return everywhere.tril()


def dropout(x: Tensor, p: float, train: bool = True, *, in_place: bool = False) -> Tensor:
    """Dropout in its parts: random numbers 0 and 1, which an edit leaves alone, and a product.

    Like torch's, a dropout of everything (p = 1) draws no random numbers: later ones stay the same.
    """
    assert train and p > 0, "a dropout that drops nothing is not written out"
    if p < 1:
        kept = torch.empty_like(x).bernoulli_(1 - p)
        factor = kept / (1 - p)
    else:
        factor = torch.zeros((), dtype=x.dtype)
    return x.mul_(factor) if in_place else x * factor
