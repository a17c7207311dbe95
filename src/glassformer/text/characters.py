"""Single characters as tokens: the smallest vocabulary, and an exact way back.

A character is a Unicode code point; nothing is normalised. The vocabulary comes from the texts
given to `build` and from nothing else.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from glassformer.errors import InputError
from glassformer.text.special import DEFAULT_SPECIAL
from glassformer.text.tokenizer import Span, Tokenizer, as_texts
from glassformer.text.vocabulary import Vocabulary

__all__ = ["CharacterTokenizer"]


class CharacterTokenizer(Tokenizer):
    """One id for each character. `decode(encode(text))` is the text if all of it is known."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        for text in vocabulary.ordinary:
            if len(text) != 1:
                raise InputError(f"expected single characters as tokens, received {text!r}")

    @classmethod
    def build(
        cls, texts: Iterable[str], *, special: Iterable[str] = DEFAULT_SPECIAL
    ) -> "CharacterTokenizer":
        """A vocabulary of the characters of training texts.

        Ids: special tokens from 0, then the characters in the order of their code points.
        """
        characters: set[str] = set()
        for text in as_texts(texts):
            characters.update(text)
        if not characters:
            raise InputError("no vocabulary: the texts hold no character")
        return cls(Vocabulary.numbered(sorted(characters), special))

    def to_json(self) -> str:
        """Our own format: each token with its id."""
        return self._vocabulary.to_json({"kind": "characters"})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "CharacterTokenizer":
        """The inverse of `to_json`, given the parsed object."""
        return cls(Vocabulary.from_json(data))

    def _encode(self, text: str) -> list[int]:
        return self._vocabulary.fill_unknown([*map(self._vocabulary.ordinary.get, text)], text)

    def _align(self, text: str) -> list[tuple[int, Span]]:
        return [(id_, (at, at + 1)) for at, id_ in enumerate(self._encode(text))]

    def _piece(self, _previous: int | None, id_: int, /) -> bytes:
        return self._vocabulary.text(id_).encode()
