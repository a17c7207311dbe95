"""A search for a text, with the ledger of what it could have chosen at each step."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from glassformer.decoding import Beam, Greedy, Ledger, Sampling
from glassformer.explorer.model_list import Models
from glassformer.explorer.open_traces import OpenTrace, Store
from glassformer.explorer.schemas import (
    CandidateInfo,
    DecodeAnswer,
    DecodeRequest,
    DecodeStep,
    LessonInfo,
    LessonPart,
    LessonStepInfo,
    LessonSummary,
    WatchInfo,
)
from glassformer.language import Language
from glassformer.lessons import LESSONS, Formula, HeatMap, Lesson, Part, make_lesson
from glassformer.tasks import Model, Translated
from glassformer.tasks.forward_pass import EmptyTextError
from glassformer.text import Tokenizer

MOST_CANDIDATES = 32


def decode(models: Models, wanted: DecodeRequest) -> DecodeAnswer:
    """Search, and tell how it went."""
    model = models.get(wanted.model)
    found = _search(model, wanted)
    assert found.ledger is not None
    unknown, total = model.count_unknown(wanted.text)
    return DecodeAnswer(
        model=wanted.model,
        text=wanted.text,
        results=[(one.text, one.score) for one in found.alternatives],
        steps=_steps(found.ledger, model.writer),
        cut=found.cut,
        n_tokens=total,
        n_unknown=unknown,
    )


def _search(model: Model, wanted: DecodeRequest) -> Translated:
    search = _settings(wanted)
    if model.task == "generate":
        return model.generate(wanted.text, max_new=wanted.max_new, search=search, ledger=True)
    if model.task == "translate" and not model.can_read(wanted.text):
        raise EmptyTextError("the text is empty: there is nothing to translate")
    return model.translate([wanted.text], search=search, max_new=wanted.max_new, ledger=True)[0]


def _settings(wanted: DecodeRequest) -> Greedy | Beam | Sampling:
    match wanted.search:
        case "greedy":
            return Greedy()
        case "beam":
            return Beam(
                size=wanted.beam,
                n_best=wanted.beam,
                length_penalty=wanted.length_penalty,
                penalty="gnmt",
            )
        case "sampling":
            return Sampling(
                temperature=wanted.temperature,
                top_k=wanted.top_k,
                top_p=wanted.top_p,
                min_p=wanted.min_p,
                seed=wanted.seed,
            )


def _steps(ledger: Ledger, tokenizer: Tokenizer) -> list[DecodeStep]:
    """Each step with the texts that its candidates continue."""
    told: list[DecodeStep] = []
    rivals = [""]
    for number, step in enumerate(ledger.steps):
        shown = step.candidates[:MOST_CANDIDATES]
        names = tokenizer.display_tokens([candidate.token for candidate in shown])
        told.append(
            DecodeStep(
                rivals=rivals,
                candidates=[
                    CandidateInfo(
                        parent=candidate.parent,
                        token=candidate.token,
                        text=name,
                        log_probability=candidate.log_probability,
                        total=candidate.total,
                        score=candidate.score,
                        chance=candidate.chance,
                        fate=candidate.fate,
                    )
                    for candidate, name in zip(shown, names, strict=True)
                ],
            )
        )
        rivals = [
            tokenizer.decode([part.token for part in ledger.path(number, kept)])
            for kept in step.kept
        ]
    return told


# --- lessons ---
# The lessons, their numbers linked to open traces.


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
    for step in _steps_lessons(part):
        links = {"trace": traces[id(step.trace)].id, "number": step.number}
    return LessonPart(**part.to_dict(), **links)


def _steps_lessons(part: Part) -> Iterator[Any]:
    if isinstance(part, Formula):
        yield part.cell.step
    elif isinstance(part, HeatMap):
        yield part.step


# --- watching ---
# A training run that is being watched, as the routes see it; who reads the run's folder is given.
#
# The explorer knows nothing of training: the command that starts both hands a reader in.


class Watched(Protocol):
    """What reads a run's folder."""

    def info(self, since: int) -> WatchInfo:
        """The metrics from an offset on, and the pictures there are."""
        ...

    def attention(self, update: int, layer: int) -> npt.NDArray[np.float32]:
        """The weights of one layer after an update: heads × queries × keys."""
        ...
