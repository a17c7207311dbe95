"""Exercises on attention: scores, softmax, masks, one head, several heads.

Each has its reference and its cases; its slips stand beside its hints. The sizes of the cases are
chosen so that slips show: square ones, in which a wrong transpose raises no error, and others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.language import words
from glassformer.lessons.exercises.exercise_check import Exercise
from glassformer.nn import (
    AttentionConfig,
    MultiHeadAttention,
    attend_written,
    basic_self_attention,
    causal_mask,
    padding_mask,
)
from glassformer.nn.attention import join_heads, softmax_over_keys, split_heads, token_mask

say = words(__name__)


def numbers(seed: int) -> Callable[..., Tensor]:
    """A function that draws tensors of normal random numbers, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=generator)


Cases = Sequence[tuple[Any, ...]]

# --- the arithmetic ----------------------------------------------------------------------------


def _basic_cases() -> Cases:
    draw = numbers(0)
    return [(draw(3, 3),), (draw(4, 3),), (draw(2, 5),), (draw(1, 4),)]


BASIC = Exercise("basic", "basic_self_attention", say, _basic_cases, basic_self_attention)


def _scores_reference(queries: Tensor, keys: Tensor) -> Tensor:
    """Σ_e q_ie · k_je, from the definition: all products, then their sum."""
    return (queries.unsqueeze(-2) * keys.unsqueeze(-3)).sum(dim=-1)


def _scores_cases() -> Cases:
    draw = numbers(1)
    return [
        (draw(3, 3), draw(3, 3)),
        (draw(4, 5), draw(3, 5)),
        (draw(2, 3, 6), draw(2, 4, 6)),
        (draw(2, 2, 3, 4), draw(2, 2, 5, 4)),
    ]


SCORES = Exercise("scores", "dot_product_scores", say, _scores_cases, _scores_reference)


def _scaled_reference(queries: Tensor, keys: Tensor) -> Tensor:
    return _scores_reference(queries, keys) / math.sqrt(queries.size(-1))


SCALED = Exercise("scaled-scores", "scaled_scores", say, _scores_cases, _scaled_reference)


def _softmax_cases() -> Cases:
    draw = numbers(2)
    hidden = draw(2, 2, 3, 5)
    hidden[..., 3] = -math.inf
    one_far_below = draw(2, 10)
    one_far_below[:, 4] = -750.0
    return [
        (draw(3, 3),),
        (draw(2, 4),),
        (draw(3, 4) * 3 + torch.tensor([[1000.0], [-1000.0], [0.0]]),),
        (draw(2, 3) + 1000,),
        (hidden,),
        (one_far_below,),
    ]


SOFTMAX = Exercise("softmax", "softmax", say, _softmax_cases, softmax_over_keys)

# --- masks -------------------------------------------------------------------------------------


CAUSAL = Exercise("causal-mask", "causal_mask", say, lambda: [(4,), (1,), (6,)], causal_mask)


def _padding_cases() -> Cases:
    return [
        (torch.tensor([[5, 0, 2, 3], [4, 5, 3, 3]]), 3),
        (torch.tensor([[1, 2, 0], [4, 0, 0], [5, 6, 7]]), 0),
    ]


PADDING = Exercise(
    "padding-mask",
    "padding_mask",
    say,
    _padding_cases,
    lambda ids, pad_id: padding_mask(token_mask(ids, pad_id)),
)

# --- attention ---------------------------------------------------------------------------------


def _attend_reference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    if q.dim() > 2:
        return attend_written(q, k, v, mask=mask).context
    return attend_written(q[None], k[None], v[None], mask=mask).context[0]


def _attend_cases() -> Cases:
    draw = numbers(3)
    padded = torch.tensor([[True, True, False], [True, False, True]])[:, None, None]
    # No row is all True, so that an inverted mask hides no whole row, however it is filled.
    some = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1]]).bool()
    return [
        (draw(3, 3), draw(3, 3), draw(3, 3)),
        (draw(2, 2, 4, 5), draw(2, 2, 3, 5), draw(2, 2, 3, 6), padded),
        (draw(1, 2, 4, 3), draw(1, 2, 4, 3), draw(1, 2, 4, 3), some),
    ]


ATTENTION = Exercise("attention", "attend", say, _attend_cases, _attend_reference)


def _single_reference(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensor:
    d_model, width = W_Q.shape
    config = AttentionConfig(n_heads=1, d_head=width, output_map=False)
    attention = MultiHeadAttention(d_model, config).double()
    load_attention(attention, {"W_Q": W_Q, "W_K": W_K, "W_V": W_V})
    return attention(x)  # type: ignore[no-any-return]


@torch.no_grad()
def load_attention(attention: MultiHeadAttention, parameters: dict[str, Tensor]) -> None:
    """Put matrices that are used as in x · W into our module, which stores them transposed."""
    homes = {"W_Q": "to_queries", "W_K": "to_keys", "W_V": "to_values", "W_O": "to_output"}
    for name, matrix in parameters.items():
        getattr(attention, homes[name]).weight.copy_(matrix.mT)


def _single_cases() -> Cases:
    draw = numbers(4)
    shapes = ((2, 3, 4, 4), (1, 4, 6, 3), (2, 5, 3, 5))
    return [(draw(b, t, d), draw(d, e), draw(d, e), draw(d, e)) for b, t, d, e in shapes]


SINGLE = Exercise("single-head", "single_head", say, _single_cases, _single_reference)

# --- several heads -----------------------------------------------------------------------------


def _split_cases() -> Cases:
    draw = numbers(5)
    return [(draw(2, 3, 6), 2), (draw(2, 4, 6), 3), (draw(1, 4, 4), 2), (draw(2, 2, 4), 2)]


SPLIT = Exercise("split-heads", "split_heads", say, _split_cases, split_heads)


def _merge_cases() -> Cases:
    draw = numbers(6)
    return [(draw(2, 2, 3, 4),), (draw(1, 3, 4, 2),), (draw(2, 2, 2, 2),)]


MERGE = Exercise("merge-heads", "merge_heads", say, _merge_cases, join_heads)


def _multi_reference(
    x: Tensor,
    source: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    mask: Tensor | None = None,
) -> Tensor:
    attention = MultiHeadAttention(x.size(-1), n_heads=n_heads).double()
    load_attention(attention, {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O})
    return attention(x, source, mask=mask)  # type: ignore[no-any-return]


def _multi_cases() -> Cases:
    draw = numbers(7)
    padded = torch.tensor([[True, True, False, True], [True, False, True, True]])[:, None, None]
    some = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 1]]).bool()
    x, y = draw(2, 3, 6), draw(2, 4, 4)
    return [
        (x, x, *(draw(6, 6) for _ in range(4)), 2),
        (x, x, *(draw(6, 6) for _ in range(4)), 3, some),
        (y, draw(2, 4, 4), *(draw(4, 4) for _ in range(4)), 2, padded),
    ]


MULTI = Exercise("multi-head", "multi_head", say, _multi_cases, _multi_reference)
