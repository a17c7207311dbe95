"""Tokenizers that we did not make, behind our own `Tokenizer`: transformers', and plain numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.errors import ConfigError, InputError
from glassformer.text import SpecialTokens, SubwordTokenizer, TextStream, Tokenizer
from glassformer.text.tokenizer import CharacterSpan
from glassformer.text.tokenizer_limits import limits_of
from glassformer.text.vocabulary import Vocabulary


class IdTokenizer(Tokenizer):
    """Texts that are token ids, such as "3 17 5": for a model that has no tokenizer."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(Vocabulary({str(id_): id_ for id_ in range(vocab_size)}, {}))

    def to_json(self) -> str:
        return self._vocabulary.to_json({"kind": "ids"})

    def _encode(self, text: str) -> list[int]:
        parts = text.replace(",", " ").split()
        for part in parts:
            if part not in self._vocabulary.ordinary:
                raise InputError(
                    "expected token ids from 0 to {last:,}, such as '3 17 5', got {part!r:.40}",
                    last=self.vocab_size - 1,
                    part=part,
                )
        return [int(part) for part in parts]

    def _align(self, text: str) -> list[tuple[int, CharacterSpan]]:
        return [(int(m[0]), m.span()) for m in re.finditer(r"\d+", text)]

    def _piece(self, _previous: int | None, id_: int, /) -> bytes:
        return f" {id_}".encode()  # also at the start: a continuation follows its prompt


class HuggingFaceTokenizer(Tokenizer):
    """A tokenizer of the library transformers: it reads a text as its model was trained to.

    `encode` adds what that library adds: [CLS] and [SEP], a start token, nothing. Embedding tables
    often have more rows than there are tokens; `vocab_size` gives the spare ids names, too.
    """

    def __init__(self, library: Any, vocab_size: int = 0) -> None:
        special = {text: library.convert_tokens_to_ids(text) for text in library.all_special_tokens}
        ordinary = {text: id_ for text, id_ in library.get_vocab().items() if text not in special}
        spare = {*range(vocab_size)} - {*special.values(), *ordinary.values()}
        super().__init__(Vocabulary(ordinary | {f"⟨{id_}⟩": id_ for id_ in spare}, special))
        self._spare = spare
        self.library = library
        self.special = _special_tokens(library, special)
        backend = getattr(library, "backend_tokenizer", None)
        self._display: Tokenizer | None = None
        if backend is not None:
            data = json.loads(backend.to_str())
            self._limits = limits_of(data)
            self._display = SubwordTokenizer.from_json(data)

    def target_ids(self, text: str) -> list[int]:
        """The ids of an output text, without its end token."""
        ids = self._ids(text_target=[text])[0]
        return ids[:-1] if ids and ids[-1] == self.special.end else ids

    def read(self, text: str, max_len: int | None) -> tuple[list[int], bool]:
        """The ids of a text, cut between start and end to `max_len`; and whether it was cut."""
        ids = self._ids([text])[0]
        if max_len is None or len(ids) <= max_len:
            return ids, False
        return self._ids([text], truncation=True, max_length=max_len)[0], True

    def to_json(self) -> str:
        backend = getattr(self.library, "backend_tokenizer", None)
        if backend is None:
            raise ConfigError("this tokenizer has no tokenizer.json: save it by its own library")
        return str(backend.to_str(pretty=True))

    def stream(self, *, skip_special: bool = True) -> TextStream:
        return _DecodedStream(self, skip_special)

    def _encode(self, text: str) -> list[int]:
        return self._ids([text])[0]

    def _encode_batch(self, texts: list[str]) -> list[list[int]]:
        return self._ids(texts) if texts else []

    def _ids(self, texts: Sequence[str] | None = None, **options: Any) -> list[list[int]]:
        if self._display is not None:
            for text in texts or ():
                self._limits.check(text)
        try:
            encoded = self.library(texts, **options)
        except Exception as error:  # foreign tokenizers raise anything
            raise InputError(
                "this tokenizer cannot encode the text: {reason}",
                reason=" ".join(str(error).split())[:200],
            ) from None
        return [[int(id_) for id_ in ids] for ids in encoded["input_ids"]]

    def _align(self, text: str) -> list[tuple[int, CharacterSpan]]:
        if not getattr(self.library, "is_fast", False):
            raise InputError("this tokenizer does not say where in a text its tokens are")
        encoded = self.library(text, return_offsets_mapping=True)
        return list(zip(encoded["input_ids"], map(tuple, encoded["offset_mapping"]), strict=True))

    def _piece(self, previous: int | None, id_: int, /) -> bytes:
        del previous
        return self._decode([id_]).encode()

    def _decode(self, ids: list[int]) -> str:
        known = [id_ for id_ in ids if id_ not in self._spare]
        return str(self.library.decode(known, clean_up_tokenization_spaces=False))

    def _label(self, id_: int) -> str:
        if self._display is None or id_ in self.special.ids or id_ in self._spare:
            return super()._label(id_)
        return self._display.display_tokens([id_])[0]


def _special_tokens(library: Any, special: Mapping[str, int]) -> SpecialTokens:
    roles = {
        "unknown": library.unk_token_id,
        "mask": getattr(library, "mask_token_id", None),
        "start": _first(library.bos_token_id, getattr(library, "cls_token_id", None)),
        "end": _first(library.eos_token_id, getattr(library, "sep_token_id", None)),
    }
    # GPT-2 has one token for start, end and unknown.
    if roles["unknown"] in (roles["start"], roles["end"]):
        roles["unknown"] = None
    taken = {id_ for id_ in roles.values() if id_ is not None}
    pad = library.pad_token_id if library.pad_token_id not in taken else None
    others = frozenset(special.values()) - taken - {pad}
    return SpecialTokens(pad=pad, others=others, **roles)


def _first(*ids: int | None) -> int | None:
    return next((id_ for id_ in ids if id_ is not None), None)


class _DecodedStream(TextStream):
    """Decodes all ids again for each new one: only the library knows what a token adds."""

    def __init__(self, tokenizer: HuggingFaceTokenizer, skip_special: bool) -> None:
        super().__init__(tokenizer._check, tokenizer._left_out(skip_special))
        self._decode = tokenizer._decode
        self._ids: list[int] = []
        self._sent = ""

    def finish(self) -> str:
        return self._decode(self._ids).removeprefix(self._sent)

    def _add(self, id_: int) -> str:
        self._ids.append(id_)
        text = self._decode(self._ids)
        if text.endswith("\ufffd"):  # half a character: the rest may follow
            return ""
        added = text.removeprefix(self._sent)
        self._sent = text
        return added


def as_tokenizer(given: Any, vocab_size: int | None) -> Tokenizer | None:
    """What a caller gave as a tokenizer: ours, transformers' or tokenizers', or "ids"."""
    if given is None or isinstance(given, Tokenizer):
        return given
    if isinstance(given, str) and given == "ids":
        if vocab_size is None:
            raise ConfigError("this model has no vocabulary: it takes no token ids")
        return IdTokenizer(vocab_size)
    if callable(given) and hasattr(given, "convert_tokens_to_ids"):
        return HuggingFaceTokenizer(given, vocab_size or 0)
    if hasattr(given, "encode_batch_fast") and hasattr(given, "to_str"):
        return SubwordTokenizer.from_json(json.loads(given.to_str()))
    raise ConfigError(
        "expected a tokenizer of glassformer, transformers or tokenizers, got {kind}",
        kind=type(given).__name__,
    )
