"""Self-attention in which ten switches can be on or off, in any combination, and its pass."""

from __future__ import annotations

import torch
from torch import nn

from glassformer.errors import UnknownNameError
from glassformer.lessons.reading import load_example
from glassformer.lessons.walks.illustrated import printed_matrix
from glassformer.nn import AttentionConfig
from glassformer.nn.attention import MultiHeadAttention, set_attention
from glassformer.nn.config import FeedForwardConfig
from glassformer.nn.layers import FeedForward, TokenEmbedding
from glassformer.nn.positions import sinusoidal_table
from glassformer.nn.shapes import Float, Int, Tensor
from glassformer.trace import Trace, trace

__all__ = ["IDS", "KEPT", "SWITCHES", "WIDTH", "WORDS", "Switched", "switched_trace"]

SWITCHES = (
    "width", "bias", "embedding", "position", "truncating", "masking", "heads", "stacking",
    "linear", "norm",
)  # fmt: skip

WORDS = ("the", "cat", "walks", "on", "the", "street")
IDS = (0, 1, 2, 3, 0, 4)
WIDTH, KEPT = 4, 5
_NARROW, _SEED = 3, 2


class _Layer(nn.Module):
    """One attention, and what the switches put after it."""

    def __init__(self, on: frozenset[str]) -> None:
        super().__init__()
        width = WIDTH if "width" in on else _NARROW
        heads = 2 if "heads" in on and "width" in on else 1
        config = AttentionConfig(
            n_heads=heads, d_head=width // heads, d_value=width // heads, bias="bias" in on,
            output_map=False,
        )  # fmt: skip
        self.attention = MultiHeadAttention(WIDTH, config)
        self.feed_forward = (
            FeedForward(width, FeedForwardConfig(d_ff=2 * width)) if "linear" in on else None
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 if "norm" in on else 0))
        self.causal = "masking" in on
        # A sum needs two vectors of one width.
        self.residual = "norm" in on and "width" in on

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D2"]:
        """Attention, then what is switched on."""
        attended = self.attention(x, causal=self.causal)
        mixed = x + attended if self.residual else attended
        normed = self.norms[0](mixed) if self.norms else mixed
        if self.feed_forward is None:
            result: Tensor = normed
            return result
        fed = self.feed_forward(normed)
        summed = normed + fed if self.residual else fed
        output: Tensor = self.norms[1](summed) if self.norms else summed
        return output


class Switched(nn.Module):
    """Self-attention with any of the ten switches on.

    Each part draws its parameters with a seed of its own, so that a switch changes nothing but
    what it is for. Stacking needs outputs as wide as inputs, and heads an even width: without
    `width` these two have no effect.
    """

    def __init__(self, on: frozenset[str]) -> None:
        super().__init__()
        for name in on:
            if name not in SWITCHES:
                raise UnknownNameError("switch", name, SWITCHES)
        self.on = on
        depth = 2 if {"stacking", "width"} <= on else 1
        self.embedding = TokenEmbedding(len(set(IDS)), WIDTH) if "embedding" in on else None
        self.layers = nn.ModuleList(_Layer(on) for _ in range(depth))
        _draw(self)
        set_attention(self.eval(), "written")

    def forward(
        self, ids: Int[Tensor, "B T"], given: Float[Tensor, "B T D"]
    ) -> Float[Tensor, "B T D2"]:
        """Ids where there is an embedding, else the vectors given."""
        kept = KEPT if "truncating" in self.on else ids.size(1)
        x = given[:, :kept] if self.embedding is None else self.embedding(ids[:, :kept])
        if "position" in self.on:
            x = x + sinusoidal_table(x.size(1), x.size(2))
        for layer in self.layers:
            x = layer(x)
        return x


@torch.no_grad()
def _draw(model: nn.Module) -> None:
    """Matrices and biases by a seed from their name; the gains of norms stay 1."""
    for name, parameter in model.named_parameters():
        if ".norms." in name:
            continue
        seed = _SEED + sum(map(ord, name))
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(parameter.shape, generator=generator)
        parameter.copy_((drawn * 5).round() / 10)


def switched_trace(on: frozenset[str]) -> tuple[Switched, Trace]:
    """The machine and its pass over six words; without an embedding, over six given vectors."""
    rows = printed_matrix(load_example("illustrated"), "x")
    given = rows.repeat(2, 1).unsqueeze(0)
    model = Switched(on)
    ids = torch.tensor([IDS])
    return model, trace(model, ids, given, axis_labels={"ids": list(WORDS)})
