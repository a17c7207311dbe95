"""The HTTP API: its routes, and the FastAPI app made of them."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from pydantic import Field

from glassformer import __version__
from glassformer.documents.heat_maps import may_have_holes
from glassformer.errors import InputError
from glassformer.explorer import schemas
from glassformer.explorer.cell_cards import (
    card_info,
    dependents_of,
    find_cell,
    meaning_info,
    path_of,
    term_page,
)
from glassformer.explorer.experiment_api import experiments_router
from glassformer.explorer.http_errors import PROBLEMS, answer_problems
from glassformer.explorer.map_info import MapInfo, map_info
from glassformer.explorer.model_list import DecodeAnswer, DecodeRequest, ModelInfo, decode
from glassformer.explorer.open_audits import (
    AuditCellCard,
    AuditFormat,
    AuditInfo,
    AuditSummary,
)
from glassformer.explorer.open_claims import ClaimInfo, ClaimList
from glassformer.explorer.open_lessons import (
    AnswerInfo,
    AnswerRequest,
    LessonFormat,
    LessonInfo,
    LessonSetting,
    LessonSummary,
)
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.overview import describe, described
from glassformer.explorer.panels import (
    Window,
    equation,
    fitting_lead,
    thumbnail,
)
from glassformer.explorer.saved_page import MEDIA_TYPES, export_file, file_name
from glassformer.explorer.saved_playlist import PlaylistRequest, playlist_page
from glassformer.explorer.state import Holds, Id, Opened, Queue, Queued, State
from glassformer.explorer.trace_edits import changed_cells, changes_of, edit_trace
from glassformer.language import Language
from glassformer.tracing import Cell

if TYPE_CHECKING:
    from glassformer.explorer.training_watch import WatchedRun

api = APIRouter(prefix="/api", responses=PROBLEMS)
api.include_router(experiments_router)
MOST_THUMBNAILS = 256


def _content(description: str, *kinds: str) -> dict[int | str, dict[str, Any]]:
    """What the API's description says of an answer that is not JSON."""
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {200: {"description": description, "content": {kind: {} for kind in kinds} or content}}


_FILES = _content("The file.", *(kind.partition(";")[0] for kind in MEDIA_TYPES.values()))
_BYTES = _content("The cells row by row, little-endian; `X-Shape: rows,columns`, `X-Dtype`.")
_WEIGHTS = _content("float32, little-endian; `X-Shape: heads,queries,keys`.")


