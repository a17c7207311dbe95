"""One process at a time trains in a folder; what a killed one leaves behind blocks nobody."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.training import run as run_module
from glassformer.training import train
from glassformer.training.command import main
from glassformer.training.processes import Processes
from glassformer.training.run_folder import RunFolder
from tests.training.made import tiny
from tests.training.runs import At, assert_same_bits

# Locks a run folder as a run does, and says so.
_HOLD = """
import sys, time
from pathlib import Path
from glassformer.files import try_lock
opened = Path(sys.argv[1], ".lock").open("ab")
print(try_lock(opened), flush=True)
time.sleep(600)
"""


CPU = torch.device("cpu")


def test_a_second_run_in_the_folder_is_refused_in_one_line_and_harms_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, out = tiny("shakespeare"), tmp_path / "run"
    codes = []

    def second() -> None:
        codes.append(main(["shakespeare", "--out", str(out), "--resume"]))

    train(config, out, reporter=At(2, second))
    assert codes == [2]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        f"glassformer: another process is training in {out}; wait for it to finish, or "
        "choose another folder\n"
    )
    train(config, tmp_path / "alone")
    assert_same_bits(tmp_path / "alone", out)
    metrics = [
        (folder / "metrics.jsonl").read_text("utf-8") for folder in (tmp_path / "alone", out)
    ]
    assert metrics[0].count("\n") == metrics[1].count("\n")


def test_the_lock_of_a_killed_process_blocks_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "us\n"
        with pytest.raises(ConfigError, match="another process is training in"):
            train(tiny("shakespeare"), tmp_path, resume=True)
    finally:
        holder.kill()
        holder.communicate()
    assert (tmp_path / ".lock").exists()
    assert train(tiny("shakespeare"), tmp_path, resume=True).steps == 4


def test_what_a_killed_run_had_half_written_is_removed(tmp_path: Path) -> None:
    config = tiny("shakespeare")
    train(config, tmp_path / "run")
    half = [tmp_path / "run" / place / ".x.1234.tmp" for place in ("", "state", "watch")]
    for file in half:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"half")
    (tmp_path / "run/.model.x1y2z3").mkdir()  # as checkpoint.save calls it until it is whole
    train(config, tmp_path / "run", resume=True)
    assert not [file for file in half if file.exists()]
    assert [file.name for file in (tmp_path / "run").glob(".*")] == [".lock"]


def test_a_model_that_a_killed_run_had_put_aside_is_removed_once_there_is_another(
    tmp_path: Path,
) -> None:
    folder = RunFolder(tmp_path)
    aside = tmp_path / ".model.old.x1y2z3"
    (aside / "model").mkdir(parents=True)
    with folder.locked():
        assert aside.is_dir()
    folder.model.mkdir()
    with folder.locked():
        assert not aside.exists()


def test_the_folder_of_pretraining_is_locked_as_well(tmp_path: Path) -> None:
    inside = RunFolder(tmp_path / "run/first")
    with inside.locked(), pytest.raises(ConfigError, match="another process is training in"):
        train(tiny("imdb-pretrain"), tmp_path / "run")


def test_only_the_first_of_several_processes_locks_the_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with run_module._locked(folder, Processes(rank=1), CPU):
        assert not folder.path.exists()
        with run_module._locked(folder, Processes(rank=0), CPU):
            assert (folder.path / ".lock").exists()


def test_all_processes_stop_if_the_first_may_not_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Processes, "any", lambda *_: True)  # what the first one tells the others
    with (
        pytest.raises(ConfigError, match="the first process cannot train in"),
        run_module._locked(RunFolder(tmp_path), Processes(rank=1), CPU),
    ):
        pytest.fail("the run went on")
