"""One number: its card, its terms, what came of it, where it came from."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from glassformer.explorer.cards import card_info, find_cell, term_page
from glassformer.explorer.following import dependents_of, path_of
from glassformer.explorer.numbers import parse_index
from glassformer.explorer.schemas import CardInfo, CellRef, DependentInfo, Language, TermPage
from glassformer.explorer.state import Opened
from glassformer.trace.render.words import phrases_in, words_in

__all__ = ["router"]

router = APIRouter(prefix="/traces/{id}/cell", tags=["cells"])

Index = Annotated[str, Query(max_length=100, description="a place on each axis: `0,1,2`")]


@router.get("")
def read_cell(
    opened: Opened,
    step: int,
    index: Index = "",
    operand: int | None = None,
    language: Language = "en",
) -> CardInfo:
    """Everything about a number."""
    return card_info(opened, find_cell(opened, step, parse_index(index), operand), language)


@router.get("/terms")
def read_terms(
    opened: Opened,
    step: int,
    index: Index = "",
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    order: Literal["size", "index"] = "size",
    language: Language = "en",
) -> TermPage:
    """Some of the summands of a number that is a sum."""
    cell = find_cell(opened, step, parse_index(index), None)
    return term_page(cell, offset, limit, order == "size", phrases_in(words_in(language)))


@router.get("/dependents")
def read_dependents(
    opened: Opened,
    step: int,
    index: Index = "",
) -> list[DependentInfo]:
    """What was made directly from a number."""
    return dependents_of(find_cell(opened, step, parse_index(index), None))


@router.get("/path")
def read_path(
    opened: Opened,
    step: int,
    index: Index = "",
) -> list[CellRef]:
    """From a number back along the largest contributions, to a parameter or an input."""
    return path_of(find_cell(opened, step, parse_index(index), None))
