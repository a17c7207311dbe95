"""Axes of charts: from numbers to places on the paper, and where the ticks are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.tracing.formula import number as number_text

_MOST_DATA_TICKS = 10
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class AxisScale:
    """From numbers to places on the paper."""

    least: float
    most: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        least, most, at = self.least, self.most, value
        if self.log:
            least, most, at = math.log(least), math.log(most), math.log(at)
        share = (at - least) / (most - least)
        return self.start + share * (self.end - self.start)

    def shows(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self.log)


def axis_extent(values: Sequence[float], *, log: bool) -> tuple[float, float, list[float]]:
    """Least and largest number of an axis, and its ticks between them."""
    least, most = (min(values), max(values)) if values else (1.0, 10.0)
    if log:
        low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
        high += low == high
        every = max(1, math.ceil((high - low) / 7))
        return 10.0**low, 10.0**high, [10.0**power for power in range(low, high + 1, every)]
    if least >= 0 and least < 0.5 * most:
        least = 0.0
    step = _step((most - least) or abs(most) or 1.0)
    first = math.floor(least / step + 1e-9)
    last = max(math.ceil(most / step - 1e-9), first + 1)
    marks = [round(step * count, 12) for count in range(first, last + 1)]
    return marks[0], marks[-1], marks


def _step(span: float, about: int = 5) -> float:
    """1, 2 or 5 times a power of ten, about a fifth of the span."""
    power = 10.0 ** math.floor(math.log10(span / about))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * about >= span)


def data_ticks(across: Sequence[float], *, log: bool) -> list[float]:
    """The numbers themselves if they are few, else round ones between them."""
    if len(across) <= _MOST_DATA_TICKS:
        return list(dict.fromkeys(across))
    least, most, marks = axis_extent([min(across), max(across)], log=log)
    return [mark for mark in marks if min(across) <= mark <= max(across)] or [least, most]


def tick_label(value: float) -> str:
    """A number beside an axis; powers of ten below 1/1000 or above 10,000 are written as such."""
    power = math.log10(value) if value > 0 else 0.0
    if (power < -3 or power > 4) and math.isclose(power, round(power)):
        return "10" + str(round(power)).translate(_RAISED)
    return number_text(value, 3).replace("-", "−")
