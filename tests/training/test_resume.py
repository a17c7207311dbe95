"""A resumed run ends with the same bits as an uninterrupted one."""

import json
import multiprocessing.connection
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import torch
import torch.distributed as dist

from glassformer.errors import TrainingError
from glassformer.training import RunConfig, train
from glassformer.training.command import configure
from glassformer.training.run_folder import RunFolder
from tests.fresh_python import SERVER
from tests.training.made import prose, tiny
from tests.training.runs import At, assert_same_bits

# Dropout, word dropout, Muon, EMA, best weights: everything that has a state.
EVERYTHING = {"loop__average": 0.9, "optimiser__kind": "muon"}


def interrupt() -> None:
    """Ask a run to stop; it completes the next step."""
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("name", ["imdb", "multi30k", "shakespeare"])
def test_a_run_interrupted_in_the_middle_of_an_epoch_ends_with_the_same_bits(
    name: str, tmp_path: Path
) -> None:
    config = tiny(name, **EVERYTHING, loop__steps=9, loop__evaluate_every=4, loop__save_every=3)
    train(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "cut", reporter=At(4, interrupt))
    assert [f.stem for f in sorted((tmp_path / "cut/state").glob("*.json"))] == [
        "00000003",
        "00000005",
    ]
    saved = json.loads((tmp_path / "cut/state/00000005.json").read_text(encoding="utf-8"))
    before = saved["facts"]["position"]["total_seconds"]
    assert before > 0
    said = At()
    resumed = train(config, tmp_path / "cut", resume=True, reporter=said)
    assert "resuming at step 5 of 9" in said.lines
    assert resumed.seconds > before  # in total: what came before the interruption counts, too
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")


def test_metrics_after_the_checkpoint_are_written_once(tmp_path: Path) -> None:
    config = tiny("shakespeare", loop__steps=4, loop__save_every=2)
    train(config, tmp_path / "run")
    whole = losses(tmp_path / "run")
    for file in (tmp_path / "run/state").glob("00000004*"):
        file.unlink()
    with (tmp_path / "run/metrics.jsonl").open("a", encoding="utf-8") as opened:
        opened.write('{"step": 5, "lo')  # cut short by a kill
    train(config, tmp_path / "run", resume=True)
    assert losses(tmp_path / "run") == whole


