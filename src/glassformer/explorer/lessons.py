"""The lessons, their numbers linked to open traces."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from glassformer.explorer.opened import OpenTrace
from glassformer.explorer.schemas import (
    Language,
    LessonInfo,
    LessonPart,
    LessonStepInfo,
    LessonSummary,
)
from glassformer.explorer.store import Store
from glassformer.lessons.walks import LESSONS, Formula, HeatMap, Lesson, Part, make_lesson

__all__ = ["Lessons"]


class Lessons:
    """Lessons that were made, and the traces behind them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._made: dict[tuple[str, Language], tuple[Lesson, dict[int, OpenTrace]]] = {}

    def summaries(self, language: Language) -> list[LessonSummary]:
        """The catalogue."""
        return [
            LessonSummary(
                name=name, title=entry.title.say(language), summary=entry.summary.say(language)
            )
            for name, entry in LESSONS.items()
        ]

    def get(self, name: str, language: Language) -> LessonInfo:
        """A lesson; its traces are open when it is answered."""
        with self._lock:
            if (name, language) not in self._made:
                self._made[name, language] = _made(name, language)
                for opened in self._made[name, language][1].values():
                    self._store.keep(opened)
            lesson, traces = self._made[name, language]
        return LessonInfo(
            name=lesson.name,
            title=lesson.title,
            summary=lesson.summary,
            language=language,
            steps=[
                LessonStepInfo(
                    role=step.role,
                    title=step.title,
                    parts=[_part(part, traces) for part in step.parts],
                )
                for step in lesson.steps
            ],
        )


def _made(name: str, language: Language) -> tuple[Lesson, dict[int, OpenTrace]]:
    lesson = make_lesson(name, language)
    return lesson, {
        id(trace): OpenTrace(trace, f"lesson {name}", "module", text=lesson.title)
        for trace in lesson.traces()
    }


def _part(part: Part, traces: dict[int, OpenTrace]) -> LessonPart:
    """The part as data; where it shows numbers, with the trace and the step they belong to."""
    links: dict[str, Any] = {}
    for step in _steps(part):
        links = {"trace": traces[id(step.trace)].id, "number": step.number}
    return LessonPart(**part.to_dict(), **links)


def _steps(part: Part) -> Iterator[Any]:
    if isinstance(part, Formula):
        yield part.cell.step
    elif isinstance(part, HeatMap):
        yield part.step
