"""Greedy decoding: always the most probable token; and the loop that it shares with sampling.

A `Chooser` decides which token comes next; `steps` knows when sequences end and leave the batch;
`collect` gathers the results. Dims: B sequences, R samples of each, V vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

from glassformer.decoding.hypotheses import Candidate, Decoded, Hypothesis, Ledger, LedgerStep, Stop
from glassformer.decoding.stepper import Stepper
from glassformer.errors import stop_if_cancelled
from glassformer.nn.tensors import Bool, Float, Int, Tensor

_SHOWN = 8  # candidates in a step of the ledger


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Take the most probable token at each step."""


class TokenChoice(NamedTuple):
    """The tokens chosen, and the probabilities they were drawn with (None: the best was taken)."""

    tokens: Int[Tensor, "B R"]
    probabilities: Float[Tensor, "B R V"] | None


class Chooser(Protocol):
    """Picks one token from each row of logits."""

    def choose(self, logits: Float[Tensor, "B R V"]) -> TokenChoice:
        """The next token of each row."""

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        """Continue with these sequences only, in this order."""


class MostProbable:
    """A `Chooser` that takes the largest logit; among equals, the smallest id."""

    def choose(self, logits: Float[Tensor, "B R V"]) -> TokenChoice:
        return TokenChoice(logits.argmax(dim=-1), None)

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        """Nothing to do: a greedy choice has no state."""


class DecodingStep(NamedTuple):
    """What one step added to the sequences that are still in the batch."""

    sequences: Int[Tensor, " B"]
    """Which sequence each row belongs to."""
    unfinished: Bool[Tensor, "B R"]
    """Where a sample was still open; elsewhere the token is meaningless."""
    choice: TokenChoice
    logits: Float[Tensor, "B R V"]


def steps(
    stepper: Stepper, chooser: Chooser, stop: Stop, n_samples: int = 1
) -> Iterator[DecodingStep]:
    """Decode n_samples continuations of each sequence, yielding each step as it is taken."""
    logits = stepper.start().expand(-1, n_samples, -1)
    limits = torch.tensor(stop.max_new, device=logits.device)
    sequences = torch.arange(logits.size(0), device=logits.device)
    unfinished = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
    parents = None if n_samples == 1 else torch.zeros_like(unfinished, dtype=torch.long)
    for length in range(1, max(stop.max_new) + 1):
        stop_if_cancelled()
        choice = chooser.choose(logits)
        yield DecodingStep(sequences, unfinished, choice, logits)
        unfinished = unfinished & (limits > length).unsqueeze(-1)
        if stop.end is not None:
            unfinished = unfinished & (choice.tokens != stop.end)
        running = unfinished.any(dim=1)
        n_left = int(running.sum())
        if not n_left:
            return
        tokens = choice.tokens
        if n_left < len(running) and stepper.worth_leaving(n_left):
            rows = running.nonzero().squeeze(1)
            stepper.keep(rows)
            chooser.keep(rows)
            sequences, unfinished = sequences[rows], unfinished[rows]
            tokens, limits = tokens[rows], limits[rows]
            parents = None if parents is None else parents[rows]
        logits = stepper.step(tokens, parents)
        parents = None  # all samples continue the same prefix, then each its own


def collect(
    run: Iterator[DecodingStep], stop: Stop, n_samples: int = 1, *, ledger: bool = False
) -> list[Decoded]:
    """Run the steps to the end; one result per sequence, its samples in order."""
    samples = [[_Sample() for _ in range(n_samples)] for _ in stop.max_new]
    accounts: list[list[LedgerStep]] = [[] for _ in stop.max_new]
    for step in run:
        tokens = step.choice.tokens
        log_probabilities = log_probabilities_of(step.logits, tokens).tolist()
        rows = zip(step.sequences.tolist(), step.unfinished.tolist(), tokens.tolist(), strict=True)
        for row, (sequence, unfinished, chosen) in enumerate(rows):
            if ledger and any(unfinished):
                accounts[sequence].append(_account(step, row, samples[sequence], stop.end))
            for sample, is_open in enumerate(unfinished):
                if is_open:
                    log_probability = log_probabilities[row][sample]
                    samples[sequence][sample].add(chosen[sample], log_probability, stop.end)
    return [
        Decoded(
            tuple(sample.hypothesis() for sample in samples[sequence]),
            Ledger(tuple(accounts[sequence])) if ledger else None,
        )
        for sequence in range(len(stop.max_new))
    ]


class _Sample:
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


def _account(step: DecodingStep, row: int, samples: list[_Sample], end: int | None) -> LedgerStep:
    """The most probable tokens of a sequence's samples at one step, and those that were chosen."""
    candidates = []
    unfinished = [i for i, is_open in enumerate(step.unfinished[row].tolist()) if is_open]
    for parent, sample in enumerate(unfinished):
        chosen = int(step.choice.tokens[row, sample])
        logits = step.logits[row, sample]
        ids = logits.topk(min(_SHOWN, logits.numel())).indices.tolist()
        ids += [] if chosen in ids else [chosen]
        shown = precise(logits).log_softmax(-1)
        for token in ids:
            log_probability = float(shown[token])
            total = samples[sample].total + log_probability
            probabilities = step.choice.probabilities
            candidates.append(
                Candidate(
                    parent=parent,
                    token=token,
                    log_probability=log_probability,
                    total=total,
                    score=total,
                    fate="dropped" if token != chosen else "ended" if token == end else "kept",
                    draw_probability=None
                    if probabilities is None
                    else float(probabilities[row, sample, token]),
                )
            )
    return LedgerStep(tuple(candidates))


def precise(logits: Float[Tensor, "... V"]) -> Float[Tensor, "... V"]:
    """In at least single precision: in half, the fourth digit of a log-probability is wrong."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def log_probabilities_of(
    logits: Float[Tensor, "B R V"], tokens: Int[Tensor, "B R"]
) -> Float[Tensor, "B R"]:
    """The log-probability of one token per row."""
    logits = precise(logits)
    chosen = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - logits.logsumexp(dim=-1)
