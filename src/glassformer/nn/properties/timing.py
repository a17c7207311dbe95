"""How long calls take, measured so that a busy machine cannot pass for a result.

On a CPU the seconds are those that the process was computing, not those it waited for its turn; on
a GPU they are the clock's. Other work on the machine only ever makes a call slower, so the shortest
of several calls is the best estimate of what the call itself costs. How much longer the typical
call took says whether the machine was quiet enough for the figure to mean anything.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

DISTURBED = 0.25
"""From this spread on a timing says more about the machine's other work than about the call."""


@dataclass(frozen=True)
class Timing:
    """Several calls of one function."""

    best: float
    """Seconds of the shortest call."""
    typical: float
    """Seconds of the median call."""

    @property
    def spread(self) -> float:
        """How much longer than the shortest the median call took, as a share."""
        return self.typical / self.best - 1

    @property
    def disturbed(self) -> bool:
        """Whether the calls differ too much for their shortest to be trusted."""
        return self.spread > DISTURBED


def time_calls(
    functions: Sequence[Callable[[], object]], *, repeats: int = 5, warm_up: int = 1
) -> list[Timing]:
    """The time of a call of each function, in seconds, after some that do not count.

    They take turns, so that a while in which the machine is busy slows all of them down.
    """
    for function in functions:
        for _ in range(warm_up):
            function()
    rounds = [[_seconds(function) for function in functions] for _ in range(repeats)]
    return [Timing(min(times), median(times)) for times in zip(*rounds, strict=True)]


def _seconds(function: Callable[[], object]) -> float:
    if not torch.cuda.is_available():
        start = time.process_time()
        function()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    function()
    torch.cuda.synchronize()  # until it has done what it was asked
    return time.perf_counter() - start


def growth(seconds: Mapping[int, float]) -> float:
    """The exponent p of seconds ≈ c · lengthᵖ that fits best: 1 grows as the length, 2 as its
    square."""
    lengths = [math.log(length) for length in seconds]
    logs = [math.log(value) for value in seconds.values()]
    middle, level = sum(lengths) / len(lengths), sum(logs) / len(logs)
    across = sum((x - middle) * (y - level) for x, y in zip(lengths, logs, strict=True))
    return across / sum((x - middle) ** 2 for x in lengths)
