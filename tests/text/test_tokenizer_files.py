"""tokenizer.json: written atomically, UTF-8 on every system, one clear line if damaged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.errors import CheckpointError
from glassformer.text import (
    CharacterTokenizer,
    SubwordTokenizer,
    Tokenizer,
    WordTokenizer,
    load_tokenizer,
)

TEXTS = ["You win — or you die.", "凛冬将至 💩 \u2028\t"]
KINDS = [
    WordTokenizer.build(TEXTS, case="ignore", punctuation="split", special=["<s>", "</s>"]),
    WordTokenizer.from_ids({"You": 1, "die": 9}, special=["<pad>", "[MASK]"]),
    CharacterTokenizer.build(TEXTS),
    SubwordTokenizer.train(TEXTS, vocab_size=270, special=["[PAD]", "<s>", "</s>", "<mask>"]),
]


@pytest.mark.parametrize("tokenizer", KINDS, ids=repr)
def test_saved_and_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("an older one", encoding="utf-8")
    tokenizer.save(path)
    loaded = load_tokenizer(path)
    assert type(loaded) is type(tokenizer)
    assert loaded.to_json() == tokenizer.to_json()
    assert loaded.special == tokenizer.special
    assert loaded.vocab_size == tokenizer.vocab_size
    assert loaded.encode("You die") == tokenizer.encode("You die")
    assert list(tmp_path.iterdir()) == [path]  # no temporary file is left


def test_the_bytes_do_not_depend_on_the_system(tmp_path: Path) -> None:
    """Trap 11: a Chinese Windows would otherwise write GBK."""
    program = """
import sys
from glassformer.text import WordTokenizer, load_tokenizer
path = sys.argv[1]
WordTokenizer.build(["凛冬将至 ß"]).save(path)
assert load_tokenizer(path).encode("冬") == [5]
"""
    path = tmp_path / "tokenizer.json"
    strict = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    subprocess.run([sys.executable, *strict, "-c", program, str(path)], check=True, timeout=60)
    assert "凛".encode() in path.read_bytes()
    assert b"\r" not in path.read_bytes()


@pytest.mark.parametrize("tokenizer", KINDS, ids=repr)
def test_a_file_truncated_anywhere_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    whole = tokenizer.to_json().encode()
    path = tmp_path / "tokenizer.json"
    for at in {0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 2}:
        path.write_bytes(whole[:at])
        with pytest.raises(CheckpointError, match=r"tokenizer\.json is damaged or not"):
            load_tokenizer(path)


WORDS = {
    "format": 1,
    "kind": "words",
    "case": "keep",
    "punctuation": "drop",
    "special": {"<pad>": 0},
    "tokens": {"a": 1},
}
DAMAGED: dict[str, tuple[object, str]] = {
    "a list": ([1], "expected a JSON object"),
    "nothing": ({}, "received no keys"),
    "foreign": ({"vocab": {}, "merges": []}, "received the keys 'vocab', 'merges'"),
    "kind": (WORDS | {"kind": ["words"]}, 'expected "kind"'),
    "newer": (WORDS | {"format": 2}, "expected format 1, received 2; a newer Glassformer"),
    "case": (WORDS | {"case": None}, "unknown case rule 'None'"),
    "punctuation": (WORDS | {"punctuation": ["drop"]}, "unknown punctuation rule"),
    "no tokens": (WORDS | {"tokens": {}}, 'expected "tokens" and "special"'),
    "token list": (WORDS | {"tokens": ["a"]}, 'expected "tokens" and "special"'),
    "fraction": (WORDS | {"tokens": {"a": 1.5}}, "received 1.5"),
    "true": (WORDS | {"tokens": {"a": True}}, "received True"),
    "same id": (WORDS | {"tokens": {"a": 0}}, "received '<pad>' and 'a' for id 0"),
    "special id": (WORDS | {"special": {"<pad>": []}}, r"received \[\]"),
    "special": (WORDS | {"special": {"<what>": 0}}, "unknown special token '<what>'"),
    "typed": (WORDS | {"tokens": {"<end>": 3}}, "'<end>' cannot occur in a text"),
    "characters": (WORDS | {"kind": "characters", "tokens": {"ab": 1}}, "single characters"),
    "no model": ({"model": {}}, "`tokenizers` refuses it"),
    "model": ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["x", "y"]]}}, "refuses it"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_or_foreign_files_get_one_clear_line(name: str, tmp_path: Path) -> None:
    data, message = DAMAGED[name]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message) as caught:
        load_tokenizer(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_not_json_at_all(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    for content in ('{"kind": "凛冬"}'.encode("gbk"), b"\x80\x04}q\x00.", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(
            CheckpointError, match=r"expected JSON in UTF-8|nested more than 100 levels deep"
        ):
            load_tokenizer(path)


def test_paths_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot read .*missing.json: No such file"):
        load_tokenizer(tmp_path / "missing.json")
    with pytest.raises(CheckpointError, match=r"cannot read .*: Is a directory"):
        load_tokenizer(tmp_path)
    with pytest.raises(CheckpointError, match=r"cannot write .*: No such file"):
        KINDS[0].save(tmp_path / "missing" / "tokenizer.json")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"cannot write .*: Not a directory"):
        KINDS[0].save(tmp_path / "file" / "tokenizer.json")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    KINDS[0].save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        KINDS[2].save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_importing_text_is_light() -> None:
    program = """
import sys
import glassformer.text
heavy = {"torch", "tokenizers", "numpy", "huggingface_hub"} & set(sys.modules)
assert not heavy, heavy
ours = {name for name in sys.modules if name.startswith("glassformer.")}
allowed = {"glassformer.errors", "glassformer.files", "glassformer.lazy"}
others = {n for n in ours if not n.startswith("glassformer.text")} - allowed
assert not others, others
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
