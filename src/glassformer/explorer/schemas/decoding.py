"""A search, and what it could have chosen at each step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from glassformer.explorer.schemas.base import MOST_CHARACTERS, Message

__all__ = ["CandidateInfo", "DecodeAnswer", "DecodeRequest", "DecodeStep"]


class DecodeRequest(Message):
    """Search for a translation or a continuation, with its ledger."""

    model: str
    text: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    search: Literal["greedy", "beam", "sampling"] = "beam"
    beam: Annotated[int, Field(ge=1, le=16)] = 4
    length_penalty: Annotated[float, Field(ge=0, le=3)] = 0.6
    temperature: Annotated[float, Field(gt=0, le=5)] = 0.8
    top_k: Annotated[int, Field(ge=1, le=1_000)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    max_new: Annotated[int, Field(ge=1, le=128)] = 48


class CandidateInfo(Message):
    """One token that could have come next."""

    parent: int
    token: int
    text: str
    log_probability: float
    total: float
    score: float
    chance: float | None
    fate: Literal["kept", "ended", "dropped"]


class DecodeStep(Message):
    """The candidates of one step, best first, and the rivals that they continue."""

    rivals: list[str]
    candidates: list[CandidateInfo]


class DecodeAnswer(Message):
    """What a search found, and how."""

    model: str
    text: str
    results: list[tuple[str, float]]
    """Texts with scores, best first."""
    steps: list[DecodeStep]
    cut: bool
    n_tokens: int
    """How many tokens the text has."""
    n_unknown: int
    """How many of them the model's vocabulary does not know."""
