"""One training run from config to model folder: `train(config, folder)`.

prepare the data → build the model → train (or go on) → test once → save
"""

import platform
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer import __version__, checkpoint
from glassformer.errors import TrainingError
from glassformer.nn import build, count_parameters
from glassformer.training.config import RunConfig
from glassformer.training.folder import RunFolder
from glassformer.training.interruption import listen
from glassformer.training.loop import Trainer
from glassformer.training.problems import Problem, prepare
from glassformer.training.processes import Processes, choose_device
from glassformer.training.progress import Reporter

__all__ = ["Result", "train"]


@dataclass(frozen=True)
class Result:
    """What came of a run."""

    folder: Path
    scores: dict[str, dict[str, float]]
    """By held-out part, then by measure."""
    steps: int
    train_seconds: float
    """In updates, compilation included."""
    seconds: float
    """Of everything."""
    n_parameters: int


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    resume: bool = False,
    reporter: Reporter | None = None,
) -> Result:
    """Train a model into a run folder; `resume` goes on where the folder's run stopped."""
    started = time.perf_counter()
    run_folder = RunFolder(Path(folder))
    _check_folder(run_folder, config, resume)
    say = reporter or Reporter()
    with Processes.from_environment() as processes, listen() as interruption:
        device = choose_device(config.loop.device, processes)
        processes.join(device)
        problem = _prepare(config, processes)
        _seed(config.loop.seed)
        model = build(problem.model)
        trainer = Trainer(
            config,
            problem,
            model,
            folder=run_folder,
            device=device,
            processes=processes,
            reporter=say if processes.is_first else Reporter(),
        )
        _seed(config.loop.seed + processes.rank)  # dropout differs between processes
        about = _about(config, problem, model, device, processes)
        if processes.is_first:
            run_folder.begin(config, about)
        resumed = trainer.resume() if resume else False
        if resumed:
            say.line(f"going on at step {trainer.position.step} of {trainer.total}")
        try:
            trainer.run(interruption)
        finally:
            say.stop()
        scores = _finish(trainer, about, started, say)
        processes.wait()
        return Result(
            run_folder.path,
            scores,
            trainer.position.step,
            trainer.position.seconds,
            time.perf_counter() - started,
            count_parameters(model),
        )


def _check_folder(folder: RunFolder, config: RunConfig, resume: bool) -> None:
    if not resume:
        folder.check_empty()
        return
    if folder.exists():
        there = folder.read_config()
        if there.recipe != config.recipe:
            raise TrainingError(
                f"{folder.path} holds a run of the recipe {there.recipe}, not of {config.recipe}; "
                "choose another folder"
            )


def _prepare(config: RunConfig, processes: Processes) -> Problem:
    """The first process tokenises; the others find it done."""
    if processes.is_first:
        problem = prepare(config)
        processes.wait()
        return problem
    processes.wait()
    return prepare(config)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _about(
    config: RunConfig,
    problem: Problem,
    model: nn.Module,
    device: torch.device,
    processes: Processes,
) -> dict[str, Any]:
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "recipe": config.recipe,
        "glassformer": __version__,
        "torch": torch.__version__,
        "hardware": f"{processes.n} × {hardware}",
        "seed": config.loop.seed,
        "parameters": count_parameters(model),
        "training_examples": len(problem.train),
        "checksums": problem.checksums,
        **problem.about,
    }


def _finish(
    trainer: Trainer, about: dict[str, Any], started: float, say: Reporter
) -> dict[str, dict[str, float]]:
    """Test the chosen weights once, and save them."""
    _load(trainer.model, trainer.chosen())
    held_out = dict(trainer.problem.tests)
    if trainer.problem.valid is not None:
        held_out = {"validation": trainer.problem.valid, **held_out}
    scores: dict[str, dict[str, float]] = {}
    signatures: dict[str, str] = {}
    for name, part in held_out.items():
        result = trainer.evaluator(trainer.model, part, beam=trainer.config.loop.beam)
        scores[name] = result.values
        signatures |= result.signatures
        numbers = "  ".join(f"{key} {value:.4f}" for key, value in result.values.items())
        if trainer.processes.is_first:
            say.line(f"{name}: {numbers}")
    if not trainer.processes.is_first:
        return scores
    facts = about | {
        "scores": scores,
        "signatures": signatures,
        "steps": trainer.position.step,
        "best_step": trainer.position.best_step,
        "train_seconds": round(trainer.position.seconds, 2),
        "seconds": round(time.perf_counter() - started, 2),
    }
    trainer.folder.write_about(facts)
    checkpoint.save(
        trainer.folder.model,
        checkpoint.Checkpoint(
            model=trainer.model,
            config=trainer.problem.model,
            tokenizer=trainer.problem.tokenizer,
            labels=trainer.problem.labels,
            about=facts,
        ),
    )
    return scores


@torch.no_grad()
def _load(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(tensors[name])
