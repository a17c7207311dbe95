"""What a beam search remembers: which tokens led to each beam, and which sequences are complete.

Both stay columns of numbers while the search runs: token lists are put together at its end, for
the few hypotheses that are returned, instead of being copied at every step.
Dims: B sequences, R beams of each, N completed hypotheses.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class BackPointers:
    """The tokens and parents of all steps so far."""

    def __init__(self, n_sequences: int) -> None:
        self._tokens: list[Integers] = []  # of each step, all beams in one row
        self._before: list[Integers] = []  # their parents' places in the step before
        self._firsts = np.arange(n_sequences)  # place of each sequence's first beam, last step

    def add(self, tokens: Integers, parents: Integers) -> None:
        """Note a step: its tokens (B, R), and which beam of its sequence each continues."""
        n_sequences, n_beams = tokens.shape
        self._tokens.append(tokens.ravel())
        self._before.append((self._firsts[:, None] + parents).ravel())
        self._firsts = np.arange(n_sequences) * n_beams

    def keep(self, rows: Integers) -> None:
        """Continue with these sequences only, in this order."""
        self._firsts = self._firsts[rows]

    @property
    def n_steps(self) -> int:
        """Steps so far."""
        return len(self._tokens)

    def places(self, rows: Integers, beams: Integers) -> Integers:
        """Where beams stand after the last step, among all beams of all sequences."""
        places: Integers = self._firsts[rows] + beams
        return places

    def read(self, n_steps: Integers, places: Integers) -> list[list[int]]:
        """The tokens of beams that stood in these places after so many steps."""
        places = places.copy()
        ids = np.zeros((len(places), max(n_steps, default=0)), dtype=np.int64)
        for step in reversed(range(ids.shape[1])):
            there = n_steps > step
            ids[there, step] = self._tokens[step][places[there]]
            places[there] = self._before[step][places[there]]
        return [row[:n] for row, n in zip(ids.tolist(), n_steps.tolist(), strict=True)]


@dataclass(frozen=True)
class Completed:
    """Completed hypotheses: columns, with one row per hypothesis."""

    sequences: Integers
    n_before: Integers
    """Tokens before the last one, to be read from the back-pointers, ..."""
    places: Integers
    """... from these places on; see `BackPointers`."""
    tokens: Integers
    """The last token of each: the end token, or the one at which it was cut."""
    totals: Floats
    scores: Floats

    def at(self, rows: Integers) -> "Completed":
        """Some of them, in this order."""
        return Completed(*(getattr(self, column.name)[rows] for column in fields(self)))

    @classmethod
    def joined(cls, parts: "list[Completed]") -> "Completed":
        """All of several, in their order."""
        return cls(
            *(np.concatenate([getattr(p, column.name) for p in parts]) for column in fields(cls))
        )

    def best(self, n_best: int) -> "Completed":
        """The n best of each sequence, best first, sequence by sequence; ties: earliest first."""
        ranked = self.at(np.lexsort((-self.scores, self.sequences)))  # stable; the last key leads
        firsts = np.searchsorted(ranked.sequences, ranked.sequences)
        return ranked.at(np.flatnonzero(np.arange(len(firsts)) - firsts < n_best))
