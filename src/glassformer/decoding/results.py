"""What decoding returns: hypotheses with their scores, as plain data without tensors.

This file knows neither models nor how a search finds a hypothesis; ids are not yet text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.decoding.ledger import Ledger
from glassformer.errors import ConfigError

__all__ = ["Decoded", "Hypothesis", "Stop"]


@dataclass(frozen=True)
class Hypothesis:
    """One way to write a text, complete or cut."""

    tokens: tuple[int, ...]
    """The ids produced: no forced prefix before them, no end token after them."""
    log_probability: float
    """Sum of the model's log-probabilities of these ids, and of the end token if it came."""
    score: float
    """What hypotheses are ranked by: the sum, divided by the length penalty in beam search."""
    ended: bool
    """Whether the end token came; otherwise the text was cut at its maximum length."""

    @property
    def length(self) -> int:
        """Tokens that the log-probability sums over, the end token included."""
        return len(self.tokens) + self.ended


@dataclass(frozen=True)
class Decoded:
    """The hypotheses of one text, best first (samples: in the order of their seeds)."""

    hypotheses: tuple[Hypothesis, ...]
    ledger: Ledger | None = None
    """Every candidate of every step, if it was asked for."""

    @property
    def best(self) -> Hypothesis:
        """The first hypothesis."""
        return self.hypotheses[0]


@dataclass(frozen=True)
class Stop:
    """Where texts end: at an id, and at the latest after some number of tokens."""

    end: int | None
    """The end token; None: nothing but the length ends a text."""
    max_new: tuple[int, ...]
    """For each text, how many tokens may be produced, the end token included."""

    def __post_init__(self) -> None:
        short = [n for n in self.max_new if n < 1]
        if short:
            raise ConfigError(
                "at least one token must be produced, got max_new {short}", short=short[0]
            )
        if max(self.max_new, default=1) >= 2**63:  # lengths are compared as integers of 64 bits
            raise ConfigError("max_new must be below 2**63, got {most}", most=max(self.max_new))

    @classmethod
    def after(cls, end: int | None, max_new: int | Sequence[int], n_texts: int) -> "Stop":
        """The same limit for all texts, or one for each."""
        limits = (max_new,) * n_texts if isinstance(max_new, int) else tuple(max_new)
        if len(limits) != n_texts:
            raise ConfigError(
                "expected one max_new for each of {n_texts} texts, got {n_limits}",
                n_texts=n_texts,
                n_limits=len(limits),
            )
        return cls(end, limits)
