"""Watching a run: snapshots of attention that are complete, few, and true to the model."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from glassformer import checkpoint
from glassformer.errors import ConfigError, TrainingError
from glassformer.explorer import server as serving
from glassformer.explorer.training_watch import WatchedRun, watch
from glassformer.nn import record_attention
from glassformer.training import run as run_module
from glassformer.training import snapshots as module
from glassformer.training import train
from glassformer.training.problems.prepared_problem import PreparedProblem
from glassformer.training.problems.problem_readers import prepare
from glassformer.training.snapshots import read_attention, read_watch
from tests.training.made import tiny
from tests.training.runs import At, make_trainer

KINDS = {
    "multi30k": {"encoder", "decoder", "cross"},
    "imdb": {"encoder"},
    "shakespeare": {"decoder"},
    "digits": {"encoder"},
}


@pytest.mark.parametrize("name", KINDS)
def test_a_watched_run_leaves_attention_that_sums_to_one(name: str, tmp_path: Path) -> None:
    config = tiny(name, loop__watch=True, model__n_layers=2)
    train(config, tmp_path)
    watched = read_watch(tmp_path)
    assert watched.state == "finished"
    assert watched.snapshots == [0, 2, 4]
    assert watched.sample is not None
    assert (watched.sample.recipe, watched.sample.total) == (name, 4)
    assert {a.kind for a in watched.sample.attending} == KINDS[name]
    for attending in watched.sample.attending:
        weights = read_attention(tmp_path, 4, attending.kind)
        n_queries, n_keys = len(attending.queries), len(attending.keys)
        assert weights.shape == (2, 2, n_queries, n_keys)
        assert attending.n_layers == 2
        assert np.allclose(weights.sum(axis=-1), 1, atol=1e-6)
        if name == "digits":
            assert attending.keys[:2] == ("y0x0", "y0x1")


def test_the_snapshot_is_what_the_model_attends_to(tmp_path: Path) -> None:
    config = tiny("shakespeare", loop__watch=True, loop__select="last", loop__average=0.0)
    train(config, tmp_path)
    loaded = checkpoint.load(tmp_path / "model")
    assert loaded.tokenizer is not None
    sample = read_watch(tmp_path).sample
    assert sample is not None
    text = "".join(sample.attending[0].queries).replace("␣", " ").replace("↵", "\n")
    ids = torch.tensor([loaded.tokenizer.encode(text)])
    with record_attention(loaded.model.eval()) as recorded, torch.no_grad():
        loaded.model(ids)
    expected = recorded["decoder.blocks.0.attention"][0][0]
    assert np.allclose(read_attention(tmp_path, 4, "decoder")[0], expected, atol=1e-6)


def test_a_snapshot_leaves_every_part_in_its_own_mode(tmp_path: Path) -> None:
    """A frozen part stays in evaluation while the rest is trained."""
    trainer = make_trainer(tiny("shakespeare", loop__watch=True), tmp_path)
    assert trainer.watch is not None
    trainer.model.train()
    frozen = trainer.model.get_submodule("decoder.blocks.0").eval()
    trainer.watch.take(trainer.model, 0)
    assert trainer.model.training and not any(part.training for part in frozen.modules())


def test_metrics_are_read_from_an_offset_and_never_half_a_line(tmp_path: Path) -> None:
    assert read_watch(tmp_path).metrics == []
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"step": 1}\n{"step": 2}\n{"st', encoding="utf-8")
    first = read_watch(tmp_path)
    assert first.metrics == [{"step": 1}, {"step": 2}]
    with metrics.open("a", encoding="utf-8") as opened:
        opened.write('ep": 3}\n')
    second = read_watch(tmp_path, first.next)
    assert second.metrics == [{"step": 3}]
    assert read_watch(tmp_path, second.next).metrics == []
    metrics.write_text('{"step": 1}\n', encoding="utf-8")  # rewound by a resumed run
    again = read_watch(tmp_path, second.next)
    assert again.metrics == [{"step": 1}]
    assert again.next < second.next


def test_an_offset_from_before_a_rewind_starts_over(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"step": 1}\n{"step": 2}\n', encoding="utf-8")
    before = read_watch(tmp_path).next
    metrics.write_text('{"step": 1}\n{"step": 2, "loss": 0.5}\n{"step": 3}\n', encoding="utf-8")
    anew = read_watch(tmp_path, before)
    assert anew.metrics == [{"step": 1}]
    assert anew.next < before  # by this the page knows
    assert [line["step"] for line in read_watch(tmp_path, anew.next).metrics] == [2, 3]
    whole = metrics.stat().st_size
    for offset in range(whole + 2):  # whatever is asked for, no line is cut
        found = read_watch(tmp_path, offset)
        assert found.next <= whole
        assert [line["step"] for line in found.metrics] in ([1, 2, 3], [2, 3], [3], [1, 2], [1], [])


def test_old_snapshots_are_thinned_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SNAPSHOTS", 6)
    trainer = make_trainer(tiny("shakespeare", loop__watch=True), tmp_path)
    assert trainer.watch is not None
    for step in range(1, 41):
        trainer.watch.take(trainer.model, step)
    snapshots = read_watch(tmp_path).snapshots
    assert len(snapshots) <= 6
    assert (snapshots[0], snapshots[-1]) == (1, 40)
    trainer.watch.rewind(20)
    assert read_watch(tmp_path).snapshots == [step for step in snapshots if step <= 20]


def test_an_interrupted_run_says_so_and_an_unwatched_one_writes_nothing(tmp_path: Path) -> None:
    interrupt = At(2, lambda: os.kill(os.getpid(), 2))
    with pytest.raises(KeyboardInterrupt):
        train(tiny("shakespeare", loop__watch=True), tmp_path / "run", reporter=interrupt)
    assert read_watch(tmp_path / "run").state == "stopped"
    train(tiny("shakespeare"), tmp_path / "quiet")
    assert not (tmp_path / "quiet/watch").exists()


def test_a_resumed_run_says_that_it_runs_before_anything_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("shakespeare", loop__watch=True)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path, reporter=At(2, lambda: os.kill(os.getpid(), 2)))
    states = []

    def looked_at(*given: Any) -> PreparedProblem:
        states.append(read_watch(tmp_path).state)
        return prepare(*given)

    monkeypatch.setattr(run_module, "prepare", looked_at)
    train(config, tmp_path, resume=True)
    assert states == ["running"]
    assert read_watch(tmp_path).state == "finished"


def test_a_run_stopped_in_its_final_test_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "_finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tiny("shakespeare", loop__watch=True), tmp_path)
    assert read_watch(tmp_path).state == "stopped"


def test_a_failed_snapshot_leaves_the_model_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(tiny("shakespeare", loop__watch=True), tmp_path)
    assert trainer.watch is not None
    trainer.model.train()
    monkeypatch.setattr(trainer.watch, "_inputs", (torch.zeros(1, 1, 1, 1),))
    with pytest.raises(Exception):  # noqa: B017  # whatever the model says to that
        trainer.watch.take(trainer.model, 1)
    assert all(part.training for part in trainer.model.modules())


def test_a_model_without_attention_has_metrics_only(tmp_path: Path) -> None:
    train(tiny("imdb-lstm", loop__watch=True), tmp_path)
    watched = read_watch(tmp_path)
    assert (watched.sample, watched.snapshots) == (None, [])
    assert json.loads((tmp_path / "watch/state.json").read_text("utf-8")) == {"state": "finished"}
    with pytest.raises(TrainingError, match="has no attention snapshot of step 4"):
        read_attention(tmp_path, 4, "encoder")


@pytest.mark.parametrize("rank", [None, "0", "1"])
def test_a_page_that_cannot_start_does_not_end_the_run(
    rank: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And it is tried once: of several processes, by the first."""

    def refuse(*_: object) -> None:
        raise ConfigError("cannot listen on 127.0.0.1: all ports are taken")

    monkeypatch.setattr(serving, "prepare", refuse)
    if rank is None:
        monkeypatch.delenv("RANK", raising=False)
    else:
        monkeypatch.setenv("RANK", rank)
    with watch(tmp_path):
        went_on = True
    assert went_on
    said = capsys.readouterr().err
    assert said.count("\n") == (rank != "1")
    assert ("all ports are taken. The run goes on" in said) == (rank != "1")


