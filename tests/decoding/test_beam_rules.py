"""When a beam search stops: the rules of its docstring, written down as loops over lists."""

import math
from collections.abc import Sequence
from typing import Literal

import pytest
import torch
from torch import Tensor

from glassformer.decoding import Beam, Stop, beam_search

END, VOCAB_SIZE, LIMIT = 0, 6, 9

Text = tuple[int, ...]


def next_logits(text: int, written: Text) -> list[float]:
    """Logits for a sequence: arbitrary, but always the same."""
    seed = 7_919 * text + sum((token + 1) * 13**place for place, token in enumerate(written))
    return torch.randn(VOCAB_SIZE, generator=torch.Generator().manual_seed(seed)).mul(2).tolist()


class MadeUp:
    """A `Stepper` that knows what each beam has written, and counts its steps."""

    def __init__(self, n_texts: int, leaving: bool) -> None:
        self.beams: list[list[Text]] = [[()] for _ in range(n_texts)]
        self.texts = list(range(n_texts))
        self.leaving = leaving
        self.n_left: list[int] = []

    def start(self) -> Tensor:
        return self._logits()

    def step(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        assert parents is not None
        rows = zip(self.beams, tokens.tolist(), parents.tolist(), strict=True)
        self.beams = [
            [(*beams[parent], token) for token, parent in zip(new, begun, strict=True)]
            for beams, new, begun in rows
        ]
        return self._logits()

    def worth_leaving(self, n_left: int) -> bool:
        return self.leaving

    def keep(self, texts: Tensor) -> None:
        self.n_left.append(len(texts))
        self.beams = [self.beams[row] for row in texts.tolist()]
        self.texts = [self.texts[row] for row in texts.tolist()]

    def _logits(self) -> Tensor:
        rows = zip(self.texts, self.beams, strict=True)
        return torch.tensor([[next_logits(t, r) for r in beams] for t, beams in rows]).double()


def by_the_rules(text: int, beam: Beam) -> tuple[list[Text], int]:
    """The n best sequences, each with its end token if it has one, and the steps taken."""
    open_: dict[Text, float] = {(): 0.0}
    ended: dict[Text, float] = {}
    best_has_ended = False
    for length in range(1, LIMIT + 1):
        candidates: dict[Text, float] = {}
        for written, total in open_.items():
            logits = next_logits(text, written)
            log_sum = math.log(sum(map(math.exp, logits)))
            for token, logit in enumerate(logits):
                candidates[(*written, token)] = total + logit - log_sum
        ranked = sorted(candidates, key=lambda one: -candidates[one])[: 2 * beam.size]
        for place, one in enumerate(ranked):
            if place < beam.size and (one[-1] == END or length == LIMIT):
                ended[one] = beam.score(candidates[one], length)
        best_has_ended = best_has_ended or ranked[0][-1] == END
        open_ = {one: candidates[one] for one in [r for r in ranked if r[-1] != END][: beam.size]}
        if len(ended) >= beam.n_best and is_done(beam, best_has_ended, ended, open_, length):
            break
    return sorted(ended, key=lambda one: -ended[one])[: beam.n_best], length


def is_done(
    beam: Beam,
    best_has_ended: bool,
    ended: dict[Text, float],
    open_: dict[Text, float],
    length: int,
) -> bool:
    if beam.stop == "exact":
        reachable = [beam.score(max(open_.values()), n) for n in range(length + 1, LIMIT + 1)]
        return max(reachable, default=-math.inf) <= sorted(ended.values())[-beam.n_best]
    return len(ended) >= beam.size or (beam.stop == "best" and best_has_ended)


def found(beam: Beam, n_texts: int, leaving: bool) -> tuple[list[tuple[list[Text], int]], MadeUp]:
    stepper = MadeUp(n_texts, leaving)
    decoded = beam_search(stepper, beam, Stop(END, (LIMIT,) * n_texts), ledger=True)
    results = []
    for one in decoded:
        assert one.ledger is not None
        texts: Sequence[Text] = [(*h.tokens, *[END] * h.ended) for h in one.hypotheses]
        results.append((list(texts), len(one.ledger.steps)))
    return results, stepper


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("n_best", [1, 2, 3])
@pytest.mark.parametrize("stop", ["best", "first", "exact"])
def test_sequences_and_steps_are_those_of_the_rules(
    stop: Literal["best", "first", "exact"], n_best: int, leaving: bool
) -> None:
    n_texts = 25
    beam = Beam(size=4, n_best=n_best, stop=stop)
    results, stepper = found(beam, n_texts, leaving)
    assert results == [by_the_rules(text, beam) for text in range(n_texts)]
    some_were_done_before_others = len({n_steps for _, n_steps in results}) > 1
    assert bool(stepper.n_left) == (leaving and some_were_done_before_others)
    assert some_were_done_before_others or stop == "exact"


def test_an_ended_best_is_remembered_while_more_results_are_wanted() -> None:
    """The best ends at step 1, a second sequence at step 2: two were wanted, so that is all."""

    class EndsEarly(MadeUp):
        n_steps = 0

        def _logits(self) -> Tensor:
            self.n_steps += 1
            unlikely = [0.001, 0.799, 0.1, 0.05, 0.03, 0.02]
            chances = {1: [0.5, 0.3, 0.1, 0.04, 0.03, 0.03], 2: [0.3, 0.5, 0.1, 0.04, 0.03, 0.03]}
            row = torch.tensor(chances.get(self.n_steps, unlikely)).log()
            return row.expand(1, len(self.beams[0]), -1)

    for n_best, n_steps in ((1, 1), (2, 2)):
        stepper = EndsEarly(1, leaving=False)
        beam_search(stepper, Beam(size=4, n_best=n_best, stop="best"), Stop(END, (20,)))
        assert stepper.n_steps == n_steps
