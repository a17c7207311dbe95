"""Small pictures of steps: the means of blocks, as bytes on the step's colour scale."""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt

from glassformer.explorer.panels import sides, slice_of
from glassformer.explorer.schemas import ScaleInfo, Thumbnail
from glassformer.trace import Step
from glassformer.trace.memory import as_floats

__all__ = ["thumbnail"]

SIDE = 32
NOT_FINITE = 255
_SAMPLED = 256
"""Of longer sides, about so many positions are looked at."""


def thumbnail(step: Step, scale: ScaleInfo | None) -> Thumbnail:
    """The first slice of a step: 0 is −limit (or 0), 254 the limit (or 1), 255 no finite number."""
    rows, columns = sides(step.shape)
    if scale is None or step.view.numel == 0:
        return Thumbnail(step=step.number, rows=0, columns=0, data="")
    whole = slice_of(step.view, (0,) * max(0, len(step.shape) - 2))
    values = as_floats(whole[:: max(1, rows // _SAMPLED), :: max(1, columns // _SAMPLED)])
    small = _block_means(_block_means(values, 0), 1)
    low = -scale.limit if scale.kind == "signed" else 0.0
    with np.errstate(invalid="ignore"):
        share = np.clip((small - low) / (scale.limit - low), 0, 1)
    data = np.where(np.isfinite(small), np.rint(np.nan_to_num(share) * 254), NOT_FINITE)
    return Thumbnail(
        step=step.number,
        rows=small.shape[0],
        columns=small.shape[1],
        data=base64.b64encode(data.astype(np.uint8).tobytes()).decode("ascii"),
    )


def _block_means(values: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    """Means of up to SIDE blocks along an axis; what is not finite is left out of them."""
    size = values.shape[axis]
    if size <= SIDE:
        return values
    starts = (np.arange(SIDE) * size) // SIDE
    finite = np.isfinite(values)
    sums = np.add.reduceat(np.where(finite, values, 0.0), starts, axis=axis)
    counts = np.add.reduceat(finite.astype(np.float64), starts, axis=axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: npt.NDArray[np.float64] = sums / counts
    return means