def test_a_damaged_newest_checkpoint_is_reported_and_the_run_still_ends_the_same(
    tmp_path: Path,
) -> None:
    config = tiny("imdb", **EVERYTHING, loop__steps=9, loop__save_every=3)
    train(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "cut", reporter=At(7, interrupt))
    newest = max((tmp_path / "cut/state").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    said = At()
    train(config, tmp_path / "cut", resume=True, reporter=said)
    assert "00000008.json is damaged" in said.lines[0]
    assert "resuming at step 6 of 9" in said.lines[1]
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    config = tiny("shakespeare")
    first = train(config, tmp_path / "run")
    again = train(config, tmp_path / "run", resume=True)
    assert again.scores == first.scores
    assert again.steps == first.steps


def test_resuming_an_empty_folder_starts_from_scratch_and_says_so(tmp_path: Path) -> None:
    said = At()
    assert train(tiny("shakespeare"), tmp_path / "run", resume=True, reporter=said).steps == 4
    assert "no checkpoint in" in said.lines[0]


def test_a_run_killed_before_its_first_checkpoint_has_its_metrics_once(tmp_path: Path) -> None:
    config = tiny("shakespeare", loop__watch=True)
    train(config, tmp_path / "run")
    whole = losses(tmp_path / "run")
    for file in (tmp_path / "run/state").iterdir():
        file.unlink()
    train(config, tmp_path / "run", resume=True)
    assert losses(tmp_path / "run") == whole


def test_a_run_resumed_with_fewer_steps_than_it_has_taken_takes_none(tmp_path: Path) -> None:
    config = tiny("shakespeare", loop__steps=6)
    train(config, tmp_path / "whole")
    train(config, tmp_path / "run")
    shorter, said = tiny("shakespeare", loop__steps=2), At()
    assert train(shorter, tmp_path / "run", resume=True, reporter=said).steps == 6
    assert said.lines[0] == (
        "the run has already taken 6 steps, and 2 were asked for: nothing is left to do"
    )
    assert_same_bits(tmp_path / "whole", tmp_path / "run")
    assert losses(tmp_path / "whole") == losses(tmp_path / "run")


def test_an_ema_may_be_enabled_on_resume(tmp_path: Path) -> None:
    config = tiny("shakespeare", loop__average=0.0)
    train(config, tmp_path / "run")
    longer = tiny("shakespeare", loop__average=0.9, loop__steps=6)
    assert train(longer, tmp_path / "run", resume=True).steps == 6


def test_the_best_score_is_reset_if_its_weights_were_not_kept(tmp_path: Path) -> None:
    """With select = last, the best weights are gone when a run resumes."""
    changes: dict[str, Any] = {"optimiser__lr": 1e-12, "optimiser__muon_lr": 1e-12}
    train(tiny("shakespeare", loop__select="last", **changes), tmp_path / "run")
    longer = tiny("shakespeare", loop__select="best", loop__steps=8, **changes)
    train(longer, tmp_path / "run", resume=True)
    about = json.loads((tmp_path / "run/about.json").read_text(encoding="utf-8"))
    assert about["best_step"] > 4


def test_pretraining_is_resumed_as_well(tmp_path: Path) -> None:
    config = tiny("imdb-pretrain", first__loop__steps=5, first__loop__save_every=2)
    train(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "cut", reporter=At(3, interrupt))
    assert not (tmp_path / "cut/first/model").exists()
    train(config, tmp_path / "cut", resume=True)
    assert_same_bits(tmp_path / "whole/first", tmp_path / "cut/first")
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


# --- damage beside good checkpoints ---


def _lose_config(run: Path) -> None:
    (run / "config.json").unlink()


def _nest(file: Path) -> None:
    file.write_text("[" * 100_000, encoding="utf-8")


BESIDE: dict[str, Callable[[Path], object]] = {
    "a foreign line in the metrics": lambda run: _append(run, b'{"epoch": 1}\n'),
    "a list in the metrics": lambda run: _append(run, b"[1, 2]\n"),
    "a number in the metrics": lambda run: _append(run, b"7\n"),
    "a step that is a text": lambda run: _append(run, b'{"step": "2"}\n'),
    "bytes in the metrics": lambda run: _append(run, b"\xff\xfe\x00\n"),
    "deep metrics": lambda run: _append(run, b"[" * 100_000 + b"\n"),
    "no metrics": lambda run: (run / "metrics.jsonl").unlink(),
    "a config that is nested without end": lambda run: _nest(run / "config.json"),
    "a config of another program": lambda run: (run / "config.json").write_text('{"a": 1}'),
    "a config that is lost": _lose_config,
    "a folder named like a state": lambda run: (run / "state/00000006.json").mkdir(),
    "a folder named like a state's tensors": lambda run: (
        run / "state/00000006.safetensors"
    ).mkdir(),
    "a file that is not a checkpoint": lambda run: (run / "state/1.json").write_text("{}"),
}


def _append(run: Path, line: bytes) -> None:
    with (run / "metrics.jsonl").open("ab") as opened:
        opened.write(line)


_MADE: list[Path] = []


@pytest.fixture
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run, and the same one stopped after four steps; made once."""
    if not _MADE:
        folder, config = tmp_path_factory.mktemp("runs"), _six_updates()
        train(config, folder / "whole")
        with pytest.raises(KeyboardInterrupt):
            train(config, folder / "cut", reporter=At(3, interrupt))
        _MADE.append(folder)
    return _MADE[0]


def _six_updates() -> RunConfig:
    return tiny("shakespeare", loop__steps=6, loop__save_every=2)


@pytest.mark.parametrize("name", BESIDE)
def test_damage_beside_good_checkpoints_does_not_stop_a_run(
    name: str, runs: Path, tmp_path: Path
) -> None:
    folder, config, said = tmp_path / "run", _six_updates(), At()
    shutil.copytree(runs / "cut", folder)
    BESIDE[name](folder)
    train(config, folder, resume=True, reporter=said)
    assert "resuming at step 4 of 6" in said.lines
    assert_same_bits(runs / "whole", folder)
    if name != "no metrics":
        assert losses(runs / "whole") == losses(folder)
    assert RunFolder(folder).read_config() == config


@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_a_newest_checkpoint_that_is_nested_or_a_pipe_is_reported_and_the_one_before_used(
    ending: str, runs: Path, tmp_path: Path
) -> None:
    config = _six_updates()
    shutil.copytree(runs / "whole", tmp_path / "run")
    newest = tmp_path / f"run/state/00000006.{ending}"
    if ending == "json":
        _nest(newest)
    else:
        newest.unlink()
        os.mkfifo(newest)
    said = At()
    train(config, tmp_path / "run", resume=True, reporter=said)
    assert "00000006.json is damaged" in said.lines[0]
    assert said.lines[1] == "resuming at step 4 of 6"


def test_the_config_of_a_run_is_in_its_checkpoints(tmp_path: Path) -> None:
    """The command resumes with the run's own settings although their file is gone."""
    train(tiny("shakespeare", loop__steps=4, loop__save_every=2), tmp_path / "run")
    kept = RunFolder(tmp_path / "run").read_config()
    (tmp_path / "run/config.json").unlink()
    assert RunFolder(tmp_path / "run").exists()
    assert RunFolder(tmp_path / "run").read_config() == kept
    found = configure("shakespeare", {}, resume_from=tmp_path / "run")
    assert found == kept
    for file in (tmp_path / "run/state").iterdir():
        file.unlink()
    assert not RunFolder(tmp_path / "run").exists()
    with pytest.raises(TrainingError, match=r"cannot read .*config\.json"):
        RunFolder(tmp_path / "run").read_config()


def test_checkpoints_of_another_seed_are_refused(tmp_path: Path) -> None:
    train(tiny("shakespeare", loop__seed=3), tmp_path / "run")
    with pytest.raises(TrainingError, match=r"were made with seed 3, not 4; leave loop\.seed"):
        train(tiny("shakespeare", loop__seed=4), tmp_path / "run", resume=True)
    assert RunFolder(tmp_path / "run").read_config().loop.seed == 3


def test_metrics_that_are_not_a_file_are_one_line(tmp_path: Path) -> None:
    config = tiny("shakespeare")
    train(config, tmp_path / "run")
    (tmp_path / "run/metrics.jsonl").unlink()
    os.mkfifo(tmp_path / "run/metrics.jsonl")
    with pytest.raises(TrainingError, match=r"metrics\.jsonl is not a regular file"):
        train(config, tmp_path / "run", resume=True)


def losses(folder: Path) -> list[dict[str, Any]]:
    """The metrics without timings."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return [
        {k: v for k, v in json.loads(line).items() if "second" not in k and "_per_s" not in k}
        for line in lines
    ]


def run_in_child(
    config: RunConfig, folder: Path, rank: int, n: int, meeting: Path, killed_at: int
) -> None:
    """One of `n` processes that train; they find each other by a file, which no one else uses."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n))
    if n > 1:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=n)
    train(config, folder, resume=True, reporter=At(killed_at, kill_this_process))


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Run:
    """A run in one or several processes of their own."""

    def __init__(self, config: RunConfig, folder: Path, n: int, killed_at: int = -1) -> None:
        meeting = folder.with_name(f"{folder.name}-{uuid4().hex}")
        self.children = [
            SERVER.Process(target=run_in_child, args=(config, folder, rank, n, meeting, killed_at))
            for rank in range(n)
        ]
        for child in self.children:
            child.start()

    def end(self) -> None:
        for child in self.children:
            child.join()
            assert child.exitcode == 0

    def kill_after(self, seconds: float | None) -> bool:
        """Kill all processes when one has ended or time is up; False where the run was over."""
        multiprocessing.connection.wait([child.sentinel for child in self.children], seconds)
        for child in reversed(self.children):
            child.kill()
        for child in self.children:
            child.join()
        return any(child.exitcode == -signal.SIGKILL for child in self.children)


