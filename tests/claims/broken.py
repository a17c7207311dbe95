"""The library with one mechanism broken at a time, for tests of what notices.

Each breaker changes the mechanism, never a claim, its figures or its rule. A function is replaced
under every name by which a module of ours knows it.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.claims.properties import weighted_sum
from glassformer.claims.training_studies import NormPlace, SwitchedBlock
from glassformer.nn import attention as functions
from glassformer.nn import attention as masks
from glassformer.nn import attention as multi_head
from glassformer.nn import blocks, layers, positions, presets
from glassformer.nn import models as encoders
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.config import AttentionConfig
from glassformer.nn.layers import FeedForward, TokenEmbedding
from glassformer.text import split_words

Breaker = Callable[[pytest.MonkeyPatch], None]


def everywhere(patch: pytest.MonkeyPatch, old: object, new: object) -> None:
    """Replace an object in every module of ours that has it."""
    ours = [module for name, module in sys.modules.items() if name.startswith("glassformer")]
    for module in ours:
        for name in [name for name, value in vars(module).items() if value is old]:
            patch.setattr(module, name, new)


def _attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softmax: bool = True,
    mask: bool = True,
) -> Tensor:
    """PyTorch's kernel written out, so that a step can be left out."""
    scores = queries @ keys.mT * (1 / math.sqrt(queries.size(-1)) if scale is None else scale)
    if mask and is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask and attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf if softmax else 0.0)
    return (torch.exp(scores.log_softmax(dim=-1)) if softmax else scores) @ values


def no_softmax(patch: pytest.MonkeyPatch) -> None:
    """Scores are used as weights."""

    def kernel(*inputs: Any, **settings: Any) -> Tensor:
        return _attend(*inputs, softmax=False, **settings)

    patch.setattr(F, "scaled_dot_product_attention", kernel)
    patch.setattr(torch, "softmax", lambda scores, dim: scores)
    # Hidden scores become 0: −∞ times a value would be no number.
    everywhere(patch, functions.softmax_over_keys, lambda s: s.masked_fill(s.isinf(), 0.0))


def even_weights(patch: pytest.MonkeyPatch) -> None:
    """Every key gets the same weight, whatever its score."""
    everywhere(patch, functions.softmax_over_keys, lambda s: (0 * s).softmax(dim=-1))


def even_sum(patch: pytest.MonkeyPatch) -> None:
    """The fixed weighted sum ignores its weights."""
    everywhere(patch, weighted_sum, lambda values, weights: values.mean(dim=-2, keepdim=True))


def transposed_weights(patch: pytest.MonkeyPatch) -> None:
    """Values are weighted by columns instead of rows."""
    weigh = functions.weigh_values

    def transposed(scores: Tensor, values: Tensor, **settings: Any) -> functions.Attended:
        attended = weigh(scores, values, **settings)
        return functions.Attended(attended.weights.mT @ values, attended.weights)

    everywhere(patch, weigh, transposed)


def no_scale(patch: pytest.MonkeyPatch) -> None:
    """Scores are never divided."""
    patch.setattr(AttentionConfig, "score_divisor", lambda self, d_model: 1.0)


def model_scale(patch: pytest.MonkeyPatch) -> None:
    """Scores are divided by the whole width."""
    patch.setattr(AttentionConfig, "score_divisor", lambda self, d_model: float(d_model))


def right_scale(patch: pytest.MonkeyPatch) -> None:
    """Scores are divided by the root of the head's width, whatever a config says."""
    patch.setattr(AttentionConfig, "score_divisor", lambda self, d: math.sqrt(self.head_width(d)))


def no_mask(patch: pytest.MonkeyPatch) -> None:
    """Every query sees every key."""

    def kernel(*inputs: Any, **settings: Any) -> Tensor:
        return _attend(*inputs, mask=False, **settings)

    patch.setattr(F, "scaled_dot_product_attention", kernel)
    everywhere(patch, masks.visible_keys, lambda *_: None)


