"""Byte-level BPE: exact round trips, reproducible training, readable by other programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer.errors import ConfigError, InputError
from glassformer.text import SubwordTokenizer, subwords, tokens_per_word
from glassformer.text.subwords import BYTE_OF_CHARACTER

TEXTS = [
    "When you play the game of thrones, you win or you die.",
    "Winter is coming. 凛冬将至。 凛冬将至。",
    "lower lowest newer newest wider widest low new wide",
]
SUBWORDS = SubwordTokenizer.train(TEXTS, vocab_size=320)

any_text = st.text(st.characters(codec="utf-8"))


@given(any_text)
@example(" lead and trail  ")
@example("a\r\nb\n\n\tc\x00\x1b[0m\x7f\u2028")
@example("e\u0301 é ﬁ Å")  # nothing is normalised
@example("👩🏽\u200d🚀 💩 ß 东 \U0010ffff\ufffd\ufeff")
@example("<pad><start>don't</s>")
def test_any_text_and_back(text: str) -> None:
    ids = SUBWORDS.encode(text, start=True, end=True)
    assert SUBWORDS.decode(ids) == text
    assert SUBWORDS.special.ids.isdisjoint(ids[1:-1])
    assert SUBWORDS.encode_batch([text, text]) == [ids[1:-1]] * 2


@given(any_text)
def test_trap_13_every_token_can_be_shown_and_found_in_its_text(text: str) -> None:
    pieces = SUBWORDS.pieces(text)
    assert [piece.id for piece in pieces] == SUBWORDS.encode(text)
    assert "\ufffd" not in "".join(piece.label for piece in pieces)
    covered: set[int] = set()
    for piece in pieces:
        assert piece.label.isprintable()
        assert piece.span is not None
        covered.update(range(*piece.span))
    assert covered == set(range(len(text)))


def test_trap_13_parts_of_a_character_are_shown_as_bytes() -> None:
    bare = SubwordTokenizer.train(["-"], vocab_size=259)
    shown = [(piece.label, piece.span) for piece in bare.pieces("东ß")]
    assert shown == [
        ("⟨E4⟩", (0, 1)),
        ("⟨B8⟩", (0, 1)),
        ("⟨9C⟩", (0, 1)),
        ("⟨C3⟩", (1, 2)),
        ("⟨9F⟩", (1, 2)),
    ]
    assert bare.display_tokens(bare.encode("💩\n")) == ["⟨F0⟩", "⟨9F⟩", "⟨92⟩", "⟨A9⟩", "↵"]
    assert SUBWORDS.display_tokens(SUBWORDS.encode(" 凛冬将至")) == ["␣凛冬将至"]


def test_d05_frequent_words_are_whole_and_rare_ones_in_parts() -> None:
    assert SUBWORDS.display_tokens(SUBWORDS.encode(" you")) == ["␣you"]
    assert len(SUBWORDS.encode(" unplayable")) > 1
    assert 1 < tokens_per_word(SUBWORDS, TEXTS) < 3


def test_more_texts_than_the_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one = [SUBWORDS.encode(text) for text in TEXTS]
    monkeypatch.setattr(subwords, "_BATCH_SIZE", 2)
    assert SUBWORDS.encode_batch(TEXTS) == one_by_one


def test_training_again_gives_the_same_file() -> None:
    again = SubwordTokenizer.train(iter(TEXTS), vocab_size=320)
    assert again.to_json() == SUBWORDS.to_json()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\ufffd"), min_size=1))
@example("you win")
@example("凛冬将至")
@example("x" * 5000)
def test_the_bytes_of_the_first_token_are_those_that_the_others_lack(text: str) -> None:
    n_bytes = SUBWORDS.bytes_of_first(text)
    others = SUBWORDS.decode(SUBWORDS.encode(text)[1:])
    if "\ufffd" not in others:  # the first token ends where a character does
        assert n_bytes == len(text.encode()) - len(others.encode())
    assert 0 < n_bytes <= len(text.encode())


def test_ids_are_special_tokens_then_bytes_then_merges() -> None:
    assert [SUBWORDS.token(id_) for id_ in range(3)] == ["<pad>", "<start>", "<end>"]
    bytes_ = [SUBWORDS.token(id_) for id_ in range(3, 259)]
    assert bytes_ == sorted(BYTE_OF_CHARACTER)
    assert set(bytes_) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def test_other_programs_read_our_file_and_give_the_same_ids(tmp_path: Path) -> None:
    SUBWORDS.save(tmp_path / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        assert theirs.encode(text).ids == SUBWORDS.encode(text)
        assert theirs.decode(SUBWORDS.encode(text)) == text
    # There, a special token typed in a text is special; only we keep it ordinary.
    assert theirs.encode("<end>").ids == [SUBWORDS.special.end]


def test_a_small_text_gives_fewer_tokens_than_requested() -> None:
    assert SubwordTokenizer.train(["ab"], vocab_size=1000).vocab_size == 260


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_encoding_works_after_a_fork_without_warnings() -> None:
    """Data loaders fork; the library's threads do not survive it."""
    program = """
import os
from glassformer.text import SubwordTokenizer
tokenizer = SubwordTokenizer.train(["you win or you die"], vocab_size=270)
texts = ["you win or you die " * 20] * 500
before = tokenizer.encode_batch(texts)
if os.fork() == 0:
    os._exit(0 if tokenizer.encode_batch(texts) == before else 1)
assert os.wait()[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_bad_settings_and_texts() -> None:
    with pytest.raises(ConfigError, match=r"259 or more \(256 bytes and 3 .*received 258"):
        SubwordTokenizer.train(TEXTS, vocab_size=258)
    with pytest.raises(InputError, match="the texts are empty"):
        SubwordTokenizer.train(["", ""], vocab_size=300)
    with pytest.raises(InputError, match="expected a list of texts, got one string"):
        SubwordTokenizer.train("one text", vocab_size=300)
    with pytest.raises(InputError, match="expected a text, received int 5"):
        SubwordTokenizer.train(["a", 5], vocab_size=300)  # type: ignore[list-item]  # tested
    with pytest.raises(InputError, match="not valid Unicode"):
        SubwordTokenizer.train(["a", "b\ud800"], vocab_size=300)
    for refuse in (SUBWORDS.encode, SUBWORDS.pieces):
        with pytest.raises(InputError, match="a lone surrogate"):
            refuse("b\ud800")


def test_invalid_utf_8_is_replaced() -> None:
    first_byte = SUBWORDS.encode("💩")[:1]
    assert SUBWORDS.decode(first_byte) == "\ufffd"
