"""The ledger: its sums are the scores, its paths the sequences; recording it changes nothing."""

import pytest

from glassformer.decoding import Beam, Decoded, Greedy, Sampling, Search, extend, translate
from tests.decoding.tiny import END, START, language_model, sources, total_of, translator

SEARCHES: list[Search] = [Greedy(), Beam(size=3, n_best=3), Sampling(seed=2, n_samples=2)]


def check_sums(decoded: Decoded, tolerance: float = 1e-9) -> None:
    ledger = decoded.ledger
    assert ledger is not None
    for number, step in enumerate(ledger.steps):
        for candidate in step.candidates:
            path = ledger.path(number, candidate)
            assert len(path) == number + 1
            total = sum(one.log_probability for one in path)
            assert candidate.total == pytest.approx(total, abs=tolerance)


@pytest.mark.parametrize("search", SEARCHES)
def test_sums_are_scores_and_paths_are_sequences(search: Search) -> None:
    model, read = translator(), sources(4)
    results = translate(model, read, start=START, end=END, search=search, max_new=8, ledger=True)
    for source, decoded in zip(read, results, strict=True):
        check_sums(decoded)
        ledger = decoded.ledger
        assert ledger is not None
        found = {
            tuple(one.token for one in ledger.path(number, candidate)): candidate
            for number, step in enumerate(ledger.steps)
            for candidate in step.candidates
            if candidate.fate != "dropped"
        }
        for hypothesis in decoded.hypotheses:
            tokens = (*hypothesis.tokens, *[END] * hypothesis.ended)
            candidate = found[tokens]
            assert candidate.total == pytest.approx(hypothesis.log_probability, abs=1e-9)
            assert candidate.score == pytest.approx(hypothesis.score, abs=1e-9)
            expected = total_of(model, [START], tokens, source)
            assert candidate.total == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("search", SEARCHES)
def test_recording_it_changes_nothing(search: Search) -> None:
    model, prompts = language_model(), sources(4)
    with_, without = (
        extend(model, prompts, end=END, search=search, max_new=8, ledger=ledger)
        for ledger in (True, False)
    )
    assert [one.hypotheses for one in with_] == [one.hypotheses for one in without]
    assert all(one.ledger is None for one in without)


def test_a_beam_keeps_as_many_as_it_holds_and_names_their_parents() -> None:
    result = translate(
        translator(), sources(1), start=START, end=END, search=Beam(size=3), max_new=6, ledger=True
    )[0]
    assert result.ledger is not None
    *before, last = result.ledger.steps
    for step in before:
        assert len(step.kept) == 3
        totals = [candidate.total for candidate in step.candidates]
        assert totals == sorted(totals, reverse=True)
    for earlier, later in zip(before, [*before[1:], last], strict=True):
        assert {one.parent for one in later.candidates} <= set(range(len(earlier.kept)))


def test_sampling_records_the_chance_beside_the_probability() -> None:
    search = Sampling(temperature=0.5, top_k=3)
    result = extend(language_model(), sources(1), end=END, search=search, max_new=4, ledger=True)[0]
    assert result.ledger is not None
    for step in result.ledger.steps:
        chances = [one.draw_probability for one in step.candidates]
        assert all(chance is not None for chance in chances)
        assert sum(chance or 0 for chance in chances) == pytest.approx(1, abs=1e-6)
        assert sum(chance == 0 for chance in chances) == len(chances) - 3


@pytest.mark.parametrize("search", SEARCHES)
def test_a_model_in_half_precision_has_a_ledger_in_single(search: Search) -> None:
    model = language_model().half()
    for one in extend(model, sources(4), end=END, search=search, max_new=8, ledger=True):
        # Sums of 8 numbers of a few units each: half precision would be off by some 0.001.
        check_sums(one, tolerance=1e-5)
        assert one.ledger is not None
        totals = [c.total for step in one.ledger.steps for c in step.candidates]
        for hypothesis in one.hypotheses:
            assert min(abs(t - hypothesis.log_probability) for t in totals) <= 1e-5
