"""Attention: masks, the arithmetic as pure functions, and multi-head attention as a module.

The functions are written for reading: one operator per line, no name bound twice. `attend_fused` is
the same arithmetic in one call of PyTorch's kernel; tests check that the two agree.

Dims: B batch, H heads, G key/value heads, Q query positions, K key positions, D model width,
E width of queries and keys, W width of values.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.errors import ConfigError, MaskError, ShapeError, expect
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.config import AttentionConfig, config_of
from glassformer.nn.positions import Rotation, rotate
from glassformer.nn.tensors import Bool, Float, Int, Tensor

# --- masks ---
# Masks are boolean, and True means "may attend", everywhere. A mask broadcasts to (B, H, Q, K); one
# with three axes is refused, since the first could mean B or H. Masks combine with `&`.


def causal_mask(
    n_queries: int, n_keys: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "Q K"]:
    """Each query sees its own position and those before it.

    The queries are the last key positions, so with more keys than queries (a cache) the diagonal
    shifts to the right: query Q−1 always sees everything.
    """
    n_keys = n_queries if n_keys is None else n_keys
    everything = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return everything.tril(diagonal=n_keys - n_queries)


def token_mask(ids: Int[Tensor, "B K"], pad_id: int) -> Bool[Tensor, "B K"]:
    """True at tokens, False at padding."""
    return ids != pad_id


def padding_mask(is_token: Bool[Tensor, "B K"]) -> Bool[Tensor, "B 1 1 K"]:
    """Hide padding keys from every head and every query."""
    check_mask(is_token)
    return is_token[:, None, None, :]


def check_mask(mask: Tensor, scores_shape: tuple[int, ...] | None = None) -> None:
    """Refuse a mask that would be misread: not boolean, or a shape that does not broadcast."""
    if mask.dtype is not torch.bool:
        raise MaskError(
            "a mask must be boolean (True = may attend), got {dtype}; write "
            "`mask.bool()` for a 0/1 mask, `bias == 0` for an additive one",
            dtype=mask.dtype,
        )
    if scores_shape is None:
        return
    # Not torch.broadcast_shapes, which takes as long as a small attention at every decoding step.
    sizes = zip(reversed(mask.shape), reversed(scores_shape), strict=False)
    fits = mask.dim() <= len(scores_shape) and all(size in (1, wanted) for size, wanted in sizes)
    if fits and mask.dim() == 3 and len(scores_shape) == 4 and mask.size(0) > 1:
        raise ShapeError(
            "a mask with three axes, {shape}, is ambiguous: write mask[:, None] for "
            "one mask per sequence, mask[None] for one per head",
            shape=tuple(mask.shape),
        )
    if not fits:
        raise ShapeError(
            "a mask must broadcast to the scores {scores}, got {shape}",
            scores=tuple(scores_shape),
            shape=tuple(mask.shape),
        )


def visible_keys(
    scores_shape: tuple[int, ...], mask: Tensor | None, causal: bool, device: torch.device
) -> Tensor | None:
    """The mask and the causal rule as one mask; None if every query sees every key."""
    if mask is not None:
        check_mask(mask, scores_shape)
    n_queries, n_keys = scores_shape[-2:]
    if not causal or n_queries == 1:  # the last position sees every key
        return mask
    before = causal_mask(n_queries, n_keys, device)
    return before if mask is None else mask & before


# --- the arithmetic ---

Implementation = Literal["fused", "written"]


class Attended(NamedTuple):
    context: Float[Tensor, "... Q W"]
    """The weighted sums of values."""
    weights: Float[Tensor, "... Q K"]
    """Before dropout: each row sums to one."""


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
    """Softmax over the keys; a row of −∞ gives zeros instead of NaN, and zero gradients.

    This is the kernel that PyTorch's own attention uses.
    """
    weights: Tensor = torch.ops.aten._safe_softmax(scores, -1)
    return weights


def additive_scores(
    queries: Float[Tensor, "... Q E"],
    keys: Float[Tensor, "... K E"],
    vector: Float[Tensor, "... E"],
) -> Float[Tensor, "... Q K"]:
    """Additive ("concatenation") scores, v · tanh(q_i + k_j) (Bahdanau et al. 2015).

    With q = W_Q x and k = W_K x this is v · tanh(W [x_i; x_j]), where W = [W_Q W_K].
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
    visible: Bool[Tensor, ...] | None = None,
    dropout: float = 0.0,
) -> Attended:
    """From scores to outputs: scale, mask, softmax, weighted sum."""
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
    score_vector: Float[Tensor, "H E"] | None = None,
    mask: Bool[Tensor, ...] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Attended:
    """softmax(Q Kᵀ / divisor) V, written out ("Attention is all you need", equation 1).

    `divisor` is √E by default. With a `score_vector`, scores are additive and not divided. If keys
    and values have fewer heads (G) than queries (H), each serves H / G query heads. A query that
    may attend to nothing gets zeros.
    """
    _check_widths(queries, keys, values)
    shared_keys = share_heads(keys, queries.size(-3))
    shared_values = share_heads(values, queries.size(-3))
    if score_vector is None:
        scores = queries @ shared_keys.mT
        scale = _divisor(divisor, queries)
    else:
        scores = additive_scores(queries, shared_keys, score_vector)
        scale = 1.0
    visible = visible_keys(scores.shape, mask, causal, scores.device)
    return weigh_values(scores, shared_values, divisor=scale, visible=visible, dropout=dropout)


