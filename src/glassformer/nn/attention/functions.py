"""Attention as pure functions: tensors in, tensors out, no parameters.

Each function is written for reading: one operator per line, no name bound twice. `attend_fused`
is the same arithmetic in one call of PyTorch's kernel; tests hold the two equal.

Dims: B batch, H heads, G key/value heads, Q query positions, K key positions,
E width of queries and keys, W width of values.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F

from glassformer.errors import ConfigError, ShapeError
from glassformer.nn.attention.masks import visible_keys
from glassformer.nn.shapes import Bool, Float, Tensor

Implementation = Literal["fused", "written"]


class Attended(NamedTuple):
    """What attention returns, and the weights that made it."""

    context: Float[Tensor, "... Q W"]
    weights: Float[Tensor, "... Q K"]


def basic_self_attention_loop(x: Float[Tensor, "T D"]) -> Float[Tensor, "T D"]:
    """Self-attention without parameters, one output vector at a time.

    w'_ij = x_i · x_j, w_ij = exp(w'_ij) / Σ_j exp(w'_ij), y_i = Σ_j w_ij x_j.
    """
    outputs = []
    for query in x:
        scores = torch.stack([torch.dot(query, key) for key in x])
        weights = torch.softmax(scores, dim=0)
        outputs.append(sum((w * value for w, value in zip(weights, x, strict=True)), 0 * query))
    return torch.stack(outputs)


def basic_self_attention(x: Float[Tensor, "... T D"]) -> Float[Tensor, "... T D"]:
    """Self-attention without parameters: two matrix products and one softmax."""
    scores = x @ x.mT
    weights = torch.softmax(scores, dim=-1)
    outputs = weights @ x
    return outputs


def softmax_over_keys(scores: Float[Tensor, "... Q K"]) -> Float[Tensor, "... Q K"]:
    """Softmax along the keys; a row that is −∞ throughout gives zeros instead of NaN.

    The kernel is the one that PyTorch's own attention uses; its gradient is zero there, too.
    """
    weights: Tensor = torch.ops.aten._safe_softmax(scores, -1)
    return weights


def additive_scores(
    queries: Float[Tensor, "... Q E"],
    keys: Float[Tensor, "... K E"],
    vector: Float[Tensor, "... E"],
) -> Float[Tensor, "... Q K"]:
    """Additive ("concatenation") scores, v · tanh(q_i + k_j) (Bahdanau et al. 2015).

    With q = W_q x and k = W_k x this is v · tanh(W [x_i; x_j]), W being W_q and W_k side by side.
    """
    sums = queries.unsqueeze(-2) + keys.unsqueeze(-3)
    activated = torch.tanh(sums)
    scores = activated @ vector[..., None, :, None]
    return scores.squeeze(-1)


def weigh_values(
    scores: Float[Tensor, "... Q K"],
    values: Float[Tensor, "... K W"],
    *,
    divisor: float = 1.0,
    visible: Bool[Tensor, "..."] | None = None,
    dropout: float = 0.0,
) -> Attended:
    """From scores to outputs: scale, mask, softmax, weighted sum.

    The weights returned are those before dropout: they sum to one.
    """
    scaled = scores / divisor
    if visible is None:
        masked = scaled
    else:
        hidden = ~visible
        masked = scaled.masked_fill(hidden, -math.inf)
    weights = softmax_over_keys(masked)
    kept = F.dropout(weights, dropout) if dropout else weights
    context = kept @ values
    return Attended(context, weights)


def attend_written(
    queries: Float[Tensor, "... H Q E"],
    keys: Float[Tensor, "... G K E"],
    values: Float[Tensor, "... G K W"],
    *,
    divisor: float | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Attended:
    """softmax(Q Kᵀ / divisor) V, written out ("Attention is all you need", equation 1).

    `divisor` is √E unless given. Where keys and values have fewer heads (G) than the queries (H),
    each serves H / G of them. A query that may attend to nothing gets zeros.
    """
    _check_widths(queries, keys, values)
    shared_keys = share_heads(keys, queries.size(-3))
    shared_values = share_heads(values, queries.size(-3))
    scores = queries @ shared_keys.mT
    visible = visible_keys(scores.shape, mask, causal, scores.device)
    return weigh_values(
        scores,
        shared_values,
        divisor=_divisor(divisor, queries),
        visible=visible,
        dropout=dropout,
    )


def attend_additive(
    queries: Float[Tensor, "... H Q E"],
    keys: Float[Tensor, "... G K E"],
    values: Float[Tensor, "... G K W"],
    vector: Float[Tensor, "H E"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Attended:
    """The same with additive scores, which are not divided."""
    shared_keys = share_heads(keys, queries.size(-3))
    shared_values = share_heads(values, queries.size(-3))
    scores = additive_scores(queries, shared_keys, vector)
    visible = visible_keys(scores.shape, mask, causal, scores.device)
    return weigh_values(scores, shared_values, visible=visible, dropout=dropout)


def attend_fused(
    queries: Float[Tensor, "... H Q E"],
    keys: Float[Tensor, "... G K E"],
    values: Float[Tensor, "... G K W"],
    *,
    divisor: float | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "... H Q W"]:
    """The same in one call of PyTorch's fused kernel: fast, but the weights are never seen."""
    _check_widths(queries, keys, values)
    n_queries, n_keys = queries.size(-2), keys.size(-2)
    square = False
    if causal and mask is None and n_queries == n_keys:  # a branch: compiled, sizes are symbols
        square = True
    # The kernel's own causal rule is used only where its alignment cannot differ from ours.
    visible = (
        None
        if square
        else visible_keys((*queries.shape[:-1], n_keys), mask, causal, queries.device)
    )
    return F.scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=None if visible is None else torch.atleast_2d(visible),  # it wants two axes
        dropout_p=dropout,
        is_causal=square,
        scale=1.0 / _divisor(divisor, queries),
        enable_gqa=queries.size(-3) != keys.size(-3),
    )


