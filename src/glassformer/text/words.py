"""Whole words as tokens: the tokenizer that a reader can follow by hand.

The vocabulary comes from the texts given to `build` and from nothing else, so a word that only the
test set has is unknown. How text becomes words is splitting.py's affair; this file adds the case
rule and the ids. Decoding gives back the words, not the spaces or the case of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from glassformer.errors import ConfigError, InputError, did_you_mean, expect, expect_whole
from glassformer.text.splitting import Punctuation, gap, split_words, word_spans
from glassformer.text.tokenizer import Span, Tokenizer, as_texts
from glassformer.text.vocabulary import DEFAULT_SPECIAL, Vocabulary

Case = Literal["keep", "lower", "ignore"]

_KEYS: dict[Case, Callable[[str], str]] = {
    "keep": str,
    "lower": str.lower,
    "ignore": str.casefold,
}


class WordTokenizer(Tokenizer):
    """One id for each word.

    `case` says when two spellings are one word. "keep": only when they are equal. "lower": text is
    lowercased first. "ignore": they are compared without case, and the first one seen is kept.
    `punctuation` says whether marks are left out ("drop") or are words of their own ("split").
    """

    def __init__(self, vocabulary: Vocabulary, *, case: Case, punctuation: Punctuation) -> None:
        super().__init__(vocabulary)
        expect(punctuation, str, "the name of a punctuation rule")
        self.case = case
        self.punctuation = punctuation
        self._key = _key(case)
        self._ids: dict[str, int] = {}
        for word, id_ in vocabulary.ordinary.items():
            key = self._key(word)
            if split_words(word, punctuation) != [word] or (case == "lower" and key != word):
                raise InputError(
                    f"{word!r} can never be found: expected one word as text is split into "
                    f'(case="{case}", punctuation="{punctuation}")'
                )
            if key in self._ids:
                raise InputError(
                    f'{word!r} and {self.token(self._ids[key])!r} are one word with case="{case}"; '
                    'keep one of them, or use case="keep"'
                )
            self._ids[key] = id_

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        *,
        case: Case = "keep",
        punctuation: Punctuation = "drop",
        min_count: int = 1,
        max_size: int | None = None,
        special: Iterable[str] = DEFAULT_SPECIAL,
    ) -> WordTokenizer:
        """A vocabulary of the words of training texts.

        Words seen fewer than `min_count` times are left out, then all but the `max_size` most
        frequent (special tokens not counted; of equally frequent ones, those seen first stay).
        Ids: special tokens from 0, then the words in the order in which they were first seen.
        """
        expect_whole(min_count, "min_count")
        if max_size is not None:
            expect_whole(max_size, "max_size")
        expect(punctuation, str, "the name of a punctuation rule")
        first, counts = _count_words(as_texts(texts), case, punctuation)
        if not counts:
            raise InputError("no vocabulary: the texts hold no word")
        frequent = [word for word, n in counts.items() if n >= min_count]
        if not frequent:
            raise InputError(
                f"no vocabulary: no word occurs {min_count} times; "
                f"the most frequent one occurs {max(counts.values())} times"
            )
        # sorted() is stable: of equally frequent words, those seen first come first.
        kept = set(sorted(frequent, key=counts.__getitem__, reverse=True)[:max_size])
        words = [spelling for word, spelling in first.items() if word in kept]
        return cls(Vocabulary.numbered(words, special), case=case, punctuation=punctuation)

    @classmethod
    def from_ids(
        cls,
        ids: Mapping[str, int],
        *,
        case: Case = "keep",
        punctuation: Punctuation = "drop",
        special: Iterable[str] = DEFAULT_SPECIAL,
    ) -> WordTokenizer:
        """A vocabulary with ids that are given; special tokens get the smallest ids left free."""
        if not ids:
            raise InputError("no vocabulary: no word was given")
        expect(ids, Mapping, "words with their ids as a dictionary", InputError)
        return cls(Vocabulary.around(ids, special), case=case, punctuation=punctuation)

    @property
    def words(self) -> list[str]:
        """The words in the order of their ids, special tokens left out."""
        ordinary = self._vocabulary.ordinary
        return sorted(ordinary, key=ordinary.__getitem__)

    def to_json(self) -> str:
        """Our own format: the rules, and each token with its id."""
        rules = {"kind": "words", "case": self.case, "punctuation": self.punctuation}
        return self._vocabulary.to_json(rules)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WordTokenizer:
        """The inverse of `to_json`, given the parsed object."""
        # The rules are checked where they are used, which takes any string.
        case: Any = str(data.get("case"))
        punctuation: Any = str(data.get("punctuation"))
        return cls(Vocabulary.from_json(data), case=case, punctuation=punctuation)

    def _encode(self, text: str) -> list[int]:
        words = split_words(text, self.punctuation)
        ids = [self._ids.get(key) for key in map(self._key, words)]
        return self._vocabulary.fill_unknown(ids, words)

    def _align(self, text: str) -> list[tuple[int, Span]]:
        spans = word_spans(text, self.punctuation)
        return list(zip(self._encode(text), spans, strict=True))

    def _piece(self, previous: int | None, id_: int, /) -> bytes:
        word = self._vocabulary.text(id_)
        before = "" if previous is None else gap(self._vocabulary.text(previous), word)
        return (before + word).encode()


def _count_words(
    texts: Iterable[str], case: Case, punctuation: Punctuation
) -> tuple[dict[str, str], dict[str, int]]:
    """The spelling to keep of each word, and how often it occurs, in order of appearance."""
    key = _key(case)
    first: dict[str, str] = {}
    counts: dict[str, int] = {}
    for text in texts:
        for word in split_words(text, punctuation):
            same = key(word)
            first.setdefault(same, same if case == "lower" else word)
            counts[same] = counts.get(same, 0) + 1
    return first, counts


def _key(case: Case) -> Callable[[str], str]:
    """What two spellings of one word have in common."""
    if case not in get_args(Case):
        raise ConfigError(f"unknown case rule {case!r}{did_you_mean(str(case), get_args(Case))}")
    return _KEYS[case]


# --- characters ---
# Single characters as tokens: the smallest vocabulary, and an exact way back.
#
# A character is a Unicode code point; nothing is normalised. The vocabulary comes from the texts
# given to `build` and from nothing else.


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
    ) -> CharacterTokenizer:
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
    def from_json(cls, data: Mapping[str, Any]) -> CharacterTokenizer:
        """The inverse of `to_json`, given the parsed object."""
        return cls(Vocabulary.from_json(data))

    def _encode(self, text: str) -> list[int]:
        return self._vocabulary.fill_unknown([*map(self._vocabulary.ordinary.get, text)], text)

    def _align(self, text: str) -> list[tuple[int, Span]]:
        return [(id_, (at, at + 1)) for at, id_ in enumerate(self._encode(text))]

    def _piece(self, _previous: int | None, id_: int, /) -> bytes:
        return self._vocabulary.text(id_).encode()


# --- measures ---
# How finely a tokenizer cuts a text, whichever kind of tokenizer it is.


def tokens_per_word(tokenizer: Tokenizer, texts: Iterable[str]) -> float:
    """How many tokens a tokenizer spends on a word; 4/3 is "one token is 0.75 words".

    Tokens of punctuation and spaces count as tokens, not as words. A Han character is a word.
    """
    texts = list(as_texts(texts))
    words = sum(len(split_words(text, "drop")) for text in texts)
    if not words:
        raise InputError("cannot count tokens per word: the texts hold no word")
    return sum(map(len, tokenizer.encode_batch(texts))) / words
