"""Pictures of results as SVG, without any library: a heat map, bars, coloured words."""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import Tensor

from glassformer.colours import hex_colour, signed_colour
from glassformer.errors import TraceError
from glassformer.files import as_path, os_errors_as, write_whole

_STYLE = """\
.gf-chart { --ink: #1d2430; --quiet: #5f6878; --paper: #fcfcfa; --line: #c9ced8;
  font-family: system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif;
  font-variant-numeric: tabular-nums; max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  .gf-chart { --ink: #e7e9ee; --quiet: #a2abba; --paper: #15181e; --line: #434a58; }
}
.gf-chart text { fill: var(--ink); font-size: 12px; }
.gf-chart .quiet { fill: var(--quiet); }
.gf-chart .title { font-size: 14px; font-weight: 600; }
.gf-chart .paper { fill: var(--paper); }
.gf-chart .line { stroke: var(--line); }
.gf-chart .on-light { fill: #1d2430; }
.gf-chart .on-dark { fill: #ffffff; }
@media print { .gf-chart rect { print-color-adjust: exact; } }
"""
_SIZE = 12.0
_MOST_BARS = 60
"""Longer lists are cut: the rest stands in the rows."""
_MOST_TURNED, _MOST_FIELD = 320.0, 104.0  # pixels: longer labels lose their middle


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing that writes itself as SVG; a notebook shows it."""

    title: str
    width: float
    height: float
    markup: str

    style: ClassVar[str] = _STYLE
    beats: ClassVar[int] = 0
    """It does not move."""

    def svg(self, *, alone: bool = True) -> str:
        """The SVG; inside a page that has `style` it need not be `alone`."""
        name = escape(self.title)
        style = f"<style>\n{self.style}</style>\n" if alone else ""
        size = f'width="{self.width:g}" height="{self.height:g}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="gf-chart" {size} '
            f'viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{name}">\n'
            f'<title>{name}</title>\n{style}<rect class="paper" width="100%" height="100%"/>\n'
            f"{self.markup}</svg>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the SVG to a file, whole or not at all."""
        target = as_path(path, TraceError)
        with os_errors_as(TraceError, "cannot write {target}: {reason}", target=target):
            return write_whole(target, self.svg())

    def _repr_svg_(self) -> str:
        return self.svg()


def text_width(said: str, size: float = _SIZE) -> float:
    """About how wide a line of text is, in pixels; Chinese characters are as wide as high."""
    return size * sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.6 for c in said)


def colour(value: float, limit: float) -> str:
    """The colour of a signed number as `#RRGGBB`; white for NaN."""
    return hex_colour(signed_colour(0.0 if math.isnan(value) else value, limit))


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
    left = 16 + max(map(text_width, rows), default=0)
    wide = 44.0 if len(columns) <= 16 else 24.0
    if said is not None:
        longest = max((text_width(one) for line in said for one in line), default=0)
        wide = min(_MOST_FIELD, max(24.0, longest + 8))
    columns = [_fitted(column, _MOST_TURNED) for column in columns]
    turned = any(text_width(column) > wide - 4 for column in columns)
    above = 44 + (max(map(text_width, columns)) if turned else _SIZE)
    limit = limit_of(values.reshape(-1))
    drawn = [_text(16, 24, title, "title")]
    for at, column in enumerate(columns):
        x = left + wide * (at + 0.5)
        drawn.append(_turned(x + 4, above, column) if turned else _middle(x, above, column))
    for y_at, (row, line) in enumerate(zip(rows, numbers, strict=True)):
        y = above + 8 + 24 * y_at
        drawn.append(_end(left - 6, y + 16, row))
        for x_at, number in enumerate(line):
            if np.isnan(number):
                continue
            where = f'x="{left + wide * x_at:g}" y="{y:g}" width="{wide - 1:g}" height="23"'
            label = f"{row} · {columns[x_at]}: {number:.4g}"
            inside = _short(number, limit) if wide > 40 else ""
            if said is not None:
                inside = _fitted(said[y_at][x_at], wide - 6)
                label += f" · {said[y_at][x_at]}"
            fill = colour(number, limit)
            drawn.append(f'<rect {where} fill="{fill}"><title>{escape(label)}</title></rect>\n')
            if inside:
                ink = "on-dark" if abs(number) > 0.8 * limit else "on-light"
                drawn.append(_middle(left + wide * (x_at + 0.5), y + 16, inside, ink))
    bottom = above + 8 + 24 * len(rows)
    drawn.append(_scale(left, bottom + 14, limit, signed=bool((values < 0).any())))
    width = max(left + wide * len(columns) + 16, left + 280, 32 + text_width(title, 14))
    return Picture(title, width, bottom + 44, "".join(drawn))


