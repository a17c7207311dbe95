"""Why scores are divided by √k: their spread, the softmax it saturates, the gradient it kills.

The product of two vectors of k independent numbers with mean 0 and variance 1 has mean 0 and
variance k: its size grows as √k although its average does not. Where the numbers have mean m, the
average is m² k. (The text's reason: a vector whose k numbers are all c has length √k c.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.nn.attention import softmax_over_keys
from glassformer.nn.shapes import Float, Tensor


@dataclass(frozen=True)
class ScoreSpread:
    """Scores of random queries and keys of one width, and what softmax makes of them."""

    width: int
    divisor: float
    mean: float
    """Average score."""
    deviation: float
    """Standard deviation of the scores: √width / divisor if the inputs have variance 1."""
    largest_weight: float
    """Average over queries of the largest weight; 1 is a saturated softmax."""
    entropy: float
    """Average entropy of the weights, in nats; ln(n_keys) is an even spread, 0 a single key."""
    gradient_size: float
    """Average size of the derivative of the weights by the scores; 0 means no learning."""


def score_spread(
    width: int,
    divisor: float | None = None,
    *,
    mean: float = 0.0,
    n_queries: int = 256,
    n_keys: int = 16,
    seed: int = 0,
) -> ScoreSpread:
    """Draw queries and keys with this mean and variance 1, and measure their scores and weights.

    `divisor` is √width unless given; 1 leaves the scores unscaled, and √(h · width) is what a model
    of h heads does that divides by the root of its whole width.
    """
    divisor = math.sqrt(width) if divisor is None else divisor
    generator = torch.Generator().manual_seed(seed)
    queries = mean + torch.randn(n_queries, width, generator=generator, dtype=torch.float64)
    keys = mean + torch.randn(n_queries, n_keys, width, generator=generator, dtype=torch.float64)
    scores = (keys @ queries.unsqueeze(-1)).squeeze(-1) / divisor
    weights = softmax_over_keys(scores)
    return ScoreSpread(
        width=width,
        divisor=divisor,
        mean=float(scores.mean()),
        deviation=float(scores.std()),
        largest_weight=float(weights.amax(dim=-1).mean()),
        entropy=float(torch.special.entr(weights).sum(dim=-1).mean()),
        gradient_size=float(softmax_gradient_size(weights).mean()),
    )


def spread_by_width(
    widths: Sequence[int], *, scaled: bool, n_queries: int = 256, n_keys: int = 16, seed: int = 0
) -> tuple[ScoreSpread, ...]:
    """`score_spread` for each width: divided by √width, or not at all."""
    return tuple(
        score_spread(width, None if scaled else 1.0, n_queries=n_queries, n_keys=n_keys, seed=seed)
        for width in widths
    )


def softmax_gradient_size(weights: Float[Tensor, "... K"]) -> Float[Tensor, "..."]:
    """Frobenius norm of ∂weights / ∂scores = diag(w) − w wᵀ, for each row of weights.

    It is zero where one weight is 1 and all others 0: no change of the scores is felt there.
    """
    squares = weights.square()
    diagonal = (weights - squares).square().sum(dim=-1)
    beside = squares.sum(dim=-1).square() - squares.square().sum(dim=-1)
    return (diagonal + beside.clamp(min=0.0)).sqrt()
