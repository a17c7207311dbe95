"""Heat-mapped matrices on a canvas."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glassformer.lessons.walks.figures.canvas import Box, Canvas, text_width
from glassformer.lessons.walks.figures.style import Role
from glassformer.trace import Step
from glassformer.trace.formula import text
from glassformer.trace.render.colours import Scale, hex_colour, ink_on, scale_of
from glassformer.trace.render.matrices import matrix

__all__ = ["CELL", "Grid", "Numbers", "Place", "cell_number", "draw_grid", "numbers_of"]

CELL = (46.0, 30.0)
"""Width and height of a cell that holds a number."""
_GAP = 2.0


@dataclass(frozen=True, slots=True)
class Numbers:
    """A matrix and how its numbers become colours."""

    values: npt.NDArray[np.float64]
    scale: Scale | None

    def rows(self, *chosen: int) -> Numbers:
        """Some rows of it."""
        return Numbers(self.values[list(chosen)], self.scale)

    def columns(self, start: int, end: int) -> Numbers:
        """A range of columns of it."""
        return Numbers(self.values[:, start:end], self.scale)


def numbers_of(step: Step, at: tuple[int, ...] | None = None) -> Numbers:
    """A slice of a step; its colours are those of the whole step."""
    return Numbers(matrix(step, at).values, scale_of(step))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a grid stands, how large its cells are, and whether they show their numbers."""

    left: float
    top: float
    cell: tuple[float, float] = CELL
    size: float = 13.0
    written: bool = True


@dataclass(frozen=True, slots=True)
class Grid:
    """A drawn matrix: where its cells are."""

    place: Place
    n_rows: int
    n_columns: int

    def cell(self, row: int, column: int) -> Box:
        """One cell."""
        width, height = self.place.cell
        return Box(
            self.place.left + column * (width + _GAP),
            self.place.top + row * (height + _GAP),
            width,
            height,
        )

    def part(self, rows: range, columns: range) -> Box:
        """Several cells."""
        first = self.cell(rows[0], columns[0])
        last = self.cell(rows[-1], columns[-1])
        return Box(first.left, first.top, last.right - first.left, last.bottom - first.top)

    def row(self, row: int) -> Box:
        """A whole row."""
        return self.part(range(row, row + 1), range(self.n_columns))

    def column(self, column: int) -> Box:
        """A whole column."""
        return self.part(range(self.n_rows), range(column, column + 1))

    @property
    def box(self) -> Box:
        """All of it."""
        return self.part(range(self.n_rows), range(self.n_columns))


def cell_number(number: float) -> str:
    """A number as it stands in a cell: two decimals, three where it is small, ≈ 0 if smaller."""
    size = abs(number)
    if math.isfinite(number) and 0 < size < 5e-4:
        return "≈0"
    shown = text.number(round(number, 2 if size >= 0.01 else 3), 4)
    return shown.replace("-", "−")


def draw_grid(
    canvas: Canvas,
    numbers: Numbers,
    place: Place,
    *,
    title: str = "",
    role: Role = "ink",
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    beat: Callable[[int, int], int] | None = None,
) -> Grid:
    """Draw a matrix, framed in its role's colour; `beat` says when each cell appears."""
    n_rows, n_columns = numbers.values.shape
    grid = Grid(place, n_rows, n_columns)
    frame = grid.box.grown(3)
    above = 22 if columns else 0
    if title:
        canvas.text(frame.x, frame.top - 14 - above, title, size=14, bold=True, role=role)
    for row, label in enumerate(rows):
        canvas.text(frame.left - 7, grid.row(row).y, label, size=13, anchor="end", role="quiet")
    for column, label in enumerate(columns):
        canvas.text(grid.column(column).x, frame.top - 12, label, size=13, role="quiet")
    for row in range(n_rows):
        for column in range(n_columns):
            number = float(numbers.values[row, column])
            if beat is None:
                _draw_cell(canvas, grid.cell(row, column), number, numbers.scale, place)
                continue
            canvas.box(grid.cell(row, column), "empty", corner=2)
            with canvas.appearing(beat(row, column)):
                _draw_cell(canvas, grid.cell(row, column), number, numbers.scale, place)
    canvas.box(frame, "frame", role)
    return grid


def _draw_cell(canvas: Canvas, box: Box, number: float, scale: Scale | None, place: Place) -> None:
    colour = scale.colour(number) if scale is not None else None
    ink = None
    if colour is not None:
        canvas.fill(box, hex_colour(colour))
        ink = hex_colour(ink_on(colour))
    if place.written:
        shown = cell_number(number)
        size = min(place.size, place.size * (box.width - 4) / text_width(shown, place.size))
        canvas.text(box.x, box.y, shown, size=size, fill=ink)