def _fitted(said: str, room: float) -> str:
    """A text with its middle left out where it is wider than the room."""
    if text_width(said) <= room:
        return said
    kept = len(said) - 1
    while kept > 1 and text_width(said[:kept]) + _SIZE * 0.6 > room:
        kept -= 1
    return f"{said[: kept - kept // 2]}…{said[len(said) - kept // 2 :]}"


def _short(number: float, limit: float) -> str:
    """Digits that fit a field, as many decimals for all numbers of a map."""
    decimals = max(0, (2 if limit >= 1 else 1) - math.floor(math.log10(limit)))
    return f"{number:z.{decimals}f}" if decimals <= 3 else f"{number:.0e}"


def bars(title: str, labels: Sequence[str], values: Sequence[float]) -> Picture:
    """One bar for each number, to the right of the middle line or to the left of it."""
    labels, values = labels[:_MOST_BARS], values[:_MOST_BARS]
    left = 16 + max(map(text_width, labels), default=0)
    limit, half = limit_of(values), 160.0
    signed = any(value < 0 for value in values)
    middle = left + 8 + (half if signed else 0)
    drawn = [_text(16, 24, title, "title")]
    for at, (label, value) in enumerate(zip(labels, values, strict=True)):
        y = 40 + 22 * at
        long = half * min(1.0, abs(value) / limit)
        x = middle if value >= 0 else middle - long
        drawn.append(_end(left, y + 14, label))
        drawn.append(
            f'<rect x="{x:g}" y="{y + 3:g}" width="{long:g}" height="15" '
            f'fill="{colour(limit if value >= 0 else -limit, limit)}"/>\n'
        )
        drawn.append(
            _text(middle + half + 8, y + 14, f"{value:{'+' if signed else ''}.4g}", "quiet")
        )
    bottom = 40 + 22 * len(labels)
    drawn.append(f'<path class="line" d="M{middle:g} 36V{bottom:g}"/>\n')
    width = max(middle + half + 90, 32 + text_width(title, 14))
    return Picture(title, width, bottom + 16, "".join(drawn))


def coloured_words(title: str, words: Sequence[str], scores: Sequence[float]) -> Picture:
    """The text itself, each word on the colour of its score."""
    limit, x, y, room = limit_of(scores), 16.0, 44.0, 720.0
    drawn = [_text(16, 24, title, "title")]
    for word, score in zip(words, scores, strict=True):
        wide = max(text_width(word, 15), text_width(f"{score:+.2g}")) + 12
        if x + wide > room and x > 16:
            x, y = 16.0, y + 46
        ink = "on-dark" if abs(score) > 0.8 * limit else "on-light"
        said = escape(f"{word}: {score:+.4g}")
        drawn.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="24" rx="3" '
            f'fill="{colour(score, limit)}"><title>{said}</title></rect>\n'
        )
        drawn.append(_middle(x + wide / 2, y + 17, word, ink))
        drawn.append(_middle(x + wide / 2, y + 37, f"{score:+.2g}", "quiet"))
        x += wide + 4
    return Picture(title, max(room, 32 + text_width(title, 14)), y + 56, "".join(drawn))


def _text(x: float, y: float, said: str, kind: str = "", anchor: str = "") -> str:
    look = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:g}" y="{y:g}"{look}>{escape(said)}</text>\n'


def _middle(x: float, y: float, said: str, kind: str = "") -> str:
    return _text(x, y, said, kind, "middle")


def _end(x: float, y: float, said: str) -> str:
    return _text(x, y, said, "", "end")


def _turned(x: float, y: float, said: str) -> str:
    return f'<text transform="translate({x:g} {y:g}) rotate(-90)">{escape(said)}</text>\n'


def _scale(x: float, y: float, limit: float, *, signed: bool) -> str:
    """What the colours mean."""
    steps = 24
    least = -1 if signed else 0
    fields = [
        f'<rect x="{x + 60 + 5 * at:g}" y="{y:g}" width="5" height="12" '
        f'fill="{colour(least + (1 - least) * at / (steps - 1), 1)}"/>\n'
        for at in range(steps)
    ]
    low, high = f"{least * limit:.2g}", f"{limit:.2g}"
    ends = _text(x + 54, y + 11, low, "quiet", "end") + _text(x + 186, y + 11, high, "quiet")
    return "".join([*fields, ends])
