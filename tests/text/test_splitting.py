"""Splitting text into words in several scripts, and joining words again."""

import re
from sys import maxunicode
from typing import get_args
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text import split_words
from glassformer.text.words import Punctuation, _pattern, separator, word_spans

EXAMPLES = {
    "won't the dogs' 'tis": ["won't", "the", "dogs", "'", "'", "tis"],
    "3.14 1,000.50 v2": ["3.14", "1,000.50", "v2"],
    "naïve Straße e\u0301te\u0301": ["naïve", "Straße", "e\u0301te\u0301"],
    "हिन्दी العربيّة می‌خواهم": ["हिन्दी", "العربيّة", "می‌خواهم"],
    "我用Python写代码。": ["我", "用", "Python", "写", "代", "码", "。"],
    "東京へ行く": ["東", "京", "へ", "行", "く"],
    "한국어 단어": ["한국어", "단어"],
    "I ❤️ it!!": ["I", "❤️", "it", "!", "!"],
    "<end>": ["<", "end", ">"],
    " \t\r\n": [],
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_words_of_many_scripts(text: str) -> None:
    words = EXAMPLES[text]
    assert split_words(text, "split") == words
    assert split_words(text, "drop") == [word for word in words if re.search(r"\w", word)]


@given(st.text(st.characters(codec="utf-8")))
def test_everything_but_whitespace_is_in_exactly_one_word(text: str) -> None:
    spans = word_spans(text, "split")
    assert [text[a:b] for a, b in spans] == split_words(text, "split")
    assert "".join(split_words(text, "split")) == "".join(re.findall(r"\S", text))


@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_the_fast_pattern_gives_the_same_words(text: str) -> None:
    for rule in get_args(Punctuation):
        assert _pattern(rule, True).findall(text) == _pattern(rule, False).findall(text)


def test_no_mark_is_missed() -> None:
    """Combining marks are collected from part of Unicode; there are none outside."""
    known = set(_pattern("drop", False).pattern)
    marks = {chr(n) for n in range(maxunicode + 1) if category(chr(n))[0] == "M"}
    assert marks <= known


@pytest.mark.parametrize(
    ("left", "right", "between"),
    [
        ("you", "win", " "),
        ("die", ".", ""),
        ("(", "he", ""),
        ("well", "-", ""),
        ("-", "known", ""),
        ("冬", "将", ""),
        ("至", "，", ""),
        ("，", "Jon", ""),
        ("Jon", "说", " "),
        ("<start>", "you", " "),
    ],
)
def test_separators_between_words(left: str, right: str, between: str) -> None:
    assert separator(left, right) == between
