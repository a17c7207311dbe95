"""Characters: decoding is exact."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.text import CharacterTokenizer


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_decoding_is_exact(text: str) -> None:
    tokenizer = CharacterTokenizer.build([text])
    ids = tokenizer.encode(text, start=True, end=True)
    assert tokenizer.decode(ids) == text
    assert tokenizer.special.ids.isdisjoint(ids[1:-1])
    assert tokenizer.vocab_size == 4 + len(set(text))


def test_ids_are_in_the_order_of_code_points_whatever_the_texts_order() -> None:
    tokenizer = CharacterTokenizer.build(["ba", "东a"], special=[])
    assert [tokenizer.token(id_) for id_ in range(3)] == ["a", "b", "东"]
    assert CharacterTokenizer.build(["东", "ab"], special=[]).to_json() == tokenizer.to_json()


def test_an_unseen_character_is_unknown_or_named() -> None:
    assert CharacterTokenizer.build(["ab"]).encode("ax") == [4, 1]
    with pytest.raises(InputError, match="'x' is not in this vocabulary of 2"):
        CharacterTokenizer.build(["ab"], special=[]).encode("ax")


def test_spans_are_single_characters() -> None:
    pieces = CharacterTokenizer.build(["东 💩"]).pieces("东 💩")
    assert [(piece.label, piece.span) for piece in pieces] == [
        ("东", (0, 1)),
        ("␣", (1, 2)),
        ("💩", (2, 3)),
    ]


def test_invalid_vocabularies_are_refused() -> None:
    with pytest.raises(InputError, match="the texts are empty"):
        CharacterTokenizer.build(["", ""])
    with pytest.raises(InputError, match="a lone surrogate"):
        CharacterTokenizer.build(["a\ud800"])
