"""What decoding returns: hypotheses with their scores, and the ledger of how they were found.

Plain data without tensors, for a person or a page to read; ids are not yet text.
"""

from dataclasses import dataclass
from typing import Literal

from glassformer.errors import ConfigError

Fate = Literal["kept", "ended", "dropped"]


@dataclass(frozen=True)
class Candidate:
    """One token that could have come next."""

    parent: int
    """The beam that it continues, counted among those kept in the step before."""
    token: int
    log_probability: float
    """Of this token after that beam, according to the model."""
    total: float
    """Sum of the log-probabilities from the first token to this one."""
    score: float
    """What it is ranked by when it ends: the total divided by the length penalty."""
    fate: Fate
    """kept: a beam continues from it, numbered in this order; ended: complete; or dropped."""
    draw_probability: float | None = None
    """Sampling only: the probability of being drawn, after temperature and filters."""


@dataclass(frozen=True)
class LedgerStep:
    """The candidates for one position, most probable first."""

    candidates: tuple[Candidate, ...]

    @property
    def kept(self) -> tuple[Candidate, ...]:
        """Candidates that beams continue from; `parent` in the next step is an index into these."""
        return tuple(c for c in self.candidates if c.fate == "kept")


@dataclass(frozen=True)
class Ledger:
    """The whole search for one sequence, step by step: what it could choose, what it chose."""

    steps: tuple[LedgerStep, ...]

    def path(self, step: int, candidate: Candidate) -> tuple[Candidate, ...]:
        """The candidates from the first step to this one; their log-probabilities add up."""
        chain = [candidate]
        for earlier in reversed(self.steps[:step]):
            chain.append(earlier.kept[chain[-1].parent])
        return tuple(reversed(chain))


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence, complete or cut."""

    tokens: tuple[int, ...]
    """The ids produced: without the forced prefix and without the end token."""
    log_probability: float
    """Sum of the model's log-probabilities of these ids, and of the end token if it came."""
    score: float
    """What hypotheses are ranked by: the sum, divided by the length penalty in beam search."""
    ended: bool
    """Whether the end token came; otherwise the sequence was cut at its maximum length."""

    @property
    def length(self) -> int:
        """Tokens that the log-probability sums over, the end token included."""
        return len(self.tokens) + self.ended


@dataclass(frozen=True)
class Decoded:
    """The hypotheses of one sequence, best first (samples: in the order of their seeds)."""

    hypotheses: tuple[Hypothesis, ...]
    ledger: Ledger | None = None
    """Every candidate of every step, if requested."""

    @property
    def best(self) -> Hypothesis:
        return self.hypotheses[0]


@dataclass(frozen=True)
class Stop:
    """Where sequences end: at an end token, and at the latest after some number of tokens."""

    end: int | None
    """The end token; None: only the length ends a sequence."""
    max_new: tuple[int, ...]
    """For each sequence, how many tokens may be produced, the end token included."""

    def __post_init__(self) -> None:
        shortest, longest = min(self.max_new, default=1), max(self.max_new, default=1)
        if shortest < 1:
            raise ConfigError(
                "at least one token must be produced, got max_new {shortest}", shortest=shortest
            )
        if longest >= 2**63:  # lengths are compared as integers of 64 bits
            raise ConfigError("max_new must be below 2**63, got {longest}", longest=longest)
