"""The colour scale of a step, quick even for an embedding of millions of numbers."""

from __future__ import annotations

import numpy as np

from glassformer.explorer.schemas import ScaleInfo
from glassformer.trace import Step
from glassformer.trace.memory import as_floats
from glassformer.trace.render.colours import limit_of, scale_of

__all__ = ["scale_info"]

_EXACT = 1 << 12
"""Up to so many numbers the limit is exact; of more, a sample of about as many decides."""


def scale_info(step: Step) -> ScaleInfo | None:
    """How the step's numbers become colours; None for ids and other whole numbers."""
    if step.view.numel == 0:
        return None
    probability = step.role == "activation" and "softmax" in step.op
    if step.view.numel <= _EXACT or not step.dtype.is_floating_point:
        found = scale_of(step)
        if found is None:
            return None
        # Rows of parameters that happen to add up to 1 are no shares.
        if step.role != "parameter" or found.kind == "signed":
            return ScaleInfo(kind=found.kind, limit=found.limit)
    elif probability:
        return ScaleInfo(kind="probability", limit=1.0)
    return ScaleInfo(kind="signed", limit=_limit(step))


def _stride(count: int) -> int:
    """An odd number, so that the sample does not meet the same few columns of each row."""
    return max(1, count // _EXACT) | 1


def _limit(step: Step) -> float:
    """The 99th percentile of the sizes, of a sample where there are many."""
    sizes = np.abs(as_floats(step.view.array.flat[:: _stride(step.view.numel)]))
    return limit_of(sizes[np.isfinite(sizes)])
