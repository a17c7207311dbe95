"""Checkpoints to resume from: written atomically, checked by hash, limited in number."""

import errno
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.errors import TrainingError
from glassformer.training.resume import (
    TrainingState,
    capture_rng,
    newest_state,
    restore_rng,
    save_state,
)

CPU = torch.device("cpu")


def state(step: int) -> TrainingState:
    return TrainingState(
        step, {"model.w": torch.full((3,), float(step))}, {"position": {"step": step}}
    )


def steps(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_the_newest_checkpoints_are_kept_and_the_newest_is_read(tmp_path: Path) -> None:
    for step in (1, 2, 4, 30):
        save_state(tmp_path, state(step), keep=2)
    assert steps(tmp_path) == [
        "00000004.json",
        "00000004.safetensors",
        "00000030.json",
        "00000030.safetensors",
    ]
    read = newest_state(tmp_path, print)
    assert read is not None
    assert read.step == 30
    assert read.section("model")["w"].tolist() == [30.0] * 3
    assert read.facts == {"position": {"step": 30}}


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "json", "missing"])
def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_used(
    tmp_path: Path, damage: str
) -> None:
    for step in (1, 2):
        save_state(tmp_path, state(step), keep=2)
    tensors, facts = tmp_path / "00000002.safetensors", tmp_path / "00000002.json"
    data = bytearray(tensors.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
        tensors.write_bytes(data)
    elif damage == "cut":
        tensors.write_bytes(data[:-5])
    elif damage == "empty":
        tensors.write_bytes(b"")
    elif damage == "json":
        facts.write_text('{"step": 2', encoding="utf-8")
    else:
        tensors.unlink()
    said: list[str] = []
    read = newest_state(tmp_path, said.append)
    assert read is not None
    assert read.step == 1
    assert len(said) == 1
    assert "00000002.json is damaged" in said[0]
    assert "using the checkpoint before it" in said[0]


def test_only_damaged_checkpoints_are_an_error_not_a_fresh_start(tmp_path: Path) -> None:
    save_state(tmp_path, state(1), keep=2)
    (tmp_path / "00000001.safetensors").write_bytes(b"")
    with pytest.raises(TrainingError, match="all 1 checkpoints"):
        newest_state(tmp_path, lambda _: None)


@pytest.mark.parametrize("keep", [1, 2])
def test_damaged_checkpoints_of_later_steps_do_not_crowd_out_new_ones(
    tmp_path: Path, keep: int
) -> None:
    for step in (4, 9):
        save_state(tmp_path, state(step), keep=2)
    (tmp_path / "00000009.safetensors").write_bytes(b"")
    save_state(tmp_path, state(6), keep=keep)
    said: list[str] = []
    read = newest_state(tmp_path, said.append)
    assert read is not None
    assert read.step == 6
    assert said == []
    assert len(steps(tmp_path)) == 2 * keep


def test_a_changed_fact_is_damage(tmp_path: Path) -> None:
    for step in (1, 2):
        save_state(tmp_path, state(step), keep=2)
    file = tmp_path / "00000002.json"
    text = file.read_text("utf-8")
    file.write_text(
        text.replace('"position": {\n   "step": 2', '"position": {\n   "step": 3'), "utf-8"
    )
    assert file.read_text("utf-8") != text
    read = newest_state(tmp_path, lambda _: None)
    assert read is not None
    assert read.step == 1


def test_facts_that_are_not_an_object_are_damage(tmp_path: Path) -> None:
    for step in (1, 2):
        save_state(tmp_path, state(step), keep=2)
    (tmp_path / "00000002.json").write_text("[]", encoding="utf-8")
    read = newest_state(tmp_path, lambda _: None)
    assert read is not None
    assert read.step == 1


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert newest_state(tmp_path / "nowhere", print) is None


def test_a_full_disk_keeps_the_earlier_checkpoint_and_leaves_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_state(tmp_path, state(1), keep=2)
    before = steps(tmp_path)

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrainingError, match=r"step 2 .*No space left on device"):
        save_state(tmp_path, state(2), keep=2)
    assert steps(tmp_path) == before


def test_nothing_in_a_checkpoint_is_a_pickle(tmp_path: Path) -> None:
    save_state(tmp_path, state(1), keep=2)
    json.loads((tmp_path / "00000001.json").read_text("utf-8"))
    header = (tmp_path / "00000001.safetensors").read_bytes()
    length = int.from_bytes(header[:8], "little")
    assert "model.w" in json.loads(header[8 : 8 + length])


def test_all_rngs_are_restored() -> None:
    def draw() -> list[float]:
        drawn = [random.random(), random.gauss(0, 1), np.random.rand(), torch.rand(1).item()]
        return [float(x) for x in drawn]

    random.gauss(0, 1)  # leaves a second number for the next call
    np.random.normal()
    tensors, facts = capture_rng(CPU)
    facts = json.loads(json.dumps(facts))
    expected = [draw() for _ in range(3)]
    draw()
    restore_rng(tensors, facts, CPU)
    assert [draw() for _ in range(3)] == expected
