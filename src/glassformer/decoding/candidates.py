"""From logits to the best next tokens: log-probabilities and top-k, over large vocabularies fast.

Pure functions on tensors; nothing here knows what a token or a text is.
Dims: B texts, R rivals of each, V vocabulary, N candidates asked for.
"""

from typing import NamedTuple

import torch

from glassformer.nn.shapes import Float, Int, Tensor

__all__ = ["Candidates", "best_continuations", "best_of_each", "log_probabilities_of"]

_CHUNK = 128
_WORTH_CHUNKING = 4_096


class Candidates(NamedTuple):
    """The best continuations of each text, best first."""

    totals: Float[Tensor, "B N"]
    """Sum of log-probabilities, this token's included."""
    log_probabilities: Float[Tensor, "B N"]
    tokens: Int[Tensor, "B N"]
    parents: Int[Tensor, "B N"]
    """Which rival each continues."""


def best_continuations(
    logits: Float[Tensor, "B R V"], totals: Float[Tensor, "B R"], n: int
) -> Candidates:
    """The n best of all R·V ways to continue each text (fewer where there are fewer).

    A rival's best tokens are best by logit already, since normalising shifts all of its logits
    alike. So the sums are formed for R·n candidates, and never for the whole vocabulary.
    """
    n_rivals, vocab_size = logits.shape[-2:]
    of_each, tokens = best_of_each(logits, min(n, vocab_size))
    log_sums = torch.logsumexp(logits.to(totals.dtype), dim=-1, keepdim=True)
    log_probabilities = of_each - log_sums
    sums = totals.unsqueeze(-1) + log_probabilities
    best_sums, places = sums.flatten(1).topk(min(n, n_rivals * of_each.size(-1)), dim=-1)
    return Candidates(
        totals=best_sums,
        log_probabilities=log_probabilities.flatten(1).gather(1, places),
        tokens=tokens.flatten(1).gather(1, places),
        parents=places // of_each.size(-1),
    )


def best_of_each(
    logits: Float[Tensor, "... V"], n: int
) -> tuple[Float[Tensor, "... N"], Int[Tensor, "... N"]]:
    """The n largest logits of each row and their ids, largest first.

    Exactly `topk`, found in two steps where the row is long: the n largest lie in the n chunks
    whose maxima are largest, and maxima are much cheaper than sorting.
    """
    vocab_size = logits.size(-1)
    n_chunks = vocab_size // _CHUNK
    if vocab_size < _WORTH_CHUNKING or n_chunks <= 2 * n:
        largest = logits.topk(n, dim=-1)
        return largest.values, largest.indices
    head = logits[..., : n_chunks * _CHUNK].unflatten(-1, (n_chunks, _CHUNK))
    chunks = head.amax(dim=-1).topk(n, dim=-1, sorted=False).indices
    inside = head.take_along_dim(chunks.unsqueeze(-1), dim=-2).flatten(-2)
    tail = logits[..., n_chunks * _CHUNK :]
    values, places = torch.cat([inside, tail], dim=-1).topk(n, dim=-1)
    in_tail = places >= n * _CHUNK
    chunk = chunks.gather(-1, (places // _CHUNK).clamp(max=n - 1))
    ids = torch.where(in_tail, places + (n_chunks - n) * _CHUNK, chunk * _CHUNK + places % _CHUNK)
    return values, ids


def log_probabilities_of(
    logits: Float[Tensor, "B R V"], tokens: Int[Tensor, "B R"]
) -> Float[Tensor, "B R"]:
    """The log-probability of one token of each row."""
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chosen = precise.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(precise, dim=-1)
