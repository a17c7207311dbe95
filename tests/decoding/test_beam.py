"""Beam search: right by brute force, the same with and without cache, alone and in a batch."""

import math
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from glassformer.decoding import (
    Beam,
    Decoded,
    Greedy,
    ModelStepper,
    Stop,
    beam_search,
    extend,
    translate,
)
from glassformer.errors import ConfigError
from glassformer.nn import LanguageModel, Seq2Seq
from tests.decoding.tiny import (
    END,
    START,
    Uncached,
    all_texts,
    language_model,
    sources,
    total_of,
    translator,
)

STOPS: tuple[Literal["best", "first", "exact"], ...] = ("best", "first", "exact")


def texts(decoded: list[Decoded]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.tokens for hypothesis in one.hypotheses] for one in decoded]


@pytest.mark.parametrize("stop", ["best", "first", "exact"])
@pytest.mark.parametrize("length_penalty", [0.0, 2.0])
def test_trap_26_a_beam_of_1_is_greedy(
    stop: Literal["best", "first", "exact"], length_penalty: float
) -> None:
    model = translator()
    beam = Beam(size=1, length_penalty=length_penalty, stop=stop)
    by_beam, by_greedy = (
        translate(model, sources(), start=START, end=END, search=search, max_new=12)
        for search in (beam, Greedy())
    )
    assert texts(by_beam) == texts(by_greedy)
    for one, other in zip(by_beam, by_greedy, strict=True):
        assert one.best.log_probability == pytest.approx(other.best.log_probability, abs=1e-9)
        assert one.best.ended == other.best.ended


@pytest.mark.no_cover  # brute force: the same few lines, hundreds of times
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("length_penalty", "penalty"), [(0.0, "power"), (1.0, "power"), (-1.0, "power"), (0.6, "gnmt")]
)
def test_trap_26_a_beam_that_covers_everything_is_brute_force(
    seed: int, length_penalty: float, penalty: Literal["power", "gnmt"]
) -> None:
    vocab_size, max_new, source = 4, 4, [3, 0, 3]
    model = translator(vocab_size, seed)
    beam = Beam(
        size=4**4,
        n_best=5,
        length_penalty=length_penalty,
        penalty=penalty,
        stop="exact",
    )
    found = translate(model, [source], start=START, end=END, search=beam, max_new=max_new)[0]
    scores = {
        tokens: beam.score(total_of(model, [START], tokens, source), len(tokens))
        for tokens in all_texts(vocab_size, END, max_new)
    }
    best = sorted(scores, key=lambda tokens: -scores[tokens])[:5]
    for hypothesis, tokens in zip(found.hypotheses, best, strict=True):
        assert (*hypothesis.tokens, *[END] * hypothesis.ended) == tokens
        assert hypothesis.score == pytest.approx(scores[tokens], abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_exact_stopping_finds_what_never_stopping_finds(seed: int, length_penalty: float) -> None:
    model = language_model(seed=seed)
    exact = Beam(size=3, length_penalty=length_penalty, stop="exact")
    # With n_best = size, of which only the first is used, nothing stops early.
    patient = replace(exact, n_best=3)
    prompts = sources(5)
    quick = extend(model, prompts, end=END, search=exact, max_new=15)
    slow = extend(model, prompts, end=END, search=patient, max_new=15)
    for one, other in zip(quick, slow, strict=True):
        assert one.best.score == pytest.approx(other.best.score, abs=1e-9)


@pytest.mark.no_cover  # the same few lines, hundreds of times
@pytest.mark.parametrize("model", [translator(), language_model(), language_model(kind="llama")])
@pytest.mark.parametrize("size", [2, 5])
def test_trap_12_cached_beams_are_uncached_beams(model: LanguageModel | Seq2Seq, size: int) -> None:
    """Caches follow the beams, and removing dead positions changes nothing."""
    read = sources(4) if isinstance(model, Seq2Seq) else None
    begun = [[START]] * 4 if read else sources(4, seed=3)
    beam, stop = Beam(size=size, n_best=size), Stop(END, (20,) * 4)
    with torch.no_grad():
        fast = beam_search(ModelStepper(model, begun, read), beam, stop, ledger=True)
        slow = beam_search(Uncached(model, begun, read), beam, stop, ledger=True)
    assert texts(fast) == texts(slow)
    for one, other in zip(fast, slow, strict=True):
        assert [h.score for h in one.hypotheses] == pytest.approx(
            [h.score for h in other.hypotheses], abs=1e-9
        )
        assert one.ledger is not None and other.ledger is not None
        assert len(one.ledger.steps) == len(other.ledger.steps)


@pytest.mark.parametrize("search", [Greedy(), Beam(size=3, n_best=3)])
def test_trap_4_and_8_batched_is_one_by_one(search: Greedy | Beam) -> None:
    """Neither padding nor neighbours nor the order of the batch change a result."""
    model, read = translator(), sources(9)
    together = translate(model, read, start=START, end=END, search=search, max_new=15)
    mixed = translate(model, read, start=START, end=END, search=search, max_new=15, batch_size=2)
    alone = [
        translate(model, [one], start=START, end=END, search=search, max_new=15)[0] for one in read
    ]
    assert texts(together) == texts(mixed) == texts(alone)
    for one, other in zip(together, alone, strict=True):
        assert one.best.score == pytest.approx(other.best.score, abs=1e-9)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("search", [Greedy(), Beam(size=3, n_best=3)])
def test_trap_10_and_11_prompts_of_different_length_share_a_batch(
    kind: str, search: Greedy | Beam
) -> None:
    model, prompts = language_model(kind=kind), sources(7)
    together = extend(model, prompts, end=END, search=search, max_new=12)
    alone = [extend(model, [one], end=END, search=search, max_new=12)[0] for one in prompts]
    assert texts(together) == texts(alone)


def test_stopping_at_the_best_ending_is_the_soonest() -> None:
    model, read = translator(6, seed=4), sources(12, 6)
    by_rule = {
        stop: translate(
            model, read, start=START, end=END, search=Beam(stop=stop), max_new=30, ledger=True
        )
        for stop in STOPS
    }
    n_steps = {
        stop: sum(len(one.ledger.steps) for one in results if one.ledger is not None)
        for stop, results in by_rule.items()
    }
    assert n_steps["best"] <= n_steps["first"] <= n_steps["exact"]
    assert n_steps["best"] < n_steps["exact"]


def test_a_forced_prefix_is_continued_and_not_repeated() -> None:
    model, read, prefix = translator(), sources(3), [4, 7]
    forced = translate(
        model, read, start=START, end=END, prefixes=[prefix] * 3, search=Beam(), max_new=8
    )
    for source, one in zip(read, forced, strict=True):
        tokens = [*one.best.tokens, *[END] * one.best.ended]
        expected = total_of(model, [START, *prefix], tokens, source)
        assert one.best.log_probability == pytest.approx(expected, abs=1e-9)
        alone = translate(model, [source], start=START, end=END, prefixes=[prefix], max_new=8)
        assert alone[0].best.tokens == one.best.tokens


def test_each_sequence_has_its_own_maximum_length() -> None:
    model, read = translator(), sources(6)
    for source, one in zip(
        read, translate(model, read, start=START, end=None, search=Beam(size=2)), strict=True
    ):
        assert len(one.best.tokens) == len(source) + 50
        assert not one.best.ended


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "from 1 to 1,024 continuations, got 0"),
        ({"size": 100_000}, "from 1 to 1,024 continuations, got 100,000"),
        ({"length_penalty": float("nan")}, "length_penalty must be from -10 to 10, got nan"),
        ({"length_penalty": float("-inf")}, "length_penalty must be from -10 to 10, got -inf"),
        ({"length_penalty": 1000.0}, "length_penalty must be from -10 to 10, got 1000"),
        ({"length_penalty": -10.5}, "length_penalty must be from -10 to 10, got -10.5"),
        ({"size": 2, "n_best": 3}, "n_best must be between 1 and the beam size, got 3 of 2"),
        ({"penalty": "wu"}, "'power' or 'gnmt'"),
        ({"stop": "never"}, "'best' or 'first' or 'exact'"),
    ],
)
def test_wrong_settings_are_one_clear_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Beam(**settings)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("penalty", ["power", "gnmt"])
@pytest.mark.parametrize("length_penalty", [-10.0, 10.0])
def test_the_strongest_penalties_rank_sequences_of_any_length(
    length_penalty: float, penalty: Literal["power", "gnmt"]
) -> None:
    beam = Beam(length_penalty=length_penalty, penalty=penalty)
    scores = [beam.score(-50.0, length) for length in (1, 2, 1000, 10**9)]
    assert all(map(math.isfinite, scores)) and 0.0 not in scores
    assert scores == sorted(scores, reverse=length_penalty < 0) and len(set(scores)) == 4


