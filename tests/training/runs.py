"""Helpers for runs: a trainer without the command, weights to compare, reporters that interfere."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from glassformer.data.loader import Loader, StepBatches
from glassformer.nn import build
from glassformer.training import RunConfig
from glassformer.training.log import Reporter
from glassformer.training.problems.problem_readers import prepare
from glassformer.training.processes import Interruption, Processes
from glassformer.training.run_folder import RunFolder
from glassformer.training.training_loop import Trainer


class At(Reporter):
    """Calls something when a step is reported; keeps all lines."""

    def __init__(self, step: int = -1, act: Callable[[], None] = lambda: None) -> None:
        self.at, self.act = step, act
        self.lines: list[str] = []

    def step(self, step: int, facts: Mapping[str, float]) -> None:
        if step == self.at:
            self.act()

    def line(self, text: str) -> None:
        self.lines.append(text)


def make_trainer(config: RunConfig, folder: Path) -> Trainer:
    """A trainer on the CPU, in one process."""
    problem = prepare(config)
    torch.manual_seed(config.loop.seed)
    return Trainer(
        config,
        problem,
        build(problem.model),
        folder=RunFolder(folder),
        device=torch.device("cpu"),
        processes=Processes(),
        reporter=Reporter(),
    )


@dataclass(frozen=True)
class Given(Loader):
    """A loader of prepared steps."""

    given: Sequence[StepBatches] = ()

    def steps(self, _start: int, _end: int) -> Iterator[StepBatches]:
        return iter(self.given)


def run_steps(trainer: Trainer, steps: Sequence[StepBatches]) -> list[dict[str, Any]]:
    """Take these steps, without evaluation or checkpoint; returns what was logged of each."""
    trainer.loader = Given(trainer.loader.examples, trainer.loader.order, given=steps)
    trainer.total = max(trainer.total, len(steps) + 1)
    trainer.evaluate_every = trainer.save_every = trainer.total
    trainer.folder.path.mkdir(parents=True, exist_ok=True)
    trainer.run(Interruption())
    lines = trainer.folder.metrics.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def weights(folder: Path) -> dict[str, Tensor]:
    """The trained parameters of a run; those of a baseline stand beside no model folder."""
    baseline = folder / "weights.safetensors"
    return load_file(baseline if baseline.exists() else folder / "model/model.safetensors")


def assert_same_bits(a: Path, b: Path) -> None:
    """Two runs ended with the same parameters, to the last bit."""
    first, second = weights(a), weights(b)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
