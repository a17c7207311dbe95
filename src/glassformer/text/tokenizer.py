"""What every tokenizer can do, whichever kind it is: words, characters or subwords.

A caller holds a `Tokenizer` and never asks for its kind. The kinds say how a text splits into ids
(`_encode`, `_align`) and what text an id adds (`_piece`); special tokens, truncation, checks and
display are written here, once. This file does not know how any kind splits a text, nor tensors.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import index
from os import PathLike
from typing import Any, Literal

from glassformer.errors import CheckpointError, ConfigError, InputError, expect, expect_whole
from glassformer.files import as_path, write_whole
from glassformer.text.vocabulary import SpecialTokens, Vocabulary

# --- display ---
# How a token looks to a reader: nothing invisible, nothing garbled.
#
# Bytes that are no whole character are shown as themselves, ⟨E4⟩, and so is what would print as
# nothing or as a replacement mark. This file does not know tokenizers.


_VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥"}


def show_text(text: str) -> str:
    """A text in which each character can be seen."""
    return "".join(map(_show_character, text))


def show_bytes(data: bytes) -> str:
    """The characters that UTF-8 bytes hold, and the bytes that are part of none."""
    # "surrogateescape" keeps each undecodable byte as one code point from U+DC80 on.
    return show_text(data.decode("utf-8", "surrogateescape"))


def _show_character(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    if character.isprintable() and character != "\ufffd":
        return character
    return "".join(f"⟨{byte:02X}⟩" for byte in character.encode("utf-8", "surrogateescape"))


# --- stream ---
# Text from ids that arrive one at a time, as a model produces them.
#
# A token may hold part of a character. It is held back until the rest has come, so a reader never
# sees a garbled one. This file does not know tokenizers, only the text that each id adds.


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


# --- cutting ---
# What is kept of a text that a model cannot read whole.
#
# Training and use must cut alike: a model that learnt to find the verdict at a text's end looks for
# it there. This file does not know tokenizers or models.


Cut = Literal["end", "middle"]
"""What is left out: the end of a text, or its middle."""


def cut_ids(ids: Sequence[int], max_len: int, cut: Cut) -> list[int]:
    """At most `max_len` ids; without the middle, a quarter of them is from the beginning."""
    if len(ids) <= max_len:
        return list(ids)
    head = max_len if cut == "end" else max_len // 4
    return [*ids[:head], *ids[len(ids) - (max_len - head) :]]
