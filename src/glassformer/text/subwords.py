"""Subwords as tokens: byte-level BPE with the `tokenizers` library, for any text.

A text is split into its UTF-8 bytes, so nothing is unknown and decoding is exact. Frequent words
become one token, rare ones several. The saved file is the library's own `tokenizer.json`, which
other programs read; theirs (WordPiece, Unigram, …) are read too, with identical results.

bpe_by_hand.py shows how BPE finds its tokens; here the library does it, imported when the first
tokenizer is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any

from glassformer.errors import CheckpointError, ConfigError, Fragment, InputError, expect_whole
from glassformer.files import as_path, read_object
from glassformer.text.tokenizer import CharacterSpan, TextStream, Tokenizer, as_texts, show_bytes
from glassformer.text.tokenizer_limits import TokenizerLimits, limits_of
from glassformer.text.vocabulary import (
    FORMAT,
    LONE_SURROGATE,
    Vocabulary,
    check_spellings,
    is_unicode,
)
from glassformer.text.words import CharacterTokenizer, WordTokenizer

if TYPE_CHECKING:
    import tokenizers


# Byte-level vocabularies spell each byte as one printable character. Printable Latin-1 bytes stand
# for themselves; the others, in order, are spelled with the characters from U+0100 on.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_UNPRINTABLE = sorted(set(range(256)) - set(_PRINTABLE))
BYTE_OF_CHARACTER = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(0x100 + n): byte for n, byte in enumerate(_UNPRINTABLE)
}

# The library encodes a batch in parallel and keeps far more than the ids: enough texts to occupy
# every core, few enough to fit in memory.
_BATCH_SIZE = 1024

_NO_LIMITS = TokenizerLimits()
_CANNOT_ENCODE = "this tokenizer cannot encode the text: {reason}"
_CANNOT_DECODE = "this tokenizer cannot decode these ids: {reason}"

# The spelling of a byte in vocabularies with byte fallback.
_FALLBACK = re.compile("<0x([0-9A-F]{2})>")


class SubwordTokenizer(Tokenizer):
    """Subwords, trained here or read from another program's `tokenizer.json`."""

    def __init__(
        self,
        library: tokenizers.Tokenizer,
        *,
        byte_level: bool,
        limits: TokenizerLimits = _NO_LIMITS,
    ) -> None:
        # A foreign file may ask to pad or truncate every text; here the caller decides.
        library.no_padding()
        library.no_truncation()
        # The library saves this switch neither in files nor in pickles, so it is set here. Without
        # it, "<end>" in a text would become the end token.
        library.encode_special_tokens = True
        added = library.get_added_tokens_decoder()
        special = {token.content: id_ for id_, token in added.items() if token.special}
        ordinary = library.get_vocab(with_added_tokens=True)
        super().__init__(
            Vocabulary({t: id_ for t, id_ in ordinary.items() if t not in special}, special)
        )
        self._library = library
        self._byte_level = byte_level
        self._limits = limits
        # Added tokens are spelled as text, not in bytes. The others are added on first use.
        self._bytes = {id_: token.content.encode() for id_, token in added.items()}

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        vocab_size: int,
        special: Iterable[str] = ("<pad>", "<start>", "<end>"),
    ) -> SubwordTokenizer:
        """Train byte-level BPE; the same texts give the same tokens.

        Ids: special tokens from 0, then the 256 bytes, then the merges in the order learnt. Too
        little text for `vocab_size` gives fewer tokens.
        """
        spellings = check_spellings(special)
        smallest = 256 + len(spellings)
        expect_whole(vocab_size, "vocab_size", None)
        if vocab_size < smallest:
            raise ConfigError(
                "expected a vocab_size of {least} or more (256 bytes and {n_special} special "
                "tokens), received {vocab_size}",
                least=smallest,
                n_special=len(spellings),
                vocab_size=vocab_size,
            )
        from tokenizers import Tokenizer as Library
        from tokenizers import decoders, models, pre_tokenizers, trainers

        library = Library(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(spellings),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        rest = iter(as_texts(texts))
        first = next(filter(None, rest), None)
        if first is None:
            raise InputError("cannot build a vocabulary: the texts are empty")
        try:
            library.train_from_iterator(chain([first], rest), trainer)
        except UnicodeEncodeError as error:
            raise InputError(LONE_SURROGATE, text=error.object) from None
        except BaseException as error:
            if not _is_panic(error):  # raised by the iterator of the texts
                raise
            raise InputError(
                "the library `tokenizers` cannot train on them: {reason}", reason=str(error)
            ) from None
        return cls(library, byte_level=True)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SubwordTokenizer:
        """The inverse of `to_json`, given the parsed object, which may be foreign."""
        from tokenizers import Tokenizer as Library

        limits = limits_of(data)
        with _library_errors("the library `tokenizers` refuses it: {reason}"):
            library = Library.from_str(json.dumps(data))
        decoder = data.get("decoder")
        byte_level = isinstance(decoder, dict) and decoder.get("type") == "ByteLevel"
        return cls(library, byte_level=byte_level, limits=limits)

    def to_json(self) -> str:
        return self._library.to_str(pretty=True)

    def __reduce__(self) -> tuple[Callable[..., SubwordTokenizer], tuple[dict[str, Any]]]:
        # Through __init__, which sets what the library's own pickle loses.
        return SubwordTokenizer.from_json, (json.loads(self.to_json()),)

    def stream(self, *, skip_special: bool = True) -> TextStream:
        if self._byte_level:
            return super().stream(skip_special=skip_special)
        return _LibraryStream(self._check, self._left_out(skip_special), self._library)

    def _encode(self, text: str) -> list[int]:
        return self._encode_batch([text])[0]

    def _encode_batch(self, texts: list[str]) -> list[list[int]]:
        ids: list[list[int]] = []
        for at in range(0, len(texts), _BATCH_SIZE):
            some = texts[at : at + _BATCH_SIZE]
            for text in some:
                self._limits.check(text)
            with _library_errors(_CANNOT_ENCODE, some):
                encoded = self._library.encode_batch_fast(some, add_special_tokens=False)
            ids += [self._without_special(encoding.ids) for encoding in encoded]
        return ids

    def _align(self, text: str) -> list[tuple[int, CharacterSpan]]:
        self._limits.check(text)
        with _library_errors(_CANNOT_ENCODE, [text]):
            encoding = self._library.encode(text, add_special_tokens=False)
        return list(zip(self._without_special(encoding.ids), encoding.offsets, strict=True))

    def _bytes_to_end(self, text: str, id_: int, span: CharacterSpan) -> int:
        if not self._byte_level:
            return super()._bytes_to_end(text, id_, span)
        # The token may end within a character, so the span's end does not count.
        return len(text[: span[0]].encode()) + len(self._piece(None, id_))

    def _without_special(self, ids: list[int]) -> list[int]:
        """Ids of a text with special tokens replaced by unknown.

        Byte-level BPE cannot produce a special token from text. Unigram models can, because their
        special tokens are among the pieces.
        """
        if self._byte_level or self.special.silent.isdisjoint(ids):
            return ids
        ordinary = [None if id_ in self.special.silent else id_ for id_ in ids]
        return self._vocabulary.fill_unknown(ordinary, [*map(self._vocabulary.text, ids)])

    def _piece(self, _previous: int | None, id_: int, /) -> bytes:
        if id_ not in self._bytes:
            token = self._vocabulary.text(id_)
            try:
                self._bytes[id_] = bytes(BYTE_OF_CHARACTER[character] for character in token)
            except KeyError:  # a foreign token that is not spelled in bytes
                self._bytes[id_] = token.encode()
        return self._bytes[id_]

    def _decode(self, ids: list[int]) -> str:
        if self._byte_level:
            return super()._decode(ids)
        with _library_errors(_CANNOT_DECODE):
            return self._library.decode(ids, skip_special_tokens=False)

    def _label(self, id_: int) -> str:
        if self._byte_level:
            return show_bytes(self._piece(None, id_))
        if fallback := _FALLBACK.fullmatch(self._vocabulary.text(id_)):
            return f"⟨{fallback[1]}⟩"
        return super()._label(id_)


class _LibraryStream(TextStream):
    """A stream for foreign vocabularies, which only the library can decode."""

    def __init__(
        self, check: Callable[[int], int], left_out: frozenset[int], library: tokenizers.Tokenizer
    ) -> None:
        from tokenizers.decoders import DecodeStream

        super().__init__(check, left_out)
        self._library = library
        self._steps = DecodeStream(skip_special_tokens=False)
        self._ids: list[int] = []
        self._sent = ""

    def finish(self) -> str:
        with _library_errors(_CANNOT_DECODE):
            whole = self._library.decode(self._ids, skip_special_tokens=False)
        return whole.removeprefix(self._sent)

    def _add(self, id_: int) -> str:
        self._ids.append(id_)
        with _library_errors(_CANNOT_DECODE):
            text = self._steps.step(self._library, id_) or ""
        self._sent += text
        return text


@contextmanager
def _library_errors(template: str, texts: Sequence[str] = ()) -> Iterator[None]:
    """Turn any error of the library into one line, with its message as the `reason`.

    The library raises bare Exceptions, and panics, which derive from BaseException.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        bad = next((text for text in texts if not is_unicode(text)), None)
        if bad is not None:  # Python strings may have lone surrogates, UTF-8 may not
            raise InputError(LONE_SURROGATE, text=bad) from None
        reason = " ".join(str(error).split())[:200]
        raise InputError(template, reason=reason) from None


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"  # the library does not export the class


# --- loading any tokenizer.json ---

_MAX_BYTES = 48 * 2**20  # the largest vocabularies in use (262,000 tokens) take 33 MB
_KINDS = {"words": WordTokenizer.from_json, "characters": CharacterTokenizer.from_json}


def load_tokenizer(path: str | PathLike[str]) -> Tokenizer:
    """The tokenizer that `Tokenizer.save` wrote, or a Hugging Face `tokenizer.json`."""
    file = as_path(path, CheckpointError, "a tokenizer")
    data = read_object(file, error=CheckpointError, most=_MAX_BYTES, what="a tokenizer.json")
    kind = data.get("kind")
    try:
        if "model" in data:
            return SubwordTokenizer.from_json(data)
        if not isinstance(kind, str) or kind not in _KINDS:
            raise InputError(
                'expected "kind": "words" or "characters", or a Hugging Face tokenizer with a '
                '"model"; received {keys}',
                keys=Fragment.of("the keys {names:.80}", names=", ".join(map(repr, data)))
                if data
                else Fragment.of("no keys"),
            )
        if data.get("format") != FORMAT:
            raise InputError(
                "expected format {ours}, received {format!r:.20}; a newer Glassformer may have "
                "written it",
                ours=FORMAT,
                format=data.get("format"),
            )
        return _KINDS[kind](data)
    except (ConfigError, InputError) as error:
        raise CheckpointError(
            "{path} is damaged or not a tokenizer.json: {error}", path=path, error=error
        ) from error
