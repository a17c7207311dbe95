"""The account of a search: what it could choose from at each step, and what it chose.

Plain data for a person or a page to read; no search looks into it.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Candidate", "Fate", "Ledger", "LedgerStep"]

Fate = Literal["kept", "ended", "dropped"]


@dataclass(frozen=True)
class Candidate:
    """One token that could have come next."""

    parent: int
    """The rival that it continues, counted among those kept in the step before."""
    token: int
    log_probability: float
    """Of this token after that rival, as the model says."""
    total: float
    """Sum of the log-probabilities from the first token to this one."""
    score: float
    """What it is ranked by when it ends: the total divided by the length penalty."""
    fate: Fate
    """Kept: rivals go on from it, numbered in this order. Ended: a finished text. Else dropped."""
    chance: float | None = None
    """Sampling only: the probability of being drawn, after temperature and filters."""


@dataclass(frozen=True)
class LedgerStep:
    """The candidates for one position, most probable first."""

    candidates: tuple[Candidate, ...]

    @property
    def kept(self) -> tuple[Candidate, ...]:
        """Those from which rivals go on; their index here is what `parent` counts."""
        return tuple(c for c in self.candidates if c.fate == "kept")


@dataclass(frozen=True)
class Ledger:
    """The whole search for one text, step by step."""

    steps: tuple[LedgerStep, ...]

    def path(self, step: int, candidate: Candidate) -> tuple[Candidate, ...]:
        """The candidates from the first step to this one: what it adds to, and in which order."""
        chain = [candidate]
        for earlier in reversed(self.steps[:step]):
            chain.append(earlier.kept[chain[-1].parent])
        return tuple(reversed(chain))
