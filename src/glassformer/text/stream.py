"""Text from ids that arrive one at a time, as a model produces them.

A token may hold part of a character. It is held back until the rest has come, so a reader never
sees a garbled one. This file does not know tokenizers, only the text that each id adds.
"""

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable

__all__ = ["PieceStream", "TextStream"]


class TextStream(ABC):
    """Decodes step by step: all that `push` and then `finish` return is what `decode` returns.

    `check` returns an id that the vocabulary has, or raises; ids in `left_out` leave no trace.
    """

    def __init__(self, check: Callable[[int], int], left_out: frozenset[int]) -> None:
        self._check = check
        self._left_out = left_out

    def push(self, id_: int) -> str:
        """The text that is certain now that this id has come; often one token, sometimes none."""
        id_ = self._check(id_)
        return "" if id_ in self._left_out else self._add(id_)

    @abstractmethod
    def finish(self) -> str:
        """What was still held back; half a character is lost, and becomes U+FFFD."""

    @abstractmethod
    def _add(self, id_: int) -> str:
        """The text that is certain after an id that stands for text."""


class PieceStream(TextStream):
    """A stream for tokenizers in which each id adds bytes that depend on the id before it alone.

    `piece(previous, id)` returns those bytes.
    """

    def __init__(
        self,
        check: Callable[[int], int],
        left_out: frozenset[int],
        piece: Callable[[int | None, int], bytes],
    ) -> None:
        super().__init__(check, left_out)
        self._piece = piece
        self._previous: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def finish(self) -> str:
        """What was still held back; half a character is lost, and becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)

    def _add(self, id_: int) -> str:
        added = self._piece(self._previous, id_)
        self._previous = id_
        return self._decoder.decode(added)
