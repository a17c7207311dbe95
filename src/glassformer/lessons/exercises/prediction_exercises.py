"""Exercises on what a model is trained for and how it writes: loss, greedy decoding, beam step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from glassformer.decoding.beam import best_continuations
from glassformer.decoding.greedy import MostProbable, collect, steps
from glassformer.decoding.hypotheses import Stop
from glassformer.language import words
from glassformer.lessons.exercises.attention_exercises import Cases, numbers
from glassformer.lessons.exercises.exercise_check import Exercise
from glassformer.training.learner import cross_entropy

say = words(__name__)


def _loss_reference(logits: Tensor, ids: Tensor, pad_id: int) -> Tensor:
    targets = ids[:, 1:]
    is_token = targets != pad_id
    total = cross_entropy(logits[:, :-1][is_token], targets[is_token]).objective
    return total / is_token.sum()


def _loss_cases() -> Cases:
    draw = numbers(20)
    return [
        (2 * draw(2, 4, 5), torch.tensor([[1, 3, 4, 2], [1, 4, 2, 0]]), 0),
        (2 * draw(3, 5, 6), torch.tensor([[1, 2, 3, 4, 0], [1, 5, 5, 5, 5], [1, 0, 4, 2, 3]]), 5),
        (2 * draw(1, 3, 4), torch.tensor([[1, 2, 3]]), 0),
    ]


LOSS = Exercise("loss", "loss", say, _loss_cases, _loss_reference)

# --- decoding ----------------------------------------------------------------------------------

NextLogits = Callable[[list[int]], Tensor]


class PrefixModel:
    """A made-up model: logits that depend on all ids so far, and on nothing else."""

    def __init__(self, seed: int, vocab_size: int) -> None:
        self.seed = seed
        self.vocab_size = vocab_size

    def __call__(self, ids: Sequence[int]) -> Tensor:
        seed = self.seed
        for token in ids:
            seed = (seed * 31 + int(token) + 1) % 2**31
        return torch.rand(self.vocab_size, generator=torch.Generator().manual_seed(seed))


class _OneByOne:
    """The made-up model as our search asks for it: a `Stepper` of one sequence."""

    def __init__(self, next_logits: NextLogits, start: int) -> None:
        self.next_logits = next_logits
        self.ids = [start]

    def start(self) -> Tensor:
        return self.next_logits(self.ids)[None, None]

    def step(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        del parents
        self.ids.append(int(tokens))
        return self.start()

    def worth_leaving(self, n_left: int) -> bool:
        del n_left
        return False

    def keep(self, sequences: Tensor) -> None:
        raise AssertionError(f"one sequence never leaves, got {sequences}")


def _greedy_reference(next_logits: NextLogits, start: int, end: int, max_new: int) -> list[int]:
    stop = Stop(end, (max_new,))
    run = steps(_OneByOne(next_logits, start), MostProbable(), stop)
    (decoded,) = collect(run, stop)
    return list(decoded.hypotheses[0].tokens)


def _greedy_cases() -> Cases:
    return [
        (PrefixModel(seed, 6), 0, 5, max_new) for seed, max_new in ((3, 8), (4, 5), (5, 6), (9, 8))
    ]


GREEDY = Exercise("greedy", "greedy", say, _greedy_cases, _greedy_reference)


def _beam_reference(logits: Tensor, totals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    found = best_continuations(logits[None], totals[None], len(totals))
    return found.totals[0], found.parents[0], found.tokens[0]


def _beam_cases() -> Cases:
    draw = numbers(23)
    return [
        (2 * draw(3, 5), torch.tensor([-1.0, -1.2, -4.0])),
        (2 * draw(2, 6), torch.tensor([-2.5, -0.3])),
        (2 * draw(4, 4), torch.tensor([-1.0, -1.1, -0.9, -6.0])),
    ]


BEAM_STEP = Exercise("beam-step", "beam_step", say, _beam_cases, _beam_reference)
