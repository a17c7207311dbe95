"""What a reader should know about how a trace was made: the sentences of notes.toml.

A note is its English sentence. It keeps its kind and its numbers, so that others can say it in
another language.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Self

from glassformer.language import words

NOTES = words(__name__)


class Note(str):
    """One of `NOTES`, filled in."""

    __slots__ = ("kind", "values")

    kind: str
    values: dict[str, object]

    def __new__(cls, kind: str, **values: object) -> Self:
        """The sentence of that kind, with these values in it."""
        note = super().__new__(cls, NOTES[kind].en.format(**values))
        note.kind, note.values = kind, values
        return note

    def __reduce__(self) -> tuple[object, ...]:
        return _note, (self.kind, self.values)


def _note(kind: str, values: dict[str, object]) -> Note:
    return Note(kind, **values)


# --- in a notebook ---


class ShownAsText:
    """Whatever `str` makes of it, in a block of its own."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        """The text, fenced by more backticks than it holds."""
        plain = str(self)
        longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}text\n{plain}\n{fence}\n"


class Explanation(ShownAsText, str):
    """The arithmetic of a cell as text: a string, which a notebook shows line by line."""

    __slots__ = ()


def notebook_markdown(thing: object) -> str:
    """What a notebook shows of a trace, a step or a cell.

    Documents are made of traces and not the other way round, so their package is looked up when a
    notebook asks: the one place where the trace reaches upwards.
    """
    shown: str = import_module("glassformer.documents").notebook_markdown(thing)
    return shown
