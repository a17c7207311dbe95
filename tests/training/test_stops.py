"""Runs that cannot continue: one clear line, the right exit code, the last good checkpoint kept."""

import errno
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, DataError, GlassformerError, TrainingError
from glassformer.training import acceleration, command, processes, train
from glassformer.training.command import main
from glassformer.training.evaluation import Scores, is_better
from glassformer.training.learner import Loss, model_loss
from glassformer.training.processes import Processes, choose_device, precision
from glassformer.training.run_folder import RunFolder
from glassformer.training.settings import to_json
from tests.training.made import tiny
from tests.training.runs import At, assert_same_bits


def states(folder: Path) -> list[str]:
    return sorted(file.stem for file in (folder / "state").glob("*.json"))


def test_a_nan_loss_stops_with_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("shakespeare", loop__steps=6, loop__save_every=1)
    calls = 0

    def spoilt(
        model: nn.Module, inputs: Sequence[Tensor | None], labels: Tensor, *rest: Any
    ) -> Loss:
        nonlocal calls
        calls += 1
        objective, nll = model_loss(model, inputs, labels, *rest)
        return Loss(objective * torch.nan, nll) if calls == 4 else Loss(objective, nll)

    with monkeypatch.context() as patch:
        patch.setattr(acceleration, "model_loss", spoilt)
        with pytest.raises(TrainingError, match="not a number at step 4; the last good checkpoint"):
            train(config, tmp_path / "run")
    assert states(tmp_path / "run") == ["00000002", "00000003"]
    train(config, tmp_path / "run", resume=True)
    train(config, tmp_path / "whole")
    assert_same_bits(tmp_path / "whole", tmp_path / "run")


def test_a_nan_loss_from_the_start_leaves_no_checkpoint(tmp_path: Path) -> None:
    config = tiny("shakespeare", optimiser__lr=1e30, loop__steps=6)
    with pytest.raises(TrainingError, match="not a number at step 2; no checkpoint was saved"):
        train(config, tmp_path / "run")


