"""One number: its card, its terms, what came of it, where it came from."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from glassformer.explorer.cards import card_info, find_cell
from glassformer.explorer.numbers import parse_index
from glassformer.explorer.schemas import CardInfo
from glassformer.explorer.state import Holds

__all__ = ["router"]

router = APIRouter(prefix="/traces/{id}/cell", tags=["cells"])

Index = Annotated[str, Query(max_length=100, description="a place on each axis: `0,1,2`")]


@router.get("")
def read_cell(
    state: Holds,
    id: str,  # noqa: A002 - the API's name
    step: int,
    index: Index = "",
    operand: int | None = None,
) -> CardInfo:
    """Everything about a number."""
    opened = state.store.get(id)
    return card_info(opened, find_cell(opened, step, parse_index(index), operand))