def attend_fused(
    queries: Float[Tensor, "... H Q E"],
    keys: Float[Tensor, "... G K E"],
    values: Float[Tensor, "... G K W"],
    *,
    divisor: float | None = None,
    mask: Bool[Tensor, ...] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "... H Q W"]:
    """The same in one call of PyTorch's fused kernel: fast, but without the weights."""
    _check_widths(queries, keys, values)
    n_queries, n_keys = queries.size(-2), keys.size(-2)
    square, visible = False, None
    # The kernel's own causal rule is used only where its alignment is the same as ours.
    if causal and mask is None and n_queries == n_keys:  # compiled, sizes are symbolic: a branch
        square = True
    else:
        visible = visible_keys((*queries.shape[:-1], n_keys), mask, causal, queries.device)
    return F.scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=None if visible is None else torch.atleast_2d(visible),  # it requires two axes
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
    mask: Bool[Tensor, ...] | None = None,
    causal: bool = False,
) -> Float[Tensor, "... H Q K"]:
    """The weights alone."""
    attended = attend_written(queries, keys, keys, divisor=divisor, mask=mask, causal=causal)
    return attended.weights


def _divisor(given: float | None, queries: Tensor) -> float:
    if given is None:
        return math.sqrt(queries.size(-1))
    if not given > 0:
        raise ConfigError(
            "{name} must be above {least:,}, got {value}", name="divisor", least=0, value=given
        )
    return given


