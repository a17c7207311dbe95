"""The solutions: a Transformer in plain functions, each of them the answer to one exercise.

Read from top to bottom it is a course of its own. A parameter matrix is used as in x · W, without
biases in attention. What a function needs of earlier ones, it calls by name; `exercise_track` takes
signatures, docstrings and these dependencies from this file to write the starters.
Dims: B batch, T positions, S source positions, Q query and K key positions, D model width, H heads,
E width of a head, W width of values, F feed-forward width, V vocabulary, R beams.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def basic_self_attention(x: Tensor) -> Tensor:
    """(T, D) → (T, D)"""
    scores = x @ x.mT
    weights = torch.softmax(scores, dim=-1)
    return weights @ x


def dot_product_scores(queries: Tensor, keys: Tensor) -> Tensor:
    """(…, Q, E), (…, K, E) → (…, Q, K)"""
    return queries @ keys.mT


def softmax(scores: Tensor) -> Tensor:
    """(…, K) → (…, K)"""
    largest = scores.amax(dim=-1, keepdim=True)
    powers = torch.exp(scores - largest)
    return powers / powers.sum(dim=-1, keepdim=True)


def scaled_scores(queries: Tensor, keys: Tensor) -> Tensor:
    """(…, Q, E), (…, K, E) → (…, Q, K)"""
    scores = dot_product_scores(queries, keys)
    return scores / math.sqrt(queries.size(-1))


def causal_mask(n: int) -> Tensor:
    """n → bool (n, n)"""
    return torch.ones(n, n, dtype=torch.bool).tril()


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """int (B, K) → bool (B, 1, 1, K)"""
    is_token = ids != pad_id
    return is_token[:, None, None, :]


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
) -> Tensor:  # fmt: skip
    """(…, Q, E), (…, K, E), (…, K, W), bool (…, Q, K) → (…, Q, W)"""
    scores = scaled_scores(queries, keys)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = softmax(scores)
    return weights @ values


def single_head(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensor:
    """(B, T, D), (D, E), (D, E), (D, E) → (B, T, E)"""
    return attend(x @ W_Q, x @ W_K, x @ W_V)


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """(B, T, D), H → (B, H, T, E), D = H · E"""
    pieces: Tensor = x.unflatten(-1, (n_heads, -1))
    return pieces.transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, E) → (B, T, D), D = H · E"""
    return x.transpose(1, 2).flatten(-2)


def multi_head(
    x: Tensor,
    source: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    mask: Tensor | None = None,
) -> Tensor:
    """x (B, T, D), source (B, S, D), W (D, D) → (B, T, D)"""
    queries = split_heads(x @ W_Q, n_heads)
    keys = split_heads(source @ W_K, n_heads)
    values = split_heads(source @ W_V, n_heads)
    context = attend(queries, keys, values, mask)
    return merge_heads(context) @ W_O


def layer_norm(
    x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5
) -> Tensor:  # fmt: skip
    """(…, D), (D), (D) → (…, D)"""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(variance + eps) * gain + bias


def feed_forward(
    x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor
) -> Tensor:  # fmt: skip
    """(B, T, D), (D, F), (F), (F, D), (D) → (B, T, D)"""
    hidden = torch.relu(x @ W_1 + b_1)
    return hidden @ W_2 + b_2


def residual(
    x: Tensor,
    sublayer: Callable[[Tensor], Tensor],
    norm: Callable[[Tensor], Tensor],
    norm_first: bool,
) -> Tensor:
    """x (B, T, D) → (B, T, D)"""
    if norm_first:
        return x + sublayer(norm(x))
    return norm(x + sublayer(x))


def sinusoids(n_positions: int, d_model: int) -> Tensor:
    """T, D → (T, D)"""
    positions = torch.arange(n_positions).unsqueeze(-1)
    exponents = torch.arange(0, d_model, 2) / d_model
    angles = positions / 10_000**exponents
    table = torch.empty(n_positions, d_model)
    table[:, 0::2] = torch.sin(angles)
    table[:, 1::2] = torch.cos(angles)
    return table


def embed(ids: Tensor, table: Tensor) -> Tensor:
    """int (B, T), (V, D) → (B, T, D)"""
    d_model = table.size(1)
    tokens = table[ids] * math.sqrt(d_model)
    return tokens + sinusoids(ids.size(1), d_model)


def encoder_layer(
    x: Tensor,
    parameters: dict[str, Any],
    n_heads: int,
    mask: Tensor | None = None,
) -> Tensor:
    """x (B, T, D), bool mask (B, 1, 1, T) → (B, T, D)"""
    attended = multi_head(x, x, **parameters["attention"], n_heads=n_heads, mask=mask)
    middle = layer_norm(x + attended, **parameters["norm_1"])
    fed = feed_forward(middle, **parameters["feed_forward"])
    return layer_norm(middle + fed, **parameters["norm_2"])


def decoder_layer(
    x: Tensor,
    memory: Tensor,
    parameters: dict[str, Any],
    n_heads: int,
    memory_mask: Tensor | None = None,
) -> Tensor:
    """x (B, T, D), memory (B, S, D), bool mask (B, 1, 1, S) → (B, T, D)"""
    before = causal_mask(x.size(1))
    attended = multi_head(x, x, **parameters["attention"], n_heads=n_heads, mask=before)
    first = layer_norm(x + attended, **parameters["norm_1"])
    gathered = multi_head(first, memory, **parameters["cross"], n_heads=n_heads, mask=memory_mask)
    second = layer_norm(first + gathered, **parameters["norm_2"])
    fed = feed_forward(second, **parameters["feed_forward"])
    return layer_norm(second + fed, **parameters["norm_3"])


def transformer(
    source: Tensor,
    target: Tensor,
    table: Tensor,
    encoder: list[dict[str, Any]],
    decoder: list[dict[str, Any]],
    n_heads: int,
    pad_id: int,
) -> Tensor:
    """source (B, S), target (B, T), table (V, D) → (B, T, V)"""
    mask = padding_mask(source, pad_id)
    memory = embed(source, table)
    for parameters in encoder:
        memory = encoder_layer(memory, parameters, n_heads, mask)
    x = embed(target, table)
    for parameters in decoder:
        x = decoder_layer(x, memory, parameters, n_heads, mask)
    return x @ table.mT


def loss(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    """(B, T, V), int (B, T) → ()"""
    log_probabilities = torch.log_softmax(logits[:, :-1], dim=-1)
    targets = ids[:, 1:]
    chosen = log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    is_token = targets != pad_id
    return -chosen[is_token].mean()


def greedy(
    next_logits: Callable[[list[int]], Tensor],
    start: int,
    end: int,
    max_new: int,
) -> list[int]:
    """next_logits(ids) → (V)"""
    ids = [start]
    for _ in range(max_new):
        token = int(next_logits(ids).argmax())
        if token == end:
            break
        ids.append(token)
    return ids[1:]


def beam_step(
    logits: Tensor, totals: Tensor
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(R, V), (R) → totals (R), parents int (R), tokens int (R)"""
    n_beams, vocab_size = logits.shape
    sums = totals.unsqueeze(-1) + torch.log_softmax(logits, dim=-1)
    best, places = sums.flatten().topk(n_beams)
    return best, places // vocab_size, places % vocab_size