def test_the_page_says_at_its_end_how_to_see_the_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my run"
    with watch(folder):
        train(tiny("digits", loop__watch=True), folder)
    assert f"glassformer explore --runs '{folder}'" in capsys.readouterr().err
    assert not WatchedRun(folder).info(0).has_text


# --- the folder of a stranger ---


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    train(tiny("shakespeare", loop__watch=True), tmp_path)
    return tmp_path


SAMPLE = {
    "recipe": "text",
    "total": 4,
    "attending": [{"kind": "decoder", "n_layers": 1, "queries": ["a"], "keys": ["a"]}],
    "inputs": [[1]],
}
LAYER: dict[str, Any] = SAMPLE["attending"][0]  # type: ignore[index]


@pytest.mark.parametrize(
    "changed",
    [
        {"recipe": None}, {"total": "4"}, {"attending": 5}, {"attending": [5]}, {"inputs": None},
        {"inputs": [["a"]]}, {"inputs": [[-1]]}, {"inputs": [[2**70]]},
        {"attending": [{**LAYER, "n_layers": 10**9}]}, {"attending": [{**LAYER, "n_layers": "2"}]},
        {"attending": [{**LAYER, "kind": []}]}, {"attending": [{**LAYER, "kind": "middle"}]},
        {"attending": [{**LAYER, "queries": [5]}]}, {"attending": [{**LAYER, "keys": None}]},
    ],
)  # fmt: skip
def test_what_is_no_sample_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "watch").mkdir()
    file = tmp_path / "watch/sample.json"
    file.write_text(json.dumps(SAMPLE), encoding="utf-8")
    assert read_watch(tmp_path).sample is not None
    file.write_text(json.dumps(SAMPLE | changed), encoding="utf-8")
    with pytest.raises(TrainingError, match="is not the sample of a run"):
        read_watch(tmp_path)