def parse_numbers(text: str, name: str) -> list[int]:
    """`1,2,3`; an empty string has none."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(
            "{name} must be whole numbers separated by commas, got {text!r:.40}",
            name=name,
            text=text,
        ) from None


def parse_index(text: str) -> tuple[int, ...]:
    """An index such as `0,1,2`; negative positions are refused."""
    index = tuple(parse_numbers(text, "index"))
    if any(place < 0 for place in index):
        raise InputError("index must not be negative, got {text!r:.40}", text=text)
    return index


def _packed(request: Request, packed: bytes, status: int = 200) -> Response:
    """Gzip-compressed JSON; decompressed here for clients that do not accept gzip."""
    head = {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, status, head | {"Content-Encoding": "gzip"}, "application/json")
    return Response(gzip.decompress(packed), status, head, "application/json")


def _file(name: str, made: bytes, kind: str) -> Response:
    head = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(made, headers=head, media_type=MEDIA_TYPES[kind])


async def _opening(queue: Queue, state: State, run: Callable[[], OpenTrace]) -> Response:
    """Run something that is traced, and describe it as a trace that is open from now on."""

    def work() -> bytes:
        opened = run()
        packed = described(opened)
        state.store.add(opened)
        return packed

    return _packed(queue.request, await queue.do(work), 201)


# --- traces ---


@api.post("/traces", status_code=201, response_model=schemas.TraceInfo)
async def create_trace(queue: Queued, state: Holds, wanted: schemas.TraceRequest) -> Response:
    """Run a model over a text and record every number; cancelled if the client disconnects."""
    run = partial(state.models.run, wanted.model, wanted.text, wanted.target)
    return await _opening(queue, state, run)


@api.get("/traces/{id}", response_model=schemas.TraceInfo)
def read_trace(request: Request, opened: Opened) -> Response:
    """A trace: everything but its numbers."""
    return _packed(request, described(opened))


@api.delete("/traces/{id}", status_code=204)
def delete_trace(state: Holds, id_: Id) -> None:
    """Close a trace and the traces that edits made from it."""
    state.store.remove(id_)


@api.post("/traces/{id}/edits", status_code=201, response_model=schemas.TraceInfo)
async def edit(
    queue: Queued, state: Holds, opened: Opened, wanted: schemas.EditRequest
) -> Response:
    """Set numbers; returns a new trace in which everything downstream is recomputed."""

    def edited() -> OpenTrace:
        with state.other_runs(opened) as runs:
            return edit_trace(opened, wanted.edits, runs)

    return await _opening(queue, state, edited)


@api.get("/traces/{id}/changes")
def changes(opened: Opened) -> schemas.Changes:
    """The steps that differ from the trace before any edit."""
    return changes_of(opened)


@api.get("/traces/{id}/map")
def read_map(opened: Opened) -> MapInfo:
    """The model as one picture: towers of blocks with their tokens, or a plain graph."""
    return map_info(opened)


@api.post("/traces/{id}/export", response_class=Response, responses=_FILES)
async def export(queue: Queued, opened: Opened, wanted: schemas.ExportRequest) -> Response:
    """A file of some steps, or of the whole trace."""
    name = file_name(opened, wanted)
    return _file(name, await queue.do(lambda: export_file(opened, wanted)), wanted.format)


@api.get("/traces/{id}/thumbnails")
def thumbnails(
    opened: Opened,
    steps: Annotated[str, Query(max_length=4_000, description="numbers: `1,2,3`")],
) -> list[schemas.Thumbnail]:
    """Small pictures of some steps, at most 256 of them."""
    numbers = parse_numbers(steps, "steps")[:MOST_THUMBNAILS]
    info = describe(opened)
    return [thumbnail(opened.step(number), info.steps[number].scale) for number in numbers]


# --- steps ---
# One step: its equation, and its numbers as bytes.

_STEP = "/traces/{id}/steps/{number}"
Lead = Annotated[
    str, Query(max_length=100, description="places of the axes before the last two: `0,1`")
]
RangeQuery = Annotated[
    str | None, Query(max_length=40, description="a range: `0:64`; all if left out")
]


def bytes_answer(values: npt.NDArray[np.generic], dtype: str) -> Response:
    """An array as raw bytes."""
    head = {"X-Shape": ",".join(map(str, values.shape)), "X-Dtype": dtype}
    return Response(values.tobytes(), headers=head, media_type="application/octet-stream")


@api.get(f"{_STEP}/equation")
def read_equation(opened: Opened, number: int, lead: Lead = "") -> schemas.Equation:
    """The step as an equation of matrices."""
    return equation(describe(opened), opened.step(number), parse_index(lead))


@api.get(f"{_STEP}/meaning")
def read_meaning(
    opened: Opened,
    number: int,
    lead: Lead = "",
    index: Annotated[str | None, Query(max_length=100, description="of a cell: `0,1,2`")] = None,
    language: Language = "en",
) -> schemas.MeaningInfo:
    """What the step is for, or with an index, a number of it."""
    step = opened.step(number)
    if index is not None:
        return meaning_info(find_cell(opened, number, parse_index(index), None), language)
    return meaning_info(step, language, fitting_lead(step.shape, parse_index(lead), step.name))


def _window(
    opened: Opened,
    number: int,
    lead: Lead = "",
    operand: int | None = None,
    rows: RangeQuery = None,
    columns: RangeQuery = None,
) -> Window:
    return Window(opened.step(number), operand, parse_index(lead), rows, columns)


Shown = Annotated[Window, Depends(_window)]


@api.get(f"{_STEP}/values", response_class=Response, responses=_BYTES)
def read_values(shown: Shown) -> Response:
    """The numbers of a slice, or of a window of it."""
    found = shown.numbers(shown.view)
    answer = bytes_answer(found, "float32" if found.dtype.itemsize == 4 else "float64")
    if may_have_holes(shown.view):
        answer.headers["X-Unwritten"] = "1"
    return answer


@api.get(f"{_STEP}/changed", response_class=Response, responses=_BYTES)
def read_changed(opened: Opened, shown: Shown) -> Response:
    """Which numbers of a slice differ from the trace before the edits: 1 where they do."""
    return bytes_answer(changed_cells(opened, shown), "uint8")


@api.get(f"{_STEP}/unwritten", response_class=Response, responses=_BYTES)
def read_unwritten(shown: Shown) -> Response:
    """Which numbers of a slice are memory that nothing has written to yet: 1 where they are.

    `…/values` has the header `X-Unwritten: 1` where there may be any.
    """
    return bytes_answer(shown.holes(), "uint8")


# --- cells ---
# One number: its card, its terms, its dependents, its path.

_CELL = "/traces/{id}/cell"
IndexQuery = Annotated[str, Query(max_length=100, description="a place on each axis: `0,1,2`")]


@api.get(_CELL)
def read_cell(
    opened: Opened,
    step: int,
    index: IndexQuery = "",
    operand: int | None = None,
    language: Language = "en",
) -> schemas.CardInfo:
    """Everything about a number."""
    return card_info(opened, find_cell(opened, step, parse_index(index), operand), language)


def _cell(opened: Opened, step: int, index: IndexQuery = "") -> Cell:
    return find_cell(opened, step, parse_index(index), None)


Found = Annotated[Cell, Depends(_cell)]


@api.get(f"{_CELL}/terms")
def read_terms(
    cell: Found,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    order: Literal["size", "index"] = "size",
    language: Language = "en",
) -> schemas.TermPage:
    """Some of the summands of a number that is a sum."""
    return term_page(cell, offset, limit, order == "size", language)


@api.get(f"{_CELL}/dependents")
def read_dependents(cell: Found) -> list[schemas.DependentInfo]:
    """What was computed directly from a number."""
    return dependents_of(cell)


@api.get(f"{_CELL}/path")
def read_path(cell: Found) -> list[schemas.CellRef]:
    """From a number back along the largest contributions, to a parameter or an input."""
    return path_of(cell)


# --- models ---


@api.get("/models")
def models(state: Holds) -> list[ModelInfo]:
    """The cards of the start page."""
    return state.models.cards


# --- lessons and claims ---

Settings = Annotated[
    tuple[LessonSetting, ...],
    Query(alias="set", max_length=8, description="switches: `encoding=rotary`"),
]


@api.get("/lessons")
def summaries(state: Holds, language: Language = "en") -> list[LessonSummary]:
    """The list of lessons."""
    return state.lessons.summaries(language)


@api.get("/lessons/{name}")
async def lesson(
    queue: Queued, state: Holds, name: str, language: Language = "en", settings: Settings = ()
) -> LessonInfo:
    """One lesson; its matrices and formulas link to cells of open traces."""
    return await queue.do(lambda: state.lessons.get(name, language, settings))


@api.get("/lessons/{name}/export", response_class=Response, responses=_FILES)
async def export_lesson(
    queue: Queued,
    state: Holds,
    name: str,
    to: Annotated[LessonFormat, Query(alias="format")] = "html",
    language: Language = "en",
    settings: Settings = (),
) -> Response:
    """The lesson as a file to hand out."""
    file, kind, made = await queue.do(lambda: state.lessons.export(name, to, language, settings))
    return _file(file, made, kind)


@api.post("/lessons/{name}/answers")
async def answer(queue: Queued, state: Holds, name: str, answers: AnswerRequest) -> AnswerInfo:
    """Whether an answer to a question of a lesson is right, and what went wrong."""
    return await queue.do(lambda: state.lessons.answer(name, answers))


@api.get("/claims")
def gallery(state: Holds, language: Language = "en") -> ClaimList:
    """Every claim, and the rows that claims bear on."""
    return state.claims.gallery(language)


@api.get("/claims/{id}")
async def claim(
    queue: Queued, state: Holds, id_: Id, language: Language = "en", settings: Settings = ()
) -> ClaimInfo:
    """One claim, measured now unless it is slow; cancelled if the client disconnects."""
    return await queue.do(lambda: state.claims.get(id_, language, settings))


# --- audits ---
# Worked examples, each printed number checked: those that ship, and files that are sent.

_EXAMPLE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A worked example, as `glassformer audit FILE` reads it.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}
FileName = Annotated[str, Query(max_length=200, description="what errors call the file")]
StepName = Annotated[str, Query(min_length=1, max_length=100)]
PlaceQuery = Annotated[
    list[Annotated[int, Field(ge=0)]], Query(max_length=4, description="a place on each axis")
]


@api.get("/audits")
def shipped(state: Holds, language: Language = "en") -> list[AuditSummary]:
    """The shipped examples."""
    return state.audits.summaries(language)


@api.post("/audits", openapi_extra=_EXAMPLE)
async def send(
    queue: Queued, state: Holds, name: FileName = "example.json", language: Language = "en"
) -> AuditInfo:
    """Audit a file: every printed number checked; cancelled if the client disconnects."""
    raw = await queue.request.body()
    return await queue.do(lambda: state.audits.send(raw, name, language))


@api.get("/audits/{id}")
async def read_audit(queue: Queued, state: Holds, id_: Id, language: Language = "en") -> AuditInfo:
    """The audit of a shipped example, or of a file that was sent."""
    return await queue.do(lambda: state.audits.get(id_, language))


@api.get("/audits/{id}/cell")
async def read_audit_cell(
    queue: Queued,
    state: Holds,
    id_: Id,
    step: StepName,
    index: PlaceQuery = [],  # noqa: B006 - FastAPI copies it
    language: Language = "en",
) -> AuditCellCard:
    """One printed number: verdict, slip, right value and arithmetic."""
    return await queue.do(lambda: state.audits.cell(id_, step, index, language))


@api.get("/audits/{id}/export", response_class=Response, responses=_FILES)
async def export_audit(
    queue: Queued,
    state: Holds,
    id_: Id,
    to: Annotated[AuditFormat, Query(alias="format")] = "html",
    language: Language = "en",
) -> Response:
    """The audit as a file."""
    name, made = await queue.do(lambda: state.audits.export(id_, to, language))
    return _file(name, made, to)


# --- searches, playlists ---


@api.post("/decode")
async def search(queue: Queued, state: Holds, wanted: DecodeRequest) -> DecodeAnswer:
    """A translation or a continuation, with the candidates of every step."""
    return await queue.do(lambda: decode(state.models, wanted))


@api.post("/playlist", response_class=Response, responses=_FILES)
async def save_playlist(queue: Queued, state: Holds, wanted: PlaylistRequest) -> Response:
    """A page in one file that shows the views of a lecture in order, read-only."""
    made = await queue.do(lambda: playlist_page(wanted, state).encode())
    return _file("playlist.html", made, "html")


# --- the training run that is watched ---

Count = Annotated[int, Query(ge=0, lt=2**53)]


def _watched(state: State) -> WatchedRun:
    if state.watched is None:
        raise HTTPException(404, "no training run is watched: start one with train … --watch")
    return state.watched


@api.get("/watch")
def watch(state: Holds, since: Count = 0) -> schemas.WatchInfo | None:
    """Metrics from an offset on, and the attention snapshots; null if no run is watched."""
    return None if state.watched is None else state.watched.info(since)


@api.get("/watch/runs/{name}")
def other_run(state: Holds, name: str) -> schemas.RunCurves:
    """The metrics of another run in the folder of the watched one."""
    return _watched(state).other(name)


@api.post("/watch/traces", status_code=201, response_model=schemas.TraceInfo)
async def trace_update(queue: Queued, state: Holds, wanted: schemas.WatchTraceRequest) -> Response:
    """Trace the model that the run had after an update, over the text of its pictures."""
    run = _watched(state)
    return await _opening(queue, state, lambda: run.trace(wanted.update))


@api.get("/watch/attention", response_class=Response, responses=_WEIGHTS)
def attention(state: Holds, update: Count, layer: Count = 0) -> Response:
    """The attention weights of one layer after an update."""
    found = np.ascontiguousarray(_watched(state).attention(update, layer), dtype="<f4")
    return bytes_answer(found, "float32")


# --- the app ---


# FastAPI silences a warning process-wide while it reads the routes: of two apps made at once, the
# first to finish would let the other's warning through.
_READING_ROUTES = Lock()


def create_api(state: State) -> FastAPI:
    """The app behind `/api`."""
    app = FastAPI(
        title="Glassformer explorer",
        version=__version__,
        description="Traces of Transformers: every number with the arithmetic that made it.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # its pages would load scripts from a CDN
        redoc_url=None,
    )
    app.state.explorer = state
    answer_problems(app)
    with _READING_ROUTES:
        app.include_router(api)
    return app


def document() -> str:
    """The messages of the API without its routes; `python -m glassformer.explorer.api` prints them.

    The page's TypeScript types are generated from this (`make web`). The titles that pydantic makes
    of field names would only repeat these as comments.
    """
    found = create_api(State()).openapi()
    named = json.dumps(
        {"openapi": found["openapi"], "info": found["info"], "paths": {}}
        | {"components": {"schemas": found["components"]["schemas"]}}
    )
    return json.dumps(json.loads(named, object_hook=_untitled), indent=1, ensure_ascii=False) + "\n"


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Without a title; a property of that name is a schema and stays."""
    return {
        key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)
    }


if __name__ == "__main__":
    sys.stdout.write(document())
