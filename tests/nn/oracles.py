"""The arithmetic in float64 loops that share no code with the library.

Deliberately slow and plain: one number at a time. Everything is differentiable, so that gradients
have an oracle too. A mask is a (B, H, Q, K) boolean tensor, True = may attend.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tests.tolerances import of_a_model

FLOAT64_SHARE = of_a_model(n_layers=2, width=24, dtype=torch.float64)  # 5e-13: tests/nn/small.py
FLOAT32_SHARE = of_a_model(n_layers=0, width=8, dtype=torch.float32)  # 2e-5: one attention


class LoopAttended(NamedTuple):
    context: Tensor
    weights: Tensor


def share(got: Tensor, expected: Tensor) -> float:
    """The largest difference relative to the largest expected entry."""
    difference = (got.detach().double() - expected.detach().double()).abs().max()
    return float(difference / expected.detach().double().abs().max().clamp(min=1e-300))


def seeded(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal random numbers that depend only on the seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def loop_softmax(scores: Sequence[Tensor]) -> list[Tensor]:
    largest = max(float(score.detach()) for score in scores)
    exponentials = [(score - largest).exp() for score in scores]
    total = sum(exponentials[1:], exponentials[0])
    return [exponential / total for exponential in exponentials]


def loop_weighted_sum(weights: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    terms = [weight * value for weight, value in zip(weights, values, strict=True)]
    return sum(terms[1:], terms[0])


def loop_basic(x: Tensor) -> Tensor:
    """y_i = Σ_j softmax_j(x_i · x_j) x_j for x of shape (T, D), number by number."""
    n, width = x.shape
    rows = []
    for i in range(n):
        scores = [sum(float(x[i, d]) * float(x[j, d]) for d in range(width)) for j in range(n)]
        exponentials = [math.exp(score - max(scores)) for score in scores]
        weights = [exponential / sum(exponentials) for exponential in exponentials]
        rows.append([sum(weights[j] * float(x[j, d]) for j in range(n)) for d in range(width)])
    return torch.tensor(rows, dtype=torch.float64)


def dot_score(divisor: float) -> Callable[[Tensor, Tensor, int], Tensor]:
    return lambda query, key, _head: (query * key).sum() / divisor


def loop_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    score: Callable[[Tensor, Tensor, int], Tensor],
    visible: Tensor | None = None,
) -> LoopAttended:
    """Attention of (B, H, Q, E) queries, one query of one head of one sentence at a time.

    Query head h reads key/value head h // (H / G). A query that sees nothing gets zeros.
    """
    n_batch, n_heads, n_queries, _ = queries.shape
    per_group = n_heads // keys.size(1)
    n_keys, width = values.shape[2:]
    contexts, all_weights = [], []
    for b in range(n_batch):
        for h in range(n_heads):
            for i in range(n_queries):
                g = h // per_group
                seen = [j for j in range(n_keys) if visible is None or visible[b, h, i, j]]
                row = [queries.new_zeros(())] * n_keys
                context = values.new_zeros(width)
                if seen:
                    scores = [score(queries[b, h, i], keys[b, g, j], h) for j in seen]
                    weights = loop_softmax(scores)
                    context = loop_weighted_sum(weights, [values[b, g, j] for j in seen])
                    for j, weight in zip(seen, weights, strict=True):
                        row[j] = weight
                contexts.append(context)
                all_weights.append(torch.stack(row))
    shape = (n_batch, n_heads, n_queries)
    return LoopAttended(
        torch.stack(contexts).view(*shape, width), torch.stack(all_weights).view(*shape, n_keys)
    )


def loop_visible(
    shape: tuple[int, int, int, int], mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """A mask of any broadcastable shape and the causal rule, entry by entry.

    The queries are the last positions: query i is at K − Q + i and sees keys up to there.
    """
    n_batch, n_heads, n_queries, n_keys = shape
    visible = torch.ones(shape, dtype=torch.bool)
    padded = None if mask is None else mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))
    for b in range(n_batch):
        for h in range(n_heads):
            for i in range(n_queries):
                for j in range(n_keys):
                    if causal and j > n_keys - n_queries + i:
                        visible[b, h, i, j] = False
                    if padded is not None:
                        index = tuple(
                            at if size > 1 else 0
                            for at, size in zip((b, h, i, j), padded.shape, strict=True)
                        )
                        visible[b, h, i, j] &= padded[index]
    return visible


def loop_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b for x of shape (..., in), one output number at a time."""
    outputs = [
        sum(x[..., i] * weight[o, i] for i in range(weight.size(1)))
        + (0.0 if bias is None else bias[o])
        for o in range(weight.size(0))
    ]
    return torch.stack([torch.as_tensor(output) for output in outputs], dim=-1)


def loop_sinusoid(position: int, dimension: int, width: int, base: float = 10_000.0) -> float:
    """The entry of "Attention is all you need", section 3.5."""
    angle = position / base ** (2 * (dimension // 2) / width)
    return math.sin(angle) if dimension % 2 == 0 else math.cos(angle)