def test_lines_and_names_of_others_are_left_out(strangers: Path) -> None:
    before = read_watch(strangers)
    with (strangers / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 5, "loss": [1], "grad_norm": {"a": 1}, "lr": null}\n')
    (strangers / "watch/attention-x.safetensors").write_bytes(b"")
    (strangers / "watch/attention-99999999999999999999.safetensors").write_bytes(b"")
    found = read_watch(strangers)
    assert found.metrics == [*before.metrics, {"step": 5, "lr": None}]
    assert found.snapshots == before.snapshots


@pytest.mark.parametrize(
    "tensor", [torch.zeros(2, 2, 3), torch.zeros(1, 1, 2, 2, dtype=torch.float64), None]
)
def test_what_is_no_snapshot_is_refused(tensor: torch.Tensor | None, strangers: Path) -> None:
    file = strangers / "watch/attention-00000004.safetensors"
    good = file.read_bytes()
    file.write_bytes(good[:-1] if tensor is None else save({"decoder": tensor}))
    with pytest.raises(TrainingError, match=r"is not a snapshot|is damaged"):
        read_attention(strangers, 4, "decoder")


def test_a_sample_of_more_layers_than_were_saved(strangers: Path) -> None:
    file = strangers / "watch/sample.json"
    said = json.loads(file.read_text(encoding="utf-8"))
    said["attending"][0]["n_layers"] = 7
    file.write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(TrainingError, match="attention layers, not layer 6"):
        WatchedRun(strangers).attention(4, 6)
