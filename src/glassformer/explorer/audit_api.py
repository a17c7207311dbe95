"""The routes of audits: shipped examples, and files that are sent."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from glassformer.explorer.open_audits import AuditCellCard, AuditFormat, AuditInfo, AuditSummary
from glassformer.explorer.saved_page import MEDIA_TYPES
from glassformer.explorer.state import Holds
from glassformer.language import Language

audits_router = APIRouter(prefix="/audits", tags=["audits"])
_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A worked example, as `glassformer audit FILE` reads it.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}
_MADE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()},
    }
}
FileName = Annotated[str, Query(max_length=200, description="what errors call the file")]
StepName = Annotated[str, Query(min_length=1, max_length=100)]
Place = Annotated[
    list[Annotated[int, Field(ge=0)]], Query(max_length=4, description="a place on each axis")
]


@audits_router.get("")
def shipped(state: Holds, language: Language = "en") -> list[AuditSummary]:
    """The shipped examples."""
    return state.audits.summaries(language)


@audits_router.post("", openapi_extra=_FILE)
async def send(
    request: Request, state: Holds, name: FileName = "example.json", language: Language = "en"
) -> AuditInfo:
    """Audit a file: every printed number checked; cancelled if the client disconnects."""
    raw = await request.body()
    return await state.runs.do(request, lambda: state.audits.send(raw, name, language))


@audits_router.get("/{id}")
async def read_audit(
    request: Request,
    state: Holds,
    id: str,  # noqa: A002 - the API's name
    language: Language = "en",
) -> AuditInfo:
    """The audit of a shipped example, or of a file that was sent."""
    return await state.runs.do(request, lambda: state.audits.get(id, language))


@audits_router.get("/{id}/cell")
async def read_audit_cell(
    request: Request,
    state: Holds,
    id: str,  # noqa: A002 - the API's name
    step: StepName,
    index: Place = [],  # noqa: B006 - FastAPI copies it
    language: Language = "en",
) -> AuditCellCard:
    """One printed number: verdict, slip, right value and arithmetic."""
    return await state.runs.do(request, lambda: state.audits.cell(id, step, index, language))


@audits_router.get("/{id}/export", response_class=Response, responses=_MADE)
async def export_audit(
    request: Request,
    state: Holds,
    id: str,  # noqa: A002 - the API's name
    format: AuditFormat = "html",  # noqa: A002 - the API's name
    language: Language = "en",
) -> Response:
    """The audit as a file."""
    name, made = await state.runs.do(request, lambda: state.audits.export(id, format, language))
    head = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(made, headers=head, media_type=MEDIA_TYPES[format])