def attention_weights(
    queries: Float[Tensor, "... H Q E"],
    keys: Float[Tensor, "... G K E"],
    *,
    divisor: float | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
) -> Float[Tensor, "... H Q K"]:
    """The weights alone, for those who only want to look at them."""
    attended = attend_written(queries, keys, keys, divisor=divisor, mask=mask, causal=causal)
    return attended.weights


def _divisor(given: float | None, queries: Tensor) -> float:
    if given is None:
        return math.sqrt(queries.size(-1))
    if not given > 0:
        raise ConfigError(f"divisor must be above 0, got {given}")
    return given


def share_heads(x: Float[Tensor, "... G K E"], n_heads: int) -> Float[Tensor, "... H K E"]:
    """Give each of n_heads query heads the key/value head that its group shares."""
    n_groups = x.size(-3)
    return x if n_groups == n_heads else x.repeat_interleave(n_heads // n_groups, dim=-3)


def _check_widths(queries: Tensor, keys: Tensor, values: Tensor) -> None:
    if min(queries.dim(), keys.dim(), values.dim()) < 3:
        raise ShapeError(
            "queries, keys and values must have shape (..., heads, positions, width), got "
            f"{tuple(queries.shape)}, {tuple(keys.shape)} and {tuple(values.shape)}"
        )
    if queries.size(-1) != keys.size(-1):
        raise ShapeError(
            "queries and keys must be equally wide, since they are multiplied, got "
            f"{queries.size(-1)} and {keys.size(-1)}"
        )
    if keys.size(-2) != values.size(-2):
        raise ShapeError(
            f"each key needs one value, got {keys.size(-2)} keys and {values.size(-2)} values"
        )
    if keys.size(-3) != values.size(-3):
        raise ShapeError(
            "keys and values must have equally many heads, got "
            f"{keys.size(-3)} and {values.size(-3)}"
        )
    if queries.size(-3) % keys.size(-3):
        raise ShapeError(
            "query heads must be a multiple of key heads, got "
            f"{queries.size(-3)} and {keys.size(-3)}"
        )
