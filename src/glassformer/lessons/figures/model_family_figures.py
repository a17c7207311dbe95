"""Figures of decoding, training and other kinds of model: trees, graphs, paths and patches.

Titles and labels come from the caller, in the reader's language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.documents.heat_maps import Scale
from glassformer.lessons.figures.canvas import Box, Canvas, Role, SvgDrawing, text_width
from glassformer.lessons.figures.sheet import (
    ColouredNumbers,
    MatrixFigure,
    TableFigure,
    cell_number,
)

# --- the tree of a search --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeStep:
    """A word that a search considered: after which of the words kept before, and at what price."""

    word: str
    parent: int
    log_probability: float
    total: float
    kept: bool
    goes_on: bool
    """Whether later words continue it; `parent` counts those that do."""


_NODE, _DOWN = (96.0, 40.0), 56.0


def search_tree(
    columns: Sequence[Sequence[TreeStep]], title: str, kept: str, dropped: str
) -> SvgDrawing:
    """Words from left to right with their sums; on each line, what the word adds to the sum."""
    across, top, left = _NODE[0] + 92, 58.0, 24.0
    most = max(len(column) for column in columns)
    canvas = Canvas(
        2 * left + len(columns) * across + 8, max(top + most * _DOWN + 8, 200), title
    )  # fmt: skip
    _legend(canvas, left, kept, dropped)
    middle = top + (canvas.height - top) / 2
    parents = [Box(left - 8, middle - 4, 16, 8)]
    canvas.dot(left, middle, 6)
    for number, column in enumerate(columns):
        # In the order of their parents, so that lines do not cross; then the best on top.
        order = sorted((parents[step.parent].y, -step.total, at) for at, step in enumerate(column))
        boxes: dict[int, Box] = {}
        for place, (_, _, at) in enumerate(order):
            y = middle + (place - (len(column) - 1) / 2) * _DOWN
            x = left + 76 + number * across
            boxes[at] = Box(x, y - _NODE[1] / 2, *_NODE)
        for at, box in boxes.items():
            _branch(canvas, column[at], parents[column[at].parent], box)
        parents = [boxes[at] for at, step in enumerate(column) if step.goes_on]
    return canvas.done()


def _branch(canvas: Canvas, step: TreeStep, start: Box, box: Box) -> None:
    role: Role = "output" if step.kept else "quiet"
    ends = (start.right + 2, start.y), (box.left - 2, box.y)
    canvas.line(*ends, role=role, width=2.2 if step.kept else 1.2, dashed=not step.kept)
    x = ends[0][0] + 0.62 * (ends[1][0] - ends[0][0])
    y = ends[0][1] + 0.62 * (ends[1][1] - ends[0][1])
    said = cell_number(step.log_probability)
    wide = text_width(said, 12) + 6
    canvas.add(f'<rect class="paper" x="{x - wide / 2:.1f}" y="{y - 9:.1f}" '
               f'width="{wide:.1f}" height="18"/>')  # fmt: skip
    canvas.text(x, y, said, size=12, role="quiet")
    canvas.box(box, "part" if step.kept else "empty", role, corner=8, dashed=not step.kept)
    canvas.text(box.x, box.y - 9, step.word, size=14, bold=step.kept, role=role)
    canvas.text(box.x, box.y + 10, f"Σ {cell_number(step.total)}", size=12)


def _legend(canvas: Canvas, left: float, kept: str, dropped: str) -> None:
    canvas.box(Box(left, 14, 26, 16), "part", "output")
    canvas.text(left + 34, 22, kept, size=13, anchor="start", role="quiet")
    x = left + 34 + text_width(kept, 13) + 28
    canvas.box(Box(x, 14, 26, 16), "empty", "quiet", dashed=True)
    canvas.text(x + 34, 22, dropped, size=13, anchor="start", role="quiet")


# --- words and what methods say about them ---------------------------------------------------


def score_columns(
    columns: Mapping[str, Sequence[float]], words: Sequence[str], title: str
) -> SvgDrawing:
    """One row per word, one column per method, each coloured by its own largest number."""
    table = TableFigure(30, 8)
    for place, (name, scores) in enumerate(columns.items()):
        values = np.array(scores, dtype=np.float64).reshape(-1, 1)
        numbers = ColouredNumbers(values, Scale("signed", float(np.abs(values).max()) or 1.0))
        shown = words if place == 0 else ()
        table.put(MatrixFigure(numbers, cell=(64.0, 26.0), rows=shown, title=name), 0, place)
    return table.drawing(title)
