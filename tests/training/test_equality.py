"""A step is the same in one batch, in several, and in several processes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.training import RunConfig, train
from glassformer.training.settings import to_json
from tests.training.made import tiny
from tests.training.runs import At, make_trainer, run_steps, weights
from tests.training.test_resume import Run

NO_DROPOUT = {"model__block__dropout": 0.0, "model__feed_forward__dropout": 0.0}


def gradients(name: str, folder: Path, accumulate: int) -> dict[str, Tensor]:
    """Of the first step on texts of uneven length."""
    config = tiny(
        name,
        **NO_DROPOUT,
        loop__accumulate=accumulate,
        loop__average=0.0,
        data__bucket_width=100,
    )
    trainer = make_trainer(config, folder)
    trainer.model.double()
    kept: dict[str, Tensor] = {}

    def keep(_share: float) -> None:
        for name, parameter in trainer.model.named_parameters():
            assert parameter.grad is not None
            kept[name] = parameter.grad.clone()

    trainer.optimiser.step = keep  # type: ignore[assignment,method-assign]  # look, do not move
    step = next(iter(trainer.loader.steps(0, 1)))
    assert len(step.batches) == accumulate
    run_steps(trainer, [step])
    return kept


@pytest.mark.parametrize("name", ["imdb", "multi30k"])
def test_trap_21_one_batch_of_eight_is_four_of_two(name: str, tmp_path: Path) -> None:
    once = gradients(name, tmp_path / "once", 1)
    fourfold = gradients(name, tmp_path / "fourfold", 4)
    for key, gradient in once.items():
        # The loss is in float32 on purpose, even for a float64 model.
        assert torch.allclose(gradient, fourfold[key], rtol=1e-4, atol=1e-8), key


def table_changes(folder: Path) -> dict[str, Any]:
    """A run on sixty reviews of uneven length."""
    table = folder / "t.csv"
    rows = [f"{'good ' * (i % 7 + 1)}{i},{'ab'[i % 2]}" for i in range(60)]
    table.write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return {
        **NO_DROPOUT,
        "data__file": str(table),
        "data__cache": str(folder / "tokens"),
        "loop__average": 0.9,
        "loop__accumulate": 2,
    }


@pytest.mark.parametrize(
    ("sharding", "torchrun"),
    [
        ("none", False),
        pytest.param("none", True, marks=pytest.mark.slow),  # it imports torch three times
        pytest.param("fsdp", True, marks=pytest.mark.slow),
    ],
)
def test_trap_21_two_processes_are_one(sharding: str, torchrun: bool, tmp_path: Path) -> None:
    """Losses, gradient norms and scores agree, and one process resumes where two stopped."""
    changes = table_changes(tmp_path)
    train(tiny("csv", **changes), tmp_path / "alone")
    config = tiny("csv", **changes, loop__sharding=sharding)
    if torchrun:
        run_two(config, tmp_path, "both")
    else:
        Run(config, tmp_path / "both", 2).end()
    alone, both = (records(tmp_path / name) for name in ("alone", "both"))
    assert len(alone) == len(both)
    for one, two in zip(alone, both, strict=True):
        shared = {k for k in one if "second" not in k and "tokens_per_s" not in k}
        assert {k: one[k] for k in shared} == pytest.approx({k: two[k] for k in shared}, rel=1e-4)
    for name, tensor in weights(tmp_path / "alone").items():
        # Adam divides by the gradient's magnitude: rounding alone can move a parameter by up to lr.
        assert torch.allclose(tensor, weights(tmp_path / "both")[name], atol=2e-3), name

    said = At()
    train(tiny("csv", **changes, loop__steps=6), tmp_path / "both", resume=True, reporter=said)
    assert "resuming at step 4 of 6" in said.lines
    assert "saved by 2 processes and is resumed by 1 process" in said.lines[0]


@pytest.mark.slow
def test_two_processes_with_shards_resume_where_one_stopped(tmp_path: Path) -> None:
    changes = table_changes(tmp_path)
    train(tiny("csv", **changes, loop__steps=6), tmp_path / "whole")
    train(tiny("csv", **changes), tmp_path / "alone")
    longer = tiny("csv", **changes, loop__steps=6, loop__sharding="fsdp")
    said = run_two(longer, tmp_path, "alone", "--resume")
    assert "saved by 1 process and is resumed by 2 processes" in said
    last, expected = (records(tmp_path / name)[-1] for name in ("alone", "whole"))
    assert last["step"] == 6
    assert last["valid_loss"] == pytest.approx(expected["valid_loss"], rel=1e-4)


def run_two(config: RunConfig, folder: Path, name: str, *options: str) -> str:
    """The same command in two processes joined by gloo; returns what it logged."""
    file = folder / "config.json"
    file.write_text(to_json(config), encoding="utf-8")
    out = str(folder / name)
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "glassformer.training", "csv", "--config", str(file), "--out", out, *options),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLASSFORMER_CHECK_SHAPES": ""}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def records(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
