"""What a lesson is: numbered steps, each a title and parts. Plain data over a trace.

A lesson is made in one language. Its numbers are cells of traces, kept as such, so that a format
may ask them for more (LaTeX, a live formula) and the explorer may link to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.documents import render_text
from glassformer.documents.parts import (
    Document,
    Figure,
    Formula,
    HeatMap,
    Paragraph,
    Part,
    Remark,
    Section,
    Table,
)
from glassformer.language import Language
from glassformer.lessons.phrases import Speaker
from glassformer.lessons.textbook import lesson_card
from glassformer.tracing import Cell, Trace

__all__ = [
    "Figure",
    "Formula",
    "HeatMap",
    "Lesson",
    "LessonStep",
    "Paragraph",
    "Part",
    "Remark",
    "Table",
    "formula",
]


def formula(cell: Cell) -> Formula:
    """The arithmetic of a cell as lessons write it."""
    return Formula(lesson_card(cell))


@dataclass(frozen=True, slots=True)
class LessonStep:
    """One step: `role` names what happens in it (queries, scores, weights, …)."""

    role: str
    title: str
    parts: tuple[Part, ...]

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
        return render_text(self.document(), "md")

    def document(self) -> Document:
        """The lesson for every format: a numbered section for each step."""
        say = Speaker(self.language)
        sections = (
            Section(step.title, step.parts, number)
            for number, step in enumerate(self.steps, start=1)
        )
        opening = (Paragraph(self.summary), Paragraph(say("how to read"), "quiet"))
        label = say("lesson sheet")
        return Document(self.title, (*opening, *sections), self.language, label, self.to_dict)

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
        return self.document().figures()

    def traces(self) -> list[Trace]:
        """The traces that the numbers come from, in order of appearance."""
        return self.document().traces()
