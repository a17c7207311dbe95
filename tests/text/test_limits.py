"""An untrusted tokenizer.json: every failure is one line, and nothing grows without bound."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from glassformer.errors import CheckpointError, InputError
from glassformer.text import SubwordTokenizer, load_tokenizer
from glassformer.text.tokenizer_limits import MAX_CHARACTERS, check_pattern, limits_of
from tests.bounded import GIB, run_bounded

WORDS = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}


def foreign(**parts: Any) -> dict[str, Any]:
    """A tokenizer.json with these parts."""
    none = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    return {"version": "1.0", "added_tokens": [], **dict.fromkeys(none), "model": WORDS, **parts}


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def in_row(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


def split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


# --- refused on loading ---

FIFTYFOLD = replace({"String": "x"}, "x" * 50)
TEXT = {"Sequence": {"id": "A", "type_id": 0}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an id beyond any vocabulary": (
        {"model": {"type": "BPE", "vocab": {"a": 0, "b": 2**31}, "merges": []}},
        "ids of tokens must be at most 4,194,304, got 2,147,483,648",
    ),
    "an added token beyond any vocabulary": (
        {"added_tokens": [{"id": 2**23, "content": "<x>", "special": True}]},
        "ids of tokens must be at most 4,194,304, got 8,388,608",
    ),
    "a pattern that explodes": (
        {"normalizer": replace({"Regex": "(x+x+)+y"}, "z")},
        "matches in several ways",
    ),
    "a split that explodes": ({"pre_tokenizer": split("(a|a)*b")}, "in several ways"),
    "growth": ({"normalizer": in_row(*[FIFTYFOLD] * 8)}, "lengthen a text"),
    "growth at once": (
        {"normalizer": replace({"String": "x"}, "x" * 65)},
        "up to 65 times",
    ),
    "growth from nothing": ({"normalizer": replace({"String": ""}, "x" * 64)}, "lengthen a text"),
    "growth by a pattern": ({"normalizer": replace({"Regex": "."}, "x" * 65)}, "lengthen a text"),
    "growth of bytes": (
        {"normalizer": in_row(*[{"type": "ByteLevel"}] * 5)},
        "up to 256 times",
    ),
    "growth of a decoder": (
        {"decoder": {"type": "Sequence", "decoders": [FIFTYFOLD] * 2}},
        "lengthen a text up to 2,500 times",
    ),
    "growth of a prefix": (
        {"normalizer": in_row(*[{"type": "Prepend", "prepend": "x" * 8}] * 3)},
        "up to 81 times",
    ),
    "a long prefix": (
        {"normalizer": {"type": "Prepend", "prepend": "x" * 37}},
        "adds 37 characters",
    ),
    "a table of long texts": (
        {
            "normalizer": {
                "type": "Precompiled",
                "precompiled_charsmap": base64.b64encode(b"\0" * 4 + b"x" * 40).decode(),
            }
        },
        "a replacement of 40 bytes",
    ),
    "a table that is no base64": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}},
        "not base64",
    ),
    "a template that multiplies": (
        {"post_processor": {"type": "TemplateProcessing", "single": [TEXT] * 9}},
        "repeats the text 9 times",
    ),
    "many steps": ({"normalizer": in_row(*[{"type": "NFC"}] * 40)}, "more than 32 steps"),
    "an unknown kind": ({"normalizer": {"type": "Shell"}}, "unknown normalizer 'Shell'"),
    "a kind that is a list": ({"decoder": {"type": ["Fuse"]}}, "unknown decoder"),
    "a sequence without steps": ({"decoder": {"type": "Sequence"}}, "unknown decoder"),
    "a step that is a text": ({"pre_tokenizer": "Whitespace"}, "unknown pre_tokenizer"),
    "pieces of no length": (
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        "must be at least 1, got 0",
    ),
    "endless words": (
        {"model": {"type": "WordPiece", "vocab": {}, "max_input_chars_per_word": 10**9}},
        "max_input_chars_per_word must be at most 10,000",
    ),
    "a model of no kind": ({"model": {"type": "Other"}}, "the library `tokenizers` refuses it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unbounded_steps_are_refused_on_loading(name: str, tmp_path: Path) -> None:
    parts, message = REFUSED[name]
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(foreign(**parts)), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message) as caught:
        load_tokenizer(file)
    assert "\n" not in str(caught.value)


# --- refused on encoding ---


def test_a_word_without_an_unknown_token_is_one_line() -> None:
    tokenizer = SubwordTokenizer.from_json(
        foreign(model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"})
    )
    assert tokenizer.encode("a") == [0]
    for use in (tokenizer.encode, tokenizer.pieces, lambda text: tokenizer.encode_batch([text])):
        with pytest.raises(InputError, match="cannot encode the text: WordLevel error") as caught:
            use("b")
        assert "\n" not in str(caught.value)


def test_an_empty_unigram_is_one_line() -> None:
    tokenizer = SubwordTokenizer.from_json(
        foreign(model={"type": "Unigram", "unk_id": None, "vocab": []})
    )
    with pytest.raises(InputError, match="cannot encode the text"):
        tokenizer.encode("b")


class Panicking:
    """A library of which every call panics."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def panic(*_: object, **__: object) -> None:
            raise PanicException(f"{name}\n failed")

        return panic


