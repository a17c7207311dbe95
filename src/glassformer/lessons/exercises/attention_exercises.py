"""Exercises on attention: scores, softmax, masks, one head, several heads.

Each has its reference and its cases; its slips stand beside its hints. The sizes of the cases are
chosen so that slips show: square ones, in which a wrong transpose raises no error, and others.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from glassformer.language import words
from glassformer.lessons.exercises.exercise_check import Draw, Exercise, ExerciseCases
from glassformer.nn import (
    AttentionConfig,
    MultiHeadAttention,
    attend_written,
    basic_self_attention,
    causal_mask,
    padding_mask,
)
from glassformer.nn.attention import join_heads, softmax_over_keys, split_heads, token_mask

# --- references --------------------------------------------------------------------------------


def _scores(queries: Tensor, keys: Tensor) -> Tensor:
    """Σ_e q_ie · k_je, from the definition: all products, then their sum."""
    return (queries.unsqueeze(-2) * keys.unsqueeze(-3)).sum(dim=-1)


def _scaled_scores(queries: Tensor, keys: Tensor) -> Tensor:
    return _scores(queries, keys) / math.sqrt(queries.size(-1))


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    if q.dim() > 2:
        return attend_written(q, k, v, mask=mask).context
    return attend_written(q[None], k[None], v[None], mask=mask).context[0]


@torch.no_grad()
def load_attention(attention: MultiHeadAttention, parameters: dict[str, Tensor]) -> None:
    """Put matrices that are used as in x · W into our module, which stores them transposed."""
    homes = {"W_Q": "to_queries", "W_K": "to_keys", "W_V": "to_values", "W_O": "to_output"}
    for name, matrix in parameters.items():
        getattr(attention, homes[name]).weight.copy_(matrix.mT)


def _single_head(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensor:
    d_model, width = W_Q.shape
    config = AttentionConfig(n_heads=1, d_head=width, output_map=False)
    attention = MultiHeadAttention(d_model, config).double()
    load_attention(attention, {"W_Q": W_Q, "W_K": W_K, "W_V": W_V})
    return attention(x)  # type: ignore[no-any-return]


def _multi_head(
    x: Tensor, source: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, n_heads: int,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    attention = MultiHeadAttention(x.size(-1), n_heads=n_heads).double()
    load_attention(attention, {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O})
    return attention(x, source, mask=mask)  # type: ignore[no-any-return]


# --- cases -------------------------------------------------------------------------------------


def _two_matrices(draw: Draw) -> ExerciseCases:
    shapes = (
        ((3, 3), (3, 3)),
        ((4, 5), (3, 5)),
        ((2, 3, 6), (2, 4, 6)),
        ((2, 2, 3, 4), (2, 2, 5, 4)),
    )
    return [(draw(*queries), draw(*keys)) for queries, keys in shapes]


def _rows_of_scores(draw: Draw) -> ExerciseCases:
    hidden = draw(2, 2, 3, 5)
    hidden[..., 3] = -math.inf
    one_far_below = draw(2, 10)
    one_far_below[:, 4] = -750.0
    far_apart = torch.tensor([[1000.0], [-1000.0], [0.0]])
    ordinary = [draw(3, 3), draw(2, 4), draw(3, 4) * 3 + far_apart, draw(2, 3) + 1000]
    return [(scores,) for scores in (*ordinary, hidden, one_far_below)]


def _with_masks(draw: Draw) -> ExerciseCases:
    padded = torch.tensor([[True, True, False], [True, False, True]])[:, None, None]
    # No row is all True, so that an inverted mask hides no whole row, however it is filled.
    some = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1]]).bool()
    return [
        (draw(3, 3), draw(3, 3), draw(3, 3)),
        (draw(2, 2, 4, 5), draw(2, 2, 3, 5), draw(2, 2, 3, 6), padded),
        (draw(1, 2, 4, 3), draw(1, 2, 4, 3), draw(1, 2, 4, 3), some),
    ]


def _head_cases(draw: Draw) -> ExerciseCases:
    shapes = ((2, 3, 4, 4), (1, 4, 6, 3), (2, 5, 3, 5))
    return [(draw(b, t, d), draw(d, e), draw(d, e), draw(d, e)) for b, t, d, e in shapes]


def _multi_head_cases(draw: Draw) -> ExerciseCases:
    padded = torch.tensor([[True, True, False, True], [True, False, True, True]])[:, None, None]
    some = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 1]]).bool()
    x, y = draw(2, 3, 6), draw(2, 4, 4)
    return [
        (x, x, *(draw(6, 6) for _ in range(4)), 2),
        (x, x, *(draw(6, 6) for _ in range(4)), 3, some),
        (y, draw(2, 4, 4), *(draw(4, 4) for _ in range(4)), 2, padded),
    ]


# --- exercises ---------------------------------------------------------------------------------

_exercise = partial(Exercise, words(__name__))
TASKS = (
    _exercise("basic", basic_self_attention, lambda draw: [
        (draw(3, 3),), (draw(4, 3),), (draw(2, 5),), (draw(1, 4),),
    ], seed=0),
    _exercise("scores", _scores, _two_matrices, seed=1),
    _exercise("scaled-scores", _scaled_scores, _two_matrices, seed=1),
    _exercise("softmax", softmax_over_keys, _rows_of_scores, seed=2),
    _exercise("causal-mask", causal_mask, lambda _: [(4,), (1,), (6,)]),
    _exercise("padding-mask", lambda ids, pad_id: padding_mask(token_mask(ids, pad_id)), lambda _: [
        (torch.tensor([[5, 0, 2, 3], [4, 5, 3, 3]]), 3),
        (torch.tensor([[1, 2, 0], [4, 0, 0], [5, 6, 7]]), 0),
    ]),
    _exercise("attention", _attend, _with_masks, seed=3),
    _exercise("single-head", _single_head, _head_cases, seed=4),
    _exercise("split-heads", split_heads, lambda draw: [
        (draw(2, 3, 6), 2), (draw(2, 4, 6), 3), (draw(1, 4, 4), 2), (draw(2, 2, 4), 2),
    ], seed=5),
    _exercise("merge-heads", join_heads, lambda draw: [
        (draw(2, 2, 3, 4),), (draw(1, 3, 4, 2),), (draw(2, 2, 2, 2),),
    ], seed=6),
    _exercise("multi-head", _multi_head, _multi_head_cases, seed=7),
)  # fmt: skip
