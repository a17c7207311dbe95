"""Where a run is, and what it did since it last said so."""

import time
from dataclasses import dataclass, field

from torch import Tensor

__all__ = ["Position", "Tally"]


@dataclass
class Position:
    """Where a run is; all of it goes into the state."""

    step: int = 0
    n_tokens: int = 0
    seconds: float = 0.0
    """In updates: looking and saving left out."""
    best_score: float | None = None
    best_step: int = 0
    n_worse: int = 0
    """Evaluations since the best one."""

    def forget_best(self) -> None:
        """Begin to compare anew."""
        self.best_score, self.best_step, self.n_worse = None, 0, 0


@dataclass
class Tally:
    """What happened since the last report, on the device, so that no update waits for it."""

    sums: Tensor
    n_tokens: int = 0
    n_updates: int = 0
    since: float = field(default_factory=time.perf_counter)
