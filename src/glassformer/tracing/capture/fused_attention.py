"""Fused attention and dropout, written out.

`scaled_dot_product_attention` runs as one kernel that hides its scores. The trace runs the five
lines of the textbook in its place; the result differs from the kernel's by rounding alone. A mask
is True where a query may attend; a floating-point mask is added to the scores. `flex_attention`
gets the same five names; the functions that it is given run on all pairs of positions at once.
Dropout, which hides its random numbers, is written out as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

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


def flexible_attention(
    named: Naming,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: dict[str, Any],
    score_buffers: tuple[Tensor, ...] = (),
    mask_buffers: tuple[Tensor, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """scores, scaled, masked, weights, context; then the logarithm of each row's sum, its largest.

    `score_mod` changes each scaled score by its position, the mask's last part says which count.
    """
    # torch's own: indexing by a position that vmap maps over.
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    groups = query.size(1) // key.size(1)
    if groups > 1:
        with named("keys"):
            key = _repeat_heads(key, groups)
        with named("values"):
            value = _repeat_heads(value, groups)
    precise = torch.promote_types(query.dtype, torch.float32)
    with named("scores"):
        scores = query.to(precise) @ key.to(precise).transpose(-2, -1)
    with named("scaled"):
        scaled = scores * scale
    with named("positions"):
        places = [torch.arange(size) for size in scores.shape]
    with TransformGetItemToIndex():
        with named("score_mod"):
            changed = _on_all_pairs(score_mod, 1, len(score_buffers))(
                scaled, *places, *score_buffers
            )
        with named("mask_mod"):
            allowed = _on_all_pairs(block_mask[-1], 0, len(mask_buffers))(*places, *mask_buffers)
    with named("masked"):
        masked = torch.where(allowed, changed, -math.inf)
    with named("weights"):
        weights = torch.ops.aten._safe_softmax(masked, -1)
    with named("context"):
        context = weights.to(query.dtype) @ value.to(query.dtype)
    if not (kernel_options.get("OUTPUT_LOGSUMEXP") or kernel_options.get("OUTPUT_MAX")):
        return context, context.new_empty(0), context.new_empty(0)  # which nobody asked for
    with named("log_sum"):  # the kernel's are to the base 2
        log_sum = masked.logsumexp(-1) / math.log(2)
    with named("largest_score"):
        largest = masked.amax(-1) / math.log(2)
    return context, log_sum, largest


def _on_all_pairs(
    function: Callable[..., Tensor], scores: int, buffers: int
) -> Callable[..., Tensor]:
    """A function of one score and its batch, head, query and key, on all of them at once."""
    for axis in (3, 2, 1, 0):
        places = [0 if axis == place else None for place in range(4)]
        function = torch.vmap(function, (*[0] * scores, *places, *[None] * buffers))
    return function


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
