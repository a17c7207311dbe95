"""Random numbers that belong to an example and a position, not to the order they are asked in.

A generator with a state would give other numbers when a batch is cut in two. Here a number is a
hash of (seed, epoch, example, position, stream): the same in one batch of eight, in four of two,
in two processes, and after a restart.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.data.store import Ids

__all__ = ["Chance"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Chance:
    """The random numbers of one epoch."""

    seed: int
    epoch: int

    def uniform(self, examples: Ids, width: int, stream: int) -> NDArray[np.float64]:
        """Numbers in [0, 1), one row an example; another stream gives others."""
        state = np.zeros(1, dtype=np.uint64)
        for part in (self.seed, self.epoch, stream):
            state = _mix(state + _GOLDEN + np.uint64(part))
        rows = _mix(state + examples.astype(np.uint64) * _GOLDEN)
        bits = _mix(rows[:, None] + np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN)
        return (bits >> np.uint64(11)).astype(np.float64) / 2.0**53

    def below(self, limit: int) -> int:
        """One number for the whole epoch, from 0 to limit − 1."""
        return int(np.random.default_rng([self.seed, self.epoch, 1]).integers(limit))


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele et al. 2014): every bit depends on every bit."""
    first = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    second = (first ^ (first >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = second ^ (second >> np.uint64(31))
    return mixed
