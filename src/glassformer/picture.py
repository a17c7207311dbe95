"""Pictures as SVG, without any library: boxes, lines and text, some of which appear after others.

A `Canvas` collects shapes, and `done()` makes a `Picture` of them: every figure of a lesson and
every chart of a result is one. It has a light and a dark theme, and no animation for readers who
prefer reduced motion. On a page the ground is transparent; a file of its own has paper.

A moving picture can be stopped at each beat without a script: beside it stand radio buttons
(`documents.html`), and its style shows the beat whose button is checked. Where it is an image and
sees no buttons, the class `gf-at-3` on the SVG does the same.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal, TypeAlias

from glassformer.errors import TraceError
from glassformer.files import as_path, os_errors_as, write_whole

Role: TypeAlias = Literal[
    "ink", "quiet", "line", "input", "query", "key", "value", "score", "weighted", "output"
]
"""What a shape stands for, which sets its colour: inputs are green, queries red, and so on."""

Mode: TypeAlias = Literal["in", "only"]
"""`in`: appears at its beat and stays. `only`: visible during its beat alone."""

BEAT_SECONDS = 1.4
_REST = 2.0
"""Beats for which the finished figure is shown before it starts again."""
_FADE = 0.25
"""Duration of a fade, in beats."""

STYLE = """\
.gf { --gf-ink: #1d2430; --gf-quiet: #5f6878; --gf-paper: #fcfcfa; --gf-line: #c9ced8;
  --gf-soft: #eef1f6; --gf-input: #17692f; --gf-query: #b0331b; --gf-key: #925600;
  --gf-value: #6b3fa0; --gf-score: #1f5fa8; --gf-weighted: #6f5b00; --gf-output: #0b6b57;
  font-family: system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif;
  font-variant-numeric: tabular-nums; max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  .gf { --gf-ink: #e7e9ee; --gf-quiet: #a2abba; --gf-paper: #15181e; --gf-line: #434a58;
    --gf-soft: #1e232c; --gf-input: #7fd497; --gf-query: #ff9b87; --gf-key: #f0b45c;
    --gf-value: #c9a7f2; --gf-score: #8ab8f0; --gf-weighted: #e0d06a; --gf-output: #5fd3bd; }
}
.gf text { fill: var(--c, var(--gf-ink)); }
.gf:root { background: var(--gf-paper); }
.gf-clear:root { background: none; }
.gf .paper { fill: var(--gf-paper); }
.gf .panel { fill: var(--gf-soft); stroke: var(--gf-line); }
.gf .part { fill: var(--gf-soft); stroke: var(--c, var(--gf-line)); stroke-width: 1.5; }
.gf .frame { fill: none; stroke: var(--c, var(--gf-ink)); stroke-width: 2; }
.gf .line { fill: none; stroke: var(--c, var(--gf-quiet)); stroke-width: 1.5; }
.gf .head { fill: var(--c, var(--gf-quiet)); stroke: none; }
.gf .dot { fill: var(--c, var(--gf-ink)); stroke: var(--gf-paper); stroke-width: 1.5; }
.gf .empty { fill: none; stroke: var(--gf-line); }
.gf .only { opacity: 0; }
@media (prefers-reduced-motion: reduce) { .gf g { animation: none !important; } }
@media print { .gf g { animation: none !important; } .gf rect { print-color-adjust: exact; } }
"""


def motion_name(mode: Mode, beat: int, beats: int) -> str:
    """The name of an animation; figures on one page share equal ones."""
    return f"gf-{mode}-{beat}-{beats}"


def keyframes(used: Iterable[tuple[Mode, int]], beats: int) -> str:
    """The CSS animations of a figure; beats are counted from 1."""
    whole = beats + _REST

    def at(beat: float) -> str:
        return f"{max(0.0, 100 * beat / whole):.2f}%"

    lines = []
    for mode, beat in sorted(set(used)):
        start, end = beat - 1, beat
        if mode == "in":
            stops = f"0%, {at(start)} {{ opacity: 0 }} {at(start + _FADE)}, 100% {{ opacity: 1 }}"
        else:
            stops = (
                f"0%, {at(start)} {{ opacity: 0 }} {at(start + _FADE)}, {at(end - _FADE)} "
                f"{{ opacity: 1 }} {at(end)}, 100% {{ opacity: 0 }}"
            )
        lines.append(f"@keyframes {motion_name(mode, beat, beats)} {{ {stops} }}")
    seconds = whole * BEAT_SECONDS
    lines.append(f".gf-{beats} g[class] {{ animation: {seconds:.1f}s linear infinite }}")
    lines += [_frame(beat, beats) for beat in range(1, beats + 1)]
    paused = f':has(> .gf-steps [value="pause"]:checked) > .gf-{beats} g[class]'
    lines.append(f"{paused} {{ animation-play-state: paused }}")
    return "\n".join(lines) + "\n"


def _frame(beat: int, beats: int) -> str:
    """The style of a figure that stands still at one beat."""
    checked = f':has(> .gf-steps [value="{beat}"]:checked) > .gf-{beats}'
    still = f":is({checked}, .gf-{beats}.gf-at-{beat})"
    later = ", ".join(f'[data-beat="{other}"]' for other in range(beat + 1, beats + 1))
    hidden = f" {still} g.in:is({later}) {{ opacity: 0 }}" if later else ""
    return (
        f"{still} g[class] {{ animation: none }}{hidden} "
        f'{still} g.only[data-beat="{beat}"] {{ opacity: 1 }}'
    )


Anchor = Literal["start", "middle", "end"]
_HEAD = 7.0
"""Length of an arrow's head."""


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def x(self) -> float:
        """The horizontal centre."""
        return self.left + self.width / 2

    @property
    def y(self) -> float:
        """The vertical centre."""
        return self.top + self.height / 2

    def grown(self, by: float) -> Box:
        return Box(self.left - by, self.top - by, self.width + 2 * by, self.height + 2 * by)


@dataclass(frozen=True, slots=True)
class Picture:
    """A finished picture, which a notebook shows."""

    width: float
    height: float
    title: str
    markup: str
    beats: int
    """How many pictures a moving one runs through; 0 if nothing moves."""
    motions: str

    def svg(self, *, alone: bool = True) -> str:
        """As SVG; `alone=False` for a page that has `STYLE` already."""
        style = (STYLE if alone else "") + self.motions
        name = escape(self.title)
        size = f'width="{_n(self.width)}" height="{_n(self.height)}"'
        view = f'viewBox="0 0 {_n(self.width)} {_n(self.height)}"'
        moving = f" gf-{self.beats}" if self.beats else ""
        styled = f"<style>\n{style}</style>\n" if style else ""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="gf{moving}" {size} {view} '
            f'role="img" aria-label="{name}">\n<title>{name}</title>\n{styled}'
            f"{self.markup}</svg>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the SVG to a file, whole or not at all."""
        target = as_path(path, TraceError)
        with os_errors_as(TraceError, "cannot write {target}: {reason}", target=target):
            return write_whole(target, self.svg())

    def _repr_svg_(self) -> str:
        return self.svg()


def text_width(said: str, size: float) -> float:
    """The approximate width of a line of text; Chinese characters are square."""
    shares = (1.0 if unicodedata.east_asian_width(sign) in "WF" else 0.58 for sign in said)
    return size * sum(shares)


class Canvas:
    """Collects shapes; what is drawn inside `at` belongs to a beat."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[tuple[Mode | None, int, str]] = []
        self._when: tuple[Mode | None, int] = (None, 0)

    @contextmanager
    def at(self, beat: int) -> Iterator[None]:
        """What is drawn inside is visible from this beat on; with beat 0, always.

        With a negative beat it is visible during that beat only, and never without animation.
        """
        before = self._when
        if beat:
            self._when = "in" if beat > 0 else "only", abs(beat)
        yield
        self._when = before

    def add(self, markup: str) -> None:
        self._parts.append((*self._when, markup))

    def text(
        self,
        x: float,
        y: float,
        said: str,
        *,
        size: float = 14,
        anchor: Anchor = "middle",
        bold: bool = False,
        role: Role = "ink",
        fill: str | None = None,
    ) -> None:
        """A line of text, vertically centred on y."""
        weight = ' font-weight="650"' if bold else ""
        colour = f' style="fill:{fill}"' if fill else _colour(role)
        place = f'x="{_n(x)}" y="{_n(y + 0.35 * size)}" font-size="{_n(size)}"'
        self.add(f'<text {place} text-anchor="{anchor}"{weight}{colour}>{escape(said)}</text>')

    def turned(
        self, x: float, y: float, said: str, *,
        size: float = 13, anchor: Anchor = "middle", role: Role = "quiet",
    ) -> None:  # fmt: skip
        """A line of text that reads upwards; a short Chinese one downwards, its signs upright.

        Its middle is at y, or with `anchor="start"` its lower end.
        """
        signs = said.replace(" ", "")
        if unicodedata.east_asian_width(signs[:1]) == "W" and all(map(_stands_upright, signs)):
            height = 1.15 * size * (len(signs) - 1)
            first = y - (height / 2 if anchor == "middle" else height + 0.5 * size)
            for place, sign in enumerate(signs):
                self.text(x - 0.35 * size, first + 1.15 * size * place, sign, size=size, role=role)
            return
        turn = f'transform="translate({_n(x)} {_n(y)}) rotate(-90)"'
        self.add(f'<text {turn} font-size="{_n(size)}" text-anchor="{anchor}"{_colour(role)}>'
                 f"{escape(said)}</text>")  # fmt: skip

    def box(
        self,
        box: Box,
        kind: Literal["frame", "part", "panel", "empty"] = "frame",
        role: Role | None = None,
        *,
        corner: float = 4,
        dashed: bool = False,
    ) -> None:
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.add(f'<rect class="{kind}" {_place(box)} rx="{_n(corner)}"{dashes}{_colour(role)}/>')

    def fill(self, box: Box, colour: str, corner: float = 2, *, name: str = "") -> None:
        """A rectangle whose colour stands for a number; `name` is its tooltip."""
        end = f">{_tooltip(name)}</rect>" if name else "/>"
        self.add(f'<rect {_place(box)} rx="{_n(corner)}" fill="{colour}"{end}')

    def bar(self, box: Box, role: Role) -> None:
        """A solid bar."""
        self.add(f'<rect class="head" {_place(box)} rx="2"{_colour(role)}/>')

    def line(
        self,
        *points: tuple[float, float],
        role: Role = "quiet",
        width: float | None = None,
        arrow: bool = False,
        dashed: bool = False,
    ) -> None:
        """Straight lines from point to point, with an arrowhead at the end if `arrow`."""
        path = "M" + " L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self.path(path, role=role, width=width, dashed=dashed)
        if arrow:
            (x0, y0), (x, y) = points[-2:]
            self._head(x, y, x - x0, y - y0, role)

    def path(
        self, path: str, *, role: Role = "quiet", width: float | None = None, dashed: bool = False
    ) -> None:
        thick = f"stroke-width:{_n(width)};" if width is not None else ""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.add(f'<path class="line" d="{path}"{dashes}{_colour(role, thick)}/>')

    def _head(self, x: float, y: float, dx: float, dy: float, role: Role) -> None:
        length = (dx * dx + dy * dy) ** 0.5 or 1.0
        ux, uy = dx / length, dy / length
        back_x, back_y = x - _HEAD * ux, y - _HEAD * uy
        half = _HEAD * 0.5
        corners = (
            (x, y),
            (back_x - half * uy, back_y + half * ux),
            (back_x + half * uy, back_y - half * ux),
        )
        points = " ".join(f"{_n(a)},{_n(b)}" for a, b in corners)
        self.add(f'<polygon class="head" points="{points}"{_colour(role)}/>')

    def dot(
        self, x: float, y: float, radius: float, *, fill: str | None = None, name: str = ""
    ) -> None:
        """A filled circle; `name` is its tooltip."""
        colour = f' style="fill:{fill}"' if fill else ""
        place = f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"'
        self.add(f'<circle class="dot" {place}{colour}>{_tooltip(name)}</circle>')

    def ring(self, x: float, y: float, radius: float, role: Role = "quiet") -> None:
        place = f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"'
        self.add(f'<circle class="line" {place}{_colour(role)}/>')

    def done(self) -> Picture:
        used: list[tuple[Mode, int]] = [
            (mode, beat) for mode, beat, _ in self._parts if mode is not None
        ]
        beats = max((beat for _, beat in used), default=0)
        lines: list[str] = []
        open_: tuple[Mode | None, int] = (None, 0)
        for mode, beat, markup in self._parts:
            if (mode, beat) != open_:
                if open_[0] is not None:
                    lines.append("</g>")
                if mode is not None:
                    name = motion_name(mode, beat, beats)
                    when = f'data-beat="{beat}" style="animation-name:{name}"'
                    lines.append(f'<g class="{mode}" {when}>')
                open_ = (mode, beat)
            lines.append(markup)
        if open_[0] is not None:
            lines.append("</g>")
        return Picture(
            self.width,
            self.height,
            self.title,
            "\n".join(lines) + "\n",
            beats,
            keyframes(used, beats) if beats else "",
        )


def _tooltip(name: str) -> str:
    return f"<title>{escape(name)}</title>" if name else ""


def _stands_upright(sign: str) -> bool:
    return sign.isdigit() or unicodedata.east_asian_width(sign) == "W"


def _place(box: Box) -> str:
    return f'x="{_n(box.left)}" y="{_n(box.top)}" width="{_n(box.width)}" height="{_n(box.height)}"'


def _colour(role: Role | None, more: str = "") -> str:
    named = f"--c:var(--gf-{role});" if role not in (None, "ink") else ""
    return f' style="{named}{more}"' if named or more else ""


def _n(number: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")
