"""The interface of all tokenizers: words, characters and subwords.

A subclass says how a text splits into ids (`_encode`, `_align`) and which text an id adds
(`_piece`); special tokens, truncation, checks and display are implemented here, once. This file
does not know how a text is split, nor tensors.
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
from glassformer.files import as_path, os_errors_as, write_whole
from glassformer.text.vocabulary import Vocabulary

# --- display ---
# A token's label shows everything: bytes that are not a whole character, and characters that would
# be invisible or print as a replacement character, appear as ⟨E4⟩.

_VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥"}


def show_text(text: str) -> str:
    """A text with every character made visible."""
    return "".join(map(_show_character, text))


def show_bytes(data: bytes) -> str:
    """The characters encoded by UTF-8 bytes, and the bytes that belong to none."""
    # "surrogateescape" keeps each undecodable byte as one code point from U+DC80 on.
    return show_text(data.decode("utf-8", "surrogateescape"))


def _show_character(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    if character.isprintable() and character != "\ufffd":
        return character
    return "".join(f"⟨{byte:02X}⟩" for byte in character.encode("utf-8", "surrogateescape"))


# --- streaming ---
# Decoding ids as a model generates them. A token may be only part of a character; it is held back
# until the rest arrives, so a garbled character never appears.


_CONTEXT = 32
"""Ids before a continuation that are decoded with it, which shows how it begins."""


class TextStream(ABC):
    """Incremental decoding: the outputs of `push` and `finish`, joined, are what `decode` returns.

    `check` returns a valid id or raises; ids in `left_out` produce no text.
    """

    def __init__(self, check: Callable[[int], int], left_out: frozenset[int]) -> None:
        self._check = check
        self._left_out = left_out

    def push(self, id_: int) -> str:
        """The text that this id makes final: often one token, sometimes nothing yet."""
        id_ = self._check(id_)
        return "" if id_ in self._left_out else self._add(id_)

    def skip(self, ids: Sequence[int]) -> None:
        """Take ids whose text is known, such as a prompt's: the next text continues theirs."""
        for id_ in ids[-_CONTEXT:]:
            self.push(id_)

    @abstractmethod
    def finish(self) -> str:
        """The text still held back; an incomplete character becomes U+FFFD."""

    @abstractmethod
    def _add(self, id_: int) -> str:
        """The text that an id makes final; `id_` is not in `left_out`."""


class PieceStream(TextStream):
    """A stream for tokenizers in which the bytes of an id depend only on the previous id.

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
        """The text still held back; an incomplete character becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)

    def _add(self, id_: int) -> str:
        added = self._piece(self._previous, id_)
        self._previous = id_
        return self._decoder.decode(added)


CharacterSpan = tuple[int, int]

_PREFIX = 1000  # characters, longer than nearly every token


@dataclass(frozen=True)
class TokenPiece:
    """One token of a text."""

    id: int
    label: str
    """For display."""
    span: CharacterSpan | None
    """The slice of the text it came from, in characters; None for an added special token. Subwords
    that share the bytes of one character have the same span."""


