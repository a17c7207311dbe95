"""Multi-head attention as a module: four linear maps around the functions beside it.

One class serves self-attention (one sequence) and cross-attention (two). It knows nothing of
blocks, tokens or positions; a rotation of queries and keys is handed in ready.

In the paper's symbols: `to_queries` is W_Q of all heads side by side, `to_keys` W_K, `to_values`
W_V, `to_output` W_O. Dims: B batch, Q/K query/key positions, D model width, H heads,
G key/value heads, E width of a head's queries and keys, W of its values.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from glassformer.errors import ConfigError, ShapeError, expect
from glassformer.nn.attention.cache import KeyValueCache
from glassformer.nn.attention.functions import (
    Attended,
    Implementation,
    attend_additive,
    attend_fused,
    attend_written,
)
from glassformer.nn.config import AttentionConfig
from glassformer.nn.config.checking import config_of
from glassformer.nn.positions import Rotation, rotate
from glassformer.nn.shapes import Bool, Float, Tensor


def split_heads(x: Float[Tensor, "B T HE"], n_heads: int) -> Float[Tensor, "B H T E"]:
    """Cut each vector into n_heads equal pieces and bring the heads beside the batch."""
    pieces: Tensor = x.unflatten(-1, (n_heads, -1))
    return pieces.transpose(1, 2)


def join_heads(x: Float[Tensor, "B H T E"]) -> Float[Tensor, "B T HE"]:
    """Undo `split_heads`: the pieces of each position side by side again."""
    return x.transpose(1, 2).flatten(-2)


class MultiHeadAttention(nn.Module):
    """Each query position gathers values, weighted by how well its query matches their keys.

        MultiHeadAttention(64, n_heads=4)
        MultiHeadAttention(64, AttentionConfig(n_heads=4))

    A faster implementation is a subclass that replaces `project` or `attend` as a whole.
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
        """Queries of x; keys and values of all that it may attend to, the cached ones included."""
        projected_queries = self.to_queries(x)
        unrotated = split_heads(projected_queries, self.n_heads)
        queries = unrotated if rotation is None else rotate(unrotated, rotation)
        if source is not None and cache is not None and cache.length:
            return queries, *cache.read()
        keys, values = self._keys_and_values(x if source is None else source, rotation)
        return (queries, keys, values) if cache is None else (queries, *cache.append(keys, values))

    def _keys_and_values(
        self, attended: Tensor, rotation: Rotation | None
    ) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        self._check_width("source", attended)
        projected_keys = self.to_keys(attended)
        projected_values = self.to_values(attended)
        unrotated = split_heads(projected_keys, self.n_kv_heads)
        keys = unrotated if rotation is None else rotate(unrotated, rotation)
        values = split_heads(projected_values, self.n_kv_heads)
        return keys, values

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
    ) -> Float[Tensor, "B H Q W"]:
        """From queries, keys and values to the context of each query and head."""
        dropout = self.config.dropout if self.training else 0.0
        if self.score_vector is not None or self.implementation == "written":
            return self._attend_written(queries, keys, values, mask, causal, dropout).context
        return attend_fused(
            queries, keys, values, divisor=self.divisor, mask=mask, causal=causal, dropout=dropout
        )

    def weights(
        self,
        x: Float[Tensor, "B Q D"],
        source: Float[Tensor, "B K D"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        causal: bool = False,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B H Q K"]:
        """The attention weights of a call with these arguments, before dropout.

        With a cache: of the call that was just made, whose keys it holds.
        """
        queries, keys, _ = self.project(x, x if source is None else source, rotation, cache)
        return self._attend_written(queries, keys, keys, mask, causal, dropout=0.0).weights

    def _attend_written(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        causal: bool,
        dropout: float,
    ) -> Attended:
        if self.score_vector is None:
            return attend_written(
                queries,
                keys,
                values,
                divisor=self.divisor,
                mask=mask,
                causal=causal,
                dropout=dropout,
            )
        return attend_additive(
            queries, keys, values, self.score_vector, mask=mask, causal=causal, dropout=dropout
        )

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


@contextmanager
def record_attention(module: nn.Module) -> Iterator[dict[str, list[Float[Tensor, "B H Q K"]]]]:
    """Collect the weights of every attention inside a module while it runs.

    Gives, for each attention by name, one (B, H, Q, K) tensor per call, before dropout. They are
    computed by a forward hook beside the call itself, so that recording changes no output.
    """
    recorded: dict[str, list[Tensor]] = defaultdict(list)

    def hook_for(name: str) -> Callable[..., None]:
        @torch.no_grad()
        def note(attention: MultiHeadAttention, args: Any, kwargs: Any, _: Tensor) -> None:
            recorded[name].append(attention.weights(*args, **kwargs))

        return note

    with ExitStack() as hooks:
        for name, part in module.named_modules():
            if isinstance(part, MultiHeadAttention):
                hooks.enter_context(part.register_forward_hook(hook_for(name), with_kwargs=True))
        yield recorded
