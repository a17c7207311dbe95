"""Whole words and single characters as tokens: the tokenizers that a reader can follow by hand.

A word is a run of letters, marks, digits and underscores. An apostrophe inside it is part of it
(`won't`), and so are the points and commas inside a number (`3.14`). Chinese puts no spaces between
words, so each Han character is a word by itself; runs of kana, Hangul and other scripts stay whole.
Everything else except whitespace is punctuation, one character at a time. Nothing is normalised: é
and e + U+0301 are two different spellings.

A vocabulary contains the words of the texts given to `build` and no others, so a word that occurs
only in the test set is unknown. Decoding restores the words, not the spacing or the case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import chain
from typing import Any, Literal, get_args
from unicodedata import category

from glassformer.errors import ConfigError, InputError, did_you_mean, expect, expect_whole
from glassformer.text.tokenizer import CharacterSpan, Tokenizer, as_texts
from glassformer.text.vocabulary import DEFAULT_SPECIAL, Vocabulary

# --- splitting text into words ---

Punctuation = Literal["drop", "split"]

# U+3005 and U+3007 occur among Han characters and are read as such; then the Han blocks in order.
_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3041-\u30ff\u31f0-\u31ff"
_CJK_PUNCTUATION = "\u3000-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"

_BEYOND_WESTERN = re.compile("[^\x00-\u02ff]")
_UNSPACED = re.compile(f"[{_HAN}{_KANA}]")
_UNSPACED_MARK = re.compile(f"[{_CJK_PUNCTUATION}]")
_NO_SPACE_BEFORE = frozenset(".,;:!?)]}%…’”'")
_NO_SPACE_AFTER = frozenset("([{“‘")
_NO_SPACE_AROUND = frozenset("-/")


def split_words(text: str, punctuation: Punctuation) -> list[str]:
    """The words of a text in order; with "split", punctuation marks are words too."""
    return _pattern(punctuation, _is_western(text)).findall(text)


def word_spans(text: str, punctuation: Punctuation) -> list[tuple[int, int]]:
    """The span in the text of each word that `split_words` returns."""
    return [match.span() for match in _pattern(punctuation, _is_western(text)).finditer(text)]


def separator(left: str, right: str) -> str:
    """What to write between two words when decoding: a space, or nothing."""
    last, first = left[-1], right[0]
    if left in _NO_SPACE_AFTER or right in _NO_SPACE_BEFORE:
        return ""
    if left in _NO_SPACE_AROUND or right in _NO_SPACE_AROUND:
        return ""
    if _UNSPACED_MARK.match(last) or _UNSPACED_MARK.match(first):
        return ""
    return "" if _UNSPACED.match(last) and _UNSPACED.match(first) else " "


def _is_western(text: str) -> bool:
    """Whether a text has neither Han characters nor combining marks, which all follow U+02FF."""
    return _BEYOND_WESTERN.search(text) is None


@cache
def _pattern(punctuation: Punctuation, western: bool) -> re.Pattern[str]:
    """The pattern of a word. On western text the western pattern gives the same words, faster."""
    if punctuation not in get_args(Punctuation):
        near = did_you_mean(str(punctuation), get_args(Punctuation))
        raise ConfigError(
            "unknown {what} {name!r:.80}{near}",
            what="punctuation rule",
            name=punctuation,
            near=near,
        )
    # Possessive repeats (++) never backtrack, so time stays linear on long texts. They are used on
    # single characters only: on groups, Python 3.11.2 (Debian's) matches one repetition too many.
    if western:
        han, letters, mark = "", r"\w++", ""
    else:
        mark = f"[{_marks()}]"
        han = f"[{_HAN}]{mark}*+|"
        letters = rf"[^\W{_HAN}]++(?:{mark}++[^\W{_HAN}]*+)*"
    word = rf"{han}\d++(?:[.,]\d++)+|{letters}(?:['’]{letters})*"
    symbol = r"[^\w\s]" + (mark and f"{mark}*+")
    return re.compile(word if punctuation == "drop" else f"{word}|{symbol}")


@cache
def _marks() -> str:
    """A character class of the marks that belong to the character before them.

    Python's `\\w` excludes combining marks, which would break up words of Hindi or Arabic. The
    joiners U+200C and U+200D occur inside words of Persian and Sinhala.
    """
    # Planes 2 and 3 are Han; beyond them, only the variation selectors are assigned marks.
    planes = chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))
    marks = [character for character in map(chr, planes) if category(character)[0] == "M"]
    return "".join(marks) + "\u200c\u200d"


# --- words ---

Case = Literal["keep", "lower", "ignore"]

_KEYS: dict[Case, Callable[[str], str]] = {
    "keep": str,
    "lower": str.lower,
    "ignore": str.casefold,
}


class WordTokenizer(Tokenizer):
    """One id per word.

    `case` decides when two spellings are the same word. "keep": only when they are equal. "lower":
    text is lowercased first. "ignore": case is ignored, and the spelling seen first is kept.
    `punctuation` decides whether marks are dropped ("drop") or are words themselves ("split").
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
                    '{word!r} cannot occur in a text split with case="{case}", '
                    'punctuation="{punctuation}"; expected single words',
                    word=word,
                    case=case,
                    punctuation=punctuation,
                )
            if key in self._ids:
                raise InputError(
                    '{one!r} and {other!r} are the same word with case="{case}"; keep one of '
                    'them, or use case="keep"',
                    one=word,
                    other=self.token(self._ids[key]),
                    case=case,
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

        Words with fewer than `min_count` occurrences are dropped, then all but the `max_size` most
        frequent (not counting special tokens; ties go to the word seen first). Ids: special tokens
        from 0, then the words in order of first occurrence.
        """
        expect_whole(min_count, "min_count")
        if max_size is not None:
            expect_whole(max_size, "max_size")
        expect(punctuation, str, "the name of a punctuation rule")
        first, counts = _count_words(as_texts(texts), case, punctuation)
        if not counts:
            raise InputError("cannot build a vocabulary: the texts contain no words")
        frequent = [word for word, n in counts.items() if n >= min_count]
        if not frequent:
            raise InputError(
                "cannot build a vocabulary: no word occurs {min_count} times; the most frequent "
                "word occurs {most} times",
                min_count=min_count,
                most=max(counts.values()),
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
        """A vocabulary with the ids given; special tokens get the smallest free ids."""
        if not ids:
            raise InputError("cannot build a vocabulary: no words were given")
        expect(ids, Mapping, "words with their ids as a dictionary", InputError)
        return cls(Vocabulary.around(ids, special), case=case, punctuation=punctuation)

    @property
    def words(self) -> list[str]:
        """The words in the order of their ids, without special tokens."""
        ordinary = self._vocabulary.ordinary
        return sorted(ordinary, key=ordinary.__getitem__)

    def to_json(self) -> str:
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

    def _align(self, text: str) -> list[tuple[int, CharacterSpan]]:
        spans = word_spans(text, self.punctuation)
        return list(zip(self._encode(text), spans, strict=True))

    def _piece(self, previous: int | None, id_: int, /) -> bytes:
        word = self._vocabulary.text(id_)
        before = "" if previous is None else separator(self._vocabulary.text(previous), word)
        return (before + word).encode()


def _count_words(
    texts: Iterable[str], case: Case, punctuation: Punctuation
) -> tuple[dict[str, str], dict[str, int]]:
    """The spelling to keep of each word, and its count, in order of first occurrence."""
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
    """What all spellings of one word map to."""
    if case not in get_args(Case):
        near = did_you_mean(str(case), get_args(Case))
        raise ConfigError(
            "unknown {what} {name!r:.80}{near}", what="case rule", name=case, near=near
        )
    return _KEYS[case]


# --- characters ---


class CharacterTokenizer(Tokenizer):
    """One id per character (Unicode code point, not normalised).

    `decode(encode(text))` is the text if all of its characters are in the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        for text in vocabulary.ordinary:
            if len(text) != 1:
                raise InputError(
                    "expected single characters as tokens, received {text!r:.40}", text=text
                )

    @classmethod
    def build(
        cls, texts: Iterable[str], *, special: Iterable[str] = DEFAULT_SPECIAL
    ) -> CharacterTokenizer:
        """A vocabulary of the characters of training texts.

        Ids: special tokens from 0, then the characters by code point.
        """
        characters: set[str] = set()
        for text in as_texts(texts):
            characters.update(text)
        if not characters:
            raise InputError("cannot build a vocabulary: the texts are empty")
        return cls(Vocabulary.numbered(sorted(characters), special))

    def to_json(self) -> str:
        return self._vocabulary.to_json({"kind": "characters"})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CharacterTokenizer:
        """The inverse of `to_json`, given the parsed object."""
        return cls(Vocabulary.from_json(data))

    def _encode(self, text: str) -> list[int]:
        return self._vocabulary.fill_unknown([*map(self._vocabulary.ordinary.get, text)], text)

    def _align(self, text: str) -> list[tuple[int, CharacterSpan]]:
        return [(id_, (at, at + 1)) for at, id_ in enumerate(self._encode(text))]

    def _piece(self, _previous: int | None, id_: int, /) -> bytes:
        return self._vocabulary.text(id_).encode()


def tokens_per_word(tokenizer: Tokenizer, texts: Iterable[str]) -> float:
    """The average number of tokens per word; 4/3 is "one token is 0.75 words".

    Tokens of punctuation and spaces count as tokens, not as words. A Han character is a word.
    """
    texts = list(as_texts(texts))
    words = sum(len(split_words(text, "drop")) for text in texts)
    if not words:
        raise InputError("cannot count tokens per word: the texts contain no words")
    return sum(map(len, tokenizer.encode_batch(texts))) / words
