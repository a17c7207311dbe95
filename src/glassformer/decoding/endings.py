"""Which continuations of a beam search are complete, and the best of them when it is over.

A search of many texts completes thousands of continuations: they stay columns of numbers until the
few that are asked for are picked. Dims: N completed continuations.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ended", "Endings"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ended:
    """Completed continuations: columns, with a row for each of them."""

    texts: Integers
    n_before: Integers
    """Tokens before the last one, to be read from the trail, ..."""
    places: Integers
    """... from these places on; see `Trail`."""
    tokens: Integers
    """The last token of each: the end token, or where it was cut."""
    totals: Floats
    scores: Floats

    def at(self, rows: Integers) -> "Ended":
        """Some of them, in this order."""
        return Ended(*(getattr(self, column.name)[rows] for column in fields(self)))

    @classmethod
    def joined(cls, parts: "list[Ended]") -> "Ended":
        """All of several, in their order."""
        return cls(
            *(np.concatenate([getattr(p, column.name) for p in parts]) for column in fields(cls))
        )


class Endings:
    """What has been completed so far, of all texts."""

    def __init__(self) -> None:
        self._steps: list[Ended] = []

    def add(self, ended: Ended) -> None:
        """Note what a step has completed."""
        self._steps.append(ended)

    def best(self, n_best: int) -> Ended:
        """The n best of each text, best first, text by text; of equal ones the earliest first."""
        found = Ended.joined(self._steps)
        ranked = found.at(np.lexsort((-found.scores, found.texts)))  # stable: the last key is first
        firsts = np.searchsorted(ranked.texts, ranked.texts)
        return ranked.at(np.flatnonzero(np.arange(len(firsts)) - firsts < n_best))