def always_masked(patch: pytest.MonkeyPatch) -> None:
    """Every self-attention is causal, whatever the config."""
    forward = MultiHeadAttention.forward

    def causal(self: Any, x: Tensor, source: Tensor | None = None, **settings: Any) -> Tensor:
        return forward(self, x, source, **{**settings, "causal": True})

    patch.setattr(MultiHeadAttention, "forward", causal)


def no_positions(patch: pytest.MonkeyPatch) -> None:
    """Models are built without positions; sinusoids are all zero."""
    patch.setattr(blocks, "_make_positions", lambda config: None)
    everywhere(patch, positions.sinusoids, lambda at, width, base=1.0: torch.zeros(len(at), width))


def always_positions(patch: pytest.MonkeyPatch) -> None:
    """Models have learned positions, whatever the config."""

    def learned(config: Any) -> positions.LearnedPositions:
        return positions.LearnedPositions(config.max_len, config.d_model)

    patch.setattr(blocks, "_make_positions", learned)


def no_attention(patch: pytest.MonkeyPatch) -> None:
    """Each query attends to its own position only."""

    def kernel(queries: Tensor, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> Tensor:
        return values[..., : queries.size(-2), :]

    patch.setattr(F, "scaled_dot_product_attention", kernel)
    everywhere(
        patch,
        functions.softmax_over_keys,
        lambda s: torch.eye(*s.shape[-2:], dtype=s.dtype).expand_as(s),
    )


def shared_maps(patch: pytest.MonkeyPatch) -> None:
    """One map for queries and keys, and all heads alike."""
    build = MultiHeadAttention.__init__

    def tied(self: Any, d_model: int, config: AttentionConfig) -> None:
        build(self, d_model, config)
        self.to_keys.weight = self.to_queries.weight
        with torch.no_grad():
            for part in (self.to_queries, self.to_values):
                heads = part.weight.view(self.n_heads, -1, d_model)
                heads.copy_(heads[:1].clone().expand_as(heads))

    patch.setattr(MultiHeadAttention, "__init__", tied)


def one_head(patch: pytest.MonkeyPatch) -> None:
    """Heads are not split: one wide head does the work of all."""
    # In parts that are one part repeated, so that shapes stay as they were.
    everywhere(patch, multi_head.split_heads, lambda x, n: x.unsqueeze(1).expand(-1, n, -1, -1) / n)
    everywhere(patch, multi_head.join_heads, lambda x: x.sum(dim=1))


def full_width_heads(patch: pytest.MonkeyPatch) -> None:
    """Every head is as wide as the model."""
    patch.setattr(AttentionConfig, "head_width", lambda self, d_model: d_model)


def values_as_wide_as_keys(patch: pytest.MonkeyPatch) -> None:
    """The width of the values is ignored."""
    build = MultiHeadAttention.__init__

    def one_width(self: Any, d_model: int, config: AttentionConfig) -> None:
        build(self, d_model, replace(config, d_value=None))

    patch.setattr(MultiHeadAttention, "__init__", one_width)


def no_output_map(patch: pytest.MonkeyPatch) -> None:
    """The joined heads are returned without the output map."""
    forward = MultiHeadAttention.forward

    def unmapped(self: Any, *inputs: Any, **settings: Any) -> Tensor:
        self.to_output, kept = None, self.to_output
        try:
            return forward(self, *inputs, **settings)
        finally:
            self.to_output = kept

    patch.setattr(MultiHeadAttention, "forward", unmapped)


def no_residual(patch: pytest.MonkeyPatch) -> None:
    """Blocks return the output of their sublayers without adding the input."""

    def forward(self: Any, x: Tensor, **settings: Any) -> Tensor:
        attended = self.attention_norm(self.attention(x, causal=self.causal))
        out: Tensor = self.feed_forward_norm(self.feed_forward(attended))
        return out

    patch.setattr(blocks.Block, "forward", forward)
    build = SwitchedBlock.__init__

    def switched_off(self: SwitchedBlock, *, residual: bool, norm: NormPlace) -> None:
        build(self, residual=False, norm=norm)

    patch.setattr(SwitchedBlock, "__init__", switched_off)


def no_norm(patch: pytest.MonkeyPatch) -> None:
    """LayerNorm returns its input."""
    patch.setattr(nn.LayerNorm, "forward", lambda self, x: x)


def norm_over_positions(patch: pytest.MonkeyPatch) -> None:
    """LayerNorm takes mean and variance along the sequence."""

    def forward(self: nn.LayerNorm, x: Tensor) -> Tensor:
        return F.layer_norm(x.mT, x.shape[1:2]).mT

    patch.setattr(nn.LayerNorm, "forward", forward)


def no_epsilon(patch: pytest.MonkeyPatch) -> None:
    """Norms divide by the bare deviation."""
    written, plain = layers.layer_norm, layers.PlainNorm
    everywhere(patch, written, lambda x, eps=0.0: written(x, eps=0.0))
    everywhere(patch, plain, lambda eps: plain(0.0))


def mixing_feed_forward(patch: pytest.MonkeyPatch) -> None:
    """The feed-forward also adds the mean over positions."""
    forward = FeedForward.forward
    patch.setattr(
        FeedForward, "forward", lambda self, x: forward(self, x) + x.mean(dim=1, keepdim=True)
    )


def no_learning(patch: pytest.MonkeyPatch) -> None:
    """The optimiser changes nothing."""
    patch.setattr(torch.optim.Adam, "step", lambda self: None)


def restless_embedding(patch: pytest.MonkeyPatch) -> None:
    """A word's vector depends on its position."""
    forward = TokenEmbedding.forward

    def shifted(self: TokenEmbedding, ids: Tensor) -> Tensor:
        return forward(self, ids) + torch.arange(ids.size(1))[None, :, None]

    patch.setattr(TokenEmbedding, "forward", shifted)


def blind_pooling(patch: pytest.MonkeyPatch) -> None:
    """Classifiers read only their first position."""
    everywhere(patch, encoders.pool, lambda x, how, is_token=None: x[:, 0])


def tiny_start(patch: pytest.MonkeyPatch) -> None:
    """All parameters start at zero."""

    def zero(module: nn.Module, scheme: str) -> None:
        for parameter in module.parameters():
            nn.init.zeros_(parameter)

    everywhere(patch, layers.initialise, zero)


def levelled_parts(patch: pytest.MonkeyPatch) -> None:
    """Every part of a block returns the mean over positions, for all positions."""
    for part in (MultiHeadAttention, nn.LayerNorm, FeedForward):
        patch.setattr(part, "forward", _levelled(part.forward))


def _levelled(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def level(self: nn.Module, x: Tensor, *inputs: Any, **settings: Any) -> Tensor:
        outputs = forward(self, x, *inputs, **settings)
        return outputs.mean(dim=1, keepdim=True).expand_as(outputs)

    return level


def lopsided_numbers(patch: pytest.MonkeyPatch) -> None:
    """Random numbers have mean one."""
    draw = torch.randn
    patch.setattr(torch, "randn", lambda *shape, **settings: draw(*shape, **settings) + 1)


def another_base_model(patch: pytest.MonkeyPatch) -> None:
    """The paper's model with five layers of width 256."""
    paper = presets.vaswani_2017_base
    patch.setattr(presets, "vaswani_2017_base", lambda **sizes: paper(n_layers=5, d_model=256))


def blocks_without_attention(patch: pytest.MonkeyPatch) -> None:
    """Blocks are built without their attention."""
    patch.setattr(blocks, "MultiHeadAttention", lambda d_model, config: nn.Identity())


def whole_lines(patch: pytest.MonkeyPatch) -> None:
    """Texts are never split into words."""
    everywhere(patch, split_words, lambda text, punctuation: [text])
