"""Sampling: nothing outside the filters is ever drawn, and the rest as often as it should be."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.decoding import Greedy, ModelStepper, Sampling, Stop, extend, stream
from glassformer.decoding.greedy import collect, steps
from glassformer.decoding.sampling import (
    RandomChooser,
    draw,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalise_repetition,
)
from glassformer.errors import ConfigError
from tests.decoding.tiny import END, Uncached, language_model, sources
from tests.nn.without_double import mps_without_double

logit_rows = st.lists(st.floats(-30, 30, allow_nan=False, width=32), min_size=2, max_size=12).map(
    lambda row: torch.tensor(row)
)
quick = settings(max_examples=60)


def kept(logits: Tensor) -> set[int]:
    return {i for i, x in enumerate(logits.tolist()) if x != -math.inf}


@quick
@given(logit_rows, st.integers(1, 14))
def test_trap_30_top_k_keeps_exactly_the_k_largest(logits: Tensor, k: int) -> None:
    left = keep_top_k(logits, k)
    assert len(kept(left)) == min(k, len(logits))
    smallest_kept = min(logits[i] for i in kept(left))
    assert all(logits[i] <= smallest_kept for i in range(len(logits)) if i not in kept(left))
    probabilities = left.softmax(-1)
    assert all(probabilities[i] == 0 for i in range(len(logits)) if i not in kept(left))


@quick
@given(logit_rows, st.floats(0.01, 1.0))
def test_top_p_keeps_the_fewest_that_reach_p(logits: Tensor, p: float) -> None:
    left = kept(keep_top_p(logits, p))
    probabilities = logits.softmax(-1)
    dropped = set(range(len(logits))) - left
    assert all(logits[i] >= logits[j] for i in left for j in dropped)
    mass = sum(float(probabilities[i]) for i in left)
    least = min(float(probabilities[i]) for i in left)
    assert left, "one token always stays"
    assert mass >= p - 1e-5
    assert mass - least < p + 1e-5, "with one fewer, p would not be reached"


@quick
@given(logit_rows, st.floats(0.0, 1.0))
def test_min_p_keeps_what_is_near_the_most_probable(logits: Tensor, p: float) -> None:
    left = kept(keep_min_p(logits, p))
    probabilities = logits.double().softmax(-1)
    for i, probability in enumerate(probabilities.tolist()):
        share = probability / float(probabilities.max())
        if abs(share - p) > 1e-5:
            assert (i in left) == (share > p)
    assert int(logits.argmax()) in left or p == 1.0


@quick
@given(logit_rows, st.floats(1.01, 3.0), st.data())
def test_the_penalty_lowers_what_was_seen_and_nothing_else(
    logits: Tensor, penalty: float, data: st.DataObject
) -> None:
    seen = torch.tensor(
        data.draw(st.lists(st.booleans(), min_size=len(logits), max_size=len(logits)))
    )
    after = penalise_repetition(logits, seen, penalty)
    assert torch.equal(after[~seen], logits[~seen])
    assert bool((after[seen] <= logits[seen]).all())


@quick
@given(logit_rows, st.floats(0.0, 1.0, exclude_max=True))
def test_a_chance_of_zero_is_never_drawn(logits: Tensor, number: float) -> None:
    chances = keep_top_k(logits, 2).softmax(-1)
    token = draw(chances, torch.tensor(number, dtype=torch.float64))
    assert float(chances[int(token)]) > 0


def test_a_device_without_float64_draws_the_same_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(5, 2, 11, generator=generator)
    search, prompts = Sampling(temperature=0.8, n_samples=2, repetition_penalty=1.2), [[3, 4]] * 5
    expected = RandomChooser(search, prompts).choose(logits)
    with mps_without_double() as device:
        found = RandomChooser(search, prompts).choose(logits.to(device))
        assert found.tokens.device == device
        assert found.tokens.cpu().equal(expected.tokens)


def test_tokens_are_drawn_as_often_as_their_chances_say() -> None:
    settings_ = Sampling(temperature=0.7, top_k=4)
    logits = torch.tensor([1.0, 0.5, 0.0, -0.5, -1.0, 3.0])
    chances = settings_.probabilities(logits)
    expected = keep_top_k(logits / 0.7, 4).softmax(-1)
    assert torch.allclose(chances, expected)
    n = 20_000
    numbers = torch.rand(n, generator=torch.Generator().manual_seed(0))
    tokens = draw(chances.expand(n, -1), numbers)
    frequencies = torch.bincount(tokens, minlength=6) / n
    # four standard deviations of a share
    assert bool(((frequencies - chances).abs() <= 4 * (chances / n).sqrt()).all())
    assert set(tokens.tolist()) == {0, 1, 2, 5}


@quick
@given(
    logit_rows,
    st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    st.sampled_from([{}, {"top_k": 2}, {"top_p": 0.9}, {"min_p": 0.1}]),
)
def test_any_temperature_gives_chances(
    logits: Tensor, temperature: float, filters: dict[str, Any]
) -> None:
    """From the smallest positive number, dividing by which leaves nothing finite."""
    chances = Sampling(temperature=temperature, **filters).probabilities(logits)
    assert float(chances.sum()) == pytest.approx(1, abs=1e-6)
    best = logits == logits.max()  # of several that are equal, a filter may keep only one
    assert float(chances[best].max()) == float(chances.max())
    token = draw(chances, torch.tensor(0.999))
    assert float(chances[int(token)]) > 0


@quick
@given(logit_rows, st.sampled_from([0.001, 1000.0]), st.data())
def test_the_strongest_penalties_give_chances(
    logits: Tensor, penalty: float, data: st.DataObject
) -> None:
    flags = st.lists(st.booleans(), min_size=len(logits), max_size=len(logits))
    seen = torch.tensor(data.draw(flags))
    chances = Sampling(repetition_penalty=penalty).probabilities(logits, seen)
    assert float(chances.sum()) == pytest.approx(1, abs=1e-6)


@quick
@given(logit_rows, st.floats(0.05, 20))
def test_chances_are_the_softmax_of_what_is_divided(logits: Tensor, temperature: float) -> None:
    expected = (logits.double() / temperature).softmax(-1).float()
    # The exponent is rounded in single precision, 60 / 0.05 at most: 1e-4 of itself.
    torch.testing.assert_close(
        Sampling(temperature=temperature).probabilities(logits), expected, rtol=1e-4, atol=1e-7
    )


@pytest.mark.parametrize("temperature", [1e-4, 1e-40, 5e-324])
def test_a_low_temperature_is_greedy(temperature: float) -> None:
    model, prompts = language_model(), sources(4)
    cold = extend(model, prompts, end=END, search=Sampling(temperature=temperature), max_new=10)
    greedy = extend(model, prompts, end=END, search=Greedy(), max_new=10)
    assert [one.best.tokens for one in cold] == [one.best.tokens for one in greedy]


def test_a_sequence_does_not_depend_on_its_neighbours() -> None:
    """Each sample has its own RNG, whatever else is in the batch."""
    model, prompts = language_model(), sources(5)
    search = Sampling(temperature=1.2, top_p=0.95, repetition_penalty=1.3, n_samples=2, seed=7)
    together = extend(model, prompts, end=END, search=search, max_new=12)
    in_pairs = extend(model, prompts, end=END, search=search, max_new=12, batch_size=2)
    for one, other in zip(together, in_pairs, strict=True):
        assert [h.tokens for h in one.hypotheses] == [h.tokens for h in other.hypotheses]
    assert together[0].hypotheses[0].tokens != together[0].hypotheses[1].tokens


def test_samples_that_share_a_cache_are_those_that_do_not() -> None:
    model, prompts = language_model(kind="llama"), sources(3)
    search, stop = Sampling(n_samples=3, seed=3), Stop(END, (10,) * 3)
    with torch.no_grad():
        fast, slow = (
            collect(steps(stepper, RandomChooser(search, prompts), stop, 3), stop, 3)
            for stepper in (ModelStepper(model, prompts), Uncached(model, prompts))
        )
    assert [h.tokens for one in fast for h in one.hypotheses] == [
        h.tokens for one in slow for h in one.hypotheses
    ]


def test_a_stream_yields_what_extend_collects() -> None:
    model, prompt = language_model(), sources(1)[0]
    search = Sampling(temperature=1.1, seed=5)
    whole = extend(model, [prompt], end=END, search=search, max_new=20)[0].best
    pieces = []
    for token in stream(model, prompt, end=END, search=search, max_new=20):
        assert not torch.is_inference_mode_enabled(), "our mode must not leak to the caller"
        pieces.append(token)
    assert tuple(pieces) == whole.tokens


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", 0.0, "temperature must be above 0"),
        ("top_k", 0, "top_k must be at least 1"),
        ("top_p", 0.0, "top_p must be above 0, got 0.0"),
        ("top_p", 1.5, "top_p must be at most 1, got 1.5"),
        ("min_p", -0.1, "min_p must be at least 0, got -0.1"),
        ("repetition_penalty", 0.0, "repetition_penalty must be at least 0.001, got 0.0"),
        ("repetition_penalty", 1e39, "repetition_penalty must be at most 1,000"),
        ("repetition_penalty", math.nan, "repetition_penalty must be a finite number, got nan"),
        ("repetition_penalty", None, "repetition_penalty must be a number, got None"),
        ("n_samples", 0, "n_samples must be at least 1, got 0"),
        ("n_samples", None, "n_samples must be a number, got None"),
        ("seed", None, "seed must be a number, got None"),
        ("seed", 2**70, "seed must be below 4,611,686,018,427,387,904"),
    ],
)
def test_wrong_settings_are_one_clear_line(name: str, value: float | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Sampling(**{name: value})  # type: ignore[arg-type]  # that is the point
