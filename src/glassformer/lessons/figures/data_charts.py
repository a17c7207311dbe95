"""Line charts and bar charts in the colours of the other figures.

    lines = [Series("no scaling", spreads, "query"), Series("divided by √d", scaled, "output")]
    drawing = line_chart("Scores grow with the width", widths, lines, Axes("width d", "spread"),
                         log_across=True)
    drawing = bar_chart("Accuracy", ["none", "learned"], [Series("at length 8", shares)], axes)

Titles, names and labels come from the caller, in the reader's language. Colours are those of the
roles, so a chart follows the page from light to dark; lines also differ in their markers, for
readers who do not tell colours apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.lessons.figures.canvas import Box, Canvas, Role, SvgDrawing, text_width
from glassformer.tracing.formula import number as number_text

_LEFT, _RIGHT, _BELOW, _TOP = 66.0, 26.0, 52.0, 40.0
_SIZE, _ROW = 12.5, 22.0
_MARKER = 4.5
_MOST_DATA_TICKS = 10
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# --- axes -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Axes:
    """The labels of the two axes."""

    across: str
    up: str


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
    """A number beside an axis; below 1/1000 and from a million on with a power of ten."""
    power = math.log10(value) if value > 0 else 0.0
    if (power < -3 or power > 5) and math.isclose(power, round(power)):
        return "10" + str(round(power)).translate(_RAISED)
    mantissa, _, exponent = number_text(value, 3).replace("-", "−").partition("e+")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}" if exponent else mantissa


# --- charts -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers of one kind; a number that is not finite leaves a gap."""

    name: str
    values: Sequence[float]
    role: Role = "score"
    dashed: bool = False


def line_chart(
    title: str, across: Sequence[float], series: Sequence[Series], axes: Axes, *,
    log_across: bool = False, log_up: bool = False, least: float | None = None,
    most: float | None = None, width: float = 640, height: float = 380,
) -> SvgDrawing:  # fmt: skip
    """One line per series over common numbers; `least` and `most` bound the vertical axis."""
    canvas = Canvas(width, height, title)
    inside = _frame(canvas, series, axes)
    shown = [y for one in series for y in one.values if math.isfinite(y) and (y > 0 or not log_up)]
    low, high, marks = axis_extent([*shown, *_given(least, most)], log=log_up)
    up = AxisScale(low, high, inside.bottom, inside.top, log_up)
    _ticks_up(canvas, inside, up, marks)
    flat = min(across) == max(across)
    along = AxisScale(
        min(across), max(across) + flat, inside.left + 14, inside.right - 14, log_across
    )  # fmt: skip
    for x in data_ticks(across, log=log_across):
        canvas.line((along(x), inside.bottom), (along(x), inside.bottom + 5))
        canvas.text(along(x), inside.bottom + 16, tick_label(x), size=_SIZE, role="quiet")
    for place, one in enumerate(series):
        _draw_line(canvas, one, across, along, up, _MARKERS[place % len(_MARKERS)])
    return canvas.done()


def bar_chart(
    title: str, groups: Sequence[str], series: Sequence[Series], axes: Axes, *,
    write: Callable[[float], str] | None = None, least: float | None = None,
    most: float | None = None, width: float = 640, height: float = 340,
) -> SvgDrawing:  # fmt: skip
    """For each group one bar per series, with its number above it as `write` writes it."""
    canvas = Canvas(width, height, title)
    inside = _frame(canvas, series if len(series) > 1 else (), axes, bars=True)
    shown = [y for one in series for y in one.values if math.isfinite(y)]
    low, high, marks = axis_extent([0.0, *shown, *_given(least, most)], log=False)
    # Room for the number above the highest bar.
    up = AxisScale(low, high, inside.bottom, inside.top + 20, log=False)
    _ticks_up(canvas, inside, up, marks)
    room = inside.width / len(groups)
    bar = min(54.0, 0.78 * room / len(series))
    for place, name in enumerate(groups):
        middle = inside.left + room * (place + 0.5)
        canvas.text(middle, inside.bottom + 16, name, size=_SIZE, role="quiet")
        for at, one in enumerate(series):
            value = one.values[place]
            if math.isfinite(value):
                left = middle + bar * (at - len(series) / 2)
                _draw_bar(canvas, one, value, Box(left + 2, 0, bar - 4, 0), up, write or tick_label)
    canvas.line((inside.left, up(0.0)), (inside.right, up(0.0)), role="quiet")
    return canvas.done()


