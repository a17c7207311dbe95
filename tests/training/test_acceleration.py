"""Padded batches, recorded steps and compiled ones give the same weights as plain ones.

No GPU is needed: a recorder that runs the work again stands in for CUDA graphs, which read and
write the same tensors at every replay in just this way.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.data.loader import Loader
from glassformer.errors import ConfigError, TrainingError
from glassformer.training import RunConfig
from glassformer.training.acceleration import Acceleration, GraphLearner, choose_acceleration
from glassformer.training.optimiser import Optimiser
from glassformer.training.processes import Processes
from glassformer.training.settings import changed, to_json
from glassformer.training.training_loop import Trainer
from tests.training.made import tiny
from tests.training.runs import make_trainer, run_steps

NO_DROPOUT = {f"model__{part}__dropout": 0.0 for part in ("block", "attention", "feed_forward")}
CUDA, CPU = torch.device("cuda"), torch.device("cpu")


def run_again(work: Callable[[], Any], /) -> tuple[Any, Callable[[], Any]]:
    """What CudaRecorder does, without a GPU: the result stays in one tensor."""
    for _ in range(3):
        work()  # the warm-up of a real recorder
    result = torch.zeros(())

    def replay() -> None:
        result.copy_(work())

    return result, replay


def recorded_trainer(config: RunConfig, folder: Path) -> Trainer:
    """A trainer whose steps are replayed."""
    trainer = make_trainer(config, folder)
    trainer.learner = GraphLearner(
        config,
        trainer.model,
        trainer.problem.measure,
        device=CPU,
        processes=trainer.processes,
        recorder=run_again,
    )
    trainer.optimiser = Optimiser(trainer.model, config.optimiser, keeps_gradients=True)
    trainer.loader = replace(trainer.loader, fixed_shapes=True)
    return trainer


def after_steps(trainer: Trainer, n_steps: int = 6) -> dict[str, Tensor]:
    """The parameters, and what was logged."""
    records = run_steps(trainer, list(trainer.loader.steps(0, n_steps)))
    logged = [[record[key] for key in ("loss", "grad_norm", "n_tokens")] for record in records]
    return {
        "the log": torch.tensor(logged),
        **{n: p.detach().clone() for n, p in trainer.model.named_parameters()},
    }


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("name", ["imdb", "imdb-masked", "multi30k", "shakespeare", "digits"])
def test_recorded_steps_on_padded_batches_are_plain_steps(
    name: str, accumulate: int, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {**NO_DROPOUT, "loop__accumulate": accumulate, "optimiser__eps": 1e-3}
    config = tiny("imdb-pretrain" if name == "imdb-masked" else name, **changes)
    if name == "imdb-masked":
        assert config.first is not None
        config = replace(config.first, loop=config.loop, optimiser=config.optimiser)
        config = replace(config, model=config.model.with_(block__dropout=0.0))
    plain = after_steps(make_trainer(config, tmp_path / "plain"))
    recorded = recorded_trainer(config, tmp_path / "recorded")
    after = after_steps(recorded)
    for key, tensor in plain.items():
        assert torch.allclose(tensor, after[key], rtol=1e-4, atol=1e-5), key
    assert isinstance(recorded.learner, GraphLearner)
    order = recorded.loader.order
    if name != "imdb-masked":  # there, the number of masked words counts, too
        assert 1 <= len(recorded.learner.work.recordings) <= order.n_shapes


@pytest.mark.parametrize("name", ["imdb", "multi30k", "shakespeare"])
def test_padded_batches_have_one_shape_per_bucket(name: str, tmp_path: Path) -> None:
    trainer = make_trainer(tiny(name), tmp_path)
    loader: Loader = replace(trainer.loader, fixed_shapes=True)
    shapes = {
        tuple(None if x is None else tuple(x.shape) for x in (*batch.inputs, batch.labels))
        for step in loader.steps(0, 3 * loader.order.n_batches)
        for batch in step.batches
    }
    assert len(shapes) == loader.order.n_shapes


@pytest.mark.slow
def test_compiled_steps_are_plain_steps(tmp_path: Path) -> None:
    """In a separate process: the shape checks of this one cannot be compiled."""
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question\n" * 40, encoding="utf-8")
    config = tiny("text", **NO_DROPOUT, data__file=str(text), loop__steps=2, optimiser__eps=1e-3)
    losses = {}
    for compiled in ("on", "tuned", "off"):
        settings = tmp_path / f"{compiled}.json"
        settings.write_text(to_json(changed(config, {"loop.compile": compiled})), encoding="utf-8")
        out = tmp_path / compiled
        run = ["-m", "glassformer.training", "text", "--config", str(settings), "--out", str(out)]
        done = subprocess.run(
            [sys.executable, *run],
            env={**os.environ, "GLASSFORMER_CHECK_SHAPES": ""},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = (out / "metrics.jsonl").read_text("utf-8").splitlines()
        losses[compiled] = [json.loads(line).get("loss", 0.0) for line in lines]
    assert losses["on"] == pytest.approx(losses["off"], rel=1e-5)
    assert losses["tuned"] == pytest.approx(losses["off"], rel=1e-5)


def test_a_step_that_cannot_be_recorded_says_what_to_do(tmp_path: Path) -> None:
    trainer = recorded_trainer(tiny("shakespeare"), tmp_path)

    def refuses(_work: Callable[[], Any], /) -> tuple[Any, Callable[[], Any]]:
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    assert isinstance(trainer.learner, GraphLearner)
    trainer.learner.work._recorder = refuses
    with pytest.raises(TrainingError, match=r"\(operation not permitted\).*--loop.graphs off"):
        after_steps(trainer, 1)


def choice(config: RunConfig, device: torch.device = CUDA, **facts: Any) -> Acceleration:
    return choose_acceleration(
        config, device, **{"n_shapes": 8, "n_steps": 1000, "alone": True, **facts}
    )


def test_auto_records_on_a_gpu_and_compiles_long_runs_of_one_shape() -> None:
    config = tiny("imdb")
    assert choice(config) == Acceleration(graphs=True, n_shapes=8)
    assert choice(config, CPU) == Acceleration(n_shapes=8)
    assert choice(config, n_shapes=500) == Acceleration(n_shapes=500)
    assert choice(config, n_shapes=1, n_steps=50_000) == Acceleration(compiled=True, graphs=True)
    several = choice(config, n_shapes=1, n_steps=50_000, alone=False)
    assert several == Acceleration(graphs=True)
    assert choice(tiny("imdb-lstm")) == Acceleration(n_shapes=8)


def test_explicit_settings_are_followed_or_refused() -> None:
    assert choice(tiny("imdb", loop__graphs="off")) == Acceleration(n_shapes=8)
    both = choice(tiny("imdb", loop__compile="on"))
    assert (both.compiled, both.graphs, both.recorded) == (True, True, False)
    assert not choice(tiny("imdb", loop__compile="on"), alone=False).graphs
    assert choice(tiny("imdb", loop__compile="tuned")) == replace(both, tuned=True)
    with pytest.raises(ConfigError, match="needs an NVIDIA GPU, this run is on cpu"):
        choice(tiny("imdb", loop__graphs="on"), CPU)
    with pytest.raises(ConfigError, match="does not work with models of kind lstm"):
        choice(tiny("imdb-lstm", loop__graphs="on"))


@pytest.mark.parametrize("kernel", ["cudnn", "flash", "efficient"])
def test_a_preferred_kernel_changes_no_result(kernel: str, tmp_path: Path) -> None:
    """Where it is not available, as on this machine, another one is used."""
    plain, preferred = (
        after_steps(
            make_trainer(tiny("shakespeare", **NO_DROPOUT, loop__attention=name), tmp_path / name),
            2,
        )
        for name in ("auto", kernel)
    )
    for key, tensor in plain.items():
        assert torch.allclose(tensor, preferred[key], rtol=1e-5, atol=1e-6), key


def test_gradients_of_recorded_steps_are_summed_over_processes() -> None:
    class Twice(Processes):
        """Another process with the same gradients."""

        def sum(self, numbers: Tensor) -> Tensor:
            return numbers.mul_(2)

    parameters = [
        nn.Parameter(torch.zeros(2, 3)),
        nn.Parameter(torch.zeros(3, dtype=torch.float64)),
        nn.Parameter(torch.zeros(())),
    ]
    for value, parameter in enumerate(parameters, start=1):
        parameter.grad = torch.full_like(parameter, float(value))
    kept = [parameter.grad for parameter in parameters]
    Twice(n=2).sum_gradients(parameters)
    for value, (parameter, gradient) in enumerate(zip(parameters, kept, strict=True), start=1):
        assert parameter.grad is gradient  # recorded steps add to these very tensors
        assert gradient is not None
        assert (gradient == 2 * value).all()
