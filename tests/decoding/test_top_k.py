"""The best continuations of a large vocabulary, found by chunks, are those of a plain top-k."""

import pytest
import torch
from torch import Tensor

from glassformer.decoding import beam
from glassformer.decoding.fast import top_k
from glassformer.decoding.fast.top_k import best_continuations
from glassformer.decoding.greedy import log_probabilities_of

CLOSE = 1e-12  # of sums of log-probabilities between −30 and 0, in float64


def random_logits(n_texts: int, n_beams: int, vocab_size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(vocab_size + n_beams)
    logits = torch.randn(n_texts, n_beams, vocab_size, generator=generator, dtype=torch.float64)
    return 3 * logits, -5 * torch.rand(n_texts, n_beams, generator=generator).double()


@pytest.fixture(params=["as on a CPU", "as on a GPU"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to prepare the chunks, whatever this machine has."""
    if request.param == "as on a GPU":
        monkeypatch.setattr(top_k, "_some_rows_at_a_time", top_k._all_at_once)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("vocab_size", [11, 2047, 4096, 5000, 6000, 8191])
@pytest.mark.parametrize(("n_texts", "n_beams", "n"), [(1, 1, 1), (3, 4, 8), (11, 4, 8)])
def test_the_best_are_those_of_one_top_k(
    vocab_size: int, n_texts: int, n_beams: int, n: int
) -> None:
    logits, totals = random_logits(n_texts, n_beams, vocab_size)
    found = best_continuations(logits, totals, n)
    log_probabilities = logits.log_softmax(-1)
    sums = (totals.unsqueeze(-1) + log_probabilities).flatten(1)
    best = sums.topk(n)
    assert (found.parents * vocab_size + found.tokens).equal(best.indices)
    assert (found.totals - best.values).abs().max() <= CLOSE
    chosen = log_probabilities.flatten(1).gather(1, best.indices)
    assert (found.log_probabilities - chosen).abs().max() <= CLOSE
    plain = beam.best_continuations(logits, totals, n)
    assert found.tokens.equal(plain.tokens) and found.parents.equal(plain.parents)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("at", [0, 4_095, 4_096, 4_999])
def test_the_best_may_lie_anywhere_and_be_huge(at: int) -> None:
    """At a chunk's edge, or in what fills no chunk; exp of it alone would overflow."""
    logits, totals = random_logits(2, 4, 5_000)
    logits[1, 2, at] = 2_000.0
    found = best_continuations(logits.float(), totals.float(), 8)
    assert (int(found.parents[1, 0]), int(found.tokens[1, 0])) == (2, at)
    assert float(found.log_probabilities[1, 0]) == 0.0
    assert bool(found.totals.isfinite().all())


@pytest.mark.parametrize("vocab_size", [11, 6000])
def test_log_probabilities_of_chosen_tokens(vocab_size: int) -> None:
    logits, _ = random_logits(20, 3, vocab_size)
    tokens = logits.argmin(dim=-1)
    expected = logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    assert (log_probabilities_of(logits, tokens) - expected).abs().max() <= CLOSE
