"""What a reader should know about how a trace was made: the sentences of notes.toml.

A note is its English sentence. It keeps its kind and its numbers, so that others can say it in
another language.
"""

from __future__ import annotations

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
