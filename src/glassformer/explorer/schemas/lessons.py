"""Lessons, and the steps of one."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from glassformer.explorer.schemas.base import Language, Message

__all__ = ["LessonInfo", "LessonPart", "LessonStepInfo", "LessonSummary"]


class LessonSummary(Message):
    """A lesson of the catalogue."""

    name: str
    title: str
    summary: str


class LessonPart(Message):
    """Prose, a remark, a formula, a matrix, a table or a figure, as `Lesson.to_dict()` has it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Literal["text", "remark", "formula", "matrix", "table", "figure"]
    trace: str | None = None
    """Where the part is a cell or a matrix: the trace it belongs to."""
    number: int | None = None
    """And the number of its step there."""


class LessonStepInfo(Message):
    """One step of a lesson."""

    role: str
    title: str
    parts: list[LessonPart]


class LessonInfo(Message):
    """A lesson whose numbers are cells of open traces."""

    name: str
    title: str
    summary: str
    language: Language
    steps: list[LessonStepInfo]
