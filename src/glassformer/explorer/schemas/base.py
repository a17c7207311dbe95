"""What all messages have in common."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

__all__ = ["MOST_CHARACTERS", "Bilingual", "Language", "Message", "Number", "Problem", "Task"]

Language = Literal["en", "zh"]
Number = float | Literal["NaN", "Infinity", "-Infinity"]
Task = Literal["classify", "translate", "generate", "module"]
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
    """Why a request was not answered: one clear line."""

    detail: str


class Bilingual(Message):
    """A text in both languages."""

    en: str
    zh: str
