"""Which tokens led to each rival of a beam search, read back when the search is over.

A step adds one token to each rival, and to each a way back to the rival that it continues. Texts
are put together once, at the end, instead of copying all of them at every step.
Dims: B texts, R rivals of each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mark", "Trail"]


class Mark(NamedTuple):
    """A rival after some step: after which, and its place among all rivals of all texts there."""

    n_steps: int
    place: int


class Trail:
    """The tokens and parents of all steps so far."""

    def __init__(self, n_texts: int) -> None:
        self._tokens: list[NDArray[np.int64]] = []  # of each step, all rivals in one row
        self._before: list[NDArray[np.int64]] = []  # their parents' places in the step before
        self._firsts = np.arange(n_texts)  # the place of each text's first rival in the last step

    def add(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> None:
        """Note a step: its tokens (B, R), and which rival of its text each continues."""
        n_texts, n_rivals = tokens.shape
        self._tokens.append(tokens.ravel())
        self._before.append((self._firsts[:, None] + parents).ravel())
        self._firsts = np.arange(n_texts) * n_rivals

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these texts alone, in this order."""
        self._firsts = self._firsts[rows]

    def mark(self, row: int, rival: int) -> Mark:
        """Where a rival stands after the last step."""
        return Mark(len(self._tokens), int(self._firsts[row]) + rival)

    def read(self, marks: Sequence[Mark]) -> list[list[int]]:
        """The tokens up to each mark; all marks walk back together, as far as they are."""
        lengths, places = np.array(marks, dtype=np.int64).reshape(-1, 2).T
        ids = np.zeros((len(marks), max(lengths, default=0)), dtype=np.int64)
        for step in reversed(range(ids.shape[1])):
            there = lengths > step
            ids[there, step] = self._tokens[step][places[there]]
            places[there] = self._before[step][places[there]]
        return [row[:n] for row, n in zip(ids.tolist(), lengths.tolist(), strict=True)]
