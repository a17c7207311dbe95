"""Two colour scales, both readable by the colour-blind.

Signed numbers diverge about 0, from blue over white to orange, out to the largest of them that is
no outlier. Probabilities run from dark to light (cividis) over 0 to 1, always. Ids have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

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
        return signed_colour(number, self.limit)


def signed_colour(number: float, limit: float) -> Colour:
    """Blue at −limit, white at 0, orange at the limit; what lies beyond has the colour there."""
    return _between(DIVERGING, (number / limit + 1) / 2)


def _between(stops: tuple[Colour, ...], share: float) -> Colour:
    """Interpolate between the stops; `share` runs from 0 to 1."""
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    part = place - low
    red, green, blue = (
        round(a + (b - a) * part) for a, b in zip(stops[low], stops[low + 1], strict=True)
    )
    return red, green, blue


def ink_on(colour: Colour) -> Colour:
    """Black or white, whichever is easier to read on a colour."""
    red, green, blue = colour
    light = 0.299 * red + 0.587 * green + 0.114 * blue
    return (0, 0, 0) if light > 140 else (255, 255, 255)


def hex_colour(colour: Colour) -> str:
    """`#RRGGBB`."""
    return "#{:02X}{:02X}{:02X}".format(*colour)
