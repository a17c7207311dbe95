"""Which tokens led to each rival of a beam search, read back when the search is over.

A step adds one token to each rival, and to each a way back to the rival that it continues. Texts
are put together once, at the end, instead of copying all of them at every step.
Dims: B texts, R rivals of each.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Trail"]

Integers = NDArray[np.int64]


class Trail:
    """The tokens and parents of all steps so far."""

    def __init__(self, n_texts: int) -> None:
        self._tokens: list[Integers] = []  # of each step, all rivals in one row
        self._before: list[Integers] = []  # their parents' places in the step before
        self._firsts = np.arange(n_texts)  # the place of each text's first rival in the last step

    def add(self, tokens: Integers, parents: Integers) -> None:
        """Note a step: its tokens (B, R), and which rival of its text each continues."""
        n_texts, n_rivals = tokens.shape
        self._tokens.append(tokens.ravel())
        self._before.append((self._firsts[:, None] + parents).ravel())
        self._firsts = np.arange(n_texts) * n_rivals

    def keep(self, rows: Integers) -> None:
        """Go on with these texts alone, in this order."""
        self._firsts = self._firsts[rows]

    @property
    def n_steps(self) -> int:
        """Steps so far."""
        return len(self._tokens)

    def places(self, rows: Integers, rivals: Integers) -> Integers:
        """Where rivals of texts stand after the last step, among all rivals of all texts there."""
        places: Integers = self._firsts[rows] + rivals
        return places

    def read(self, n_steps: Integers, places: Integers) -> list[list[int]]:
        """The tokens of rivals that stood in these places after so many steps.

        All walk back together, as far as they are.
        """
        places = places.copy()
        ids = np.zeros((len(places), max(n_steps, default=0)), dtype=np.int64)
        for step in reversed(range(ids.shape[1])):
            there = n_steps > step
            ids[there, step] = self._tokens[step][places[there]]
            places[there] = self._before[step][places[there]]
        return [row[:n] for row, n in zip(ids.tolist(), n_steps.tolist(), strict=True)]
