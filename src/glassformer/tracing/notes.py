"""Notes on how a trace was made (the sentences of notes.toml), and how notebooks show text.

A note is its English sentence; it keeps its kind and values, so that it can be translated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from glassformer.language import words

if TYPE_CHECKING:
    from glassformer.tracing.cells import Cell
    from glassformer.tracing.steps import Step
    from glassformer.tracing.trace import Trace

NOTES = words(__name__)


class Note(str):
    """One of `NOTES`, filled in."""

    __slots__ = ("kind", "values")

    kind: str
    values: dict[str, object]

    def __new__(cls, kind: str, **values: object) -> Self:
        note = super().__new__(cls, NOTES[kind].en.format(**values))
        note.kind, note.values = kind, values
        return note

    def __reduce__(self) -> tuple[object, ...]:
        return _note, (self.kind, self.values)


def _note(kind: str, values: dict[str, object]) -> Note:
    return Note(kind, **values)


# --- notebooks ---


class ShownAsText:
    """Shown as `str(self)`: at a prompt, and in a notebook in a text block."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        """The text, fenced by more backticks than it contains."""
        plain = str(self)
        longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}text\n{plain}\n{fence}\n"


class Explanation(ShownAsText, str):
    """The arithmetic of a cell as text, shown line by line."""

    __slots__ = ()


def notebook_markdown(thing: Trace | Step | Cell) -> str:
    """What a notebook shows for a trace, a step or a cell.

    `documents` is imported on use: it depends on `tracing`, not the other way round.
    """
    from glassformer.documents import notebook_markdown as shown_by

    return shown_by(thing)