def test_a_full_disk_stops_with_the_earlier_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("shakespeare", loop__steps=6, loop__save_every=2)
    real = os.fsync
    n_syncs = 0

    def full(file: int) -> None:
        nonlocal n_syncs
        n_syncs += 1
        if n_syncs > 7:  # config, tokenizer, facts, and two files for each of two checkpoints
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(TrainingError, match="No space left on device; earlier checkpoints"):
            train(config, tmp_path / "run")
    assert states(tmp_path / "run") == ["00000002", "00000004"]
    train(config, tmp_path / "run", resume=True)
    train(config, tmp_path / "whole")
    assert_same_bits(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_exits_130(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    config = tmp_path / "c.json"
    config.write_text(to_json(tiny("shakespeare", loop__steps=9)), encoding="utf-8")
    monkeypatch.setattr(
        command, "make_reporter", lambda: At(2, lambda: signal.raise_signal(number))
    )
    out = tmp_path / "run"
    handlers = signal.getsignal(signal.SIGINT)
    assert main(["shakespeare", "--config", str(config), "--out", str(out)]) == 130
    assert signal.getsignal(signal.SIGINT) is handlers
    assert states(out)[-1] == "00000003"
    assert "--resume" in capsys.readouterr().err
    monkeypatch.setattr(command, "make_reporter", At)
    assert main(["shakespeare", "--out", str(out), "--resume"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 9


def test_a_second_signal_interrupts_at_once(tmp_path: Path) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(tiny("shakespeare", loop__save_every=4), tmp_path / "run", reporter=At(2, twice))
    assert not (tmp_path / "run/state").exists()


def test_a_folder_of_another_recipe_is_refused(tmp_path: Path) -> None:
    train(tiny("shakespeare"), tmp_path / "run")
    with pytest.raises(TrainingError, match="a run of the recipe shakespeare, not of wikitext2"):
        train(tiny("wikitext2"), tmp_path / "run", resume=True)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    train(tiny("shakespeare"), tmp_path / "run")
    with pytest.raises(TrainingError, match="belongs to another model"):
        train(tiny("shakespeare", model__d_model=8), tmp_path / "run", resume=True)


def test_settings_with_which_a_run_cannot_resume_do_not_replace_its_own(tmp_path: Path) -> None:
    config = tiny("shakespeare")
    train(config, tmp_path / "run")
    kept = {name: (tmp_path / "run" / name).read_text() for name in ("config.json", "about.json")}
    for change in ({"model__d_model": 8}, {"optimiser__kind": "adamw"}, {"data__max_len": 16}):
        with pytest.raises(TrainingError, match=r"belongs to another|since this run began"):
            train(tiny("shakespeare", **change), tmp_path / "run", resume=True)
        assert kept == {name: (tmp_path / "run" / name).read_text() for name in kept}
    train(config, tmp_path / "run", resume=True)


def test_settings_of_complete_pretraining_cannot_change(tmp_path: Path) -> None:
    train(tiny("imdb-pretrain", first__loop__steps=2), tmp_path / "run")
    kept = (tmp_path / "run/config.json").read_text()
    with pytest.raises(ConfigError, match=r"is complete, with first\.loop\.steps 2, not 50"):
        train(tiny("imdb-pretrain", first__loop__steps=50), tmp_path / "run", resume=True)
    assert (tmp_path / "run/config.json").read_text() == kept
    train(tiny("imdb-pretrain", first__loop__steps=2), tmp_path / "run", resume=True)


def test_pretraining_uses_the_data_folder_of_the_run(
    made_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLASSFORMER_DATA")
    places = {"data__folder": str(made_data), "data__cache": str(tmp_path / "cache")}
    train(tiny("imdb-pretrain", **places), tmp_path / "run")
    first = RunFolder(tmp_path / "run").first.read_config()
    assert (first.data.folder, first.data.cache) == tuple(places.values())
    assert first.loop.device == "cpu"


def test_a_run_does_not_resume_with_a_changed_text(tmp_path: Path) -> None:
    file = tmp_path / "my.txt"
    file.write_text("one two three four five six\n" * 60, encoding="utf-8")
    config = tiny("text", data__file=str(file))
    train(config, tmp_path / "run")
    file.write_text("one two three four five sex\n" * 60, encoding="utf-8")  # as many tokens
    with pytest.raises(TrainingError, match=r"my\.txt has changed since this run began"):
        train(config, tmp_path / "run", resume=True)


@pytest.mark.parametrize("name", ["notes.txt", "model"])
def test_resuming_in_a_folder_of_something_else_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(TrainingError, match=f"holds '{name}' and no run to resume"):
        train(tiny("shakespeare"), tmp_path, resume=True)
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("config", ["[]", "{}", '{"recipe": "shakespeare"}', "nonsense"])
def test_a_damaged_config_is_one_clear_line(
    tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    for more in ([], ["--resume"]):
        assert main(["shakespeare", "--out", str(tmp_path), *more]) in (1, 2)
        shown = capsys.readouterr()
        assert shown.err.count("\n") == 1
        assert "config.json" in shown.err


def test_nan_weights_are_not_kept(tmp_path: Path) -> None:
    """The loss of the last step is that of the weights before it; validation sees the rest."""
    config = tiny("shakespeare", loop__steps=1, optimiser__lr=1e38, optimiser__kind="adamw")
    with pytest.raises(TrainingError, match="the loss on validation data is not a number at step"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run/model").exists()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
)
def test_too_little_memory_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def greedy(*_arguments: Any) -> Loss:
        raise error

    monkeypatch.setattr(acceleration, "model_loss", greedy)
    with pytest.raises(TrainingError, match=r"cpu has too little memory.*loop\.accumulate"):
        train(tiny("shakespeare"), tmp_path / "run")


def test_other_errors_are_not_mistaken_for_too_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: Any) -> Loss:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(acceleration, "model_loss", broken)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        train(tiny("shakespeare"), tmp_path / "run")


def test_a_run_without_held_out_examples_says_that_it_has_no_score(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("a b\tb a\n", encoding="utf-8")
    said = At()
    result = train(tiny("pairs", data__file=str(file)), tmp_path / "run", reporter=said)
    assert result.scores == {}
    assert "no examples are held out, so there is no score" in said.lines


def test_a_trial_run_is_not_scored_on_the_test_data(tmp_path: Path) -> None:
    said = At()
    result = train(tiny("imdb", loop__test=False), tmp_path / "run", reporter=said)
    assert list(result.scores) == ["validation"]
    assert any(line.startswith("loop.test is false: not scored on test (") for line in said.lines)
    alone = At()
    assert train(tiny("thrones", loop__test=False), tmp_path / "pair", reporter=alone).scores == {}
    assert "loop.test is false: not scored on the pair itself (1)" in alone.lines
    assert not any("no examples are held out" in line for line in alone.lines)


def test_muon_without_blocks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this model has none: set adamw"):
        train(tiny("imdb-lstm", optimiser__kind="muon"), tmp_path / "run")


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    train(tiny("shakespeare"), tmp_path / "run")
    with pytest.raises(TrainingError, match="is not empty; continue with --resume"):
        train(tiny("shakespeare"), tmp_path / "run")
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    with pytest.raises(TrainingError, match="is a file"):
        train(tiny("shakespeare"), file)


def test_a_run_that_never_began_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("GLASSFORMER_DATA", str(tmp_path / "nowhere"))
        for name in ("shakespeare", "imdb-pretrain"):
            with pytest.raises(DataError, match="not found"):
                train(tiny(name), tmp_path / name)
    for name in ("shakespeare", "imdb-pretrain"):
        train(tiny(name), tmp_path / name)


def test_the_config_of_another_program_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"port": 80}', encoding="utf-8")
    with pytest.raises(GlassformerError, match="port"):
        train(tiny("shakespeare"), tmp_path)


def test_of_equal_scores_the_lower_loss_is_kept() -> None:
    def scores(main: str, **values: float) -> Scores:
        return Scores(main, values, {})

    assert is_better(scores("accuracy", accuracy=1.0, loss=0.1), 1.0, 0.2)
    assert not is_better(scores("accuracy", accuracy=1.0, loss=0.3), 1.0, 0.2)
    assert not is_better(scores("accuracy", accuracy=0.9, loss=0.1), 1.0, 0.2)
    assert is_better(scores("accuracy", accuracy=1.0, loss=0.3), 0.9, 0.2)
    assert is_better(scores("loss", loss=0.1), 0.2, 0.2)
    assert not is_better(scores("loss", loss=0.2), 0.2, 0.2)
    # A checkpoint of an earlier version has no loss.
    assert not is_better(scores("accuracy", accuracy=1.0, loss=0.1), 1.0, None)


def test_a_run_without_better_scores_stops_early(tmp_path: Path) -> None:
    config = tiny(
        "shakespeare",
        loop__steps=50,
        loop__evaluate_every=1,
        loop__patience=2,
        optimiser__lr=1e-30,
        optimiser__kind="adamw",
        loop__average=0.0,
    )
    said = At()
    result = train(config, tmp_path / "run", reporter=said)
    assert result.steps == 3
    assert any("no better score for 2 evaluations" in line for line in said.lines)
    assert train(config, tmp_path / "run", resume=True).steps == 3


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        ([], 2, ["name a recipe first", "imdb"]),
        (["imbd"], 2, ["unknown recipe 'imbd'", "did you mean 'imdb'"]),
        (["imdb", "--loop.sed", "1"], 2, ["did you mean 'loop.seed'"]),
        (["imdb", "--out"], 2, ["--out needs a value"]),
        (["imdb", "--out="], 2, ["--out needs a value"]),
        (["imdb", "--loop.steps"], 2, ["--loop.steps needs a value"]),
        (["imdb", "loop.steps", "3"], 2, ["expected --section.key value, got 'loop.steps'"]),
        (["text", "--config", "imdb.json"], 2, ["config of the recipe imdb, not of text"]),
        (["text"], 2, ["--data.file"]),
        (["text", "--txt", "my.txt"], 2, ["unknown option '--txt'", "did you mean '--text'"]),
        (["text", "--text", "empty.txt"], 1, ["empty.txt contains no text"]),
        (["csv", "--csv", "empty.txt"], 1, ["empty.txt is empty", "first row must name"]),
        (["csv", "--csv", "imdb.json"], 1, ["no column 'text'", "--text-column"]),
        (["text", "--data.file", "nowhere.txt"], 1, ["cannot read nowhere.txt: No such file"]),
        (["csv", "--data.file", "nowhere.csv"], 1, ["cannot read nowhere.csv: No such file"]),
        (["imdb", "--data.folder", "x", "--loop.device", "gpu"], 2, ["loop.device must be"]),
        (["imdb-pretrain", "--first.loop.device", "gpu"], 2, ["set loop.device", "auto", "gpu"]),
        (["imdb-pretrain", "--first.data.hidden", "0"], 2, ["data.hidden must be above 0"]),
        (["thrones", "--loop.beam", "2000"], 2, ["1 to 1,024", "2,000"]),
    ],
)
def test_the_command_fails_in_one_clear_line(
    arguments: list[str],
    code: int,
    parts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("imdb.json").write_text(to_json(tiny("imdb")), encoding="utf-8")
    Path("empty.txt").write_text("", encoding="utf-8")
    assert main(arguments) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    for part in parts:
        assert part in shown.err


def test_more_gpus_than_there_are_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match="asked for 2 or more GPUs on this machine, which has 1"):
        choose_device("cuda", Processes(rank=1, local_rank=1, n=2))
    with pytest.raises(ConfigError, match="asked for 4 or more GPUs on this machine, which has 1"):
        choose_device("cuda:3", Processes())


@pytest.mark.parametrize("device", ["meta", "xpu", "mps", "gpu"])
def test_a_missing_device_is_one_clear_line(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"loop\.device"):
        choose_device(device, Processes())


def test_a_cpu_without_bfloat16_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "multiplies_bfloat16", lambda: False)
    with pytest.raises(ConfigError, match=r"set loop\.precision float32"):
        precision("bfloat16", torch.device("cpu"))
