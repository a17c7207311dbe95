"""The messages of the gallery of claims: what the texts say, and what was measured."""

from __future__ import annotations

from glassformer.claims import Verdict
from glassformer.explorer.schemas import (
    LessonChoiceInfo,
    LessonName,
    Message,
    Number,
)


class VerdictInfo(Message):
    """A verdict: its sign, and what it is called."""

    name: Verdict
    mark: str
    label: str


class TextInfo(Message):
    """A text that makes claims."""

    id: str
    title: str


class RowInfo(Message):
    """Something that the texts describe, and what shows it."""

    id: str
    name: str
    claims: list[str]
    lessons: list[LessonName]
    command: str | None
    """A command that shows it; None where lessons or claims do."""


class ClaimSummary(Message):
    """A card of the gallery."""

    id: str
    group: str
    """The heading it stands under."""
    says: str
    """The statement, in our words."""
    texts: list[str]
    """The texts that make it, by id."""
    rows: list[str]
    """What it bears on, by id."""
    is_slow: bool
    """Whether only its stored result is shown."""
    n_switches: int
    verdict: Verdict | None
    """None where it has not been measured since the server started."""


class ClaimList(Message):
    """All claims, and what they can be filtered by."""

    can_measure: bool
    """False beside a training run: then only stored results are shown."""

    verdicts: list[VerdictInfo]
    texts: list[TextInfo]
    rows: list[RowInfo]
    claims: list[ClaimSummary]


class ClaimFigure(Message):
    """The chart of a claim, as SVG."""

    title: str
    svg: str


class StoredInfo(Message):
    """Where a stored result comes from."""

    command: str
    date: str
    where: str


class ClaimInfo(Message):
    """A claim and what was measured for it, with its switches as they stand."""

    id: str
    verdict: Verdict
    said: str
    """The verdict in words, with what it is based on."""
    found: str
    """What was measured, in sentences."""
    figure: ClaimFigure | None
    figures: dict[str, Number]
    """What the experiment returned, by name."""
    seconds: float | None
    """How long it took; None for a stored result."""
    stored: StoredInfo | None
    code: str
    file: str
    """The module of the experiment."""
    command: str
    switches: list[LessonChoiceInfo]
    lessons: list[LessonName]
    """Lessons about what it bears on."""
