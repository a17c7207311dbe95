"""Lessons that were made, their numbers linked to open traces, and answers to their questions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from glassformer.claims import claims_about
from glassformer.documents import render
from glassformer.documents.worksheet import worksheet
from glassformer.errors import InputError, UnknownNameError
from glassformer.explorer.open_traces import OpenTrace, Store
from glassformer.explorer.schemas import Message
from glassformer.language import Language
from glassformer.lessons import LESSONS, Formula, HeatMap, Lesson, Part, make_lesson
from glassformer.lessons.course import settings_of
from glassformer.lessons.lesson import textbook
from glassformer.tracing.explanation import Card
from glassformer.tracing.formula import to_tex


class LessonName(Message):
    """A lesson that another one needs or leads to."""

    name: str
    title: str


class LessonSummary(Message):
    """A lesson of the course."""

    name: str
    title: str
    summary: str
    able: str
    """What a reader can do afterwards."""
    minutes: int
    needs: list[LessonName]
    """The lessons to take before."""


class LessonPlaceInfo(Message):
    """Where a lesson stands in the course."""

    text: str
    """The text that it follows: title, author, where."""
    able: str
    minutes: int
    needs: list[LessonName]
    next: LessonName | None


class LessonChoiceValue(Message):
    """A value of a switch."""

    name: str
    label: str


class LessonChoiceInfo(Message):
    """A switch of a lesson, and how it stands."""

    name: str
    label: str
    values: list[LessonChoiceValue]
    chosen: str


class LessonPart(Message):
    """A part of a step: prose, a formula, a question …, as `Lesson.to_dict()` has it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Literal["text", "remark", "formula", "matrix", "table", "figure", "question"]
    trace: str | None = None
    """Where the part is a cell or a matrix: the trace it belongs to."""
    number: int | None = None
    """And the number of its step there."""
    tex: list[list[str]] = Field(default=[])
    """Of a formula: its equation and those of its named parts, each as the sides of a chain
    `left = symbols = numbers = value`, in LaTeX."""


class LessonStepInfo(Message):
    """One step of a lesson."""

    role: str
    title: str
    parts: list[LessonPart]


class ClaimName(Message):
    """A claim of a text about what a lesson shows."""

    id: str
    says: str


class LessonInfo(Message):
    """A lesson whose numbers are cells of open traces."""

    name: str
    title: str
    summary: str
    language: Language
    place: LessonPlaceInfo | None
    choices: list[LessonChoiceInfo]
    steps: list[LessonStepInfo]
    claims: list[ClaimName]


LessonFormat = Literal["slides", "worksheet", "html", "tex", "xlsx", "md"]
LessonSetting = Annotated[str, Field(max_length=80, description="a switch: `encoding=rotary`")]


class AnswerRequest(Message):
    """An answer to a question of a lesson, one text per number."""

    question: Annotated[int, Field(ge=1, le=99)]
    answers: Annotated[list[Annotated[str, Field(max_length=40)]], Field(max_length=64)]
    language: Language = "en"
    settings: list[LessonSetting] = Field(default=[], max_length=8)


class AnswerInfo(Message):
    """Whether an answer is right, and what went wrong if it is not."""

    is_right: bool
    said: str


_Made: TypeAlias = tuple[Lesson, dict[int, OpenTrace]]


