"""What all messages have in common."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from glassformer.language import Bilingual, Language

__all__ = [
    "MOST_CHARACTERS",
    "Bilingual",
    "Language",
    "Message",
    "Number",
    "Problem",
    "ProblemCode",
    "Task",
]

Number = float | Literal["NaN", "Infinity", "-Infinity"]
Task = Literal["classify", "translate", "generate", "module"]
ProblemCode = Literal[
    "too_long",
    "too_many_characters",
    "empty",
    "unknown_model",
    "unknown_lesson",
    "dropped",
    "busy",
    "fault",
]
MOST_CHARACTERS = 4_000
"""The longest text that a request may hold."""


class Message(BaseModel):
    """The base of all messages: an unknown field is an error, not a surprise.

    What we say has every field, so its types have no optional ones.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_serialization_defaults_required=True
    )


class Problem(Message):
    """Why a request was not answered: one clear line, in English."""

    detail: str
    code: ProblemCode | None = None
    """What sort of refusal it is, for a page to say in its own language; None for rare ones."""
    figures: dict[str, int | str] = {}
    """What such a sentence has to name: `tokens` and `most`, or a `name`."""