class Reluctant(ModelStepper):
    """Drops finished sequences at a given number of them, and counts how often."""

    def __init__(self, *args: Any, leave_at: frozenset[int]) -> None:
        super().__init__(*args)
        self.leave_at = leave_at
        self.left: list[int] = []

    def worth_leaving(self, n_left: int) -> bool:
        return n_left in self.leave_at

    def keep(self, texts: Tensor) -> None:
        self.left.append(len(texts))
        super().keep(texts)


@pytest.mark.parametrize("stop", STOPS)
def test_when_sequences_leave_is_the_steppers_choice_and_changes_no_result(
    stop: Literal["best", "first", "exact"],
) -> None:
    model, read = translator(), sources(9)
    limits = Stop(END, tuple(range(3, 12)))
    found, left = [], []
    for leave_at in (frozenset[int](), frozenset({6, 2}), frozenset(range(9))):
        stepper = Reluctant(model, [[START]] * 9, read, leave_at=leave_at)
        with torch.inference_mode():
            found.append(beam_search(stepper, Beam(size=3, n_best=2, stop=stop), limits))
        left.append(stepper.left)
        assert leave_at.issuperset(stepper.left)
    assert texts(found[0]) == texts(found[1]) == texts(found[2])
    assert not left[0] and left[2] == sorted(set(left[2]), reverse=True)
    assert len(left[2]) > 1


def test_a_step_waits_for_the_device_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything that the host needs comes in one transfer, endings included."""
    transfers = 0
    to_host = Tensor.numpy

    def counted(tensor: Tensor, *, force: bool = False) -> object:
        nonlocal transfers
        transfers += 1
        return to_host(tensor, force=force)

    monkeypatch.setattr(Tensor, "numpy", counted)
    for name in ("tolist", "item", "nonzero", "__bool__", "__int__", "__float__"):
        monkeypatch.setattr(Tensor, name, lambda *_, name=name: pytest.fail(f"{name} waits"))
    generator = torch.Generator().manual_seed(0)

    class Noise:
        n_steps = 0

        def start(self) -> Tensor:
            return torch.randn(5, 1, 11, generator=generator)

        def step(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
            self.n_steps += 1
            return torch.randn(*tokens.shape, 11, generator=generator)

        def worth_leaving(self, n_left: int) -> bool:
            return False

        def keep(self, texts: Tensor) -> None:
            raise AssertionError("nobody was to leave")

    noise = Noise()
    beam_search(noise, Beam(size=3), Stop(END, (12,) * 5))
    assert transfers == noise.n_steps + 1 > 2
