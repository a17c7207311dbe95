"""A lecture in one file: the explorer, read-only, over the traces and lessons that its views show.

The page is that of `saved_page`, with several traces inside it. What a view shows (its equation,
its card) is in the file in any case; cards of other cells are there as far as they fit.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from glassformer.errors import stop_if_cancelled
from glassformer.explorer.cell_cards import card_info, find_cell, meaning_info
from glassformer.explorer.model_list import DecodeRequest, decode
from glassformer.explorer.open_lessons import Lessons, LessonSetting
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.overview import describe
from glassformer.explorer.panels import equation, fitting_lead
from glassformer.explorer.saved_page import MOST_BYTES, MOST_CELLS, Snapshot, page_with
from glassformer.explorer.schemas import Message
from glassformer.explorer.state import State
from glassformer.language import LANGUAGES, Language


class PinnedPlace(Message):
    """What a view of a playlist shows of a trace: a step, a slice of it, a cell's card."""

    step: Annotated[int, Field(ge=0)]
    lead: list[Annotated[int, Field(ge=0)]] = Field(default=[], max_length=16)
    index: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=16)] | None = None
    of: Annotated[int, Field(ge=0)] | None = None
    """The step that the cell is of, where it is another one."""


class PlaylistTrace(Message):
    """A trace of a playlist, and what its views show of it."""

    id: Annotated[str, Field(max_length=200)]
    places: list[PinnedPlace] = Field(default=[], max_length=200)


class PlaylistNote(Message):
    """A note in both languages."""

    en: Annotated[str, Field(max_length=2_000)] = ""
    zh: Annotated[str, Field(max_length=2_000)] = ""


class PlaylistView(Message):
    """A view: its link in the saved page, its title, its note."""

    link: Annotated[str, Field(max_length=40_000, pattern="^#/")]
    title: Annotated[str, Field(max_length=200)] = ""
    note: PlaylistNote = PlaylistNote()


class PlaylistLesson(Message):
    """A lesson with its switches."""

    name: Annotated[str, Field(max_length=80)]
    settings: list[LessonSetting] = Field(default=[], max_length=8)


class PlaylistRequest(Message):
    """A page in one file that shows views in order; trace N is `saved-N` in their links."""

    views: Annotated[list[PlaylistView], Field(min_length=1, max_length=200)]
    traces: list[PlaylistTrace] = Field(default=[], max_length=16)
    lessons: list[PlaylistLesson] = Field(default=[], max_length=16)
    searches: list[DecodeRequest] = Field(default=[], max_length=16)
    language: Language = "en"


def playlist_page(wanted: PlaylistRequest, state: State) -> str:
    """The page; traces that have been dropped in the meantime are made again."""
    return page_with(
        {
            "title": None,
            "playlist": [view.model_dump(mode="json") for view in wanted.views],
            "traces": [
                _trace(state, asked, f"saved-{at}", len(wanted.traces))
                for at, asked in enumerate(wanted.traces)
            ],
            "lessons": [_lesson(one, state.lessons) for one in wanted.lessons],
            "searches": [
                {
                    "request": one.model_dump(mode="json"),
                    "answer": decode(state.models, one).model_dump(mode="json"),
                }
                for one in wanted.searches
            ],
        },
        wanted.language,
    )


def _trace(state: State, asked: PlaylistTrace, name: str, share: int) -> dict[str, Any]:
    """A trace with its part of the room that there is, and what the views show of it."""
    size, cells = MOST_BYTES // share, MOST_CELLS // share
    with state.use_again(asked.id) as opened:
        steps = {opened.step(place.step).number for place in asked.places}
        data = Snapshot(opened, None, size, cells, name, steps).data()
        pinned = [_pinned(opened, place) for place in asked.places]
    return {"title": None, **data, "pinned": pinned}


def _pinned(opened: OpenTrace, place: PinnedPlace) -> dict[str, Any]:
    stop_if_cancelled()
    step = opened.step(place.step)
    lead = fitting_lead(step.shape, tuple(place.lead), step.name)
    told: dict[str, Any] = {
        "step": step.number,
        "lead": list(lead),
        "equation": equation(describe(opened), step, lead).model_dump(mode="json"),
        "cell": None,
    }
    if place.index is None:
        return told
    cell = find_cell(
        opened, step.number if place.of is None else place.of, tuple(place.index), None
    )
    told["cell"] = {
        "step": cell.step.number,
        "index": list(cell.index),
        "card": {
            language: card_info(opened, cell, language).model_dump(mode="json")
            for language in LANGUAGES.values()
        },
        "meaning": {
            language: meaning_info(cell, language).model_dump(mode="json")
            for language in LANGUAGES.values()
        },
    }
    return told


def _lesson(wanted: PlaylistLesson, lessons: Lessons) -> dict[str, Any]:
    told: dict[str, Any] = {"name": wanted.name, "settings": wanted.settings}
    for language in LANGUAGES.values():
        made = lessons.get(wanted.name, language, wanted.settings)
        told[language] = made.model_dump(mode="json")
    return told
