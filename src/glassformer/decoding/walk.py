"""One token after another, without looking back: the loop that greedy and sampling share.

Which token comes next is a `Chooser`'s business; this file knows when texts end, which leave the
batch, and how to collect what they said. Dims: B texts, R samples of each, V vocabulary.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch

from glassformer.cancelling import stop_if_cancelled
from glassformer.decoding.candidates import log_probabilities_of, precise
from glassformer.decoding.ledger import Candidate, Ledger, LedgerStep
from glassformer.decoding.results import Decoded, Hypothesis, Stop
from glassformer.decoding.stepper import Stepper
from glassformer.nn.shapes import Bool, Float, Int, Tensor

__all__ = ["Choice", "Chooser", "Step", "collect", "steps"]

_SHOWN = 8


class Choice(NamedTuple):
    """The tokens chosen, and the probabilities they were drawn with (None: the best was taken)."""

    tokens: Int[Tensor, "B R"]
    chances: Float[Tensor, "B R V"] | None


class Chooser(Protocol):
    """Picks one token from each row of logits."""

    def choose(self, logits: Float[Tensor, "B R V"]) -> Choice:
        """The next token of each row."""

    def keep(self, texts: Int[Tensor, " M"]) -> None:
        """Go on with these texts alone, in this order."""


class Step(NamedTuple):
    """What one step added to the texts that are still in the batch."""

    texts: Int[Tensor, " B"]
    """Which text each row belongs to."""
    writing: Bool[Tensor, "B R"]
    """Where a text was still being written; elsewhere the token means nothing."""
    choice: Choice
    logits: Float[Tensor, "B R V"]


def steps(stepper: Stepper, chooser: Chooser, stop: Stop, n_samples: int = 1) -> Iterator[Step]:
    """Write n_samples continuations of each text; each step is given out as it is made."""
    logits = stepper.start().expand(-1, n_samples, -1)
    limits = torch.tensor(stop.max_new, device=logits.device)
    texts = torch.arange(logits.size(0), device=logits.device)
    writing = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
    parents = None if n_samples == 1 else torch.zeros_like(writing, dtype=torch.long)
    for length in range(1, max(stop.max_new) + 1):
        stop_if_cancelled()
        choice = chooser.choose(logits)
        yield Step(texts, writing, choice, logits)
        writing = writing & (limits > length).unsqueeze(-1)
        if stop.end is not None:
            writing = writing & (choice.tokens != stop.end)
        running = writing.any(dim=1)
        n_left = int(running.sum())
        if not n_left:
            return
        tokens = choice.tokens
        if n_left < len(running) and stepper.worth_leaving(n_left):
            rows = running.nonzero().squeeze(1)
            stepper.keep(rows)
            chooser.keep(rows)
            texts, writing, tokens, limits = texts[rows], writing[rows], tokens[rows], limits[rows]
            parents = None if parents is None else parents[rows]
        logits = stepper.step(tokens, parents)
        parents = None  # all samples leave the same prefix, and then keep to their own


def collect(
    run: Iterator[Step], stop: Stop, n_samples: int = 1, *, ledger: bool = False
) -> list[Decoded]:
    """Follow a run to its end; one result a text, its samples in order."""
    samples = [[_Written() for _ in range(n_samples)] for _ in stop.max_new]
    accounts: list[list[LedgerStep]] = [[] for _ in stop.max_new]
    for step in run:
        tokens = step.choice.tokens
        log_probabilities = log_probabilities_of(step.logits, tokens).tolist()
        rows = zip(step.texts.tolist(), step.writing.tolist(), tokens.tolist(), strict=True)
        for row, (text, writing, chosen) in enumerate(rows):
            if ledger and any(writing):
                accounts[text].append(_account(step, row, samples[text], stop.end))
            for sample, is_writing in enumerate(writing):
                if is_writing:
                    log_probability = log_probabilities[row][sample]
                    samples[text][sample].add(chosen[sample], log_probability, stop.end)
    return [
        Decoded(
            tuple(sample.hypothesis() for sample in samples[text]),
            Ledger(tuple(accounts[text])) if ledger else None,
        )
        for text in range(len(stop.max_new))
    ]


class _Written:
    """One continuation as it grows."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.total = 0.0
        self.ended = False

    def add(self, token: int, log_probability: float, end: int | None) -> None:
        self.total += log_probability
        self.ended = token == end
        if not self.ended:
            self.tokens.append(token)

    def hypothesis(self) -> Hypothesis:
        return Hypothesis(tuple(self.tokens), self.total, self.total, self.ended)


def _account(step: Step, row: int, samples: list[_Written], end: int | None) -> LedgerStep:
    """The likeliest tokens of a text's samples at one step, and the ones that were chosen."""
    candidates = []
    writing = [sample for sample, writes in enumerate(step.writing[row].tolist()) if writes]
    for parent, sample in enumerate(writing):
        chosen = int(step.choice.tokens[row, sample])
        logits = step.logits[row, sample]
        ids = logits.topk(min(_SHOWN, logits.numel())).indices.tolist()
        ids += [] if chosen in ids else [chosen]
        shown = precise(logits).log_softmax(-1)
        for token in ids:
            log_probability = float(shown[token])
            total = samples[sample].total + log_probability
            chances = step.choice.chances
            candidates.append(
                Candidate(
                    parent=parent,
                    token=token,
                    log_probability=log_probability,
                    total=total,
                    score=total,
                    fate="dropped" if token != chosen else "ended" if token == end else "kept",
                    chance=None if chances is None else float(chances[row, sample, token]),
                )
            )
    return LedgerStep(tuple(candidates))
