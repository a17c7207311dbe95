"""The BPE for readers agrees with the library: every merge, every split."""

import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, trainers

from glassformer.errors import ConfigError, InputError
from glassformer.text import SubwordTokenizer, apply_merges, learn_merges

WORDS = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3


def library(words: list[str], vocab_size: int) -> tokenizers.Tokenizer:
    bpe = tokenizers.Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False)
    bpe.train_from_iterator([" ".join(words)], trainer)
    return bpe


def library_merges(bpe: tokenizers.Tokenizer) -> list[tuple[str, str]]:
    return [(left, right) for left, right in json.loads(bpe.to_str())["model"]["merges"]]


def test_the_counts_that_decide_each_merge() -> None:
    merges = learn_merges(WORDS, vocab_size=14)
    assert [(merge.token, merge.count) for merge in merges] == [
        ("es", 9),  # as frequent as "st", but e comes before s
        ("est", 9),
        ("lo", 7),
        ("low", 7),
    ]
    assert merges[0].counts["s", "t"] == 9
    assert merges[0].counts["w", "e"] == 8
    assert ("s", "t") not in merges[1].counts  # every s is part of "es" by then


def test_a_word_is_built_up_merge_by_merge() -> None:
    merges = learn_merges(WORDS, vocab_size=14)
    assert apply_merges("lowest", merges) == [
        ["l", "o", "w", "e", "s", "t"],
        ["l", "o", "w", "es", "t"],
        ["l", "o", "w", "est"],
        ["lo", "w", "est"],
        ["low", "est"],
    ]
    assert apply_merges("", merges) == [[]]


@given(
    st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=12),
    st.integers(0, 12),
)
def test_the_library_learns_the_same_merges(words: list[str], more: int) -> None:
    vocab_size = len(set("".join(words))) + more
    merges = learn_merges(words, vocab_size=vocab_size)
    theirs = library(words, vocab_size)
    assert [merge.pair for merge in merges] == library_merges(theirs)
    for word in {*words, "".join(words)[:20]}:
        assert apply_merges(word, merges)[-1] == theirs.encode(word).tokens


def test_the_real_tokenizer_is_this_over_bytes() -> None:
    texts = ["the lower the newer, the widest is the lowest: 凛冬将至 凛冬"]
    real = SubwordTokenizer.train(texts, vocab_size=256 + 30, special=[])
    spelled = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(texts[0])
    words = [word for word, _ in spelled]
    # One word per byte, so that the alphabets agree; such a word has no pairs to count.
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    merges = learn_merges([*words, *alphabet], vocab_size=256 + 30)
    assert [real.token(256 + n) for n in range(30)] == [merge.token for merge in merges]
    tokens = [token for word in words for token in apply_merges(word, merges)[-1]]
    assert [real.token(id_) for id_ in real.encode(texts[0])] == tokens


def test_invalid_input_is_refused() -> None:
    with pytest.raises(InputError, match="the words are empty"):
        learn_merges([""], vocab_size=10)
    with pytest.raises(ConfigError, match="10 or more, one per character, received 9"):
        learn_merges(WORDS, vocab_size=9)
    assert learn_merges(["ab"], vocab_size=99)[-1].token == "ab"  # no pairs are left
