"""The models that can be run."""

from __future__ import annotations

from fastapi import APIRouter

from glassformer.explorer.schemas import ModelInfo
from glassformer.explorer.state import Holds

__all__ = ["router"]

router = APIRouter(tags=["models"])


@router.get("/models")
def models(state: Holds) -> list[ModelInfo]:
    """The cards of the start page."""
    return [*state.own, *state.catalogue.cards]
