"""From logits to the best next tokens: log-probabilities and top-k, over large vocabularies fast.

Pure functions on tensors; nothing here knows what a token or a text is.
Dims: B texts, R rivals of each, V vocabulary, N candidates asked for, C chunks, W their width.
"""

from typing import NamedTuple

import torch

from glassformer.nn.shapes import Float, Int, Tensor

__all__ = ["Candidates", "best_continuations", "log_probabilities_of"]

_CHUNK = 64
_WORTH_CHUNKING = 2048


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
    """The n best of all R·V ways to continue each text (fewer where there are fewer)."""
    n_rivals, vocab_size = logits.shape[1:]
    n = min(n, n_rivals * vocab_size)
    log_probabilities = torch.log_softmax(logits, dim=-1, dtype=totals.dtype)
    if vocab_size < max(_WORTH_CHUNKING, 4 * n * _CHUNK):
        sums = (totals.unsqueeze(-1) + log_probabilities).flatten(1)
        best = sums.topk(n, dim=-1)
        sums, places = best.values, best.indices
    else:
        sums, places = _best_by_chunks(log_probabilities, totals, n)
    return Candidates(
        totals=sums,
        log_probabilities=log_probabilities.flatten(1).gather(1, places),
        tokens=places % vocab_size,
        parents=places // vocab_size,
    )


def _best_by_chunks(
    log_probabilities: Float[Tensor, "B R V"], totals: Float[Tensor, "B R"], n: int
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"]]:
    """The n largest sums of each text and their places among its R·V, exactly as `topk` has them.

    The n largest lie in the n chunks whose maxima are largest. A maximum is one pass over memory,
    where a top-k is many, and the sums need forming for those chunks alone.
    """
    n_texts, n_rivals, vocab_size = log_probabilities.shape
    n_chunks = vocab_size // _CHUNK
    whole = n_chunks * _CHUNK
    chunks = log_probabilities[..., :whole].unflatten(-1, (n_chunks, _CHUNK))
    maxima = chunks.amax(dim=-1) + totals.unsqueeze(-1)
    chosen = maxima.flatten(1).topk(n, dim=-1, sorted=False).indices
    rival, chunk = chosen // n_chunks, chosen % n_chunks
    text = torch.arange(n_texts, device=chosen.device).unsqueeze(-1)
    inside = chunks[text, rival, chunk] + totals.gather(1, rival).unsqueeze(-1)
    rest = log_probabilities[..., whole:] + totals.unsqueeze(-1)  # what fills no chunk
    best = torch.cat([inside.flatten(1), rest.flatten(1)], dim=-1).topk(n, dim=-1)
    starts = rival * vocab_size + chunk * _CHUNK
    steps = torch.arange(_CHUNK, device=chosen.device)
    rest_starts = torch.arange(n_rivals, device=chosen.device) * vocab_size + whole
    rest_steps = torch.arange(vocab_size - whole, device=chosen.device)
    rest_places = (rest_starts.unsqueeze(-1) + rest_steps).flatten().expand(n_texts, -1)
    places = torch.cat([(starts.unsqueeze(-1) + steps).flatten(1), rest_places], dim=-1)
    return best.values, places.gather(1, best.indices)


def log_probabilities_of(
    logits: Float[Tensor, "B R V"], tokens: Int[Tensor, "B R"]
) -> Float[Tensor, "B R"]:
    """The log-probability of one token of each row."""
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chosen = precise.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(precise, dim=-1)
