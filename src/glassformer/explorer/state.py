"""What the server holds: models, open traces, lessons, the queue of runs, a watched training run.

The server keeps no selection: which step or cell is shown is up to the page, so that two tabs do
not interfere.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt
from fastapi import Depends, Request

from glassformer.explorer.model_list import Catalogue, Models
from glassformer.explorer.open_traces import OpenTrace, Runs, Store
from glassformer.explorer.other_runs import OtherRuns
from glassformer.explorer.schemas import (
    LessonInfo,
    LessonPart,
    LessonStepInfo,
    LessonSummary,
    ModelInfo,
    WatchInfo,
)
from glassformer.language import Language
from glassformer.lessons import LESSONS, Formula, HeatMap, Lesson, Part, make_lesson


class Lessons:
    """Lessons that were made, their numbers linked to open traces."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._made: dict[tuple[str, Language], tuple[Lesson, dict[int, OpenTrace]]] = {}

    def summaries(self, language: Language) -> list[LessonSummary]:
        return [
            LessonSummary(
                name=name, title=entry.title.say(language), summary=entry.summary.say(language)
            )
            for name, entry in LESSONS.items()
        ]

    def get(self, name: str, language: Language) -> LessonInfo:
        """A lesson; its traces stay open."""
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
    """The part as data; parts that show numbers name their trace and step."""
    links: dict[str, Any] = {}
    for step in _shown_steps(part):
        links = {"trace": traces[id(step.trace)].id, "number": step.number}
    return LessonPart(**part.to_dict(), **links)


def _shown_steps(part: Part) -> Iterator[Any]:
    if isinstance(part, Formula):
        yield part.cell.step
    elif isinstance(part, HeatMap):
        yield part.step


class RunReader(Protocol):
    """What reads a training run's folder: the explorer itself knows nothing of training."""

    def info(self, since: int) -> WatchInfo:
        """The metrics from an offset on, and the available snapshots."""
        ...

    def attention(self, update: int, layer: int) -> npt.NDArray[np.float32]:
        """The weights of one layer after an update: heads × queries × keys."""
        ...


@dataclass
class State:
    """Everything that outlives a request."""

    catalogue: Catalogue
    models: Models
    store: Store = field(default_factory=Store)
    runs: Runs = field(default_factory=Runs)
    own: list[ModelInfo] = field(default_factory=list)
    """Cards for what `glassformer.explore` opened."""
    watched: RunReader | None = None
    """The training run being watched, if any."""

    def __post_init__(self) -> None:
        self.lessons = Lessons(self.store)

    def other_runs(self, opened: OpenTrace) -> OtherRuns:
        """Runs of the same model over other texts."""
        return OtherRuns(self.models, self.store, [*self.own, *self.catalogue.cards], opened)

    @classmethod
    def of(cls, chosen: str | None = None) -> State:
        """A state over all shipped models, or over one model."""
        catalogue = Catalogue(chosen)
        return cls(catalogue, Models(catalogue))


def _state(request: Request) -> State:
    state = request.app.state.explorer
    assert isinstance(state, State)
    return state


Holds = Annotated[State, Depends(_state)]


def _opened(state: Holds, id: str) -> Iterator[OpenTrace]:  # noqa: A002 - the API's name
    with state.store.use(id) as opened:
        yield opened


Opened = Annotated[OpenTrace, Depends(_opened)]
"""The trace named in the URL; it stays open until the response is sent."""
