"""The lessons."""

from __future__ import annotations

from fastapi import APIRouter, Request

from glassformer.explorer.schemas import Language, LessonInfo, LessonSummary
from glassformer.explorer.state import Holds

__all__ = ["router"]

router = APIRouter(prefix="/lessons", tags=["lessons"])


@router.get("")
def summaries(state: Holds, language: Language = "en") -> list[LessonSummary]:
    """What there is to walk through."""
    return state.lessons.summaries(language)


@router.get("/{name}")
async def lesson(
    request: Request, state: Holds, name: str, language: Language = "en"
) -> LessonInfo:
    """One lesson; its matrices and formulas name cells of open traces."""
    return await state.runs.do(request, lambda: state.lessons.get(name, language))
