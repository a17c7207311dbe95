"""The interface of all tokenizers: the same tests for all three kinds."""

import copy
import pickle

import numpy as np
import pytest

from glassformer.errors import ConfigError, InputError
from glassformer.text import (
    CharacterTokenizer,
    SubwordTokenizer,
    Tokenizer,
    WordTokenizer,
    tokens_per_word,
)

TEXTS = ["you win or you die", "winter is coming", "凛冬将至"]
KINDS = [
    WordTokenizer.build(TEXTS),
    CharacterTokenizer.build(TEXTS),
    SubwordTokenizer.train(TEXTS, vocab_size=270),
]

every_kind = pytest.mark.parametrize("tokenizer", KINDS, ids=repr)


@every_kind
def test_a_batch_is_its_texts(tokenizer: Tokenizer) -> None:
    ids = [tokenizer.encode(text, start=True, end=True) for text in TEXTS]
    assert tokenizer.encode_batch(iter(TEXTS), start=True, end=True) == ids
    assert tokenizer.decode_batch(ids) == TEXTS
    assert all(0 <= id_ < tokenizer.vocab_size for row in ids for id_ in row)


@every_kind
def test_a_continuation_is_what_is_added_to_the_text_before(tokenizer: Tokenizer) -> None:
    for text in (*TEXTS, " ".join(TEXTS[:2] * 20)):
        ids = tokenizer.encode(text, start=True)
        for n in range(len(ids) + 1):
            begun, stream = tokenizer.decode(ids[:n]), tokenizer.stream()
            if not text.startswith(begun):
                continue  # within a character
            stream.skip(ids[:n])
            pieces = "".join(map(stream.push, ids[n:])) + stream.finish()
            assert begun + tokenizer.decode_after(ids[:n], ids[n:]) == begun + pieces == text


@every_kind
def test_empty_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("") == []
    start, end = tokenizer.special.start, tokenizer.special.end
    assert tokenizer.encode("", start=True, end=True) == [start, end]
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.encode_batch([""]) == [[]]
    assert tokenizer.pieces("") == []
    assert tokenizer.decode([]) == ""
    assert tokenizer.stream().finish() == ""


@every_kind
def test_wrapping_ids_is_encoding(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(TEXTS[0])
    assert tokenizer.wrap(ids, start=True, end=True, max_len=4) == tokenizer.encode(
        TEXTS[0], start=True, end=True, max_len=4
    )


@every_kind
def test_pieces_show_what_is_encoded(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        pieces = tokenizer.pieces(text, start=True, end=True)
        ids = tokenizer.encode(text, start=True, end=True)
        assert [piece.id for piece in pieces] == ids
        assert [piece.label for piece in pieces] == tokenizer.display_tokens(ids)
        assert pieces[0].span is pieces[-1].span is None


@every_kind
@pytest.mark.parametrize("id_", [-1, 10_000])
def test_ids_out_of_range_are_named_with_the_size(tokenizer: Tokenizer, id_: int) -> None:
    message = rf"vocab_size {tokenizer.vocab_size}\), received {id_};"
    for refuse in (tokenizer.token, tokenizer.stream().push):
        with pytest.raises(InputError, match=message):
            refuse(id_)
    for refuse_all in (tokenizer.decode, tokenizer.display_tokens):
        with pytest.raises(InputError, match=message):
            refuse_all([5, id_])


@every_kind
def test_ids_out_of_an_array(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(TEXTS[0])
    assert tokenizer.decode(np.array(ids)) == TEXTS[0]
    with pytest.raises(InputError, match=r"expected integer ids, received (np\.float64\()?5.0"):
        tokenizer.decode(np.array([5.0]))


@every_kind
def test_input_that_is_not_text_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="expected a list of texts, got one string"):
        tokenizer.encode_batch("you")
    with pytest.raises(InputError, match="expected a text, received list"):
        tokenizer.encode(["you"])  # type: ignore[arg-type]  # the mistake tested
    with pytest.raises(InputError, match="expected a text, received NoneType"):
        tokenizer.encode_batch(["you", None])  # type: ignore[list-item]  # likewise


@every_kind
@pytest.mark.parametrize("max_len", [-1, 0, 2])
def test_no_room_for_text(tokenizer: Tokenizer, max_len: int) -> None:
    with pytest.raises(ConfigError, match=f"max_len {max_len} leaves no room .* expected 3"):
        tokenizer.encode("you", start=True, end=True, max_len=max_len)


@every_kind
def test_tokens_and_ids_are_inverse(tokenizer: Tokenizer) -> None:
    ids = list(range(tokenizer.vocab_size))
    assert [tokenizer.id_of(tokenizer.token(id_)) for id_ in ids] == ids
    with pytest.raises(InputError, match=f"no token 'qqq' in .* of {tokenizer.vocab_size}"):
        tokenizer.id_of("qqq")


@every_kind
def test_a_pickled_copy_is_the_same(tokenizer: Tokenizer) -> None:
    for other in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert other.to_json() == tokenizer.to_json()
        # The library's own pickle loses the switch that keeps "<end>" ordinary.
        assert tokenizer.special.end not in other.encode("<end>")


def test_an_unused_id_is_refused() -> None:
    tokenizer = WordTokenizer.from_ids({"a": 1, "b": 5}, special=["<pad>"])
    assert (tokenizer.vocab_size, tokenizer.special.pad) == (6, 0)
    with pytest.raises(InputError, match="id 3 is unused in this vocabulary"):
        tokenizer.decode([3])


def test_b16_tokens_per_word() -> None:
    words, characters, _ = KINDS
    assert tokens_per_word(words, TEXTS) == 1
    assert tokens_per_word(characters, ["you win"]) == 7 / 2
    assert tokens_per_word(SubwordTokenizer.train(["you"], vocab_size=259), ["you"]) == 3
    with pytest.raises(InputError, match="the texts contain no words"):
        tokens_per_word(words, ["…"])