def killable(tmp_path: Path, **changes: Any) -> RunConfig:
    """A run on a text of its own, which processes of their own find as well."""
    file = tmp_path / "my.txt"
    file.write_text(prose(random.Random(1), 800), encoding="utf-8")
    return tiny(
        "text",
        **EVERYTHING,
        **changes,
        data__file=str(file),
        data__cache=str(tmp_path / "tokens"),
        model__block__dropout=0.2,
    )


def kill_and_resume(tmp_path: Path, n_kills: int, n_processes: int = 1) -> None:
    """Kill a run at random moments, resume it each time, and compare the result."""
    config = killable(tmp_path, loop__steps=60, loop__evaluate_every=20, loop__save_every=2)
    Run(config, tmp_path / "warm", n_processes).end()  # imports and tokens, which later runs find
    began = time.monotonic()
    Run(config, tmp_path / "whole", n_processes).end()
    seconds = time.monotonic() - began
    rng = random.Random()
    n_killed = 0
    for attempt in range(10 * n_kills):
        # Each kill has a run of its own, so that it can strike anywhere from start to end.
        folder = tmp_path / f"run{attempt}"
        began = time.monotonic()
        if not Run(config, folder, n_processes).kill_after(rng.uniform(0.05, 0.95) * seconds):
            seconds = time.monotonic() - began  # the machine is less busy now
            continue
        Run(config, folder, n_processes).end()
        assert_same_bits(tmp_path / "whole", folder)
        n_killed += 1
        if n_killed == n_kills:
            return
    pytest.fail(f"{n_killed} of {n_kills} kills came before the end of their runs")


