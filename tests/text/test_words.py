"""Rows D01–D04, D11, A25 and G02, and the trap of a vocabulary that has seen the test set."""

from typing import get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glassformer.errors import ConfigError, InputError
from glassformer.text import WordTokenizer, split_words
from glassformer.text.words import Case, Punctuation


def listed(words: str) -> list[str]:
    return words.split()


# As printed in "Solving Transformer by Hand". The list of words has "Know" where the corpus has
# "know", and counts "the" and "The" as one: case is ignored.
CORPUS = [
    "I drink and I know things.",
    "When you play the game of thrones, you win or you die.",
    "The true enemy won't wait out the storm, He brings the storm.",
]
WORDS = listed(
    "I drink and I Know things When you play the game of thrones you win or you die "
    "The true enemy won't wait out the storm He brings the storm"
)
VOCABULARY = listed(
    "I drink and Know things When you play the game of thrones win or die "
    "true enemy won't wait out storm He brings"
)
IDS = {
    word: n
    for n, word in enumerate(
        listed(
            "I drink things Know When won't play out true storm brings game the win of enemy you "
            "wait thrones and or die He"
        ),
        start=1,
    )
}


def folded(words: list[str]) -> list[str]:
    return [word.casefold() for word in words]


def by_hand() -> WordTokenizer:
    return WordTokenizer.from_ids(IDS, case="ignore")


def test_d02_cleaning_gives_the_thirty_printed_words() -> None:
    words = [word for sentence in CORPUS for word in split_words(sentence, "drop")]
    assert len(words) == 30
    assert folded(words) == folded(WORDS)


def test_d03_ignoring_case_leaves_the_printed_vocabulary_in_its_order() -> None:
    words = WordTokenizer.build(CORPUS, case="ignore").words
    assert len(words) == 23
    assert folded(words) == folded(VOCABULARY)
    assert "the" in words and "The" not in words  # the spelling seen first


@pytest.mark.parametrize(("case", "distinct"), [("keep", 24), ("lower", 23), ("ignore", 23)])
def test_d03_the_case_rule_decides_the_count(case: Case, distinct: int) -> None:
    assert len(WordTokenizer.build(CORPUS, case=case).words) == distinct


def test_d04_the_printed_ids_encode_and_decode() -> None:
    tokenizer = by_hand()
    assert tokenizer.words == list(IDS)
    assert tokenizer.encode("when you play game of thrones") == [5, 17, 7, 12, 15, 19]
    assert tokenizer.encode("when you play the game of thrones") == [5, 17, 7, 13, 12, 15, 19]
    assert tokenizer.decode([5, 17, 7, 12, 15, 19]) == "When you play game of thrones"


def test_g02_start_and_end_have_ids_beside_the_printed_ones() -> None:
    tokenizer = by_hand()
    special = tokenizer.special
    assert (special.pad, special.unknown, special.start, special.end) == (0, 24, 25, 26)
    assert tokenizer.vocab_size == 27
    ids = tokenizer.encode("you win or you die", start=True, end=True)
    assert ids == [25, 17, 14, 21, 17, 22, 26]
    assert tokenizer.display_tokens(ids) == listed("<start> you win or you die <end>")
    assert tokenizer.decode(ids) == "you win or you die"
    assert tokenizer.decode(ids, skip_special=False) == "<start> you win or you die <end>"


@pytest.mark.parametrize("length", [3, 4, 7, 8, 512])
def test_d11_a25_a_truncated_text_keeps_its_start_and_end(length: int) -> None:
    tokenizer = by_hand()
    text = CORPUS[1]
    whole = tokenizer.encode(text)
    cut = tokenizer.encode(text, start=True, end=True, max_len=length)
    assert len(cut) == min(length, len(whole) + 2)
    assert (cut[0], cut[-1]) == (tokenizer.special.start, tokenizer.special.end)
    assert cut[1:-1] == whole[: length - 2]
    assert tokenizer.encode_batch([text], start=True, end=True, max_len=length) == [cut]
    assert [p.id for p in tokenizer.pieces(text, start=True, end=True, max_len=length)] == cut


def test_nothing_is_truncated_by_default() -> None:
    assert len(by_hand().encode("you " * 10_000)) == 10_000


def test_trap_27_a_word_that_only_the_test_set_has_is_unknown() -> None:
    tokenizer = WordTokenizer.build(CORPUS)
    known, planted = tokenizer.encode("I valyria")
    assert (tokenizer.token(known), planted) == ("I", tokenizer.special.unknown)
    assert tokenizer.decode([known, planted]) == "I <unknown>"  # a lost word is not hidden