class PanicException(BaseException):  # as the library calls it
    """Stands for the library's class, which is not exported."""


def test_a_panic_of_the_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = SubwordTokenizer.from_json(foreign())
    stream = tokenizer.stream()
    for held in (tokenizer, stream):
        monkeypatch.setattr(held, "_library", Panicking())
    monkeypatch.setattr(stream, "_steps", Panicking())
    uses: list[Callable[[], object]] = [
        lambda: tokenizer.encode("a"),
        lambda: tokenizer.pieces("a"),
        lambda: tokenizer.decode([0]),
        lambda: stream.push(0),
        stream.finish,
    ]
    for use in uses:
        with pytest.raises(InputError, match="this tokenizer cannot") as caught:
            use()
        assert "\n" not in str(caught.value)


def test_ctrl_c_is_not_reported_as_a_library_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = SubwordTokenizer.from_json(foreign())

    class Interrupted:
        def encode_batch_fast(self, *_: object, **__: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(tokenizer, "_library", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode("a")


def test_an_exception_of_the_training_texts_passes_through() -> None:
    def texts() -> Any:
        yield "a"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        SubwordTokenizer.train(texts(), vocab_size=300)


def test_a_text_that_would_grow_too_long_is_refused() -> None:
    tokenizer = SubwordTokenizer.from_json(foreign(normalizer=replace({"String": "x"}, "x" * 64)))
    most = MAX_CHARACTERS // 64
    assert len(tokenizer.encode("x" * most)) == 1
    with pytest.raises(InputError, match=r"the text has 16,385 characters; .* at most 16,384"):
        tokenizer.encode("x" * (most + 1))


def test_texts_of_our_own_tokenizers_have_no_limit() -> None:
    """Training encodes a whole book at once."""
    ours = SubwordTokenizer.train(["ab"], vocab_size=300)
    again = SubwordTokenizer.from_json(json.loads(ours.to_json()))
    assert len(again.encode("ab" * MAX_CHARACTERS)) == MAX_CHARACTERS


# --- kinds ---


def test_every_kind_of_the_library_is_known() -> None:
    """Every class of the library is accepted as the library writes it."""
    patterns = {"pattern": "a", "content": "b"}
    made: dict[str, list[Any]] = {
        "normalizer": [
            normalizers.BertNormalizer(), normalizers.ByteLevel(), normalizers.Lowercase(),
            normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(),
            normalizers.Nmt(), normalizers.Prepend("▁"), normalizers.Replace(**patterns),
            normalizers.Strip(), normalizers.StripAccents(),
        ],
        "pre_tokenizer": [
            pre_tokenizers.BertPreTokenizer(), pre_tokenizers.ByteLevel(),
            pre_tokenizers.CharDelimiterSplit("a"), pre_tokenizers.Digits(),
            pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation(),
            pre_tokenizers.Split(Regex("a+"), "isolated"), pre_tokenizers.UnicodeScripts(),
            pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit(),
        ],
        "decoder": [
            decoders.BPEDecoder(), decoders.ByteFallback(), decoders.ByteLevel(), decoders.CTC(),
            decoders.Fuse(), decoders.Metaspace(), decoders.Replace(**patterns),
            decoders.Strip("a", 1, 1), decoders.WordPiece(),
        ],
        "post_processor": [
            processors.BertProcessing(("a", 0), ("a", 0)), processors.ByteLevel(),
            processors.RobertaProcessing(("a", 0), ("a", 0)),
            processors.TemplateProcessing("[UNK] $A", "$A $B", [("[UNK]", 1)]),
        ],
    }  # fmt: skip
    sequences = {
        "normalizer": normalizers.Sequence,
        "pre_tokenizer": pre_tokenizers.Sequence,
        "decoder": decoders.Sequence,
        "post_processor": processors.Sequence,
    }
    for part, steps in made.items():
        for step in [*steps, sequences[part](steps[:2])]:
            library = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, "[UNK]"))
            setattr(library, part, step)
            assert limits_of(json.loads(library.to_str())).growth == 1, step


