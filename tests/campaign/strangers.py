"""Hostile input: bad model folders, worked examples, command lines and Python calls.

Every maker is a generator that gives the same cases for the same seed.
"""

import copy
import json
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parents[2] / "src/glassformer/models"

# Replacements for a good value.
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**70, 10**9, 1.5, -0.0, 1e308, "", "x", "𝕏" * 1000, [], {},
    [[]], {"a": {}}, ["x"] * 1000, "../../etc/passwd", "\x00", "<script>", "NaN", [None],
    [0] * 10_000,
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
        holder[key] = _buried(holder[key], rng.choice((3, 50, 150)))
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


def _buried(value: Any, depth: int) -> Any:
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


def _sizes(**sizes: int) -> Callable[[Path, random.Random], str]:
    def make(place: Path, rng: random.Random) -> str:
        def change(data: dict[str, Any]) -> None:
            for name, size in sizes.items():
                part, _, key = name.rpartition("__")
                (data["model"][part] if part else data["model"])[key] = size

        _config(place, change)
        return f"sizes {sizes}"

    return make


def _text(name: str, text: str) -> Callable[[Path, random.Random], str]:
    def make(place: Path, rng: random.Random) -> str:
        (place / name).write_text(text, encoding="utf-8")
        return f"{name} = {text[:30]!r}…"

    return make


def _bytes(name: str, data: bytes) -> Callable[[Path, random.Random], str]:
    def make(place: Path, rng: random.Random) -> str:
        (place / name).write_bytes(data)
        return f"{name} = {data[:20]!r}…"

    return make


def _special(name: str, kind: str) -> Callable[[Path, random.Random], str]:
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


def _tokenizer(**parts: Any) -> Callable[[Path, random.Random], str]:
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


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


