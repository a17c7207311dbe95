"""Hostile input: damaged checkpoints of one file, worked examples, command lines, Python calls.

Every maker is a generator that gives the same cases for the same seed.
"""

import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.campaign.hostile_folders import MODELS, NESTED, buried, mutated_json

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
    for at, text in enumerate(hostile_texts(count, random.Random(seed))):
        file = folder / f"example{at}.json"
        file.write_text(text, encoding="utf-8")
        yield f"{at} {text[60:110]!r}", file
        file.unlink()


def hostile_texts(count: int, rng: random.Random) -> list[str]:
    """What such files hold."""
    shipped = [
        json.loads(file.read_text(encoding="utf-8"))
        for file in sorted((MODELS.parent / "audit/examples").glob("*.json"))
    ]
    assert shipped
    given = {"id": "x", "printed": [[1.0, 2.0], [3.0, 4.0]]}

    def made(**step: Any) -> dict[str, Any]:
        return {"title": "t", "steps": [given, {"id": "y", "printed": 1.9, "decimals": 1, **step}]}

    pieces: list[Any] = [made(formula=formula) for formula in _HEADS]
    chain = [{"id": f"s{i + 1}", "formula": f"s{i} + relu(s{i})"} for i in range(40)]
    pieces += [
        {"title": "t", "steps": [{**given, "id": "s0"}, *chain, made(formula="s40")["steps"][1]]},
        {"title": "t", "steps": [{**given, "id": "s0"}] + [
            {"id": f"s{i + 1}", "formula": f"concat(s{i}, s{i})"} for i in range(25)]},
        {"title": "t", "steps": [{"id": "p", "printed": buried(1.0, 80)}]},
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
    texts += [NESTED, "[" * 100_000, "", "{", '{"title": NaN}', "\ufeff{}"]
    while len(texts) < count:
        data = rng.choice(shipped)
        for _ in range(rng.choice((1, 1, 2, 3))):
            data = mutated_json(data, rng)
        texts.append(json.dumps(data))
    return texts[:count]


# --- command lines ---

_COMMANDS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    # a command, arguments that it takes, then its options
    ("run", ("toy", "I am"),
        ("--batch-size", "--weights", "--max-new", "--beam", "--n-best", "--length-penalty",
         "--temperature", "--top-k", "--top-p", "--seed", "--ids", "--as")),
    ("explain", ("toy", "I am", "--at", "logits[0]"),
        ("--at", "--depth", "--terms", "--target", "--as")),
    ("explain", ("toy", "I am", "--words"), ("--at", "--depth", "--json", "--target")),
    ("trace", ("toy", "I am"), ("--output", "--step", "--target", "--lang")),
    ("train", ("text", "--text", "no-such-file.txt"),
        ("--loop.steps", "--model.d_model", "--out", "--config", "--optimiser.lr", "--x.y",
         "--text")),
    ("audit", ("masked",), ("--lang", "--to", "--output")),
    ("audit", ("by-hand", "--to", "html", "-o", "audit.html"), ("--to", "-o", "--json")),
    ("lesson", ("masked",), ("--lang", "--to", "--output", "--off", "--set", "--row")),
    *(("lesson", ("by-hand", "--to", to, "-o", place), ("--to", "-o", "--set", "--ask"))
      for to in ("md", "tex", "html", "slides", "worksheet", "xlsx", "pdf", "json", "svg")
      for place in ("no/such/folder/x", ".", "/dev/full", "lesson" + "x" * 300)),
    ("exercise", ("scores", "no-such-file.py"), ("--lang", "--output")),
    ("exercise", ("scores", "-o", "scores.py"), ("--lang", "-o", "--json")),
    *(("experiment", (kind, "toy", "I am not", *more),
        ("--at", "--less", "--other", "--with", "--part", "--head", "--position", "--neuron",
         "--to", "--texts", "--over", "--stage", "--store", "--method", "--baseline", "--heads",
         "--neurons", "--score", "--side", "-o", "--json"))
      for kind, *more in (
          ("words",), ("lens",), ("parts",), ("heads",), ("composition",),
          ("ablate", "--part", "encoder.blocks.0.attention"),
          ("patch", "--part", "encoder.blocks.0.attention", "--other", "I am"),
          ("sweep", "--over", "head"), ("sweep", "--store", "sweep.jsonl"),
          ("compare", "--other", "I am"))),
    ("claims", ("C01", "C02"), ("--lang", "--to", "--plot", "--output")),
    ("export", ("toy", "--to", "nowhere", "-o", "x"), ("--to", "--out")),
    ("evaluate", ("toy",), ("--data", "--split", "--device")),
    ("describe", ("gpt2",), ("--d-model", "--n-heads")),
    ("models", (), ("--x",)),
    ("recipes", (), ("--x",)),
    ("data", (), ("--data", "--archive")),
    ("explore", ("--model", "no-such-model", "--no-open"), ("--port", "--model", "--host")),
)  # fmt: skip
_BAD_WORDS = (
    "", "-1", "0.5", "99999999999999999999", "1e999", "nan", "inf", "x", "--", "-", "-x", "é", "%s",
    "\u202e", "../../../proc/version", "/dev/zero", "/", "/dev/full/x", "/dev/full", "/dev/stdin",
    "a" * 5_000, "logits[", "logits[0,0,0,0]",
    "[]", "{}", "\n", "💩", "None", "0x10", "1_000", "*", "~", "$HOME", "; true",
)  # fmt: skip


def bad_commands(count: int, seed: int = 0) -> Iterator[tuple[str, ...]]:
    """Command lines: a bad word for an option or an argument, options unknown, doubled, cut off."""
    rng = random.Random(seed)
    for _ in range(count):
        name, arguments, options = rng.choice(_COMMANDS)
        line = list(arguments)
        way = rng.randrange(6)
        if way == 0 and line:
            line[rng.randrange(len(line))] = rng.choice(_BAD_WORDS)
        elif way == 1:
            line.append(rng.choice(options))
        elif way == 2:
            line += [f"--{rng.choice(('colour', 'bem', 'lnag', 'jsn'))}", rng.choice(_BAD_WORDS)]
        elif way != 5:  # which leaves it as it is: some name places that cannot be written
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
    "presets.gpt2(d_model=?)": ("5",),  # 5 heads of one
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
