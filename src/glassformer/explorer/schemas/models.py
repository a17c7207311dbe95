"""The models that can be chosen."""

from __future__ import annotations

from glassformer.explorer.schemas.base import Bilingual, Message, Task

__all__ = ["ModelInfo"]


class ModelInfo(Message):
    """A card of the start page."""

    name: str
    task: Task
    title: Bilingual
    summary: Bilingual
    n_parameters: int
    max_tokens: int | None
    examples: list[str]
    """Texts that show what the model can do; the first is traced when the card is opened."""
    score: Bilingual | None
    """What its card says it reaches, such as `accuracy 88.3 %`."""
    trace: str | None = None
    """For a module of the user's, which reads no text: the trace that is open already."""