class Tokenizer(ABC):
    """Strings to ids and back. No text encodes to a special token, except unknown."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        """The largest id plus one: the number of rows of an embedding."""
        self.special = vocabulary.special
        """The ids of padding, unknown, start, end and mask."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size})"

    def encode(
        self, text: str, *, start: bool = False, end: bool = False, max_len: int | None = None
    ) -> list[int]:
        """The ids of a text, optionally with start and end tokens.

        Nothing is truncated unless `max_len` is given; see `wrap`.
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
        """The same as `encode` for each text, but faster."""
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
        """Ids between start and end tokens, truncated on the right to `max_len` in total.

        Only the text is truncated: a model must still see the start and end tokens.
        """
        head = [self._id_of_role("start")] if start else []
        tail = [self._id_of_role("end")] if end else []
        if max_len is None:
            return [*head, *ids, *tail]
        expect_whole(max_len, "max_len", None, None)
        ends = len(head) + len(tail)
        if max_len <= ends:
            raise ConfigError(
                "max_len {max_len} leaves no room for text besides {ends} start and end tokens; "
                "expected {least} or more",
                max_len=max_len,
                ends=ends,
                least=ends + 1,
            )
        return [*head, *ids[: max_len - ends], *tail]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of ids.

        `skip_special` drops the tokens that stand for no text: padding, start, end. Unknown and
        mask stand for text and are shown. Invalid UTF-8, which a model may generate, becomes
        U+FFFD.
        """
        expect(ids, Iterable, "a list of ids", InputError)
        left_out = self._left_out(skip_special)
        return self._decode([id_ for id_ in map(self._check, ids) if id_ not in left_out])

    def decode_after(self, before: Sequence[int], ids: Sequence[int]) -> str:
        """What ids add to the text of those before, which may be a space that `decode` drops."""
        before = before[-_CONTEXT:]
        begun, whole = self.decode(before), self.decode([*before, *ids])
        return whole.removeprefix(begun) if whole.startswith(begun) else self.decode(ids)

    def decode_batch(
        self, batch: Iterable[Iterable[int]], *, skip_special: bool = True
    ) -> list[str]:
        expect(batch, Iterable, "several lists of ids", InputError)
        return [self.decode(ids, skip_special=skip_special) for ids in batch]

    def stream(self, *, skip_special: bool = True) -> TextStream:
        """An incremental decoder for generated ids; it holds back incomplete characters."""
        return PieceStream(self._check, self._left_out(skip_special), self._piece)

    def token(self, id_: int) -> str:
        """The token of an id as spelled in the vocabulary; for display, use `display_tokens`."""
        return self._vocabulary.text(self._check(id_))

    def id_of(self, token: str) -> int:
        """The id of a token as spelled in the vocabulary; the inverse of `token`."""
        return self._vocabulary.id_of(_as_text(token))

    def display_tokens(self, ids: Iterable[int]) -> list[str]:
        """A label for each id with everything visible: ␣ for a space, ⟨E4⟩ for a byte."""
        expect(ids, Iterable, "a list of ids", InputError)
        return [self._label(self._check(id_)) for id_ in ids]

    def pieces(
        self, text: str, *, start: bool = False, end: bool = False, max_len: int | None = None
    ) -> list[TokenPiece]:
        """The tokens of a text with labels and spans; the ids are those of `encode`."""
        aligned = self._align(_as_text(text))
        ids = self.wrap([id_ for id_, _ in aligned], start=start, end=end, max_len=max_len)
        spans: list[CharacterSpan | None] = [span for _, span in aligned[: len(ids) - start - end]]
        spans = [*[None] * start, *spans, *[None] * end]
        return [
            TokenPiece(id_, self._label(id_), span) for id_, span in zip(ids, spans, strict=True)
        ]

    def bytes_of_first(self, text: str) -> int:
        """The number of UTF-8 bytes up to the end of a text's first token; 0 if it has none."""
        n = _PREFIX
        while len(found := self._align(text[:n])) < 2 and n < len(text):
            n *= 2
        return self._bytes_to_end(text, *found[0]) if found else 0

    def save(self, path: str | PathLike[str]) -> None:
        """Write one JSON file, atomically; `load_tokenizer` reads it."""
        file = as_path(path, CheckpointError, "a tokenizer")
        with os_errors_as(CheckpointError, "cannot write {target}: {reason}", target=file):
            write_whole(file, self.to_json())

    @abstractmethod
    def to_json(self) -> str:
        """What `save` writes."""

    @abstractmethod
    def _encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens or truncation."""

    @abstractmethod
    def _align(self, text: str) -> list[tuple[int, CharacterSpan]]:
        """The ids of a text, each with its span."""

    @abstractmethod
    def _piece(self, previous: int | None, id_: int, /) -> bytes:
        """The UTF-8 bytes that an id adds after the previous id (None at the start)."""

    def _bytes_to_end(self, text: str, _id: int, span: CharacterSpan) -> int:
        """The number of bytes of a text up to the end of a token."""
        return len(text[: span[1]].encode())

    def _encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def _decode(self, ids: list[int]) -> str:
        pieces = map(self._piece, [None, *ids], ids)
        return b"".join(pieces).decode("utf-8", "replace")

    def _left_out(self, skip_special: bool) -> frozenset[int]:
        return self.special.silent if skip_special else frozenset()

    def _check(self, id_: Any) -> int:
        """A valid id as a plain int; it may come from an array or a tensor."""
        try:
            id_ = index(id_)
        except TypeError:
            raise InputError("expected integer ids, received {id!r:.40}", id=id_) from None
        self._vocabulary.text(id_)
        return int(id_)

    def _label(self, id_: int) -> str:
        return show_text(self._vocabulary.text(id_))

    def _id_of_role(self, role: str) -> int:
        id_: int | None = getattr(self.special, role)
        if id_ is None:
            raise ConfigError(
                "this vocabulary has no {role} token; build it with one, such as "
                'special=("<{role}>", …)',
                role=role,
            )
        return id_


def as_texts(texts: Iterable[str]) -> Iterable[str]:
    """Several texts; one string is an error, since its characters would pass for texts."""
    if isinstance(texts, str):
        raise InputError("expected a list of texts, got one string: write [text]")
    expect(texts, Iterable, "several texts", InputError)
    return map(_as_text, texts)


def _as_text(text: Any) -> str:
    if not isinstance(text, str):
        raise InputError(
            "expected a text, received {kind} {text!r:.40}", kind=type(text).__name__, text=text
        )
    return text


# --- truncation ---
# Training and inference must truncate alike: a model that learnt to find the verdict at the end of
# a text looks for it there.

Cut = Literal["end", "middle"]
"""Which part of a long text is dropped."""


def cut_ids(ids: Sequence[int], max_len: int, cut: Cut) -> list[int]:
    """At most `max_len` ids; with "middle", a quarter of them comes from the beginning."""
    if len(ids) <= max_len:
        return list(ids)
    head = max_len if cut == "end" else max_len // 4
    return [*ids[:head], *ids[len(ids) - (max_len - head) :]]
