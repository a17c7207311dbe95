"""Two colour scales, both readable by the colour-blind.

Signed numbers diverge about 0, from blue over white to orange, out to the 99th percentile of
their size. Probabilities run from dark to light (cividis) over 0 to 1, always. Ids have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from glassformer.trace.memory import as_floats
from glassformer.trace.steps import Step

__all__ = [
    "BLUE",
    "CIVIDIS",
    "DIVERGING",
    "ORANGE",
    "WHITE",
    "Colour",
    "Scale",
    "hex_colour",
    "ink_on",
    "limit_of",
    "scale_of",
]

Colour = tuple[int, int, int]

BLUE, WHITE, ORANGE = (59, 125, 191), (247, 247, 247), (230, 126, 34)
DIVERGING: tuple[Colour, ...] = (BLUE, WHITE, ORANGE)
CIVIDIS: tuple[Colour, ...] = (
    (0, 34, 78),
    (67, 78, 108),
    (125, 124, 120),
    (188, 174, 108),
    (254, 232, 56),
)
_ROW_SUM = 1e-3
"""How far a row's sum may be from 1 (or 0, all masked) for the row to be probabilities."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How a step's numbers become colours."""

    kind: Literal["signed", "probability"]
    limit: float = 1.0

    def colour(self, number: float) -> Colour | None:
        """The colour of a number; None where it is not finite."""
        if not np.isfinite(number):
            return None
        if self.kind == "probability":
            return _between(CIVIDIS, number)
        return _between(DIVERGING, (number / self.limit + 1) / 2)


def scale_of(step: Step) -> Scale | None:
    """The scale of a step, one for all of its slices; None for ids and other whole numbers."""
    if not step.dtype.is_floating_point:
        return Scale("probability") if step.dtype.itemsize == 1 and _is_truth(step) else None
    values = as_floats(step.view.array)
    finite = np.abs(values[np.isfinite(values)])
    if 0 < finite.size == values.size and _are_probabilities(values):
        return Scale("probability")
    return Scale("signed", limit_of(finite))


def limit_of(sizes: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Where a signed scale ends: the 99th percentile of finite sizes, or what is above 0.

    The same number as numpy's `percentile`, without the time it takes to tell its methods apart.
    """
    if not sizes.size:
        return 1.0
    place = 0.99 * (sizes.size - 1)
    below = int(place)
    above = min(below + 1, sizes.size - 1)
    low, high = np.partition(sizes.reshape(-1), (below, above))[[below, above]]
    part = place - below  # counted from the nearer of the two, as numpy does
    limit = low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)
    return float(limit) or float(sizes.max()) or 1.0


def _is_truth(step: Step) -> bool:
    return str(step.dtype) == "torch.bool"


def _are_probabilities(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    if values.ndim == 0 or values.shape[-1] < 2 or values.min() < 0:
        return False
    sums = values.sum(-1)
    return bool(((np.abs(sums - 1) < _ROW_SUM) | (sums == 0)).all() and (sums > 0).any())


def _between(stops: tuple[Colour, ...], share: float) -> Colour:
    """The colour at a share of the way along the stops."""
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    part = place - low
    red, green, blue = (
        round(a + (b - a) * part) for a, b in zip(stops[low], stops[low + 1], strict=True)
    )
    return red, green, blue


def ink_on(colour: Colour) -> Colour:
    """Black or white, whichever reads better on a colour."""
    red, green, blue = colour
    light = 0.299 * red + 0.587 * green + 0.114 * blue
    return (0, 0, 0) if light > 140 else (255, 255, 255)


def hex_colour(colour: Colour) -> str:
    """`#RRGGBB`."""
    return "#{:02X}{:02X}{:02X}".format(*colour)
