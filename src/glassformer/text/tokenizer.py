"""What every tokenizer can do, whichever kind it is: words, characters or subwords.

A caller holds a `Tokenizer` and never asks for its kind. The kinds say how a text splits into ids
(`_encode`, `_align`) and what text an id adds (`_piece`); special tokens, truncation, checks and
display are written here, once. This file does not know how any kind splits a text, nor tensors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from os import PathLike
from typing import Any

from glassformer.errors import CheckpointError, ConfigError, InputError, expect, expect_whole
from glassformer.files import as_path, write_whole
from glassformer.text.display import show_text
from glassformer.text.special import SpecialTokens
from glassformer.text.stream import PieceStream, TextStream
from glassformer.text.vocabulary import Vocabulary

__all__ = ["Piece", "Tokenizer", "as_texts"]

Span = tuple[int, int]

_STRETCH = 1000  # characters: longer than nearly every token


@dataclass(frozen=True)
class Piece:
    """One token of a text: its id, how to show it, and the characters of the text it came from.

    `span` counts characters of the text, as a slice does. It is None for a special token that was
    put in. Subwords that share the bytes of one character have the same span.
    """

    id: int
    label: str
    span: Span | None


class Tokenizer(ABC):
    """Strings to ids and back. No ordinary text ever encodes to a special token but unknown."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size})"

    @property
    def vocab_size(self) -> int:
        """One more than the largest id: the rows that an embedding needs."""
        return self._vocabulary.size

    @property
    def special(self) -> SpecialTokens:
        """The ids of padding, unknown, start, end and mask."""
        return self._vocabulary.special

    def encode(
        self, text: str, *, start: bool = False, end: bool = False, max_len: int | None = None
    ) -> list[int]:
        """The ids of a text, with start and end tokens if asked.

        Nothing is cut unless `max_len` is given; see `wrap`.
        """
        return self.wrap(self._encode(_as_text(text)), start=start, end=end, max_len=max_len)

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        start: bool = False,
        end: bool = False,
        max_len: int | None = None,
    ) -> list[list[int]]:
        """The ids of many texts: what `encode` gives for each, faster."""
        encoded = self._encode_batch(list(as_texts(texts)))
        return [self.wrap(ids, start=start, end=end, max_len=max_len) for ids in encoded]

    def wrap(
        self,
        ids: Sequence[int],
        *,
        start: bool = False,
        end: bool = False,
        max_len: int | None = None,
    ) -> list[int]:
        """Ids of a text between start and end tokens, cut on the right to `max_len` in all.

        The text is cut, never the start or end token: a model must still see where a text ends.
        """
        head, tail = self._ends(start, end)
        return [*head, *ids[: _room(len(head) + len(tail), max_len)], *tail]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of ids.

        `skip_special` leaves out the tokens that stand for no text: padding, start, end. Unknown
        and mask stand for a piece of it and are shown. Bytes that are no character, which a model
        may produce, become U+FFFD.
        """
        expect(ids, Iterable, "a list of ids", InputError)
        left_out = self._left_out(skip_special)
        return self._decode([id_ for id_ in map(self._check, ids) if id_ not in left_out])

    def decode_batch(
        self, batch: Iterable[Iterable[int]], *, skip_special: bool = True
    ) -> list[str]:
        """The texts of many lists of ids."""
        expect(batch, Iterable, "several lists of ids", InputError)
        return [self.decode(ids, skip_special=skip_special) for ids in batch]

    def stream(self, *, skip_special: bool = True) -> TextStream:
        """A decoder for ids that come one by one; it holds back unfinished characters."""
        return PieceStream(self._check, self._left_out(skip_special), self._piece)

    def token(self, id_: int) -> str:
        """The token of an id as the vocabulary spells it; to show it, use `display_tokens`."""
        return self._vocabulary.text(self._check(id_))

    def id_of(self, token: str) -> int:
        """The id of a token, spelled as the vocabulary spells it; the inverse of `token`."""
        return self._vocabulary.id_of(_as_text(token))

    def display_tokens(self, ids: Iterable[int]) -> list[str]:
        """A label for each id in which everything is visible: ␣ for a space, ⟨E4⟩ for a byte."""
        expect(ids, Iterable, "a list of ids", InputError)
        return [self._label(self._check(id_)) for id_ in ids]

    def pieces(
        self, text: str, *, start: bool = False, end: bool = False, max_len: int | None = None
    ) -> list[Piece]:
        """The tokens of a text with labels and where each came from; ids as `encode` gives."""
        head, tail = self._ends(start, end)
        body = self._align(_as_text(text))[: _room(len(head) + len(tail), max_len)]
        spans: list[tuple[int, Span | None]] = [(id_, None) for id_ in head]
        spans += body
        spans += [(id_, None) for id_ in tail]
        return [Piece(id_, self._label(id_), span) for id_, span in spans]

    def bytes_of_first(self, text: str) -> int:
        """The UTF-8 bytes of a text up to the end of its first token; 0 where it has none."""
        n = _STRETCH
        while len(found := self._align(text[:n])) < 2 and n < len(text):
            n *= 2
        return self._bytes_to_end(text, *found[0]) if found else 0

    def save(self, path: str | PathLike[str]) -> None:
        """Write one JSON file, whole or not at all; `load_tokenizer` reads it."""
        file = as_path(path, CheckpointError, "a tokenizer")
        try:
            write_whole(file, self.to_json())
        except OSError as error:
            raise CheckpointError(f"cannot write {file}: {error.strerror}") from error

    @abstractmethod
    def to_json(self) -> str:
        """What `save` writes."""

    @abstractmethod
    def _encode(self, text: str) -> list[int]:
        """The ids of a text, nothing added and nothing cut."""

    @abstractmethod
    def _align(self, text: str) -> list[tuple[int, Span]]:
        """The ids of a text, each with its span."""

    @abstractmethod
    def _piece(self, previous: int | None, id_: int, /) -> bytes:
        """The UTF-8 bytes that an id adds to a text after the id before it, None at the start."""

    def _bytes_to_end(self, text: str, _id: int, span: Span) -> int:
        """The bytes of a text up to the end of a token."""
        return len(text[: span[1]].encode())

    def _encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def _decode(self, ids: list[int]) -> str:
        pieces = map(self._piece, [None, *ids], ids)
        return b"".join(pieces).decode("utf-8", "replace")

    def _left_out(self, skip_special: bool) -> frozenset[int]:
        return self.special.silent if skip_special else frozenset()

    def _check(self, id_: Any) -> int:
        """An id of this vocabulary as a plain int; it may come out of an array or a tensor."""
        try:
            id_ = index(id_)
        except TypeError:
            raise InputError(f"expected integer ids, received {id_!r:.40}") from None
        self._vocabulary.text(id_)
        return int(id_)

    def _label(self, id_: int) -> str:
        return show_text(self._vocabulary.text(id_))

    def _ends(self, start: bool, end: bool) -> tuple[list[int], list[int]]:
        return [self._role("start")] if start else [], [self._role("end")] if end else []

    def _role(self, role: str) -> int:
        id_: int | None = getattr(self.special, role)
        if id_ is None:
            raise ConfigError(
                f"asked for the {role} token, but this vocabulary has none; "
                f'build it with one, such as special=("<{role}>", …)'
            )
        return id_


def as_texts(texts: Iterable[str]) -> Iterable[str]:
    """Texts as they come, refused if they are one string: its characters would pass for texts."""
    if isinstance(texts, str):
        raise InputError("expected several texts, received one string; put it in a list")
    expect(texts, Iterable, "several texts", InputError)
    return map(_as_text, texts)


def _as_text(text: Any) -> str:
    if not isinstance(text, str):
        raise InputError(f"expected a text, received {type(text).__name__} {text!r:.40}")
    return text


def _room(ends: int, max_len: int | None) -> int | None:
    """How many tokens of the text itself fit; None: all."""
    if max_len is None:
        return None
    expect_whole(max_len, "max_len", None, None)
    if max_len <= ends:
        raise ConfigError(
            f"max_len {max_len} leaves no room for text beside {ends} start and end tokens; "
            f"expected {ends + 1} or more"
        )
    return max_len - ends
