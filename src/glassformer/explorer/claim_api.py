"""The routes of the gallery of claims."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from glassformer.explorer.claim_schemas import ClaimInfo, ClaimList
from glassformer.explorer.schemas import LessonSetting
from glassformer.explorer.state import Holds
from glassformer.language import Language

claims_router = APIRouter(prefix="/claims", tags=["claims"])
Turned = Annotated[
    tuple[LessonSetting, ...],
    Query(alias="set", max_length=8, description="switches of the experiment: `width=256`"),
]


@claims_router.get("")
def gallery(state: Holds, language: Language = "en") -> ClaimList:
    """Every claim, and the rows that claims bear on."""
    return state.claims.gallery(language)


@claims_router.get("/{id}")
async def claim(
    request: Request,
    state: Holds,
    id: str,  # noqa: A002 - the API's name
    language: Language = "en",
    settings: Turned = (),
) -> ClaimInfo:
    """One claim, measured now unless it is slow; cancelled if the client disconnects."""
    return await state.runs.do(request, lambda: state.claims.get(id, language, settings))