class Lessons:
    """Lessons by name, language and switches; each is made once and its traces stay open.

    There are as many as the switches have combinations, and those are few.
    """

    def __init__(self, store: Store) -> None:
        self.can_make = True
        """Not beside a training run: lessons that train seed torch, for the whole process."""
        self._store = store
        self._lock = threading.Lock()
        self._made: dict[tuple[str, Language, tuple[tuple[str, str], ...]], _Made] = {}

    def summaries(self, language: Language) -> list[LessonSummary]:
        """The course in order."""
        return [
            LessonSummary.copy_of(
                entry,
                name=name,
                title=entry.title.say(language),
                summary=entry.summary.say(language),
                able=entry.able.say(language),
                needs=[lesson_name(need, language) for need in entry.needs],
            )
            for name, entry in LESSONS.items()
        ]

    def get(self, name: str, language: Language, settings: Sequence[str] = ()) -> LessonInfo:
        """A lesson with its switches as `settings` say; its traces stay open."""
        lesson, traces = self._find(name, language, settings)
        return LessonInfo.copy_of(
            lesson,
            language=language,
            place=None if lesson.place is None else lesson.place.to_dict(),
            choices=[choice.to_dict() for choice in lesson.choices],
            steps=[
                LessonStepInfo.copy_of(
                    step, parts=[_part(part, traces, language) for part in step.parts]
                )
                for step in lesson.steps
            ],
            claims=[
                ClaimName(id=claim.id, says=claim.says.say(language))
                for claim in claims_about(LESSONS[name].rows)
            ],
        )

    def export(
        self, name: str, to: LessonFormat, language: Language, settings: Sequence[str]
    ) -> tuple[str, str, bytes]:
        """A handout as `glassformer lesson --to` writes it: its name, kind and bytes."""
        lesson, _ = self._find(name, language, settings)
        document = lesson.document()
        made = render(worksheet(document), "html") if to == "worksheet" else render(document, to)
        assert isinstance(made, str | bytes)
        is_page = to in ("slides", "worksheet")
        kind, file = ("html", f"{name}-{to}.html") if is_page else (to, f"{name}.{to}")
        return file, kind, made.encode() if isinstance(made, str) else made

    def answer(self, name: str, request: AnswerRequest) -> AnswerInfo:
        """Judge an answer to a question of a lesson."""
        lesson, _ = self._find(name, request.language, request.settings)
        for question in lesson.questions:
            if question.number == request.question:
                return AnswerInfo.copy_of(question.check(request.answers))
        raise InputError(
            "the lesson {name} has no question {number}", name=name, number=request.question
        )

    def _find(self, name: str, language: Language, settings: Sequence[str]) -> _Made:
        if name not in LESSONS:
            raise UnknownNameError("lesson", name, LESSONS)
        chosen = settings_of(settings)
        LESSONS[name].check(chosen)
        defaults = {choice: values[0] for choice, values in LESSONS[name].choices.items()}
        key = name, language, tuple(sorted((defaults | chosen).items()))
        with self._lock:
            if key not in self._made:
                if not self.can_make:
                    raise InputError(
                        "lessons are not computed beside a training run: open glassformer explore"
                    )
                self._made[key] = _made(name, language, chosen)
                for opened in self._made[key][1].values():
                    self._store.keep(opened)
            return self._made[key]


def lesson_name(name: str, language: Language) -> LessonName:
    """A lesson by its name and title."""
    return LessonName(name=name, title=LESSONS[name].title.say(language))


def _made(name: str, language: Language, settings: dict[str, str]) -> _Made:
    lesson = make_lesson(name, language, **settings)
    return lesson, {
        id(trace): OpenTrace(trace, f"lesson {name}", "module", text=lesson.title)
        for trace in lesson.traces()
    }


def _part(part: Part, traces: dict[int, OpenTrace], language: Language) -> LessonPart:
    """The part as data; parts that show numbers name their trace and step."""
    links: dict[str, Any] = {}
    if isinstance(part, Formula) and part.card.language != language:
        names = textbook(part.cell.step.trace)
        card = Card(part.cell, digits=part.card.digits, language=language, names=names)
        part = replace(part, card=card)
    if isinstance(part, Formula | HeatMap):
        step = part.cell.step if isinstance(part, Formula) else part.step
        links = {"trace": traces[id(step.trace)].id, "number": step.number}
    if isinstance(part, Formula):
        links["tex"] = [
            [to_tex(side, part.card.digits, part.card.language) for side in equation]
            for equation in part.card.equations
        ]
    return LessonPart(**part.to_dict(), **links)
