"""A training run that is being watched, as the routes see it; who reads the run's folder is given.

The explorer knows nothing of training: the command that starts both hands a reader in.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from glassformer.explorer.schemas import WatchInfo

__all__ = ["Watched"]


class Watched(Protocol):
    """What reads a run's folder."""

    def info(self, since: int) -> WatchInfo:
        """The metrics from an offset on, and the pictures there are."""
        ...

    def attention(self, update: int, layer: int) -> npt.NDArray[np.float32]:
        """The weights of one layer after an update: heads × queries × keys."""
        ...