def test_a_run_killed_again_and_again_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Before the first checkpoint, at one, after one; the slow test below kills at any moment."""
    config = killable(tmp_path, loop__steps=6, loop__save_every=2, loop__log_every=1)
    Run(config, tmp_path / "whole", 1).end()
    for step in (1, 2, 5):
        assert Run(config, tmp_path / "cut", 1, killed_at=step).kill_after(None)
        assert not (tmp_path / "cut/model").exists()
    Run(config, tmp_path / "cut", 1).end()
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")


# Two are a part of three; sums of three numbers, not of two, depend on their order.
@pytest.mark.parametrize("n", [3, pytest.param(2, marks=pytest.mark.slow)])
def test_processes_with_dropout_killed_and_resumed_end_with_the_same_bits(
    n: int, tmp_path: Path
) -> None:
    """Every process restores its own RNG, and gradients are summed in a fixed order."""
    config = killable(tmp_path, loop__steps=6, loop__save_every=2, loop__log_every=1)
    Run(config, tmp_path / "whole", n).end()
    assert Run(config, tmp_path / "cut", n, killed_at=3).kill_after(None)
    assert not (tmp_path / "cut/model").exists()
    Run(config, tmp_path / "cut", n).end()
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")


@pytest.mark.slow
@pytest.mark.parametrize(("n_processes", "n_kills"), [(1, 25), (2, 20), (3, 5)])
def test_a_run_killed_at_many_random_moments_ends_with_the_same_bits(
    n_processes: int, n_kills: int, tmp_path: Path
) -> None:
    kill_and_resume(tmp_path, n_kills, n_processes)
