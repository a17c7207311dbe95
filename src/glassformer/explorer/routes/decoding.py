"""Searching for a text."""

from __future__ import annotations

from fastapi import APIRouter, Request

from glassformer.explorer.decoding import decode
from glassformer.explorer.schemas import DecodeAnswer, DecodeRequest
from glassformer.explorer.state import Holds

__all__ = ["router"]

router = APIRouter(tags=["decoding"])


@router.post("/decode")
async def search(request: Request, state: Holds, wanted: DecodeRequest) -> DecodeAnswer:
    """A translation or a continuation, with the candidates of every step."""
    return await state.runs.do(request, lambda: decode(state.models, wanted))
