"""Hostile model folders of our own format, and the ways to spoil a file that all of them share.

Every maker is a generator that gives the same cases for the same seed.
"""

import copy
import json
import math
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parents[2] / "src/glassformer/models"
Spoil = Callable[[Path, random.Random], str]
"""Spoils a folder, and says how."""

# Replacements for a good value.
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**70, 10**9, 10**400, 1.5, -0.0, 1e308, math.inf, math.nan,
    "", "x", "𝕏" * 1000, [], {}, [[]], {"a": {}}, ["x"] * 1000, "../../etc/passwd", "\x00",
    "<script>", "NaN", "\ud800", [None], [0] * 10_000,
)  # fmt: skip


def mutated_json(data: Any, rng: random.Random) -> Any:
    """The data with one random part replaced, removed, doubled or buried."""
    changed = copy.deepcopy(data)
    places = list(_places(changed))
    holder, key = rng.choice(places)
    way = rng.randrange(5)
    if way == 0 and isinstance(holder, dict):
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[str(rng.choice(ODD))[:50]] = holder[key]
    elif way == 2:
        holder[key] = buried(holder[key], rng.choice((3, 50, 150)))
    else:
        holder[key] = rng.choice(ODD)
    return changed


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of nested data, as what holds it and where; of long lists and tables a few."""
    keys = list(data) if isinstance(data, dict) else list(range(len(data)))
    for key in keys if len(keys) < 60 else keys[:5] + keys[-5:]:
        yield data, key
        if isinstance(data[key], dict | list) and data[key]:
            yield from _places(data[key])


def buried(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


# --- model folders ---


def hostile_folders(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[str, Path]]:
    """Model folders, one at a time: the one before is removed."""
    rng = random.Random(seed)
    makers = [*_SET_PIECES, *[_mutated_folder] * max(0, count - len(_SET_PIECES))][:count]
    for at, maker in enumerate(makers):
        place = folder / f"model{at}"
        shutil.copytree(MODELS / rng.choice(("toy", "toy", "shakespeare")), place)
        name = maker(place, rng)
        yield f"{at} {name}", place
        shutil.rmtree(place)


def _mutated_folder(place: Path, rng: random.Random) -> str:
    file = place / rng.choice(("config.json", "config.json", "tokenizer.json", "model.safetensors"))
    if file.suffix == ".json":
        data = json.loads(file.read_text(encoding="utf-8"))
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = mutated_json(data, rng)
        file.write_text(json.dumps(data), encoding="utf-8")
        return f"mutated {file.name}"
    data = bytearray(file.read_bytes())
    way = rng.randrange(4)
    if way == 0:
        data = data[: rng.randrange(len(data))]
    elif way == 1:
        data[rng.randrange(min(400, len(data)))] ^= 1 << rng.randrange(8)
    elif way == 2:
        data[:8] = struct.pack("<Q", rng.choice((0, 1, 2**16, 2**40, 2**63)))
    else:
        data += bytes(rng.randrange(1, 5000))
    file.write_bytes(bytes(data))
    return f"broken {file.name}"


def _config(place: Path, change: Callable[[dict[str, Any]], object]) -> None:
    file = place / "config.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")


def _sizes(**sizes: int) -> Spoil:
    def make(place: Path, rng: random.Random) -> str:
        def change(data: dict[str, Any]) -> None:
            for name, size in sizes.items():
                part, _, key = name.rpartition("__")
                (data["model"][part] if part else data["model"])[key] = size

        _config(place, change)
        return f"sizes {sizes}"

    return make


def text_file(name: str, text: str) -> Spoil:
    def make(place: Path, rng: random.Random) -> str:
        (place / name).write_text(text, encoding="utf-8")
        return f"{name} = {text[:30]!r}…"

    return make


def byte_file(name: str, data: bytes) -> Spoil:
    def make(place: Path, rng: random.Random) -> str:
        (place / name).write_bytes(data)
        return f"{name} = {data[:20]!r}…"

    return make


def special_file(name: str, kind: str) -> Spoil:
    def make(place: Path, rng: random.Random) -> str:
        file = place / name
        file.unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(file)
        elif kind == "folder":
            file.mkdir()
        elif kind == "loop":
            file.symlink_to(file)
        elif kind != "missing":
            file.symlink_to(kind)
        return f"{name} is {kind}"

    return make


def _tokenizer(**parts: Any) -> Spoil:
    """A tokenizer of the tokenizers library, with these parts, over a few letters."""

    def make(place: Path, rng: random.Random) -> str:
        special = ["<pad>", "<unknown>", "<start>", "<end>"]
        vocabulary = {token: at for at, token in enumerate([*special, *"abcdefghx"])}
        data: dict[str, Any] = {
            "version": "1.0",
            "added_tokens": [
                {"id": at, "content": token, "single_word": False, "lstrip": False,
                 "rstrip": False, "normalized": False, "special": True}
                for at, token in enumerate(special)
            ],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "truncation": None, "padding": None,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unknown>"},
        }  # fmt: skip
        data.update(parts)
        (place / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
        return f"tokenizer with {json.dumps(parts)[:60]}"

    return make


def replacement(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


NESTED = '{"a":' * 100_000 + "0" + "}" * 100_000
TOKENIZER_PARTS: tuple[dict[str, Any], ...] = (
    {"normalizer": replacement({"Regex": "(x+x+)+y"}, "z")},
    {"normalizer": replacement({"Regex": "(a|aa)+$"}, "z")},
    {"normalizer": replacement({"Regex": "("}, "z")},
    {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [replacement({"String": "x"}, "x" * 50) for _ in range(8)],
        }
    },
    {"normalizer": {"type": "Prepend", "prepend": "x" * 1_000_000}},
    {
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "(x+x+)+y"},
            "behavior": "Isolated",
            "invert": False,
        }
    },
    {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<none>"}},
    {"model": {"type": "Unigram", "vocab": [], "unk_id": None}},
    {"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 5}},
    {"model": {"type": "BPE", "vocab": {}, "merges": []}},
    {"model": {"type": "BPE", "vocab": {"a": 0, "b": 2**31}, "merges": []}},
    {"model": {"type": "WordPiece", "vocab": {}, "unk_token": "[UNK]"}},
    {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [],
            "pair": [],
            "special_tokens": {},
        }
    },
    {"decoder": {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": "z"}},
    {
        "truncation": {
            "max_length": 0,
            "strategy": "LongestFirst",
            "stride": 5,
            "direction": "Right",
        }
    },
)
"""Steps and models that explode, or cannot be."""
_SET_PIECES: tuple[Spoil, ...] = (
    _sizes(d_model=24576, attention__n_heads=1, attention__d_head=4096, feed_forward__d_ff=49152),
    _sizes(feed_forward__d_ff=2**26),
    _sizes(d_model=2**24),
    _sizes(n_layers=10_000),
    _sizes(n_layers=2**31),
    _sizes(vocab_size=2**40),
    _sizes(max_len=2**40),
    _sizes(attention__n_heads=2**20, attention__d_head=2**20),
    text_file("config.json", NESTED),
    text_file("tokenizer.json", NESTED),
    text_file("config.json", "[" * 100_000),
    text_file("config.json", ""),
    text_file("config.json", "null"),
    text_file("config.json", "[]"),
    text_file("config.json", '{"model": {}, "model": 5}'),
    text_file("config.json", '{"model": NaN}'),
    text_file("config.json", '{"a": "' + "x" * 5_000_000 + '"}'),
    text_file("config.json", "1" * 10_000),
    text_file("tokenizer.json", ""),
    text_file("tokenizer.json", "{}"),
    byte_file("config.json", b"\xff\xfe\x00"),
    byte_file("tokenizer.json", b"\x80" * 100),
    byte_file("model.safetensors", b""),
    byte_file("model.safetensors", b"\x00" * 7),
    byte_file("model.safetensors", struct.pack("<Q", 2**62)),
    byte_file("model.safetensors", struct.pack("<Q", 2) + b"{}"),
    byte_file("model.safetensors", struct.pack("<Q", 100_000) + b"[" * 100_000),
    *(
        special_file(name, kind)
        for name in ("config.json", "tokenizer.json", "model.safetensors")
        for kind in ("fifo", "folder", "loop", "missing", "/dev/zero", "/dev/stdin", "/etc/passwd")
    ),
    *(_tokenizer(**parts) for parts in TOKENIZER_PARTS),
)
