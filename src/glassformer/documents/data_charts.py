"""Line charts, bar charts and maps of labelled points in the colours of the other figures.

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

from glassformer.documents.parts import Table
from glassformer.picture import (
    Anchor,
    Box,
    Canvas,
    Picture,
    Role,
    text_width,
)
from glassformer.tracing.formula import number as number_text

ROLES: tuple[Role, ...] = ("score", "key", "output", "query")
"""The colours of series that stand for nothing in particular."""
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


def chart_numbers(
    head: str, across: Sequence[object], series: Sequence[Series], write: Callable[[float], str]
) -> Table:
    """What a chart draws, for formats without drawings: a row per place, a column per series."""
    columns = (map(write, one.values) for one in series)
    rows = zip(map(str, across), *columns, strict=True)
    return Table("", (head, *(one.name for one in series)), tuple(rows))


def line_chart(
    title: str, across: Sequence[float], series: Sequence[Series], axes: Axes, *,
    log_across: bool = False, log_up: bool = False, least: float | None = None,
    most: float | None = None, width: float = 640, height: float = 380,
) -> Picture:  # fmt: skip
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
    write: Callable[[float], str] = tick_label, least: float | None = None,
    most: float | None = None, width: float = 640, height: float = 340,
) -> Picture:  # fmt: skip
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
                top, bottom = sorted((up(value), up(0.0)))
                drawn = Box(left + 2, top, bar - 4, max(1.5, bottom - top))
                _draw_bar(canvas, drawn, one.role, write(value))
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
            said = f"{one.name}: {tick_label(x)}, {number_text(y, 4)}"
            mark(canvas, along(x), up(y), one.role, said)


def _draw_bar(canvas: Canvas, bar: Box, role: Role, said: str) -> None:
    """A bar, with its number above it, no wider than the bar."""
    canvas.bar(bar, role)
    size = min(_SIZE, max(9.0, _SIZE * (bar.width + 3) / text_width(said, _SIZE)))
    canvas.text(bar.x, bar.top - 9, said, size=size)


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
        canvas.line((inside.left, y), (inside.right, y), role="line", width=0.8)
        canvas.text(inside.left - 8, y, tick_label(mark), size=_SIZE, anchor="end", role="quiet")


# --- maps -------------------------------------------------------------------------------------

_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C8C8C")
"""The colour-blind-safe palette of Okabe and Ito, and grey."""
_RADIUS, _MAP_MARGIN = 5.0, 56.0
_NEAR, _LINE = _RADIUS + 4, _SIZE + 2
_LEVEL = _NEAR + _LINE / 2
_SPOTS = (
    (_NEAR, 0.0), (-_NEAR, 0.0), (0.0, -_LEVEL), (0.0, _LEVEL),
    (4.0, -_LEVEL), (4.0, _LEVEL), (-4.0, -_LEVEL), (-4.0, _LEVEL),
)  # fmt: skip
"""Where a label may stand, seen from its point; to the left of it, it ends there."""
_FAR_SPOTS = tuple((dx, dy) for reach in (22.0, 34.0, 48.0, 64.0, 84.0) for dx, dy in (
    (reach, 0), (-reach, 0), (0, -reach), (0, reach), (reach, -reach), (-reach, -reach),
    (reach, reach), (-reach, reach), (2 * reach, -reach), (-2 * reach, reach),
))  # fmt: skip
"""Places farther off, joined to their points by a line."""


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A point, its label, and the kind that sets its colour."""

    x: float
    y: float
    name: str
    kind: str


def draw_map(
    title: str, points: Sequence[MapPoint], axes: Axes, *, width: float = 960, height: float = 640
) -> Picture:
    """All points, as many labels as fit (earlier points first), and a legend of the kinds."""
    canvas = Canvas(width, height, title)
    kinds = list(dict.fromkeys(point.kind for point in points))
    inside = Box(_MAP_MARGIN, 52, width - 2 * _MAP_MARGIN, height - 52 - _MAP_MARGIN)
    canvas.box(inside, "empty")
    _kinds(canvas, kinds, inside)
    canvas.text(inside.x, inside.bottom + 26, f"{axes.across} →", size=13, role="quiet")
    canvas.turned(24, inside.y, f"{axes.up} →", size=13)
    placed = _onto(points, inside)
    taken = [Box(x - _RADIUS, y - _RADIUS, 2 * _RADIUS, 2 * _RADIUS) for x, y in placed]
    for (x, y), point in zip(placed, points, strict=True):
        colour = _PALETTE[kinds.index(point.kind) % len(_PALETTE)]
        canvas.dot(x, y, _RADIUS, fill=colour, name=point.name)
    for (x, y), point in zip(placed, points, strict=True):
        if (found := _free_place(x, y, point.name, taken, inside.grown(-2))) is not None:
            box, anchor, at, is_far = found
            if is_far:
                canvas.line((x, y), (min(max(x, box.left), box.right), box.y), width=0.7)
            taken.append(box)
            canvas.text(at, box.y, point.name, size=_SIZE, anchor=anchor)
    return canvas.done()


def _onto(points: Sequence[MapPoint], inside: Box) -> list[tuple[float, float]]:
    """The points in drawing coordinates, with a margin."""
    room = inside.grown(-24)
    xs, ys = [point.x for point in points], [point.y for point in points]
    wide, high = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    return [
        (
            room.left + room.width * (point.x - min(xs)) / wide,
            room.bottom - room.height * (point.y - min(ys)) / high,
        )
        for point in points
    ]


def _free_place(
    x: float, y: float, name: str, taken: Sequence[Box], room: Box
) -> tuple[Box, Anchor, float, bool] | None:
    """The first free place for a label near a point, and whether it is far off."""
    width = text_width(name, _SIZE)
    for place, (dx, dy) in enumerate((*_SPOTS, *_FAR_SPOTS)):
        anchor: Anchor = "end" if dx < 0 else "middle" if dx == 0 else "start"
        left = x + dx - {"end": width, "middle": width / 2, "start": 0.0}[anchor]
        box = Box(left, y + dy - _LINE / 2, width, _LINE)
        fits = (
            box.left > room.left and box.right < room.right
            and box.top > room.top and box.bottom < room.bottom
        )  # fmt: skip
        if fits and not any(_overlap(box, other) for other in taken):
            return box, anchor, x + dx, place >= len(_SPOTS)
    return None


def _overlap(one: Box, other: Box) -> bool:
    return (
        one.left < other.right
        and other.left < one.right
        and one.top < other.bottom
        and other.top < one.bottom
    )


def _kinds(canvas: Canvas, kinds: Sequence[str], inside: Box) -> None:
    x = inside.left
    for place, kind in enumerate(kinds):
        canvas.dot(x + 6, 30, 6, fill=_PALETTE[place % len(_PALETTE)])
        canvas.text(x + 18, 30, kind, size=13, anchor="start")
        x += 32 + text_width(kind, 13)
