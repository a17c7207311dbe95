"""How the learning rate moves: a share of its peak for each update, and no state.

The warm-up is linear and ends at the peak; the first update is number 1, never 0, so that the
parameters move from the start.
"""

import math

from glassformer.training.config import ScheduleConfig

__all__ = ["learning_rate_share"]


def learning_rate_share(config: ScheduleConfig, step: int, total: int) -> float:
    """The share of the peak learning rate for update `step`, counted from 0, of `total`.

    noam is √warmup / √(step + 1) after the warm-up: the curve of section 5.3 of the 2017 paper,
    scaled so that its peak is 1 whatever the width of the model.
    """
    number = step + 1
    if number <= config.warmup:
        return number / config.warmup
    if config.kind == "constant":
        return 1.0
    if config.kind == "noam":
        return math.sqrt(max(config.warmup, 1) / number)
    progress = min(1.0, (number - config.warmup) / max(1, total - config.warmup))
    curve = 1 - progress if config.kind == "linear" else (1 + math.cos(math.pi * progress)) / 2
    # The last update still moves a little: at progress 1 both curves would be 0.
    return max(config.floor + (1 - config.floor) * curve, 1 / (total + 1))
