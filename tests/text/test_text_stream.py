"""Streaming: whole characters as soon as they are known, together what `decode` returns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text import CharacterTokenizer, SubwordTokenizer, Tokenizer, WordTokenizer

TEXTS = ["you win, or you die. 凛冬将至 💩"]
KINDS = [
    WordTokenizer.build(TEXTS, punctuation="split"),
    CharacterTokenizer.build(TEXTS),
    SubwordTokenizer.train(TEXTS, vocab_size=266),
]


@pytest.mark.parametrize("tokenizer", KINDS, ids=repr)
@given(data=st.data())
def test_pieces_add_up_to_the_whole_text(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """For any ids, including invalid UTF-8."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1)))
    for skip in (True, False):
        stream = tokenizer.stream(skip_special=skip)
        parts = [stream.push(id_) for id_ in ids]
        assert "".join(parts) + stream.finish() == tokenizer.decode(ids, skip_special=skip)


@given(st.text(st.characters(codec="utf-8")))
def test_the_output_so_far_is_always_a_prefix_of_the_text(text: str) -> None:
    tokenizer = KINDS[2]
    stream = tokenizer.stream()
    seen = ""
    for id_ in tokenizer.encode(text, start=True, end=True):
        seen += stream.push(id_)
        assert text.startswith(seen)
    assert seen == text
    assert stream.finish() == ""


def test_a_character_is_held_back_until_complete() -> None:
    tokenizer = SubwordTokenizer.train(["-"], vocab_size=259)
    stream = tokenizer.stream()
    assert [stream.push(id_) for id_ in tokenizer.encode("a东")] == ["a", "", "", "东"]
    stream.push(tokenizer.encode("💩")[0])
    assert stream.finish() == "\ufffd"


def test_spaces_come_with_the_word_after_them() -> None:
    tokenizer = KINDS[0]
    stream = tokenizer.stream()
    parts = [stream.push(id_) for id_ in tokenizer.encode("you win, or", start=True)]
    assert parts == ["", "you", " win", ",", " or"]
