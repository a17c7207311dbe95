"""Multi-head attention as a module: four linear maps around the functions beside it.

One class serves self-attention (one sequence) and cross-attention (two). It knows nothing of
blocks, tokens or positions; a rotation of queries and keys is handed in ready.

In the paper's symbols: `to_queries` is W_Q of all heads side by side, `to_keys` W_K, `to_values`
W_V, `to_output` W_O. Dims: B batch, Q/K query/key positions, D model width, H heads,
G key/value heads, E width of a head's queries and keys, W of its values.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.errors import ConfigError, ShapeError, expect
from glassformer.nn.attention.cache import KeyValueCache
from glassformer.nn.attention.functions import (
    Implementation,
    additive_scores,
    attend_fused,
    attend_written,
    attention_weights,
    share_heads,
    weigh_values,
)
from glassformer.nn.attention.masks import visible_keys
from glassformer.nn.attention.products import attend_by_products, products_pay
from glassformer.nn.config import AttentionConfig
from glassformer.nn.positions import Rotation, rotate
from glassformer.nn.shapes import Bool, Float, Tensor

__all__ = [
    "MultiHeadAttention",
    "join_heads",
    "join_projections",
    "record_attention",
    "set_attention",
    "split_heads",
]


def split_heads(x: Float[Tensor, "B T HE"], n_heads: int) -> Float[Tensor, "B H T E"]:
    """Cut each vector into n_heads equal pieces and bring the heads beside the batch."""
    pieces: Tensor = x.unflatten(-1, (n_heads, -1))
    return pieces.transpose(1, 2)


def join_heads(x: Float[Tensor, "B H T E"]) -> Float[Tensor, "B T HE"]:
    """Undo `split_heads`: the pieces of each position side by side again."""
    return x.transpose(1, 2).flatten(-2)


def joined_linear(
    x: Float[Tensor, "B T D"], maps: Sequence[nn.Linear]
) -> tuple[Float[Tensor, "B T _"], ...]:
    """Several linear maps of one input by one product, which a GPU computes faster.

    The matrices are joined anew at each call: that pays with many positions, not with one.
    """
    matrix = torch.cat([part.weight for part in maps])
    biases: list[Tensor] = [part.bias for part in maps if part.bias is not None]
    outputs = F.linear(x, matrix, torch.cat(biases) if biases else None)
    parts: tuple[Tensor, ...] = outputs.split([part.out_features for part in maps], dim=-1)
    return parts


class MultiHeadAttention(nn.Module):
    """Each query position gathers values, weighted by how well its query matches their keys."""

    def __init__(self, d_model: int, config: AttentionConfig) -> None:
        super().__init__()
        self.config = config
        self.d_model = d_model
        self.n_heads = config.n_heads
        self.n_kv_heads = config.n_kv_heads or config.n_heads
        self.d_head = config.head_width(d_model)
        self.d_value = config.d_value or self.d_head
        self.divisor = config.score_divisor(d_model)
        self.implementation: Implementation = "fused"
        self.joins_projections = False
        self.observer: Callable[[Tensor], None] | None = None

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
        mask: Bool[Tensor, "..."] | None = None,
        causal: bool = False,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B Q D2"]:
        """Attend from x to itself, or to `source` where it is given (cross-attention).

        A cache holds the keys and values of earlier calls: x then continues them, or, in
        cross-attention, the source is projected in the first call only.
        """
        self._check_width("x", x)
        if self.joins_projections and source is None and cache is None:
            queries, keys, values = self._projected_together(x, rotation)
        else:
            projected_queries = self.to_queries(x)
            unrotated = split_heads(projected_queries, self.n_heads)
            queries = unrotated if rotation is None else rotate(unrotated, rotation)
            keys, values = self._keys_and_values(x, source, rotation, cache)
        context = self._attend(queries, keys, values, mask, causal)
        joined = join_heads(context)
        if self.to_output is None:
            return joined
        output: Tensor = self.to_output(joined)
        return output

    def _keys_and_values(
        self,
        x: Tensor,
        source: Tensor | None,
        rotation: Rotation | None,
        cache: KeyValueCache | None,
    ) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        if source is not None and cache is not None and cache.length:
            return cache.read()
        attended = x if source is None else source
        self._check_width("source", attended)
        projected_keys = self.to_keys(attended)
        projected_values = self.to_values(attended)
        unrotated = split_heads(projected_keys, self.n_kv_heads)
        keys = unrotated if rotation is None else rotate(unrotated, rotation)
        values = split_heads(projected_values, self.n_kv_heads)
        return (keys, values) if cache is None else cache.append(keys, values)

    def _projected_together(
        self, x: Tensor, rotation: Rotation | None
    ) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B G T E"], Float[Tensor, "B G T W"]]:
        """Queries, keys and values of self-attention by one product."""
        projected = joined_linear(x, [self.to_queries, self.to_keys, self.to_values])
        n_heads = (self.n_heads, self.n_kv_heads, self.n_kv_heads)
        queries, keys, values = map(split_heads, projected, n_heads)
        if rotation is None:
            return queries, keys, values
        return rotate(queries, rotation), rotate(keys, rotation), values

    def _attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
    ) -> Float[Tensor, "B H Q W"]:
        dropout = self.config.dropout if self.training else 0.0
        if self.score_vector is None and self.implementation == "fused":
            if self.observer is not None:  # beside the fused call, so that asking changes nothing
                self.observer(
                    attention_weights(queries, keys, divisor=self.divisor, mask=mask, causal=causal)
                )
            if not dropout and products_pay(queries, keys, values):
                return attend_by_products(
                    queries, keys, values, divisor=self.divisor, mask=mask, causal=causal
                )
            return attend_fused(
                queries,
                keys,
                values,
                divisor=self.divisor,
                mask=mask,
                causal=causal,
                dropout=dropout,
            )
        if self.score_vector is None:
            attended = attend_written(
                queries,
                keys,
                values,
                divisor=self.divisor,
                mask=mask,
                causal=causal,
                dropout=dropout,
            )
        else:
            shared_keys = share_heads(keys, self.n_heads)
            shared_values = share_heads(values, self.n_heads)
            scores = additive_scores(queries, shared_keys, self.score_vector)
            visible = visible_keys(scores.shape, mask, causal, scores.device)
            attended = weigh_values(scores, shared_values, visible=visible, dropout=dropout)
        if self.observer is not None:
            self.observer(attended.weights)
        return attended.context

    def _check_width(self, name: str, x: Tensor) -> None:
        if x.dim() != 3 or x.size(-1) != self.d_model:
            raise ShapeError(
                f"attention expects {name} of shape (batch, positions, {self.d_model}), "
                f"got {tuple(x.shape)}"
            )

    def extra_repr(self) -> str:
        """Shown by print(module)."""
        return f"n_heads={self.n_heads}, d_head={self.d_head}, divisor={self.divisor:.4g}"


def set_attention(module: nn.Module, implementation: Implementation) -> nn.Module:
    """Switch every attention inside a module to "written" or "fused"; returns the module."""
    if implementation not in ("written", "fused"):
        raise ConfigError(f"attention must be 'written' or 'fused', got {implementation!r}")
    expect(module, nn.Module, "a module whose attention is switched")
    for part in module.modules():
        if isinstance(part, MultiHeadAttention):
            part.implementation = implementation
    return module


def join_projections(module: nn.Module, joined: bool = True) -> nn.Module:
    """Let every self-attention inside a module make queries, keys and values by one product.

    The same up to rounding; faster on a GPU in training, and no use in decoding or to readers.
    """
    for part in module.modules():
        if isinstance(part, MultiHeadAttention):
            part.joins_projections = joined
    return module


@contextmanager
def record_attention(module: nn.Module) -> Iterator[dict[str, list[Float[Tensor, "B H Q K"]]]]:
    """Collect the weights of every attention inside a module while it runs.

    Gives, for each attention by name, one (B, H, Q, K) tensor a call, before dropout; the output
    of the module is the same as without.
    """
    recorded: dict[str, list[Tensor]] = defaultdict(list)
    attentions = {n: m for n, m in module.named_modules() if isinstance(m, MultiHeadAttention)}

    before = {name: attention.observer for name, attention in attentions.items()}

    def note(name: str, weights: Tensor) -> None:
        recorded[name].append(weights.detach())
        outer = before[name]
        if outer is not None:  # recordings may be nested
            outer(weights)

    try:
        for name, attention in attentions.items():
            attention.observer = partial(note, name)
        yield recorded
    finally:
        for name, attention in attentions.items():
            attention.observer = before[name]