def test_without_an_unknown_token_the_word_is_named() -> None:
    tokenizer = WordTokenizer.build(CORPUS, special=["<pad>"])
    with pytest.raises(InputError, match=r"'valyria' is not in this vocabulary of 25.*<unknown>"):
        tokenizer.encode("I know valyria")


def test_the_rarest_words_are_dropped_and_ids_follow_first_occurrence() -> None:
    text = ["c b a b a b d"]
    assert WordTokenizer.build(text).words == ["c", "b", "a", "d"]
    assert WordTokenizer.build(text, min_count=2).words == ["b", "a"]
    assert WordTokenizer.build(text, max_size=3).words == ["c", "b", "a"]  # c before d
    assert WordTokenizer.build(text, max_size=1).encode("b") == [4]


def test_punctuation_can_be_words() -> None:
    text = "Well-known (he said): it costs 3.50, won't it?"
    tokenizer = WordTokenizer.build([text], punctuation="split")
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_chinese_is_read_and_written_without_spaces() -> None:
    text = "凛冬将至，Jon 说。"
    tokenizer = WordTokenizer.build([text], punctuation="split")
    assert tokenizer.words == ["凛", "冬", "将", "至", "，", "Jon", "说", "。"]
    assert tokenizer.decode(tokenizer.encode(text)) == "凛冬将至，Jon 说。"


def test_spans_point_into_the_text_as_it_was_written() -> None:
    text = "İstanbul, STORM"  # lowercasing the first letter gives two
    pieces = WordTokenizer.build([text], case="lower").pieces(text, start=True)
    assert [piece.span for piece in pieces] == [None, (0, 8), (10, 15)]
    assert pieces[2].label == "storm"


@given(
    st.lists(st.text(st.characters(codec="utf-8")), min_size=1),
    st.sampled_from(get_args(Case)),
    st.sampled_from(get_args(Punctuation)),
)
def test_any_text_can_be_read_back_word_for_word(
    texts: list[str], case: Case, punctuation: Punctuation
) -> None:
    words = [word for text in texts for word in split_words(text, punctuation)]
    assume(words)
    tokenizer = WordTokenizer.build(texts, case=case, punctuation=punctuation)
    ids = [id_ for encoded in tokenizer.encode_batch(texts) for id_ in encoded]
    assert tokenizer.special.ids.isdisjoint(ids)
    read = [tokenizer.token(id_) for id_ in ids]
    if case == "keep":
        assert read == words
    assert [word.casefold() for word in read] == [word.lower().casefold() for word in words]


BAD_IDS = [
    ({}, "no words were given"),
    ({"a": -1}, "id of 0 or more for 'a', received -1"),
    ({"a": True}, "id of 0 or more for 'a', received True"),
    ({"a": 1, "b": 1}, "received 'a' and 'b' for id 1"),
    ({"two words": 1}, "'two words' cannot occur in a text"),
    ({"": 1}, "'' cannot occur in a text"),
    ({"<end>": 1}, "'<end>' cannot occur in a text"),
]


@pytest.mark.parametrize(("ids", "message"), BAD_IDS)
def test_invalid_ids_are_refused(ids: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        WordTokenizer.from_ids(ids)


def test_a_word_given_twice_under_the_case_rule() -> None:
    with pytest.raises(InputError, match=r"'the' and 'The' are the same word.*case=\"keep\""):
        WordTokenizer.from_ids({"The": 1, "the": 2}, case="ignore")
    with pytest.raises(InputError, match="'The' cannot occur in a text"):
        WordTokenizer.from_ids({"The": 1}, case="lower")


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="the texts contain no words"):
        WordTokenizer.build(["", " ", "…"])
    with pytest.raises(InputError, match="no word occurs 9 times; the most frequent word occurs 2"):
        WordTokenizer.build(["a a b"], min_count=9)
    with pytest.raises(ConfigError, match="min_count must be at least 1, got 0"):
        WordTokenizer.build(CORPUS, min_count=0)
    with pytest.raises(ConfigError, match="unknown case rule 'lowr'; did you mean 'lower'"):
        WordTokenizer.build(CORPUS, case="lowr")  # type: ignore[arg-type]  # the mistake tested
    with pytest.raises(ConfigError, match="unknown punctuation rule 'splt'; did you mean 'split'"):
        WordTokenizer.build(CORPUS, punctuation="splt")  # type: ignore[arg-type]  # likewise