# --- patterns ---

IN_USE = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",  # Llama 3
    r"(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+",  # cl100k
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",  # o200k
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
    r"<\|startoftext\|>|'s|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",  # CLIP
    r"\d{1,3}(?=(?:\d{3})*\b)",  # digits in threes from the right
    r" {2,}", r"\s+", r"[一-龥぀-ゟ゠-ヿ]+", r"[[:punct:]]+", r"[^]]+", "(?m)^a$", r"\x{41}\u0042",
]  # fmt: skip
HOSTILE = [
    "(x+x+)+y", "(x*)*y", "(a|a)*b", "(a|ab)*c", "(?:a+){100,}b", "((a?)*)*b", "(?:a{1,9})+b",
    "a*a*b", "a+.{0,2000}b", r"(a)\1+b", r"(?<x>a)\k<x>", "(?R)", "(?~a)", "(?(1)a|b)", "a" * 2001,
    "(" * 30 + ")" * 30, "(a", "a)", "[a", "a{}", r"(?:a{2}+)+b", "a{2,}+{3,}b",
    "(x|x){22}[yz]", "(?:a{1,3}){20}b", "(?:a?){30}a{30}", "a?" * 30 + "b", "(?:(?:a|a){4}){4}b",
    "(a|a)" * 12 + "b", "(?:a(?:b|b)?){9}c", "(?#)a", "(?x)a", "(?x:a b)", "a(?i)b|c", "((?i)a|b)",
]  # fmt: skip


@pytest.mark.parametrize("pattern", IN_USE)
def test_patterns_in_use_are_accepted(pattern: str) -> None:
    check_pattern(pattern)
    Regex(pattern)  # and the library accepts it too


@pytest.mark.parametrize("pattern", HOSTILE, ids=lambda pattern: pattern[:20])
def test_patterns_that_may_explode_are_refused(pattern: str) -> None:
    with pytest.raises(InputError, match="its pattern"):
        check_pattern(pattern)


PIECES = ["a", "b", "[ab]", ".", "(?:", "(", ")", "|", "*", "+", "?", "{2}", "{1,3}", "(?=", "(?!"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_an_accepted_pattern_never_reaches_the_limit_of_the_library(pattern: str) -> None:
    """The library panics after ten million attempts at one place; 300 letters need 300."""
    try:
        check_pattern(pattern)
        tokenizer = SubwordTokenizer.from_json(foreign(pre_tokenizer=split(pattern)))
    except InputError:
        return
    for text in ("a" * 300 + "!", "ab" * 150 + "!"):
        tokenizer.encode(text)


# --- memory ---

_BOMBS = """
import json
from glassformer.errors import GlassformerError
from glassformer.text import SubwordTokenizer

def refused(data, text):
    none = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    model = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    whole = {"version": "1.0", "added_tokens": [], **dict.fromkeys(none), "model": model, **data}
    try:
        SubwordTokenizer.from_json(whole).encode(text)
    except GlassformerError as error:
        print(error)
    else:
        raise AssertionError(data)

fifty = {"type": "Replace", "pattern": {"String": "x"}, "content": "x" * 50}
refused({"normalizer": {"type": "Sequence", "normalizers": [fifty] * 8}}, "x" * 100)
refused({"normalizer": fifty}, "x" * 100_000_000)
refused({"normalizer": {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": ""}}, "x")
# The worst that is taken: a text as long as may be, each letter of which becomes many.
many = {"type": "Replace", "pattern": {"String": "x"}, "content": "y" * 64}
none = ("truncation", "padding", "pre_tokenizer", "post_processor", "decoder")
model = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
data = {"version": "1.0", "added_tokens": [], **dict.fromkeys(none), "model": model}
SubwordTokenizer.from_json({**data, "normalizer": many}).encode("x" * 16_384)
"""


@pytest.mark.slow
def test_no_tokenizer_takes_a_gibibyte() -> None:
    ran = run_bounded(_BOMBS)
    assert len(ran.printed.splitlines()) == 3
    assert ran.peak < GIB, f"{ran.peak:,} bytes"