_NESTED = '{"a":' * 100_000 + "0" + "}" * 100_000
_SET_PIECES: tuple[Callable[[Path, random.Random], str], ...] = (
    _sizes(d_model=24576, attention__n_heads=1, attention__d_head=4096, feed_forward__d_ff=49152),
    _sizes(feed_forward__d_ff=2**26),
    _sizes(d_model=2**24),
    _sizes(n_layers=10_000),
    _sizes(n_layers=2**31),
    _sizes(vocab_size=2**40),
    _sizes(max_len=2**40),
    _sizes(attention__n_heads=2**20, attention__d_head=2**20),
    _text("config.json", _NESTED),
    _text("tokenizer.json", _NESTED),
    _text("config.json", "[" * 100_000),
    _text("config.json", ""),
    _text("config.json", "null"),
    _text("config.json", "[]"),
    _text("config.json", '{"model": {}, "model": 5}'),
    _text("config.json", '{"model": NaN}'),
    _text("config.json", '{"a": "' + "x" * 5_000_000 + '"}'),
    _text("config.json", "1" * 10_000),
    _text("tokenizer.json", ""),
    _text("tokenizer.json", "{}"),
    _bytes("config.json", b"\xff\xfe\x00"),
    _bytes("tokenizer.json", b"\x80" * 100),
    _bytes("model.safetensors", b""),
    _bytes("model.safetensors", b"\x00" * 7),
    _bytes("model.safetensors", struct.pack("<Q", 2**62)),
    _bytes("model.safetensors", struct.pack("<Q", 2) + b"{}"),
    _bytes("model.safetensors", struct.pack("<Q", 100_000) + b"[" * 100_000),
    *(
        _special(name, kind)
        for name in ("config.json", "tokenizer.json", "model.safetensors")
        for kind in ("fifo", "folder", "loop", "missing", "/dev/zero", "/dev/stdin", "/etc/passwd")
    ),
    _tokenizer(normalizer=_replace({"Regex": "(x+x+)+y"}, "z")),
    _tokenizer(normalizer=_replace({"Regex": "(a|aa)+$"}, "z")),
    _tokenizer(normalizer=_replace({"Regex": "("}, "z")),
    _tokenizer(
        normalizer={
            "type": "Sequence",
            "normalizers": [_replace({"String": "x"}, "x" * 50) for _ in range(8)],
        }
    ),
    _tokenizer(normalizer={"type": "Prepend", "prepend": "x" * 1_000_000}),
    _tokenizer(
        pre_tokenizer={
            "type": "Split",
            "pattern": {"Regex": "(x+x+)+y"},
            "behavior": "Isolated",
            "invert": False,
        }
    ),
    _tokenizer(model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<none>"}),
    _tokenizer(model={"type": "Unigram", "vocab": [], "unk_id": None}),
    _tokenizer(model={"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 5}),
    _tokenizer(model={"type": "BPE", "vocab": {}, "merges": []}),
    _tokenizer(model={"type": "BPE", "vocab": {"a": 0, "b": 2**31}, "merges": []}),
    _tokenizer(model={"type": "WordPiece", "vocab": {}, "unk_token": "[UNK]"}),
    _tokenizer(
        post_processor={
            "type": "TemplateProcessing",
            "single": [],
            "pair": [],
            "special_tokens": {},
        }
    ),
    _tokenizer(decoder={"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": "z"}),
    _tokenizer(
        truncation={"max_length": 0, "strategy": "LongestFirst", "stride": 5, "direction": "Right"}
    ),
)


# --- checkpoints of one file ---


def hostile_files(
    folder: Path, count: int, seed: int = 0
) -> Iterator[tuple[str, Callable[[Path], object], Path]]:
    """A nanoGPT `.pt` and a llama2.c `.bin`, damaged: bytes flipped, cut, added, sizes forged."""
    import torch

    from glassformer import checkpoint
    from tests.test_one_file import GPT, LAYERS, LENGTH, VOCABULARY, WIDTH, binary, llama

    rng = random.Random(seed)
    arguments: dict[str, object] = {
        "n_layer": LAYERS,
        "n_head": 2,
        "n_embd": WIDTH,
        "block_size": LENGTH,
    }
    arguments |= {"block_size": LENGTH, "vocab_size": VOCABULARY, "bias": True, "dropout": 0.0}
    whole = folder / "whole.pt"
    model = GPT(bias=True, tied=True, gelu="none")
    torch.save({"model": model.state_dict(), "model_args": arguments}, whole)
    checkpoint.load_nanogpt(whole)  # the cases start from a good file
    pickled, plain = whole.read_bytes(), binary(llama(2, True), 0)
    for at in range(count):
        is_pickle = at % 2 == 0
        data = bytearray(pickled if is_pickle else plain)
        way = rng.randrange(5)
        if way == 0:
            data = data[: rng.randrange(len(data))]
        elif way == 1:
            for _ in range(rng.choice((1, 1, 4, 64))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif way == 2:  # a size or an offset, of the header or of the archive's table of contents
            place = rng.choice((rng.randrange(28), rng.randrange(len(data) - 8)))
            data[place : place + 4] = struct.pack("<I", rng.choice((0, 1, 2**20, 2**31, 2**32 - 1)))
        elif way == 3:
            data += bytes(rng.randrange(1, 5000))
        else:
            start = rng.randrange(len(data))
            del data[start : start + rng.randrange(1, 400)]
        file = folder / ("damaged.pt" if is_pickle else "damaged.bin")
        file.write_bytes(bytes(data))
        load = checkpoint.load_nanogpt if is_pickle else checkpoint.load_llama2c
        yield f"{at} {file.suffix} way {way}", load, file
        file.unlink()


# --- worked examples ---

_HEADS: tuple[str, ...] = (
    "range(20000)[:,new]*range(20000)",
    "(range(8000)[:,new]*range(8000)) @ (range(8000)[:,new]*range(8000))",
    "x[" + "new," * 33 + "]",
    "x" + "[0]" * 200,
    "1" * 1_000_000,
    "1e999999999",
    "10 ^ 10 ^ 10 ^ 10",
    "(" * 5_000 + "x" + ")" * 5_000,
    "-" * 10_000 + "x",
    "x + " * 5_000 + "x",
    "zeros(100000, 100000)",
    "concat(x, x, x, x)",
    "softmax(softmax(softmax(softmax(x))))",
    "layer_norm(layer_norm(layer_norm(layer_norm(layer_norm(x)))))",
    "__import__('os').system('true')",
    "x.__class__",
    "open('/etc/passwd')",
    "exec('1')",
    "lambda: 0",
    "x[0:10:0]",
    "x[99999999999999999999]",
    "missing_step",
    "sqrt()",
    "sqrt(x, x, x)",
    "x @",
    "",
    "\x00",
    "x ÷ 2",
    "0/0",
    "log(-x)",
    "argmax(x) / 0",
)


def hostile_examples(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[str, Path]]:
    """Files for `glassformer audit`."""
    rng = random.Random(seed)
    shipped = [
        json.loads(file.read_text(encoding="utf-8"))
        for file in sorted((MODELS.parent / "lessons/examples").glob("*.json"))
    ]
    given = {"id": "x", "printed": [[1.0, 2.0], [3.0, 4.0]]}

    def made(**step: Any) -> dict[str, Any]:
        return {"title": "t", "steps": [given, {"id": "y", "printed": 1.9, "decimals": 1, **step}]}

    pieces: list[Any] = [made(formula=formula) for formula in _HEADS]
    chain = [{"id": f"s{i + 1}", "formula": f"s{i} + relu(s{i})"} for i in range(40)]
    pieces += [
        {"title": "t", "steps": [{**given, "id": "s0"}, *chain, made(formula="s40")["steps"][1]]},
        {"title": "t", "steps": [{**given, "id": "s0"}] + [
            {"id": f"s{i + 1}", "formula": f"concat(s{i}, s{i})"} for i in range(25)]},
        {"title": "t", "steps": [{"id": "p", "printed": _buried(1.0, 80)}]},
        {"title": "t", "steps": [{"id": "p", "shape": [1] * 200}]},
        {"title": "t", "steps": [{"id": "p", "printed": [0.5] * 200_000}]},
        {"title": "t", "steps": [given] * 5_000},
        {"title": "t" * 1_000_000, "steps": []},
        {"title": "t", "steps": [{"id": "p", "printed": [[1, 2], [3]]}]},
        {"title": "t", "steps": [{"id": "p", "printed": "x"}]},
        {"title": "t", "steps": None},
        [], None, 5, "x", {},
    ]  # fmt: skip
    texts = [json.dumps(piece) for piece in pieces]
    texts += [_NESTED, "[" * 100_000, "", "{", '{"title": NaN}', "\ufeff{}"]
    while len(texts) < count:
        data = rng.choice(shipped)
        for _ in range(rng.choice((1, 1, 2, 3))):
            data = mutated_json(data, rng)
        texts.append(json.dumps(data))
    for at, text in enumerate(texts[:count]):
        file = folder / f"example{at}.json"
        file.write_text(text, encoding="utf-8")
        yield f"{at} {text[60:110]!r}", file
        file.unlink()


# --- command lines ---

_COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # a command: arguments that it takes, then its options
    "run": (
        ("toy", "I am"),
        ("--batch-size", "--weights", "--max-new", "--beam", "--n-best", "--length-penalty",
         "--temperature", "--top-k", "--top-p", "--seed"),
    ),
    "explain": (("toy", "I am", "--at", "logits[0]"), ("--at", "--depth", "--terms", "--target")),
    "trace": (("toy", "I am"), ("--output", "--step", "--target", "--lang")),
    "train": (
        ("text", "--text", "no-such-file.txt"),
        ("--loop.steps", "--model.d_model", "--out", "--config", "--optimiser.lr", "--x.y",
         "--text"),
    ),
    "audit": (("masked",), ("--lang", "--to", "--output")),
    "lesson": (("masked",), ("--lang", "--to", "--output", "--off")),
    "claims": (("C01", "C02"), ("--lang", "--to", "--plot", "--output")),
    "export": (("toy", "--to", "nowhere", "-o", "x"), ("--to", "--out")),
    "evaluate": (("toy",), ("--data", "--split", "--device")),
    "describe": (("gpt2",), ("--d-model", "--n-heads")),
    "models": ((), ("--x",)),
    "recipes": ((), ("--x",)),
    "data": ((), ("--data", "--archive")),
    "explore": (("--model", "no-such-model", "--no-open"), ("--port", "--model", "--host")),
}  # fmt: skip
_BAD_WORDS = (
    "", "-1", "0.5", "99999999999999999999", "1e999", "nan", "inf", "x", "--", "-", "-x", "é", "%s",
    "\u202e", "../../../etc/shadow", "/", "/dev/full/x", "a" * 5_000, "logits[", "logits[0,0,0,0]",
    "[]", "{}", "\n", "💩", "None", "0x10", "1_000", "*", "~", "$HOME", "; true",
)  # fmt: skip


def bad_commands(count: int, seed: int = 0) -> Iterator[tuple[str, ...]]:
    """Command lines: a bad word for an option or an argument, options unknown, doubled, cut off."""
    rng = random.Random(seed)
    for _ in range(count):
        name = rng.choice(list(_COMMANDS))
        arguments, options = _COMMANDS[name]
        line = list(arguments)
        way = rng.randrange(5)
        if way == 0 and line:
            line[rng.randrange(len(line))] = rng.choice(_BAD_WORDS)
        elif way == 1:
            line.append(rng.choice(options))
        elif way == 2:
            line += [f"--{rng.choice(('colour', 'bem', 'lnag', 'jsn'))}", rng.choice(_BAD_WORDS)]
        else:
            line += [rng.choice(options), rng.choice(_BAD_WORDS)]
        if way == 4 and line:
            del line[0]
        yield (rng.choice((name, name, name, name + "x", name.upper())), *line)


# --- Python ---

VALUES: tuple[tuple[str, Any], ...] = (
    ("None", None), ("5", 5), ("-1", -1), ("nan", float("nan")), ("''", ""), ("b'x'", b"x"),
    ("[]", []), ("[None]", [None]), ("{}", {}), ("object()", object()), ("2**70", 2**70),
)  # fmt: skip


# Which of these values are valid after all: omitted, or an existing path, number or text.
SENSE: dict[str, tuple[str, ...]] = {
    "classify(?)": ("[]", "{}"),  # no texts, no answers
    "classify(batch_size=?)": ("5",),
    "step[?]": ("-1",),
    "t.edit(?)": ("{}",),
    "t.edit({cell: ?})": ("5", "-1", "nan", "2**70"),
    "cell.explain(depth=?)": ("5",),
    "verify(sample=?)": ("None", "5", "2**70"),
}


def bad_calls(folder: Path) -> Iterator[tuple[str, Callable[[], object], bool]]:
    """Public functions with each value in place of one argument, and whether that is valid."""
    import torch

    import glassformer as gf
    from glassformer import checkpoint
    from glassformer.audit.example_file import load_example
    from glassformer.audit.judgement import audit
    from glassformer.nn import presets
    from glassformer.tracing import trace

    toy = gf.load("toy")
    loaded = checkpoint.load(checkpoint.find("toy"))
    traced = trace(torch.nn.Linear(3, 2), torch.ones(1, 3))
    cell = traced.steps[-1][0, 1]
    functions: dict[str, Callable[[Any], object]] = {
        "load(?)": gf.load,
        "load('toy', device=?)": lambda v: gf.load("toy", device=v),
        "load('toy', weights=?)": lambda v: gf.load("toy", weights=v),
        "build(?)": gf.build,
        "presets.gpt2(d_model=?)": lambda v: gf.build(presets.gpt2(vocab_size=8, d_model=v)),
        "classify(?)": lambda v: toy.classify(v),
        "classify(batch_size=?)": lambda v: toy.classify(["I am"], batch_size=v),
        "load_example(?)": load_example,
        "audit(?)": audit,
        "checkpoint.load(?)": checkpoint.load,
        "checkpoint.save(?, …)": lambda v: checkpoint.save(v, loaded),
        "checkpoint.save(…, ?)": lambda v: checkpoint.save(folder / "saved", v),
        "t[?]": lambda v: traced[v],
        "step[?]": lambda v: traced.steps[-1][v],
        "t.edit(?)": lambda v: traced.edit(v),
        "t.edit({cell: ?})": lambda v: traced.edit({cell: v}),
        "cell.explain(depth=?)": lambda v: cell.explain(depth=v),
        "verify(sample=?)": lambda v: traced.verify(sample=v),
    }
    for name, function in functions.items():
        for said, value in VALUES:
            makes_sense = said in SENSE.get(name, ())
            yield name.replace("?", said), lambda f=function, v=value: f(v), makes_sense  # type: ignore[misc]
