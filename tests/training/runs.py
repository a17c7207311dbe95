"""Runs in tests: a trainer without a command, weights to compare, reporters that interfere."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from glassformer.nn import build
from glassformer.training import RunConfig
from glassformer.training.run_folder import RunFolder
from glassformer.training.loop import Trainer
from glassformer.training.problems.readers import prepare
from glassformer.training.processes import Processes
from glassformer.training.log import Reporter


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
    """A trainer on the CPU, alone."""
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


def weights(folder: Path) -> dict[str, Tensor]:
    """The trained parameters of a run."""
    return load_file(folder / "model/model.safetensors")


def assert_same_bits(a: Path, b: Path) -> None:
    """Two runs ended with the same parameters, to the last bit."""
    first, second = weights(a), weights(b)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
