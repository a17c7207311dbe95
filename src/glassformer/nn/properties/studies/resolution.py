"""A task that one head cannot do and two can: each position reports both of its neighbours.

Averaging costs resolution: a head gives one weighted average, y_i = Σ_j w_ij V x_j. Let the vectors
be random, and let a linear map read the left and the right neighbour from y_i. With weights a and b
on the two, the best map leaves b² / (a² + b²) of the left one's variance unexplained and
a² / (a² + b²) of the right one's: together 1, whatever a and b are. So one head has a mean squared
error of at least ½ as long as its weights do not depend on the vectors; two heads of half the
width have none.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.config import AttentionConfig
from glassformer.nn.properties.studies.training import fit, seeded
from glassformer.nn.shapes import Float, Tensor

ONE_HEAD_BOUND = 0.5
"""The least mean squared error of one head, relative to the variance of what it reads."""


@dataclass(frozen=True)
class Resolution:
    """How well both neighbours are reported."""

    n_heads: int
    error: float
    """Mean squared error on fresh sequences; 1 is knowing nothing, 0 is perfect."""
    parameters: int


class _NeighbourReader(nn.Module):
    """One attention layer and a linear map; each position's number is part of its input."""

    def __init__(self, n_heads: int, n_positions: int, width: int) -> None:
        super().__init__()
        heads = AttentionConfig(
            n_heads=n_heads,
            d_head=n_positions,
            d_value=2 * width // n_heads,
            output_map=False,
        )
        self.attention = MultiHeadAttention(n_positions + width, heads)
        self.to_neighbours = nn.Linear(2 * width, 2 * width)

    def forward(self, vectors: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W2"]:
        """Left neighbour and right neighbour, side by side."""
        numbers = 2 * torch.eye(vectors.size(1)).expand(vectors.size(0), -1, -1)
        attended = self.attention(torch.cat([vectors, numbers], dim=-1))
        neighbours: Tensor = self.to_neighbours(attended)
        return neighbours


def learn_neighbours(
    n_heads: int, *, n_positions: int = 6, width: int = 8, steps: int = 300, seed: int = 0
) -> Resolution:
    """Train on random vectors in a ring; the value width 2 · width is shared by the heads."""
    with seeded(seed):
        model = _NeighbourReader(n_heads, n_positions, width)

        def error(n_sequences: int) -> Tensor:
            vectors = torch.randn(n_sequences, n_positions, width)
            neighbours = torch.cat([vectors.roll(1, dims=1), vectors.roll(-1, dims=1)], dim=-1)
            return F.mse_loss(model(vectors), neighbours)

        fit(model.parameters(), lambda: error(64), steps=steps, learning_rate=0.02)
        with torch.no_grad():
            final = float(error(1000))
    return Resolution(
        n_heads=n_heads,
        error=final,
        parameters=sum(p.numel() for p in model.parameters()),
    )
