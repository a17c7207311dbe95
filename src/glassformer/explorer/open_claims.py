"""The claims of the texts as the page shows them: measured when asked for, and remembered."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from glassformer.claims import GROUPS, ROWS, Claim, Outcome, Verdict, claims, outcomes
from glassformer.claims.claim_figures import claim_figure
from glassformer.claims.claim_report import MARKS, TEXTS, VERDICTS, source_of, verdict_text
from glassformer.errors import InputError, UnknownNameError, stop_if_cancelled
from glassformer.explorer import schemas
from glassformer.explorer.open_lessons import (
    LessonChoiceInfo,
    LessonChoiceValue,
    LessonName,
    lesson_name,
)
from glassformer.language import Language
from glassformer.lessons import LESSONS
from glassformer.lessons.course import row, row_ids, settings_of


class VerdictInfo(schemas.Message):
    """A verdict: its sign, and what it is called."""

    name: Verdict
    mark: str
    label: str


class TextInfo(schemas.Message):
    """A text that makes claims."""

    id: str
    title: str


class RowInfo(schemas.Message):
    """Something that the texts describe, and what shows it."""

    id: str
    name: str
    claims: list[str]
    lessons: list[LessonName]
    command: str | None
    """A command that shows it; None where lessons or claims do."""


class ClaimSummary(schemas.Message):
    """A card of the gallery."""

    id: str
    group: str
    """The heading it stands under."""
    says: str
    """The statement, in our words."""
    texts: list[str]
    """The texts that make it, by id."""
    rows: list[str]
    """The rows of docs/systems.md that it concerns, by id."""
    is_slow: bool
    """Whether only its stored result is shown."""
    n_switches: int
    verdict: Verdict | None
    """None where it has not been measured since the server started."""


class ClaimList(schemas.Message):
    """All claims, and what they can be filtered by."""

    can_measure: bool
    """False beside a training run: then only stored results are shown."""

    verdicts: list[VerdictInfo]
    texts: list[TextInfo]
    rows: list[RowInfo]
    claims: list[ClaimSummary]


class ClaimFigure(schemas.Message):
    """The chart of a claim, as SVG."""

    title: str
    svg: str


class StoredInfo(schemas.Message):
    """Where a stored result comes from."""

    command: str
    date: str
    where: str


class ClaimInfo(schemas.Message):
    """A claim and what was measured for it, with its switches as they stand."""

    id: str
    verdict: Verdict
    said: str
    """The verdict in words, with what it is based on."""
    found: str
    """What was measured, in sentences."""
    figure: ClaimFigure | None
    figures: dict[str, schemas.JsonNumber]
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
    """Lessons about the same rows."""


_Key: TypeAlias = tuple[str, frozenset[tuple[str, float]]]
"""A claim and the switches that are turned."""

_PATIENCE_S = 0.2
"""Seconds between checks for cancellation while one measurement waits for another."""


class OpenClaims:
    """Outcomes by claim and switches; there are as many as the switches have combinations.

    One claim is measured at a time: experiments seed the process's random numbers.
    """

    def __init__(self) -> None:
        self.can_measure = True
        """Set to False where a run trains in this process, whose random numbers it would change."""
        self._lock = threading.Lock()
        self._measured: dict[_Key, Outcome] = {}

    def gallery(self, language: Language) -> ClaimList:
        """All claims; verdicts only of those that were measured or have a stored result."""
        rows_of = {id_: [name for name, ids in ROWS.items() if id_ in ids] for id_ in claims()}
        return ClaimList(
            can_measure=self.can_measure,
            verdicts=[
                VerdictInfo(name=name, mark=MARKS[name], label=label.say(language))
                for name, label in VERDICTS.items()
            ],
            texts=[TextInfo(id=id_, title=name.say(language)) for id_, name in TEXTS.items()],
            rows=[_row(id_, language) for id_ in row_ids()],
            claims=[
                ClaimSummary.copy_of(
                    claim,
                    group=group.title.say(language),
                    says=claim.says.say(language),
                    rows=rows_of[claim.id],
                    is_slow=claim.slow,
                    n_switches=len(claim.switches),
                    verdict=None if (known := self._known(claim)) is None else known.verdict,
                )
                for group in GROUPS
                for claim in group.claims.values()
            ],
        )

    def get(self, id_: str, language: Language, settings: Sequence[str] = ()) -> ClaimInfo:
        """A claim with its switches as `settings` say, measured now if it was not before."""
        known = claims()
        if id_ not in known:
            raise UnknownNameError("claim", id_, known)
        claim = known[id_]
        chosen = settings_of(settings)
        key = id_, frozenset(claim.turned(chosen).items())
        if key not in self._measured:
            self._measure(claim, chosen, key)
        return _info(self._measured[key], language)

    def _measure(self, claim: Claim, chosen: Mapping[str, str], key: _Key) -> None:
        if not (self.can_measure or claim.slow):
            raise InputError(
                "claims are not measured beside a training run: open glassformer explore"
            )
        while not self._lock.acquire(timeout=_PATIENCE_S):
            stop_if_cancelled()  # one that waits can be cancelled, too
        try:
            stop_if_cancelled()
            if key not in self._measured:  # by the request that this one waited for
                (self._measured[key],) = outcomes([claim], settings=chosen)
        finally:
            self._lock.release()

    def _known(self, claim: Claim) -> Outcome | None:
        found = self._measured.get((claim.id, frozenset()))
        return claim.recall() if found is None and claim.slow else found


def lessons_of(rows: Sequence[str], language: Language) -> list[LessonName]:
    """The lessons about some rows, in the order of the course."""
    about = [name for name, entry in LESSONS.items() if set(entry.rows) & set(rows)]
    return [lesson_name(name, language) for name in about]


def _row(id_: str, language: Language) -> RowInfo:
    found = row(id_)
    return RowInfo(
        id=id_,
        name=found.name.say(language),
        claims=list(ROWS.get(id_, ())),
        lessons=lessons_of([id_], language),
        command=found.command,
    )


def _info(outcome: Outcome, language: Language) -> ClaimInfo:
    claim, drawing = outcome.claim, claim_figure(outcome, language)
    stored = claim.stored if outcome.seconds is None else None
    module = inspect.getmodule(inspect.unwrap(claim.measure))
    return ClaimInfo.copy_of(
        outcome,
        id=claim.id,
        said=verdict_text(outcome, language),
        found=outcome.sentence(language),
        figure=None if drawing is None else ClaimFigure(title=drawing.title, svg=drawing.svg()),
        stored=stored,
        code=source_of(claim),
        file="" if module is None else module.__name__,
        switches=_switches(outcome, language),
        lessons=lessons_of([id_ for id_, ids in ROWS.items() if claim.id in ids], language),
    )


def _switches(outcome: Outcome, language: Language) -> list[LessonChoiceInfo]:
    return [
        LessonChoiceInfo(
            name=switch.name,
            label=switch.label.say(language),
            values=[
                LessonChoiceValue(name=str(value), label=f"{value:,}") for value in switch.values
            ],
            chosen=str(outcome.settings.get(switch.name, switch.default)),
        )
        for switch in outcome.claim.switches
    ]
