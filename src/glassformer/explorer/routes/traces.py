"""Running a model, and what is known of the run."""

from __future__ import annotations

import gzip
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from glassformer.explorer.describing import describe, described
from glassformer.explorer.editing import changes_of, edit_trace
from glassformer.explorer.exports import MEDIA_TYPES, export_file, file_name
from glassformer.explorer.numbers import parse_numbers
from glassformer.explorer.opened import OpenTrace
from glassformer.explorer.running import run_text
from glassformer.explorer.schemas import (
    Changes,
    EditRequest,
    ExportRequest,
    Thumbnail,
    TraceInfo,
    TraceRequest,
)
from glassformer.explorer.state import Holds, Opened
from glassformer.explorer.thumbnails import thumbnail

__all__ = ["router"]

router = APIRouter(prefix="/traces", tags=["traces"])
MOST_THUMBNAILS = 256
_FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()},
    }
}


def _packed(request: Request, packed: bytes, status: int = 200) -> Response:
    """JSON that is kept compressed: as it is for whom can read it so."""
    head = {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, status, head | {"Content-Encoding": "gzip"}, "application/json")
    return Response(gzip.decompress(packed), status, head, "application/json")


@router.post("", status_code=201, response_model=TraceInfo)
async def create_trace(request: Request, state: Holds, wanted: TraceRequest) -> Response:
    """Run a model over a text and keep every number; ends early if the caller goes away."""

    def work() -> bytes:
        opened = run_text(state.models, wanted)
        packed = described(opened)
        state.store.add(opened)
        return packed

    return _packed(request, await state.runs.do(request, work), 201)


@router.get("/{id}", response_model=TraceInfo)
def read_trace(request: Request, opened: Opened) -> Response:
    """A trace: everything but its numbers."""
    return _packed(request, described(opened))


@router.delete("/{id}", status_code=204)
def delete_trace(state: Holds, id: str) -> None:  # noqa: A002 - the API's name
    """Close a trace and those that edits made of it."""
    state.store.remove(id)


@router.post("/{id}/edits", status_code=201, response_model=TraceInfo)
async def edit(request: Request, state: Holds, opened: Opened, wanted: EditRequest) -> Response:
    """Set numbers; answers a new trace in which all that follows is computed anew."""

    def work() -> bytes:
        edited: OpenTrace = edit_trace(opened, wanted.edits)
        packed = described(edited)
        state.store.add(edited)
        return packed

    return _packed(request, await state.runs.do(request, work), 201)


@router.get("/{id}/changes")
def changes(opened: Opened) -> Changes:
    """The steps that differ from the trace before any edit."""
    return changes_of(opened)


@router.post("/{id}/export", response_class=Response, responses=_FILES)
async def export(request: Request, state: Holds, opened: Opened, wanted: ExportRequest) -> Response:
    """A file of some steps, or of the whole trace."""
    name = file_name(opened, wanted)
    made = await state.runs.do(request, lambda: export_file(opened, wanted))
    head = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(made, headers=head, media_type=MEDIA_TYPES[wanted.format])


@router.get("/{id}/thumbnails")
def thumbnails(
    opened: Opened,
    steps: Annotated[str, Query(max_length=4_000, description="numbers: `1,2,3`")],
) -> list[Thumbnail]:
    """Small pictures of some steps, at most 256 of them."""
    numbers = parse_numbers(steps, "steps")[:MOST_THUMBNAILS]
    info = describe(opened)
    return [thumbnail(opened.step(number), info.steps[number].scale) for number in numbers]
