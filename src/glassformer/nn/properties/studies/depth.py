"""What residuals and norms are for: the same stack trained with each of them switched off.

The task is to write a sequence backwards, which one attention layer can do, so that depth is a
burden and not a need. Without residuals each layer replaces what it read by an average, and all
positions soon carry the same vector; without norms the residual stream grows with depth and the
first steps overshoot. The text says that both make deep nets train faster and better.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.config import AttentionConfig, FeedForwardConfig
from glassformer.nn.layers import FeedForward, initialise
from glassformer.nn.properties.studies.training import accuracy, fit, seeded
from glassformer.nn.shapes import Float, Int, Tensor

_N_WORDS, _N_POSITIONS, _D_MODEL, _BATCH = 8, 6, 16, 32


@dataclass(frozen=True)
class DepthResult:
    """How a stack of one depth starts, and how far a short training takes it."""

    n_layers: int
    residual: bool
    norm: bool
    similarity: float
    """Mean cosine between the outputs of two positions before training; 1: all the same."""
    gradient_ratio: float
    """Gradient of the first layer's value map over that of the last, before training."""
    loss: float
    accuracy: float
    """Share of words right on fresh sequences; chance is 1/8."""


class SwitchedBlock(nn.Module):
    """A post-norm block in which the residuals or the norms may be missing."""

    def __init__(self, *, residual: bool, norm: bool) -> None:
        super().__init__()
        self.residual = residual
        self.attention = MultiHeadAttention(_D_MODEL, AttentionConfig(n_heads=2))
        self.feed_forward = FeedForward(_D_MODEL, FeedForwardConfig(d_ff=4 * _D_MODEL))
        self.attention_norm = nn.LayerNorm(_D_MODEL) if norm else nn.Identity()
        self.feed_forward_norm = nn.LayerNorm(_D_MODEL) if norm else nn.Identity()

    def forward(self, resid_pre: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """norm(x + attention(x)), then norm(x + feed_forward(x)), with the switches."""
        attended = self.attention(resid_pre)
        resid_mid = self.attention_norm(resid_pre + attended if self.residual else attended)
        fed = self.feed_forward(resid_mid)
        resid_post: Tensor = self.feed_forward_norm(resid_mid + fed if self.residual else fed)
        return resid_post


class _Reverser(nn.Module):
    def __init__(self, n_layers: int, *, residual: bool, norm: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(_N_WORDS, _D_MODEL)
        self.positions = nn.Embedding(_N_POSITIONS, _D_MODEL)
        blocks = [SwitchedBlock(residual=residual, norm=norm) for _ in range(n_layers)]
        self.blocks = nn.Sequential(*blocks)
        self.to_words = nn.Linear(_D_MODEL, _N_WORDS)
        initialise(self.blocks, "xavier")

    def transform(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        outputs: Tensor = self.blocks(self.words(ids) + self.positions.weight)
        return outputs

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        logits: Tensor = self.to_words(self.transform(ids))
        return logits

    def loss(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        backwards = ids.flip(dims=(1,))
        return F.cross_entropy(self(ids).flatten(0, 1), backwards.flatten())


def learn_at_depth(
    n_layers: int,
    *,
    residual: bool = True,
    norm: bool = True,
    steps: int = 150,
    learning_rate: float = 0.002,
    seed: int = 0,
) -> DepthResult:
    """Train a stack of this depth for a few steps; all variants get the same data and budget."""
    with seeded(seed):
        model = _Reverser(n_layers, residual=residual, norm=norm)
    with seeded(seed + 1):
        first = _random_ids(_BATCH)
        similarity = _similarity(model.transform(first))
        gradient_ratio = _gradient_ratio(model, first)
        loss = fit(
            model.parameters(),
            lambda: model.loss(_random_ids(_BATCH)),
            steps=steps,
            learning_rate=learning_rate,
        )
        fresh = _random_ids(16 * _BATCH)
    with torch.no_grad():
        right = accuracy(model(fresh), fresh.flip(dims=(1,)))
    return DepthResult(n_layers, residual, norm, similarity, gradient_ratio, loss, right)


def _random_ids(n_sequences: int) -> Int[Tensor, "B T"]:
    return torch.randint(_N_WORDS, (n_sequences, _N_POSITIONS))


@torch.no_grad()
def _similarity(outputs: Float[Tensor, "B T D"]) -> float:
    directions = F.normalize(outputs, dim=-1)
    cosines = directions @ directions.mT
    n_positions = outputs.size(1)
    beside_diagonal = cosines.sum(dim=(1, 2)) - n_positions
    return float(beside_diagonal.mean() / (n_positions * (n_positions - 1)))


def _gradient_ratio(model: _Reverser, ids: Int[Tensor, "B T"]) -> float:
    maps = [
        part.to_values.weight for part in model.modules() if isinstance(part, MultiHeadAttention)
    ]
    gradients = torch.autograd.grad(model.loss(ids), [maps[0], maps[-1]])
    return float(gradients[0].norm() / gradients[1].norm())