def share_heads(x: Float[Tensor, "... G K E"], n_heads: int) -> Float[Tensor, "... H K E"]:
    """Repeat each key/value head for the query heads of its group."""
    n_groups = x.size(-3)
    return x if n_groups == n_heads else x.repeat_interleave(n_heads // n_groups, dim=-3)


def _check_widths(queries: Tensor, keys: Tensor, values: Tensor) -> None:
    if min(queries.dim(), keys.dim(), values.dim()) < 3:
        raise ShapeError(
            "queries, keys and values must have shape (..., heads, positions, width), "
            "got {queries}, {keys} and {values}",
            queries=tuple(queries.shape),
            keys=tuple(keys.shape),
            values=tuple(values.shape),
        )
    if queries.size(-1) != keys.size(-1):
        raise ShapeError(
            "queries and keys must have the same width, got {queries} and {keys}",
            queries=queries.size(-1),
            keys=keys.size(-1),
        )
    if keys.size(-2) != values.size(-2):
        raise ShapeError(
            "each key needs one value, got {keys} keys and {values} values",
            keys=keys.size(-2),
            values=values.size(-2),
        )
    if keys.size(-3) != values.size(-3):
        raise ShapeError(
            "keys and values must have the same number of heads, got {keys} and {values}",
            keys=keys.size(-3),
            values=values.size(-3),
        )
    if queries.size(-3) % keys.size(-3):
        raise ShapeError(
            "the number of query heads must be a multiple of the number of key heads, "
            "got {queries} and {keys}",
            queries=queries.size(-3),
            keys=keys.size(-3),
        )


# --- multi-head attention ---
# Four linear maps around the functions above. In the paper's symbols: `to_queries` is W_Q of all
# heads side by side, `to_keys` W_K, `to_values` W_V, `to_output` W_O.


def split_heads(x: Float[Tensor, "B T HE"], n_heads: int) -> Float[Tensor, "B H T E"]:
    """Split each vector into n_heads equal pieces and move the heads next to the batch."""
    pieces: Tensor = x.unflatten(-1, (n_heads, -1))
    return pieces.transpose(1, 2)


def join_heads(x: Float[Tensor, "B H T E"]) -> Float[Tensor, "B T HE"]:
    """The inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(-2)


class MultiHeadAttention(nn.Module):
    """Each query position gathers values, weighted by how well its query matches their keys.

        MultiHeadAttention(64, n_heads=4)
        MultiHeadAttention(64, AttentionConfig(n_heads=4))

    Self-attention with one input, cross-attention with two. A faster implementation is a subclass
    that replaces `project` or `attend` as a whole.
    """

    def __init__(self, d_model: int, config: AttentionConfig | None = None, **settings: Any):
        super().__init__()
        self.config = config = config_of(AttentionConfig, config, settings)
        self.d_model = d_model
        self.n_heads = config.n_heads
        self.n_kv_heads = config.n_kv_heads or config.n_heads
        self.d_head = config.head_width(d_model)
        self.d_value = config.d_value or self.d_head
        self.divisor = config.score_divisor(d_model)
        self.implementation: Implementation = "fused"

        self.to_queries = nn.Linear(d_model, self.n_heads * self.d_head, bias=config.bias)
        self.to_keys = nn.Linear(d_model, self.n_kv_heads * self.d_head, bias=config.bias)
        self.to_values = nn.Linear(d_model, self.n_kv_heads * self.d_value, bias=config.bias)
        self.to_output = (
            nn.Linear(self.n_heads * self.d_value, d_model, bias=config.output_bias)
            if config.output_map
            else None
        )
        self.score_vector = (
            nn.Parameter(torch.empty(self.n_heads, self.d_head).uniform_(-1, 1))
            if config.score == "additive"
            else None
        )

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        source: Float[Tensor, "B K D"] | None = None,
        *,
        mask: Bool[Tensor, ...] | None = None,
        causal: bool = False,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B Q D2"]:
        """Attend from x to itself, or to `source` if given (cross-attention).

        A cache holds the keys and values of earlier calls, which x continues; in cross-attention,
        the source is projected in the first call only.
        """
        _check_input("x", x, self.d_model)
        queries, keys, values = self.project(x, source, rotation, cache)
        context = self.attend(queries, keys, values, mask, causal)
        joined = join_heads(context)
        if self.to_output is None:
            return joined
        output: Tensor = self.to_output(joined)
        return output

    def project(
        self,
        x: Tensor,
        source: Tensor | None,
        rotation: Rotation | None,
        cache: KeyValueCache | None,
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        """Queries of x; keys and values of the source or of x, including the cached ones."""
        projected_queries = self.to_queries(x)
        unrotated = split_heads(projected_queries, self.n_heads)
        queries = unrotated if rotation is None else rotate(unrotated, rotation)
        if source is not None and cache is not None and cache.length:
            return queries, *cache.read()
        attended = x if source is None else source
        _check_input("source", attended, self.d_model)
        projected_keys = self.to_keys(attended)
        projected_values = self.to_values(attended)
        unrotated_keys = split_heads(projected_keys, self.n_kv_heads)
        keys = unrotated_keys if rotation is None else rotate(unrotated_keys, rotation)
        values = split_heads(projected_values, self.n_kv_heads)
        return (queries, keys, values) if cache is None else (queries, *cache.append(keys, values))

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
    ) -> Float[Tensor, "B H Q W"]:
        """The context of each query and head."""
        dropout = self.config.dropout if self.training else 0.0
        if self.implementation == "written" or self.score_vector is not None:
            return attend_written(
                queries,
                keys,
                values,
                divisor=self.divisor,
                score_vector=self.score_vector,
                mask=mask,
                causal=causal,
                dropout=dropout,
            ).context
        return attend_fused(
            queries, keys, values, divisor=self.divisor, mask=mask, causal=causal, dropout=dropout
        )

    def weights(
        self,
        x: Float[Tensor, "B Q D"],
        source: Float[Tensor, "B K D"] | None = None,
        *,
        mask: Bool[Tensor, ...] | None = None,
        causal: bool = False,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B H Q K"]:
        """The attention weights of a call with these arguments, before dropout.

        With a cache: of the call just made, whose keys the cache already has.
        """
        queries, keys, _ = self.project(x, x if source is None else source, rotation, cache)
        return attend_written(
            queries,
            keys,
            keys,
            divisor=self.divisor,
            score_vector=self.score_vector,
            mask=mask,
            causal=causal,
        ).weights

    def extra_repr(self) -> str:
        return f"n_heads={self.n_heads}, d_head={self.d_head}, divisor={self.divisor:.4g}"


def _check_input(name: str, x: Tensor, d_model: int) -> None:
    if x.dim() != 3 or x.size(-1) != d_model:
        raise ShapeError(
            "attention expects {name} of shape (batch, positions, {d_model}), got {shape}",
            name=name,
            d_model=d_model,
            shape=tuple(x.shape),
        )


def set_attention(module: nn.Module, implementation: Implementation) -> nn.Module:
    """Switch every attention in a module to "written" or "fused"; returns the module."""
    if implementation not in ("written", "fused"):
        raise ConfigError(
            "attention must be 'written' or 'fused', got {implementation!r}",
            implementation=implementation,
        )
    expect(module, nn.Module, "a module")
    for part in module.modules():
        if isinstance(part, MultiHeadAttention):
            part.implementation = implementation
    return module


@contextmanager
def record_attention(module: nn.Module) -> Iterator[dict[str, list[Float[Tensor, "B H Q K"]]]]:
    """Record the weights of every attention in a module while it runs.

    Yields a dict from the name of each attention to one (B, H, Q, K) tensor per call, before
    dropout. A forward hook computes them separately, so recording changes no output.
    """
    recorded: dict[str, list[Tensor]] = defaultdict(list)

    def hook_for(name: str) -> Callable[..., None]:
        @torch.no_grad()
        def record(attention: MultiHeadAttention, args: Any, kwargs: Any, _: Tensor) -> None:
            recorded[name].append(attention.weights(*args, **kwargs))

        return record

    with ExitStack() as hooks:
        for name, part in module.named_modules():
            if isinstance(part, MultiHeadAttention):
                hooks.enter_context(part.register_forward_hook(hook_for(name), with_kwargs=True))
        yield recorded
