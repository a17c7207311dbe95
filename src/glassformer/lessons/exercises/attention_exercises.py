"""Exercises on attention: scores, softmax, masks, one head, several heads.

Each has its reference, its cases and its variant with the known slips. The sizes of the cases are
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


def _weights(scores: Tensor, how: str) -> Tensor:
    """A softmax over the keys, or what is taken for one."""
    if how == "shares":
        return scores / scores.sum(dim=-1, keepdim=True)
    if how == "none":
        return scores
    return torch.softmax(scores, dim={"keys": -1, "queries": -2, "heads": 1}[how])


def _basic(
    x: Tensor, *, softmax: str = "keys", divisor: float = 0.0, of: str = "positions"
) -> Tensor:
    scores = x.mT @ x if of == "features" else x @ x.mT
    scaled = scores / x.size(-1) ** divisor
    weights = _weights(scaled, softmax)
    return x @ weights if of == "features" else weights @ x


def _basic_cases() -> Cases:
    draw = numbers(0)
    return [(draw(3, 3),), (draw(4, 3),), (draw(2, 5),), (draw(1, 4),)]


BASIC = Exercise(
    "basic", "basic_self_attention", say, _basic_cases, basic_self_attention, _basic,
    {
        "softmax over queries": {"softmax": "queries"},
        "no softmax": {"softmax": "none"},
        "shares": {"softmax": "shares"},
        "scaled": {"divisor": 0.5},
        "features": {"of": "features"},
    },
)  # fmt: skip


def _scores(
    queries: Tensor, keys: Tensor, *, order: str = "query key", divisor: str = "none"
) -> Tensor:
    product: Tensor = {
        "query key": lambda: queries @ keys.mT,
        "key query": lambda: keys @ queries.mT,
        "no transpose": lambda: queries @ keys,
        "cosine": lambda: (
            torch.nn.functional.normalize(queries, dim=-1)
            @ torch.nn.functional.normalize(keys, dim=-1).mT
        ),
        "entries": lambda: queries * keys,
        "distance": lambda: torch.cdist(queries, keys),
    }[order]()
    width, n_keys, n_queries = queries.size(-1), keys.size(-2), queries.size(-2)
    divisors = {
        "none": 1.0, "root": math.sqrt(width), "width": width, "times": 1 / math.sqrt(width),
        "keys": math.sqrt(n_keys), "queries": math.sqrt(n_queries), "square": float(width**2),
    }  # fmt: skip
    return product / divisors[divisor]


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


_PRODUCTS = {
    "key query": {"order": "key query"},
    "no transpose": {"order": "no transpose"},
    "cosine": {"order": "cosine"},
    "entries": {"order": "entries"},
}
SCORES = Exercise(
    "scores", "dot_product_scores", say, _scores_cases, _scores_reference, _scores,
    {**_PRODUCTS, "distance": {"order": "distance"}, "scaled": {"divisor": "root"}},
)  # fmt: skip


def _scaled_scores(queries: Tensor, keys: Tensor, **slips: str) -> Tensor:
    return _scores(queries, keys, **{"divisor": "root", **slips})


def _scaled_reference(queries: Tensor, keys: Tensor) -> Tensor:
    return _scores_reference(queries, keys) / math.sqrt(queries.size(-1))


SCALED = Exercise(
    "scaled-scores", "scaled_scores", say, _scores_cases, _scaled_reference, _scaled_scores,
    {
        "not divided": {"divisor": "none"},
        "width": {"divisor": "width"},
        "times": {"divisor": "times"},
        "keys": {"divisor": "keys"},
        "queries": {"divisor": "queries"},
        "square": {"divisor": "square"},
        **_PRODUCTS,
    },
)  # fmt: skip


def _softmax(
    scores: Tensor, *, shift: str = "row", over: str = "row", ends: str = "share"
) -> Tensor:
    lowered = {
        "row": lambda: scores - scores.amax(dim=-1, keepdim=True),
        "all": lambda: scores - scores.max(),
        "mean": lambda: scores - scores.mean(dim=-1, keepdim=True),
        "none": lambda: scores,
        "column": lambda: scores - scores.amax(dim=0, keepdim=True),
    }[shift]()
    powers = torch.exp(lowered)
    sums = {
        "row": lambda: powers.sum(dim=-1, keepdim=True),
        "no axis": lambda: powers.sum(dim=-1),
        "column": lambda: powers.sum(dim=0, keepdim=True),
        "second": lambda: powers.sum(dim=-2, keepdim=True),
        "all": lambda: powers.sum(),
    }[over]()
    if ends == "powers":
        return powers
    return torch.log(powers / sums) if ends == "logarithm" else powers / sums


def _softmax_cases() -> Cases:
    draw = numbers(2)
    hidden = draw(2, 2, 3, 5)
    hidden[..., 3] = -math.inf
    return [
        (draw(3, 3),),
        (draw(2, 4),),
        (draw(3, 4) * 3 + torch.tensor([[1000.0], [-1000.0], [0.0]]),),
        (draw(2, 3) + 1000,),
        (hidden,),
    ]


SOFTMAX = Exercise(
    "softmax", "softmax", say, _softmax_cases, softmax_over_keys, _softmax,
    {
        "overflow": {"shift": "none"},
        "largest of all": {"shift": "all"},
        "mean": {"shift": "mean"},
        "columns": {"over": "column", "shift": "column"},
        "columns of each": {"over": "second"},
        "sum of all": {"over": "all"},
        "no keepdim": {"over": "no axis"},
        "no sum": {"ends": "powers"},
        "logarithm": {"ends": "logarithm"},
    },
)  # fmt: skip

# --- masks -------------------------------------------------------------------------------------


def _causal(n: int, *, sees: str = "before", kind: str = "bool") -> Tensor:
    ones = torch.ones(n, n, dtype=torch.bool)
    mask = {
        "before": ones.tril(),
        "inverted": ~ones.tril(),
        "strictly": ones.tril(-1),
        "after": ones.triu(),
        "everything": ones,
        "next": ones.tril(1),
    }[sees]
    if kind == "additive":
        return torch.zeros(n, n).masked_fill(~mask, -math.inf)
    return mask.float() if kind == "numbers" else mask


CAUSAL = Exercise(
    "causal-mask", "causal_mask", say, lambda: [(4,), (1,), (6,)], causal_mask, _causal,
    {
        "inverted": {"sees": "inverted"},
        "strictly": {"sees": "strictly"},
        "after": {"sees": "after"},
        "everything": {"sees": "everything"},
        "next": {"sees": "next"},
        "additive": {"kind": "additive"},
        "numbers": {"kind": "numbers"},
    },
)  # fmt: skip


def _padding(
    ids: Tensor, pad_id: int, *, shows: str = "tokens", axes: str = "keys", kind: str = "bool"
) -> Tensor:
    is_token = {"tokens": ids != pad_id, "padding": ids == pad_id, "zero": ids != 0}[shows]
    mask = {
        "keys": is_token[:, None, None, :],
        "queries": is_token[:, None, :, None],
        "none": is_token,
        "one": is_token[:, None, :],
    }[axes]
    return mask.float() if kind == "numbers" else mask


def _padding_cases() -> Cases:
    return [
        (torch.tensor([[5, 0, 2, 3], [4, 5, 3, 3]]), 3),
        (torch.tensor([[1, 2, 0], [4, 0, 0], [5, 6, 7]]), 0),
    ]


PADDING = Exercise(
    "padding-mask", "padding_mask", say, _padding_cases,
    lambda ids, pad_id: padding_mask(token_mask(ids, pad_id)), _padding,
    {
        "inverted": {"shows": "padding"},
        "zero": {"shows": "zero"},
        "queries": {"axes": "queries"},
        "no axes": {"axes": "none"},
        "one axis": {"axes": "one"},
        "numbers": {"kind": "numbers"},
    },
)  # fmt: skip

# --- attention ---------------------------------------------------------------------------------


def attention_variant(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    divisor: float | None = None,
    masked: str = "before",
    softmax: str = "keys",
) -> Tensor:
    """Scaled dot-product attention with its slips; `divisor` is √E unless given."""
    scores = queries @ keys.mT / (queries.size(-1) ** 0.5 if divisor is None else divisor)
    visible = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    if mask is not None and masked == "inverted":
        visible = ~mask
    if masked in ("before", "inverted"):
        return _weights(scores.masked_fill(~visible, -math.inf), softmax) @ values
    if masked == "zero":
        return _weights(scores * visible, softmax) @ values
    if masked == "added" and mask is not None:
        return _weights(scores + visible, softmax) @ values
    weights = _weights(scores, softmax)
    return (weights * visible if masked == "after" else weights) @ values


def _attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    divide: str = "root",
    **slips: str,
) -> Tensor:
    width = queries.size(-1)
    divisor = {"root": None, "none": 1.0, "width": width, "values": math.sqrt(values.size(-1))}
    return attention_variant(queries, keys, values, mask, divisor=divisor[divide], **slips)


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


_ATTENTION_SLIPS: dict[str, dict[str, str]] = {
    "softmax over queries": {"softmax": "queries"},
    "no softmax": {"softmax": "none"},
    "mask inverted": {"masked": "inverted"},
    "mask after": {"masked": "after"},
    "mask zero": {"masked": "zero"},
    "mask added": {"masked": "added"},
    "mask unused": {"masked": "never"},
}
ATTENTION = Exercise(
    "attention", "attend", say, _attend_cases, _attend_reference, _attend,
    {
        "not divided": {"divide": "none"},
        "width": {"divide": "width"},
        "values": {"divide": "values"},
        **_ATTENTION_SLIPS,
    },
)  # fmt: skip


def _single(
    x: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    *,
    divide: str = "E",
    roles: str = "q k v",
    turned: bool = False,
    softmax: str = "keys",
) -> Tensor:
    if turned:
        W_Q, W_K, W_V = W_Q.mT, W_K.mT, W_V.mT
    made = {"q": x @ W_Q, "k": x @ W_K, "v": x @ W_V, "x": x}
    queries, keys, values = (made[role] for role in roles.split())
    divisor = {"E": None, "D": math.sqrt(x.size(-1)), "none": 1.0}[divide]
    return attention_variant(queries, keys, values, divisor=divisor, softmax=softmax)


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


SINGLE = Exercise(
    "single-head", "single_head", say, _single_cases, _single_reference, _single,
    {
        "D": {"divide": "D"},
        "not divided": {"divide": "none"},
        "swapped": {"roles": "k q v"},
        "values are x": {"roles": "q k x"},
        "keys are queries": {"roles": "q q v"},
        "values are keys": {"roles": "q k k"},
        "keys are values": {"roles": "q v v"},
        "transposed": {"turned": True},
        "softmax over queries": {"softmax": "queries"},
        "no softmax": {"softmax": "none"},
    },
)  # fmt: skip

# --- several heads -----------------------------------------------------------------------------


def _split(x: Tensor, n_heads: int, *, by: str = "pieces") -> Tensor:
    batch, length, width = x.shape
    size = width // n_heads
    return {
        "pieces": lambda: x.reshape(batch, length, n_heads, size).transpose(1, 2),
        "view": lambda: x.reshape(batch, n_heads, length, size),
        "no transpose": lambda: x.reshape(batch, length, n_heads, size),
        "interleaved": lambda: x.reshape(batch, length, size, n_heads).permute(0, 3, 1, 2),
        "sizes": lambda: x.reshape(batch, length, size, n_heads).transpose(1, 2),
        "heads first": lambda: x.reshape(batch, length, n_heads, size).permute(2, 0, 1, 3),
        "turned": lambda: x.reshape(batch, length, n_heads, size).permute(0, 2, 3, 1),
    }[by]()


def _split_cases() -> Cases:
    draw = numbers(5)
    return [(draw(2, 3, 6), 2), (draw(2, 4, 6), 3), (draw(1, 4, 4), 2), (draw(2, 2, 4), 2)]


SPLIT = Exercise(
    "split-heads", "split_heads", say, _split_cases, split_heads, _split,
    {key: {"by": key} for key in
     ("view", "no transpose", "interleaved", "sizes", "heads first", "turned")},
)  # fmt: skip


def _merge(x: Tensor, *, by: str = "side by side") -> Tensor:
    batch, heads, length, size = x.shape
    return {
        "side by side": lambda: x.transpose(1, 2).reshape(batch, length, heads * size),
        "view": lambda: x.reshape(batch, length, heads * size),
        "interleaved": lambda: x.permute(0, 2, 3, 1).reshape(batch, length, heads * size),
        "mean": lambda: x.mean(dim=1),
        "sum": lambda: x.sum(dim=1),
        "no merge": lambda: x.transpose(1, 2),
    }[by]()


def _merge_cases() -> Cases:
    draw = numbers(6)
    return [(draw(2, 2, 3, 4),), (draw(1, 3, 4, 2),), (draw(2, 2, 2, 2),)]


MERGE = Exercise(
    "merge-heads", "merge_heads", say, _merge_cases, join_heads, _merge,
    {key: {"by": key} for key in ("view", "interleaved", "mean", "sum", "no merge")},
)  # fmt: skip


def _multi(
    x: Tensor,
    source: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    mask: Tensor | None = None,
    *,
    divide: str = "E",
    split: str = "pieces",
    merge: str = "side by side",
    read: str = "x s s",
    output: str = "W_O",
    **slips: str,
) -> Tensor:
    asking, matched, mixed = ({"x": x, "s": source}[part] for part in read.split())
    queries, keys, values = (
        _split(inputs @ matrix, n_heads, by=split)
        for inputs, matrix in ((asking, W_Q), (matched, W_K), (mixed, W_V))
    )
    divisor = {"E": None, "D": math.sqrt(x.size(-1)), "none": 1.0}[divide]
    context = attention_variant(queries, keys, values, mask, divisor=divisor, **slips)
    joined = _merge(context, by=merge)
    return {"W_O": lambda: joined @ W_O, "none": lambda: joined, "turned": lambda: joined @ W_O.mT}[
        output
    ]()


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


MULTI = Exercise(
    "multi-head", "multi_head", say, _multi_cases, _multi_reference, _multi,
    {
        "D": {"divide": "D"},
        "not divided": {"divide": "none"},
        "split by view": {"split": "view"},
        "split interleaved": {"split": "interleaved"},
        "merged by view": {"merge": "view"},
        "merged interleaved": {"merge": "interleaved"},
        "no output": {"output": "none"},
        "output transposed": {"output": "turned"},
        "all from x": {"read": "x x x"},
        "queries from source": {"read": "s x x"},
        "values from x": {"read": "x s x"},
        "softmax over heads": {"softmax": "heads"},
        **_ATTENTION_SLIPS,
    },
)  # fmt: skip
