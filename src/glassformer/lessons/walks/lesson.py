"""What a lesson is: numbered steps, each a title and parts. Plain data over a trace.

A lesson is made in one language. Its numbers are cells of traces, kept as such, so that a renderer
may ask them for more (LaTeX, a live formula) and the explorer may link to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from glassformer.lessons.auditing import Verdict
from glassformer.lessons.example import Language
from glassformer.lessons.walks.figures.canvas import Drawing
from glassformer.lessons.walks.textbook import is_turned, lesson_card, place_labels
from glassformer.trace import Cell, Step, Trace
from glassformer.trace.explanation import Card
from glassformer.trace.formula import number as plain_number
from glassformer.trace.render.colours import Scale, scale_of
from glassformer.trace.render.matrices import Matrix, matrix

__all__ = [
    "Figure",
    "Formula",
    "HeatMap",
    "Lesson",
    "LessonStep",
    "Paragraph",
    "Part",
    "PlainPart",
    "Remark",
    "Table",
]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Prose."""

    text: str

    def to_dict(self) -> dict[str, Any]:
        """As data."""
        return {"kind": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class Remark:
    """What the text that a lesson follows has printed in this place, from its audit."""

    verdict: Verdict
    text: str

    def to_dict(self) -> dict[str, Any]:
        """As data."""
        return {"kind": "remark", "verdict": self.verdict, "text": self.text}


@dataclass(frozen=True, slots=True)
class Formula:
    """The arithmetic of one cell, in symbols and in numbers."""

    cell: Cell

    @property
    def card(self) -> Card:
        """Names and numbers as a reader sees them."""
        return lesson_card(self.cell)

    def to_dict(self) -> dict[str, Any]:
        """As data; `step` and `index` say which cell of the trace it is."""
        card = self.card
        return {
            "kind": "formula",
            "step": self.cell.step.name,
            "index": list(self.cell.index),
            "name": card.name,
            "symbols": card.formula,
            "numbers": card.numbers,
            "value": card.value,
            "where": [
                {
                    "symbol": d.symbol,
                    "symbols": d.symbols,
                    "numbers": d.numbers,
                    "value": plain_number(d.value),
                }
                for d in card.definitions
            ],
        }


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A slice of a step with its labels; `marked` is the cell that the formula explains.

    Parameters of a linear map stand as x · W uses them: `turned`, rows and columns of the step
    exchanged. `marked`, `rows` and `columns` are those that a reader sees.
    """

    caption: str
    step: Step
    at: tuple[int, ...] | None = None
    marked: tuple[int, int] | None = None
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None

    @property
    def turned(self) -> bool:
        """Whether the step's rows are shown as columns."""
        return is_turned(self.step)

    @property
    def matrix(self) -> Matrix:
        """The numbers, with the step's labels where the lesson gives none, else counted from 1."""
        found = matrix(self.step, self.at)
        values = found.values.T if self.turned else found.values
        rows, columns = (place_labels(self.step, axis) for axis in (-2, -1))
        if self.turned:
            rows, columns = columns, rows
        return Matrix(found.step, found.lead, values, self.rows or rows, self.columns or columns)

    def place(self, row: int, column: int) -> tuple[int, ...]:
        """The trace's index of a number that stands here."""
        two = (column, row) if self.turned else (row, column)
        return (*self.matrix.lead, *two[2 - min(2, len(self.step.shape)) :])

    @property
    def scale(self) -> Scale | None:
        """How its numbers become colours; rows of parameters that add up to 1 are no shares."""
        found = scale_of(self.step)
        if found is None or self.step.role != "parameter" or found.kind == "signed":
            return found
        return Scale("signed", float(self.step.value.abs().max()))

    @property
    def is_truth(self) -> bool:
        """Whether it holds yes and no, not numbers."""
        return str(self.step.dtype) == "torch.bool"

    def to_dict(self) -> dict[str, Any]:
        """As data; infinities as text, since JSON has none."""
        shown, scale = self.matrix, self.scale
        return {
            "kind": "matrix",
            "caption": self.caption,
            "step": self.step.name,
            "at": list(shown.lead),
            "turned": self.turned,
            "marked": None if self.marked is None else list(self.marked),
            "rows": list(shown.rows),
            "columns": list(shown.columns),
            "values": [[_plain(float(x)) for x in row] for row in shown.values],
            "scale": None if scale is None else {"kind": scale.kind, "limit": scale.limit},
        }


@dataclass(frozen=True, slots=True)
class Table:
    """Words and numbers that are no slice of a step."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """As data."""
        return {
            "kind": "table",
            "caption": self.caption,
            "heads": list(self.heads),
            "rows": [list(row) for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing from the numbers of a trace; its caption is the drawing's title."""

    name: str
    drawing: Drawing

    @property
    def caption(self) -> str:
        """What it shows."""
        return self.drawing.title

    def to_dict(self) -> dict[str, Any]:
        """As data; the SVG needs nothing else."""
        svg = self.drawing.svg()
        return {"kind": "figure", "name": self.name, "caption": self.caption, "svg": svg}


PlainPart: TypeAlias = Paragraph | Remark | Formula | HeatMap | Table
"""What every format can show."""

Part: TypeAlias = PlainPart | Figure


@dataclass(frozen=True, slots=True)
class LessonStep:
    """One step: `role` names what happens in it (queries, scores, weights, …)."""

    role: str
    title: str
    parts: tuple[Part, ...]

    @property
    def plain_parts(self) -> list[PlainPart]:
        """All but the figures, for formats that have none: their matrices say the same."""
        return [part for part in self.parts if not isinstance(part, Figure)]

    def with_(self, *parts: Part) -> LessonStep:
        """The same step with more parts at its end."""
        return LessonStep(self.role, self.title, (*self.parts, *parts))

    def to_dict(self) -> dict[str, Any]:
        """As data."""
        parts = [part.to_dict() for part in self.parts]
        return {"role": self.role, "title": self.title, "parts": parts}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A walk in steps."""

    name: str
    title: str
    summary: str
    language: Language
    steps: tuple[LessonStep, ...]

    def __repr__(self) -> str:
        return f"<lesson {self.name} ({self.language}): {self.title}, {len(self.steps)} steps>"

    def _repr_markdown_(self) -> str:
        """What a notebook shows: prose, tables, and formulas set in TeX."""
        from glassformer.lessons.walks.rendering.markdown import to_markdown

        return to_markdown(self)

    def to_dict(self) -> dict[str, Any]:
        """As data, for the explorer and for tests."""
        return {
            "name": self.name,
            "title": self.title,
            "summary": self.summary,
            "language": self.language,
            "steps": [step.to_dict() for step in self.steps],
        }

    def parts(self) -> Iterator[Part]:
        """All parts, in order."""
        for step in self.steps:
            yield from step.parts

    def figures(self) -> list[Figure]:
        """Its figures, in order."""
        return [part for part in self.parts() if isinstance(part, Figure)]

    def traces(self) -> list[Trace]:
        """The traces that the numbers come from, in order of appearance."""
        found: dict[int, Trace] = {}
        for part in self.parts():
            if isinstance(part, Formula):
                found.setdefault(id(part.cell.step.trace), part.cell.step.trace)
            elif isinstance(part, HeatMap):
                found.setdefault(id(part.step.trace), part.step.trace)
        return list(found.values())


def _plain(number: float) -> float | str:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "inf" if number > 0 else "-inf"
    return number
