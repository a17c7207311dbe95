"""Running a model, and what is known of the run."""

from __future__ import annotations

import gzip
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from glassformer.explorer.describing import describe, described
from glassformer.explorer.numbers import parse_numbers
from glassformer.explorer.running import run_text
from glassformer.explorer.runs import Cancelled
from glassformer.explorer.schemas import Thumbnail, TraceInfo, TraceRequest
from glassformer.explorer.state import Holds
from glassformer.explorer.store import OpenTrace
from glassformer.explorer.thumbnails import thumbnail

__all__ = ["router"]

router = APIRouter(tags=["traces"])
MOST_THUMBNAILS = 256


def packed_answer(request: Request, packed: bytes, status: int = 200) -> Response:
    """JSON that is kept compressed: as it is for whom can read it so."""
    if "gzip" in request.headers.get("accept-encoding", ""):
        head = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Response(packed, status, head, "application/json")
    return Response(
        gzip.decompress(packed), status, {"Vary": "Accept-Encoding"}, "application/json"
    )


@router.post("/traces", status_code=201, response_model=TraceInfo)
async def create_trace(request: Request, state: Holds, wanted: TraceRequest) -> Response:
    """Run a model over a text and keep every number; ends early if the caller goes away."""

    def work(cancelled: Cancelled) -> OpenTrace:
        opened = run_text(state.models, wanted, cancelled)
        described(opened)
        return opened

    opened = state.store.add(await state.runs.do(request, work))
    return packed_answer(request, described(opened), 201)


@router.get("/traces/{id}", response_model=TraceInfo)
def read_trace(request: Request, state: Holds, id: str) -> Response:  # noqa: A002 - the API's name
    """A trace: everything but its numbers."""
    return packed_answer(request, described(state.store.get(id)))


@router.delete("/traces/{id}", status_code=204)
def delete_trace(state: Holds, id: str) -> None:  # noqa: A002 - the API's name
    """Close a trace and those that edits made of it."""
    state.store.remove(id)


@router.get("/traces/{id}/thumbnails")
def thumbnails(
    state: Holds,
    id: str,  # noqa: A002 - the API's name
    steps: Annotated[str, Query(max_length=4_000, description="numbers: `1,2,3`")],
) -> list[Thumbnail]:
    """Small pictures of some steps."""
    opened = state.store.get(id)
    numbers = parse_numbers(steps, "steps")[:MOST_THUMBNAILS]
    info = describe(opened)
    return [thumbnail(opened.step(number), info.steps[number].scale) for number in numbers]
