"""Figures laid out in rows and columns: pieces of known size in the cells of a table.

    table = TableFigure()
    x = table.put(MatrixFigure(numbers, "input", title="x"), 0, 0)
    y = table.put(MatrixFigure(others, "output"), 0, 1, beat=1)    # appears at the first beat
    table.join(x, y)                                               # an arrow between them
    drawing = table.drawing("From x to y")

Columns become as wide and rows as high as their content, so nothing overlaps in any language. A
table is a piece itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from glassformer.colours import Scale, hex_colour, ink_on
from glassformer.documents.heat_maps import matrix, scale_of
from glassformer.language import Language, words
from glassformer.lessons.lesson import Speaker
from glassformer.picture import Anchor, Box, Canvas, Picture, Role, text_width
from glassformer.tracing import Step
from glassformer.tracing.formula import number as number_text

CELL, SMALL, SLIM = (46.0, 30.0), (38.0, 26.0), (32.0, 28.0)
"""Width and height of a matrix cell."""
_GAP, _MARGIN, _NEAR = 2.0, 18.0, 5.0
_LABEL, _TITLE = 13.0, 14.0


_WORDS = words(__name__)


def speaker(language: Language) -> Speaker:
    return Speaker(language, _WORDS)


@dataclass(frozen=True, slots=True)
class ColouredNumbers:
    """A matrix and its colour scale."""

    values: npt.NDArray[np.float64]
    scale: Scale | None

    def rows(self, *chosen: int) -> ColouredNumbers:
        return ColouredNumbers(self.values[list(chosen)], self.scale)

    def columns(self, start: int, end: int) -> ColouredNumbers:
        return ColouredNumbers(self.values[:, start:end], self.scale)

    def cell(self, row: int, column: int) -> ColouredNumbers:
        return self.rows(row).columns(column, column + 1)


def numbers_of(step: Step, at: tuple[int, ...] | None = None) -> ColouredNumbers:
    """A slice of a step, with the colour scale of the whole step."""
    return ColouredNumbers(matrix(step, at).values, scale_of(step))


def cell_number(number: float) -> str:
    """A number in a cell: two decimals, three if it is small, ≈0 if smaller still."""
    size = abs(number)
    if math.isfinite(number) and 0 < size < 5e-4:
        return "≈0"
    shown = number_text(round(number, 2 if size >= 0.01 else 3), 4)
    return shown.replace("-", "−")


class Placed(Protocol):
    """Whatever has a place in the figure: a part, or a section of one."""

    @property
    def box(self) -> Box: ...


class FigureSection:
    """A section of a part, such as a row of a matrix, once the part is placed."""

    def __init__(self, box: Callable[[], Box]) -> None:
        self._box = box

    @property
    def box(self) -> Box:
        return self._box()


class FigurePart:
    """A part of a figure. Its `box`, to which lines are drawn, is known once it is placed.

    `before`, `after`, `above` and `below` are the space for labels around the box.
    """

    box: Box
    before = after = above = below = 0.0

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height

    def place(self, x: float, y: float) -> None:
        """Centre its box there."""
        self.box = Box(x - self.width / 2, y - self.height / 2, self.width, self.height)

    def draw(self, canvas: Canvas) -> None:
        """Draw it where it was placed; a bare `FigurePart` only takes up space."""


class Label(FigurePart):
    def __init__(
        self, said: str, role: Role = "quiet", size: float = _LABEL, *, bold: bool = False
    ) -> None:
        super().__init__(text_width(said, size), size + 4)
        self._said, self._role, self._size, self._bold = said, role, size, bold
        self.anchor: Anchor = "middle"

    def draw(self, canvas: Canvas) -> None:
        x = {"start": self.box.left, "middle": self.box.x, "end": self.box.right}[self.anchor]
        canvas.text(
            x, self.box.y, self._said, size=self._size, bold=self._bold, role=self._role,
            anchor=self.anchor,
        )  # fmt: skip


def heading(said: str, role: Role = "ink") -> Label:
    return Label(said, role, _TITLE, bold=True)


class MatrixFigure(FigurePart):
    """A heat map framed in its role's colour; `beat` says when each row appears.

    With `parts`, the columns are divided evenly among frames of these colours.
    """

    def __init__(
        self, numbers: ColouredNumbers | Step, role: Role = "ink", *, title: str = "",
        rows: Sequence[str] = (), columns: Sequence[str] = (), cell: tuple[float, float] = CELL,
        parts: Sequence[Role] = (), beat: Callable[[int], int] | None = None,
        write: Callable[[float], str] = cell_number,
    ) -> None:  # fmt: skip
        numbers = numbers_of(numbers) if isinstance(numbers, Step) else numbers
        self.n_rows, self.n_columns = numbers.values.shape
        width, height = cell[0] + _GAP, cell[1] + _GAP
        super().__init__(self.n_columns * width - _GAP + 6, self.n_rows * height - _GAP + 6)
        aside = max(0.0, text_width(title, _TITLE) - self.width) / 2
        labels = max((text_width(label, _LABEL) for label in rows), default=-8.0) + 8
        self.before, self.after = max(aside, labels), aside
        self.above = (24.0 if title else 0.0) + (22.0 if columns else 0.0)
        self._numbers, self._role, self._title, self._beat = numbers, role, title, beat
        self._write = write
        self._rows, self._columns, self._parts, self._cell = rows, columns, parts, cell

    def part(self, rows: range, columns: range) -> FigureSection:
        width, height = self._cell[0] + _GAP, self._cell[1] + _GAP

        def box() -> Box:
            left = self.box.left + 3 + columns.start * width
            top = self.box.top + 3 + rows.start * height
            return Box(left, top, len(columns) * width - _GAP, len(rows) * height - _GAP)

        return FigureSection(box)

    def cell(self, row: int, column: int) -> FigureSection:
        return self.part(range(row, row + 1), range(column, column + 1))

    def row(self, row: int) -> FigureSection:
        return self.part(range(row, row + 1), range(self.n_columns))

    def column(self, column: int) -> FigureSection:
        return self.part(range(self.n_rows), range(column, column + 1))

    def group(self, place: int) -> FigureSection:
        """The columns inside the frame of one of its `parts`."""
        width = self.n_columns // len(self._parts)
        return self.part(range(self.n_rows), range(place * width, (place + 1) * width))

    def draw(self, canvas: Canvas) -> None:
        box = self.box
        if self._title:
            y = box.top - (34 if self._columns else 12)
            canvas.text(box.x, y, self._title, size=_TITLE, bold=True, role=self._role)
        for row, label in enumerate(self._rows):
            y = self.row(row).box.y
            canvas.text(box.left - 7, y, label, anchor="end", role="quiet", size=_LABEL)
        for column, label in enumerate(self._columns):
            x = self.cell(0, column).box.x
            canvas.text(x, box.top - 12, label, size=_LABEL, role="quiet")
        for row, column in np.ndindex(self.n_rows, self.n_columns):
            if self._beat is not None:
                canvas.box(self.cell(row, column).box, "empty", corner=2)
            with canvas.at(self._beat(row) if self._beat is not None else 0):
                self._draw_cell(canvas, row, column)
        canvas.box(box, "frame", self._role)
        for place, role in enumerate(self._parts):
            part = self.group(place).box
            canvas.box(Box(part.left - 1, box.top, part.width + 2, box.height), role=role)

    def _draw_cell(self, canvas: Canvas, row: int, column: int) -> None:
        box, number = self.cell(row, column).box, float(self._numbers.values[row, column])
        scale, ink = self._numbers.scale, None
        colour = scale.colour(number) if scale is not None else None
        if colour is not None:
            canvas.fill(box, hex_colour(colour))
            ink = hex_colour(ink_on(colour))
        shown, size = self._write(number), {CELL[0]: 13.0, 34.0: 11.0}.get(self._cell[0], 12.0)
        size = min(size, size * (box.width - 4) / text_width(shown, size))
        canvas.text(box.x, box.y, shown, size=size, fill=ink)


def numbers_figure(
    matrices: Mapping[str, npt.NDArray[np.float64]], rows: Sequence[str], title: str, *,
    columns: Sequence[str] = (), cell: tuple[float, float],
) -> Picture:  # fmt: skip
    """Matrices by title, side by side, each coloured by its own largest number."""
    table = TableFigure(30, 8)
    for place, (name, values) in enumerate(matrices.items()):
        numbers = ColouredNumbers(values, Scale("signed", float(np.abs(values).max()) or 1.0))
        shown = rows if place == 0 else ()
        matrix = MatrixFigure(numbers, cell=cell, rows=shown, columns=columns, title=name)
        table.put(matrix, 0, place)
    return table.drawing(title)


class ModelBox(FigurePart):
    """A part of a model: a box with its name; dashed if it is not `done`."""

    def __init__(self, said: str, role: Role, *, done: bool = True, bold: bool = True) -> None:
        super().__init__(text_width(said, _TITLE) + 28, 34)
        self._said, self._role, self._done, self._bold = said, role, done, bold and done

    def draw(self, canvas: Canvas) -> None:
        kind: Literal["part", "empty"] = "part" if self._done else "empty"
        role = self._role if self._done else "quiet"
        canvas.box(self.box, kind, self._role, corner=8, dashed=not self._done)
        canvas.text(self.box.x, self.box.y, self._said, size=_TITLE, bold=self._bold, role=role)


class Swatch(FigurePart):
    """A legend entry: a colour and its meaning."""

    def __init__(self, said: str, role: Role, kind: Literal["bar", "part", "empty"]) -> None:
        super().__init__(28, 18)
        self.after = text_width(said, _LABEL) + 10
        self._said, self._role, self._kind = said, role, kind

    def draw(self, canvas: Canvas) -> None:
        if self._kind == "bar":
            canvas.bar(self.box, self._role)
        else:
            canvas.box(self.box, self._kind, self._role, dashed=self._kind == "empty")
        x = self.box.right + 10
        canvas.text(x, self.box.y, self._said, size=_LABEL, anchor="start", role="quiet")


class Sign(FigurePart):
    """An operation in a circle."""

    def __init__(self, sign: str) -> None:
        super().__init__(24, 24)
        self._sign = sign

    def draw(self, canvas: Canvas) -> None:
        canvas.dot(self.box.x, self.box.y, 12, fill="var(--gf-soft)")
        canvas.ring(self.box.x, self.box.y, 12)
        canvas.text(self.box.x, self.box.y, self._sign, size=17, bold=True)


@dataclass(frozen=True)
class Length:
    """One of several bars: its length, its name, and what is written after it.

    `share` is filled in the colour of values.
    """

    value: float
    label: str = ""
    said: str = ""
    share: float | None = None


class BarColumn(FigurePart):
    """Bars below one another; one of length `most`, or the longest, fills the width."""

    def __init__(
        self, bars: Sequence[Length], role: Role, *, room: float = 118, most: float = 0
    ) -> None:
        super().__init__(room, len(bars) * 29.0 - 9)
        self.before = max(text_width(bar.label, _LABEL) for bar in bars) + 8
        self.after = max(text_width(bar.said, 12) for bar in bars) + 8
        self._bars, self._role = bars, role
        self._unit = room / (most or max(abs(bar.value) for bar in bars))

    def draw(self, canvas: Canvas) -> None:
        for place, bar in enumerate(self._bars):
            y, left = self.box.top + 10 + place * 29, self.box.left
            box = Box(left, y - 8, max(1.5, self._unit * abs(bar.value)), 16)
            if bar.label:
                canvas.text(left - 8, y, bar.label, size=_LABEL, anchor="end")
            if bar.share is None:
                canvas.bar(box, self._role)
            else:
                canvas.box(box, "part", self._role, corner=2)
                canvas.bar(Box(left, y - 8, self._unit * abs(bar.share), 16), "value")
            if bar.said:
                canvas.text(box.right + 8, y, bar.said, size=12, anchor="start", role="quiet")


Point = tuple[float, float]
P = TypeVar("P", bound=FigurePart)


@dataclass(frozen=True, eq=False)
class _Place:
    piece: FigurePart
    row: int
    column: int
    span: int
    align: Literal["start", "middle", "end", "fill"]
    beat: int


class TableFigure(FigurePart):
    """Pieces in rows and columns, with lines between them. `across` and `down` are the gaps.

    A beat says when something appears; a negative one, during which beat alone it is visible.
    """

    def __init__(self, across: float = 24, down: float = 16) -> None:
        super().__init__(0, 0)
        self._gaps = across, down
        self._places: list[_Place] = []
        self._lines: list[tuple[int, Callable[[Canvas], None]]] = []
        self._marks: list[tuple[int, Callable[[Canvas], None]]] = []

    def put(
        self, piece: P, row: int, column: int, *, span: int = 1, beat: int = 0,
        align: Literal["start", "middle", "end", "fill"] = "middle",
    ) -> P:  # fmt: skip
        """Put a piece into a cell, or across `span` columns."""
        self._places.append(_Place(piece, row, column, span, align, beat))
        if isinstance(piece, Label) and align != "fill":
            piece.anchor = align  # its width is an estimate, so anchor the edge that matters
        return piece

    def line(
        self, route: Callable[..., Sequence[Point]], *pieces: Placed, role: Role = "quiet",
        beat: int = 0, arrow: bool = True, dashed: bool = False, width: float | None = None,
    ) -> None:  # fmt: skip
        """A line behind the pieces; its route is computed from their boxes, once placed."""

        def draw(canvas: Canvas) -> None:
            points = route(*(piece.box for piece in pieces))
            canvas.line(*points, role=role, arrow=arrow, dashed=dashed, width=width)

        self._lines.append((beat, draw))

    def join(
        self, a: Placed, b: Placed, role: Role = "quiet", *, sideways: bool = False,
        straight: bool = False, gaps: tuple[float, float] = (_NEAR, _NEAR), **look: Any,
    ) -> None:  # fmt: skip
        """A line between two pieces, from above to below or `sideways`, that far from each.

        A `straight` one runs through the middle of the narrower piece.
        """

        def upright(a: Box, b: Box) -> list[Point]:
            x = min((a, b), key=lambda box: box.width).x if straight else None
            down = 1 if a.y <= b.y else -1
            start = a.bottom + gaps[0] if down > 0 else a.top - gaps[0]
            end = b.top - gaps[1] if down > 0 else b.bottom + gaps[1]
            return [(a.x if x is None else x, start), (b.x if x is None else x, end)]

        def across(a: Box, b: Box) -> list[Point]:
            return [(a.right + gaps[0], a.y), (b.left - gaps[1], b.y)]

        self.line(across if sideways else upright, a, b, role=role, **look)

    def rule(
        self, above: FigurePart, first: FigurePart, last: FigurePart, *, beat: int = 0
    ) -> None:
        """The line under a sum: above one piece, and spanning from `first` to `last`."""

        def route(under: Box, a: Box, b: Box) -> list[Point]:
            return [(a.left - 12, under.top - 7), (b.right + 12, under.top - 7)]

        self.line(route, above, first, last, role="ink", arrow=False, beat=beat)

    def frame(
        self, piece: Placed, role: Role, *, by: float = 5, corner: float = 6, beat: int = 0
    ) -> None:
        """A frame around a piece."""
        self.mark(lambda to: to.box(piece.box.grown(by), role=role, corner=corner), beat=beat)

    def mark(self, draw: Callable[[Canvas], None], *, beat: int = 0) -> None:
        """Draw something over the pieces."""
        self._marks.append((beat, draw))

    def note(
        self, said: str, at: Callable[..., Point], *pieces: Placed, role: Role = "ink",
        size: float = _LABEL, anchor: Anchor = "middle", bold: bool = False, beat: int = 0,
    ) -> None:  # fmt: skip
        """A text near pieces, for which the table reserves no space."""

        def draw(canvas: Canvas) -> None:
            x, y = at(*(piece.box for piece in pieces))
            canvas.text(x, y, said, size=size, anchor=anchor, bold=bold, role=role)

        self.mark(draw, beat=beat)

    def arrange(self) -> None:
        """Compute column widths and row heights; boxes in a row or column are aligned."""
        for place in self._places:
            if isinstance(place.piece, TableFigure):
                place.piece.arrange()
        pieces = [(place.row, place.column, place.piece) for place in self._places]
        single = [(p.column, p.piece) for p in self._places if p.span == 1]
        self._up = _most((row, p.height / 2 + p.above) for row, _, p in pieces)
        down = _most((row, p.height / 2 + p.below) for row, _, p in pieces)
        self._left = _most((column, p.width / 2 + p.before) for column, p in single)
        right = _most((column, p.width / 2 + p.after) for column, p in single)
        self._rows = [a + b for a, b in zip(self._up, down, strict=True)]
        self._columns = [a + b for a, b in zip(self._left, right, strict=True)]
        for place in self._places:
            over = max(0.0, _outer(place.piece) - self._room(place))
            for i in range(place.column, place.column + place.span):
                self._columns[i] += over / place.span
        self.width = sum(self._columns) + self._gaps[0] * (len(self._columns) - 1)
        self.height = sum(self._rows) + self._gaps[1] * (len(self._rows) - 1)

    def _room(self, place: _Place) -> float:
        self._columns += [0.0] * (place.column + place.span - len(self._columns))
        within = self._columns[place.column : place.column + place.span]
        return sum(within) + self._gaps[0] * (place.span - 1)

    def place(self, x: float, y: float) -> None:
        """Centre it there, and place everything in it."""
        super().place(x, y)
        for at in self._places:
            start = self.box.left + sum(self._columns[: at.column]) + at.column * self._gaps[0]
            top = self.box.top + sum(self._rows[: at.row]) + at.row * self._gaps[1]
            piece, room = at.piece, self._room(at)
            if at.align == "fill":
                piece.width = room
            first = start + piece.before + piece.width / 2
            last = start + room - piece.after - piece.width / 2
            middle = start + (room / 2 if at.span > 1 else self._left[at.column])
            x = {"start": first, "end": last}.get(at.align, min(max(middle, first), last))
            piece.place(x, top + self._up[at.row])

    def draw(self, canvas: Canvas) -> None:
        for beat, draw in (
            *self._lines, *((at.beat, at.piece.draw) for at in self._places), *self._marks
        ):  # fmt: skip
            with canvas.at(beat):
                draw(canvas)

    def drawing(self, title: str, *, margin: float = _MARGIN) -> Picture:
        self.arrange()
        canvas = Canvas(self.width + 2 * margin, self.height + 2 * margin, title)
        self.place(canvas.width / 2, canvas.height / 2)
        self.draw(canvas)
        return canvas.done()


def _outer(piece: FigurePart) -> float:
    return piece.before + piece.width + piece.after


def _most(sizes: Iterable[tuple[int, float]]) -> list[float]:
    """The largest size for each index; 0 if there is none."""
    found: list[float] = []
    for place, size in sizes:
        found += [0.0] * (place + 1 - len(found))
        found[place] = max(found[place], size)
    return found
