"""Special tokens: they have their own ids, and text never encodes to them."""

import pytest

from glassformer.errors import ConfigError
from glassformer.text import (
    CharacterTokenizer,
    SpecialTokens,
    SubwordTokenizer,
    Tokenizer,
    WordTokenizer,
)

EVERY_ROLE = ["<pad>", "<unknown>", "<start>", "<end>", "<mask>"]
TEXTS = ["the <end> is <pad> near <start> <mask> <unknown> " * 9]


def every_kind(special: list[str]) -> list[Tokenizer]:
    return [
        WordTokenizer.build(TEXTS, special=special, punctuation="split"),
        CharacterTokenizer.build(TEXTS, special=special),
        SubwordTokenizer.train(TEXTS, vocab_size=400, special=special),
    ]


@pytest.mark.parametrize("tokenizer", every_kind(EVERY_ROLE), ids=repr)
def test_each_role_has_an_id_of_its_own(tokenizer: Tokenizer) -> None:
    special = tokenizer.special
    roles = [special.pad, special.unknown, special.start, special.end, special.mask]
    assert roles == [0, 1, 2, 3, 4]
    assert [tokenizer.token(id_) for id_ in range(5)] == EVERY_ROLE
    assert [tokenizer.id_of(text) for text in EVERY_ROLE] == [0, 1, 2, 3, 4]
    assert special.ids == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("tokenizer", every_kind(EVERY_ROLE), ids=repr)
def test_typing_a_special_token_gives_ordinary_tokens(tokenizer: Tokenizer) -> None:
    """Although the training texts are full of them."""
    for text in (*EVERY_ROLE, *TEXTS, "<end><end>", " <end> "):
        assert tokenizer.special.ids.isdisjoint(tokenizer.encode(text))
        assert tokenizer.special.ids.isdisjoint(piece.id for piece in tokenizer.pieces(text))


@pytest.mark.parametrize("tokenizer", every_kind(EVERY_ROLE), ids=repr)
def test_only_tokens_that_stand_for_no_text_are_skipped(tokenizer: Tokenizer) -> None:
    pad, unknown, start, end, mask = range(5)
    assert tokenizer.decode([start, end, pad, pad]) == ""
    assert "<mask>" in tokenizer.decode([start, mask, unknown])
    assert "<unknown>" in tokenizer.decode([start, mask, unknown])
    shown = tokenizer.decode([start, mask, end, pad], skip_special=False)
    assert shown.replace(" ", "") == "<start><mask><end><pad>"


@pytest.mark.parametrize("tokenizer", every_kind([]), ids=repr)
def test_asking_for_a_missing_special_token_is_an_error(tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match=r"has no end token.*special=\(\"<end>\""):
        tokenizer.encode("the", end=True)


def test_trap_23_padding_is_never_the_end() -> None:
    with pytest.raises(ConfigError, match=r"ids of their own, received pad=3.*end=3"):
        SpecialTokens(pad=3, end=3)
    with pytest.raises(ConfigError, match="ids of their own"):
        SpecialTokens(unknown=1, mask=1)
    assert SpecialTokens(start=0, end=0).ids == {0}  # as in GPT-2


def test_invalid_spellings_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown special token '<edn>'; did you mean '<end>'"):
        WordTokenizer.build(TEXTS, special=["<edn>"])
    with pytest.raises(ConfigError, match="expected one end token, received </s>, <end>"):
        WordTokenizer.build(TEXTS, special=["</s>", "<end>"])
    with pytest.raises(ConfigError, match="expected a list of special tokens"):
        WordTokenizer.build(TEXTS, special="<end>")


def test_other_spellings_play_the_same_roles() -> None:
    tokenizer = SubwordTokenizer.train(TEXTS, vocab_size=300, special=["<s>", "<pad>", "</s>"])
    assert tokenizer.special == SpecialTokens(start=0, pad=1, end=2)
