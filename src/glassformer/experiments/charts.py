"""Charts of results: a heat map, bars, coloured words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from glassformer.colours import Colour, hex_colour, ink_on, signed_colour
from glassformer.picture import Box, Canvas, Picture, text_width

_SIZE, _TITLE = 12.0, 14.0
_MARGIN, _BELOW_TITLE = 16.0, 40.0
_FIELD, _ROW = 24.0, 24.0
_MOST_BARS = 60
"""Longer lists are cut: the rest stands in the rows."""
_MOST_TURNED, _MOST_FIELD = 320.0, 104.0  # pixels: longer labels lose their middle


def colour(value: float, limit: float) -> str:
    """The colour of a signed number as `#RRGGBB`; white for NaN."""
    return hex_colour(_ground(value, limit))


def _ground(value: float, limit: float) -> Colour:
    return signed_colour(0.0 if math.isnan(value) else value, limit)


def limit_of(values: Sequence[float] | Tensor) -> float:
    """Where a signed scale ends: the largest finite size, 1 where all are 0."""
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    sizes = sizes[np.isfinite(sizes)]
    return float(sizes.max()) if sizes.size and sizes.max() > 0 else 1.0


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Tensor,
    said: Sequence[Sequence[str]] | None = None,
) -> Picture:
    """A coloured field for each number, and a scale.

    In the field stands what is `said` of it, else the number where there is room.
    """
    numbers = values.double().tolist()
    left = _MARGIN + _widest(rows)
    wide = 44.0 if len(columns) <= 16 else _FIELD
    if said is not None:
        longest = max((_widest(line) for line in said), default=0)
        wide = min(_MOST_FIELD, max(_FIELD, longest + 8))
    columns = [_fitted(column, _MOST_TURNED) for column in columns]
    is_turned = _widest(columns) > wide - 4
    top = 52 + (_widest(columns) if is_turned else _SIZE)
    limit = limit_of(values.reshape(-1))
    bottom = top + _ROW * len(rows)
    canvas = _canvas(title, max(left + wide * len(columns), left + 264), bottom + 44)
    for at, column in enumerate(columns):
        x = left + wide * (at + 0.5)
        if is_turned:
            canvas.turned(x + 4, top - 8, column, size=_SIZE, anchor="start", role="ink")
        else:
            canvas.text(x, top - 12, column, size=_SIZE)
    for y_at, (row, line) in enumerate(zip(rows, numbers, strict=True)):
        y = top + _ROW * y_at
        canvas.text(left - 6, y + 11.5, row, size=_SIZE, anchor="end")
        for x_at, number in enumerate(line):
            if np.isnan(number):
                continue
            field = Box(left + wide * x_at, y, wide - 1, _ROW - 1)
            label = f"{row} · {columns[x_at]}: {number:.4g}"
            inside = _short(number, limit) if wide > 40 else ""
            if said is not None:
                inside = _fitted(said[y_at][x_at], wide - 6)
                label += f" · {said[y_at][x_at]}"
            _write_field(canvas, field, number, limit, inside, label)
    _draw_scale(canvas, left, bottom + 14, limit, signed=bool((values < 0).any()))
    return canvas.done()


def _canvas(title: str, right: float, height: float) -> Canvas:
    """A canvas with room up to `right`, and for its title, which stands at the top."""
    width = _MARGIN + max(right, _MARGIN + text_width(title, _TITLE))
    canvas = Canvas(width, height, title)
    canvas.text(_MARGIN, 19, title, size=_TITLE, anchor="start", bold=True)
    return canvas


def _widest(texts: Sequence[str], size: float = _SIZE) -> float:
    return max((text_width(text, size) for text in texts), default=0.0)


def _write_field(
    canvas: Canvas, field: Box, number: float, limit: float, inside: str, name: str
) -> None:
    """A field in the colour of its number, and what is written in it."""
    ground = _ground(number, limit)
    canvas.fill(field, hex_colour(ground), name=name)
    if inside:
        canvas.text(field.x, field.y, inside, size=_SIZE, fill=hex_colour(ink_on(ground)))


def _fitted(said: str, room: float) -> str:
    """A text with its middle left out where it is wider than the room."""
    if text_width(said, _SIZE) <= room:
        return said
    kept = len(said) - 1
    while kept > 1 and text_width(said[:kept], _SIZE) + _SIZE * 0.6 > room:
        kept -= 1
    return f"{said[: kept - kept // 2]}…{said[len(said) - kept // 2 :]}"


def _short(number: float, limit: float) -> str:
    """Digits that fit a field, as many decimals for all numbers of a map."""
    decimals = max(0, (2 if limit >= 1 else 1) - math.floor(math.log10(limit)))
    return f"{number:z.{decimals}f}" if decimals <= 3 else f"{number:.0e}"


def bars(title: str, labels: Sequence[str], values: Sequence[float]) -> Picture:
    """One bar for each number, to the right of the middle line or to the left of it."""
    labels, values = labels[:_MOST_BARS], values[:_MOST_BARS]
    left = _MARGIN + _widest(labels)
    limit, half = limit_of(values), 160.0
    signed = any(value < 0 for value in values)
    middle = left + 8 + (half if signed else 0)
    bottom = _BELOW_TITLE + 22 * len(labels)
    canvas = _canvas(title, middle + half + 74, bottom + _MARGIN)
    for at, (label, value) in enumerate(zip(labels, values, strict=True)):
        y = _BELOW_TITLE + 22 * at + 10.5
        long = half * min(1.0, abs(value) / limit)
        canvas.text(left, y, label, size=_SIZE, anchor="end")
        bar = Box(middle if value >= 0 else middle - long, y - 7.5, long, 15)
        canvas.fill(bar, colour(limit if value >= 0 else -limit, limit), corner=0)
        written = f"{value:{'+' if signed else ''}.4g}"
        canvas.text(middle + half + 8, y, written, size=_SIZE, anchor="start", role="quiet")
    canvas.line((middle, _BELOW_TITLE - 4), (middle, bottom), role="line")
    return canvas.done()


def coloured_words(title: str, words: Sequence[str], scores: Sequence[float]) -> Picture:
    """The text itself, each word on the colour of its score."""
    limit, x, y, room = limit_of(scores), _MARGIN, 44.0, 720.0
    canvas = _canvas(title, room - _MARGIN, 0)
    for word, score in zip(words, scores, strict=True):
        below = f"{score:+.2g}"
        wide = max(text_width(word, 15), text_width(below, _SIZE)) + 12
        if x + wide > room and x > _MARGIN:
            x, y = _MARGIN, y + 46
        _write_field(canvas, Box(x, y, wide, 24), score, limit, word, f"{word}: {score:+.4g}")
        canvas.text(x + wide / 2, y + 33, below, size=_SIZE, role="quiet")
        x += wide + 4
    canvas.height = y + 56
    return canvas.done()


def _draw_scale(canvas: Canvas, x: float, y: float, limit: float, *, signed: bool) -> None:
    """What the colours mean."""
    steps = 24
    least = -1 if signed else 0
    for at in range(steps):
        shade = colour(least + (1 - least) * at / (steps - 1), 1)
        canvas.fill(Box(x + 60 + 5 * at, y, 5, 12), shade, corner=0)
    low, high = f"{least * limit:.2g}", f"{limit:.2g}"
    canvas.text(x + 54, y + 6, low, size=_SIZE, anchor="end", role="quiet")
    canvas.text(x + 186, y + 6, high, size=_SIZE, anchor="start", role="quiet")