def _given(*bounds: float | None) -> list[float]:
    return [bound for bound in bounds if bound is not None]


def _frame(canvas: Canvas, series: Sequence[Series], axes: Axes, *, bars: bool = False) -> Box:
    """The labels of the axes and the legend; returns the room that is left for the numbers."""
    canvas.text(14, 20, axes.up, size=13, anchor="start", role="quiet")
    x, y = _LEFT, _TOP + 6
    for place, one in enumerate(series):
        long = 34 + text_width(one.name, 13) + 18
        if x > _LEFT and x + long > canvas.width - _RIGHT + 18:
            x, y = _LEFT, y + _ROW
        if bars:
            canvas.bar(Box(x, y - 8, 26, 16), one.role)
        else:
            canvas.line((x, y), (x + 26, y), role=one.role, width=2.5, dashed=one.dashed)
            _MARKERS[place % len(_MARKERS)](canvas, x + 13, y, one.role, one.name)
        canvas.text(x + 34, y, one.name, size=13, anchor="start")
        x += long
    top = y + _ROW if series else _TOP
    inside = Box(_LEFT, top, canvas.width - _LEFT - _RIGHT, canvas.height - top - _BELOW)
    canvas.text(inside.x, canvas.height - 14, axes.across, size=13, role="quiet")
    return inside


def _draw_line(
    canvas: Canvas, one: Series, across: Sequence[float], along: AxisScale, up: AxisScale,
    mark: Callable[[Canvas, float, float, Role, str], None],
) -> None:  # fmt: skip
    run: list[tuple[float, float]] = []
    for x, y in [*zip(across, one.values, strict=True), (math.nan, math.nan)]:
        if up.shows(y):
            run.append((along(x), up(y)))
            continue
        if len(run) > 1:
            canvas.line(*run, role=one.role, width=2.5, dashed=one.dashed)
        run = []
    if len(across) > 40:
        return  # a curve: markers would cover it
    for x, y in zip(across, one.values, strict=True):
        if up.shows(y):
            mark(
                canvas,
                along(x),
                up(y),
                one.role,
                f"{one.name}: {tick_label(x)}, {number_text(y, 4)}",
            )


def _draw_bar(
    canvas: Canvas,
    one: Series,
    value: float,
    place: Box,
    up: AxisScale,
    write: Callable[[float], str],
) -> None:
    top, bottom = sorted((up(value), up(0.0)))
    canvas.bar(Box(place.left, top, place.width, max(1.5, bottom - top)), one.role)
    said = write(value)
    size = min(_SIZE, max(9.0, _SIZE * (place.width + 3) / text_width(said, _SIZE)))
    canvas.text(place.x, top - 9, said, size=size)


# --- markers ---------------------------------------------------------------------------------


def _disc(canvas: Canvas, x: float, y: float, role: Role, name: str) -> None:
    canvas.dot(x, y, _MARKER, fill=f"var(--gf-{role})", name=name)


def _square(canvas: Canvas, x: float, y: float, role: Role, _name: str) -> None:
    canvas.bar(Box(x - _MARKER + 0.5, y - _MARKER + 0.5, 2 * _MARKER - 1, 2 * _MARKER - 1), role)


def _circle(canvas: Canvas, x: float, y: float, role: Role, name: str) -> None:
    canvas.dot(x, y, _MARKER, fill="var(--gf-paper)", name=name)
    canvas.ring(x, y, _MARKER, role)


def _cross(canvas: Canvas, x: float, y: float, role: Role, _name: str) -> None:
    half = _MARKER
    canvas.line((x - half, y - half), (x + half, y + half), role=role, width=2)
    canvas.line((x - half, y + half), (x + half, y - half), role=role, width=2)


_MARKERS = (_disc, _square, _circle, _cross)


def _ticks_up(canvas: Canvas, inside: Box, up: AxisScale, marks: Sequence[float]) -> None:
    for mark in marks:
        y = up(mark)
        canvas.line((inside.left, y), (inside.right, y), role="quiet", width=0.4)
        canvas.text(inside.left - 8, y, tick_label(mark), size=_SIZE, anchor="end", role="quiet")
