"""One training run from config to model folder: `train(config, folder)`.

pretrain, if the recipe says so → prepare the data → build the model → train (or resume) → test
once → save
"""

import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from glassformer import __version__, checkpoint
from glassformer.errors import (
    ConfigError,
    GlassformerError,
    TrainingError,
    expect,
    is_out_of_memory,
)
from glassformer.files import as_path, write_whole
from glassformer.nn import count_parameters, describe
from glassformer.nn.baselines import KINDS
from glassformer.training.evaluation import final_beam
from glassformer.training.log import Reporter, say
from glassformer.training.problems.prepared_problem import HeldOut
from glassformer.training.problems.problem_readers import prepare
from glassformer.training.processes import Interruption, Processes, choose_device, listen
from glassformer.training.recipes import command_of
from glassformer.training.resume import seed_rng
from glassformer.training.run_config import RunConfig
from glassformer.training.run_folder import RunFolder, model_card
from glassformer.training.settings import flat, is_place
from glassformer.training.snapshots import announced
from glassformer.training.training_loop import Trainer


@dataclass(frozen=True)
class RunResult:
    """The outcome of a run."""

    folder: Path
    scores: dict[str, dict[str, float]]
    """By held-out part, then by measure."""
    steps: int
    train_seconds: float
    """In training steps, compilation included."""
    seconds: float
    """In total, without the pauses before it was resumed."""
    n_parameters: int


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    resume: bool = False,
    reporter: Reporter | None = None,
) -> RunResult:
    """Train a model into a run folder; `resume` continues the run in that folder."""
    expect(config, RunConfig, "a RunConfig, such as recipe(…) gives")
    run_folder = RunFolder(as_path(folder, TrainingError, "a run folder"))
    config = with_pretraining_placed(config)
    _check_folder(run_folder, config, resume)
    final_beam(config)  # now, not after hours of training
    processes, started = Processes.from_environment(), time.perf_counter()
    log = reporter if reporter and processes.is_first else Reporter()
    with listen() as interruption, _run_of(config, run_folder, processes) as device:
        trainer = _make_trainer(config, run_folder, resume, device, processes, log)
        trainer.started = started  # preparing the data counts, too
        about = _about(trainer)
        _log_start(trainer, about)
        try:
            with interruption.waits():
                trainer.run(interruption)
        finally:
            log.stop()
        scores = _finish(trainer, about, interruption)
        processes.wait()
    return RunResult(
        run_folder.path,
        scores,
        trainer.progress.step,
        trainer.progress.seconds,
        trainer.total_seconds,
        about["parameters"],
    )


@contextmanager
def _run_of(config: RunConfig, folder: RunFolder, processes: Processes) -> Iterator[torch.device]:
    """Join the processes, lock the folder and announce the run; yields its device.

    If memory runs out inside, the error says what to do.
    """
    device = choose_device(config.loop.device, processes)
    writes = config.loop.watch and processes.is_first
    with (
        processes.joined(device),
        _explained_lack_of_memory(device),
        _locked(folder, processes, device),
        announced(folder.path, writes=writes),
    ):
        yield device


@contextmanager
def _explained_lack_of_memory(device: torch.device) -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            "{type} has too little memory for this run: raise loop.accumulate, or lower "
            "data.batch_size (data.max_tokens), data.max_len or the model's sizes; saved "
            "checkpoints are intact",
            type=device.type,
        ) from error


@contextmanager
def _locked(folder: RunFolder, processes: Processes, device: torch.device) -> Iterator[None]:
    """Lock the folder for this run; if the first process fails to, all of them stop."""
    refusal: GlassformerError | None = None
    with ExitStack() as stack:
        if processes.is_first:
            try:
                stack.enter_context(folder.locked())
            except GlassformerError as error:
                refusal = error
        if processes.any(refusal is not None, device):
            raise refusal or ConfigError(
                "the first process cannot train in {path}", path=folder.path
            )
        yield


def _make_trainer(
    config: RunConfig,
    folder: RunFolder,
    resume: bool,
    device: torch.device,
    processes: Processes,
    log: Reporter,
) -> Trainer:
    """Data, model and the rest of the training state, loaded from a checkpoint on resume."""
    goes_on = resume and folder.exists()
    if processes.is_first and not goes_on:
        folder.begin(config)
    pretrained = _pretrained(config, folder, resume, processes, log)
    if not processes.is_first:  # the first process tokenises; the others read its cache
        processes.wait()
    problem = prepare(config, pretrained.tokenizer if pretrained else None)
    if processes.is_first:
        processes.wait()
    seed_rng(config.loop.seed)
    model = KINDS[config.kind](problem.model)
    if pretrained is not None:
        start_from(model, pretrained.model)
    trainer = Trainer(
        config, problem, model, folder=folder, device=device, processes=processes, reporter=log
    )
    seed_rng(config.loop.seed + processes.rank)  # dropout differs between processes
    if resume:
        found = trainer.resume()
        log.line(
            _where_it_resumes(trainer) if found else say("no checkpoint", folder=folder.states)
        )
    if processes.is_first and goes_on:
        # Only now: settings with which the run cannot resume must not replace its own.
        folder.begin(config)
    return trainer


def _pretrained(
    config: RunConfig, folder: RunFolder, resume: bool, processes: Processes, log: Reporter
) -> checkpoint.Checkpoint | None:
    """The pretrained model, trained first in a subfolder if it is not there yet."""
    if config.first is None:
        return None
    inside = folder.first
    if inside.model.is_dir():
        check_unchanged(config.first, inside)
    else:
        log.line(say("pretraining", recipe=config.first.recipe, folder=inside.path))
        train(config.first, inside.path, resume=resume, reporter=log)
        processes.wait()
    return checkpoint.load(inside.model)


def _log_start(trainer: Trainer, about: dict[str, Any]) -> None:
    n, total = len(trainer.problem.train), trainer.total
    trainer.reporter.line(
        say(
            "begins",
            recipe=trainer.config.recipe,
            examples=say("one example") if n == 1 else say("several examples", n=n),
            parameters=about["parameters"],
            device=trainer.device.type,
            steps=say("one step") if total == 1 else say("several steps", n=total),
        )
    )
    if trainer.processes.is_first:
        trainer.folder.write_about(about)


def _where_it_resumes(trainer: Trainer) -> str:
    step, total = trainer.progress.step, trainer.total
    if step < total:
        return say("resumes", step=step, total=total)
    return say("complete", step=step, total=total)


def _check_folder(folder: RunFolder, config: RunConfig, resume: bool) -> None:
    if not resume:
        folder.check_empty()
    elif not folder.exists():
        folder.check_ours()
    elif (there := folder.read_config()).recipe != config.recipe:
        raise TrainingError(
            "{path} holds a run of the recipe {recipe}, not of {other}; choose another folder",
            path=folder.path,
            recipe=there.recipe,
            other=config.recipe,
        )


def _about(trainer: Trainer) -> dict[str, Any]:
    config, device = trainer.config, trainer.device
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "recipe": config.recipe,
        "glassformer": __version__,
        "torch": torch.__version__,
        "hardware": f"{trainer.processes.n} × {hardware}",
        "seed": config.loop.seed,
        "parameters": count_parameters(trainer.model),
        "training_examples": len(trainer.problem.train),
        "checksums": trainer.problem.checksums,
        "command": command_of(config),
        "run": {**asdict(config), "first": None},
        **trainer.problem.about,
    }


def _finish(
    trainer: Trainer, about: dict[str, Any], interruption: Interruption
) -> dict[str, dict[str, float]]:
    """Test the selected weights once, if the run is tested at all, and save them."""
    model = trainer.final_model()
    beam = final_beam(trainer.config)
    if trainer.kept_step != trainer.progress.step:
        trainer.reporter.line(say("best", step=trainer.kept_step))
    tests = dict(trainer.problem.tests)
    held_out = tests if trainer.config.loop.test else {}
    if trainer.problem.valid is not None:
        held_out = {"validation": trainer.problem.valid, **held_out}
    if held_out:
        trainer.reporter.line(say("scoring", parts=_sizes(held_out)))
    if tests and not trainer.config.loop.test:
        trainer.reporter.line(say("not tested", parts=_sizes(tests)))
    elif not held_out:
        trainer.reporter.line(say("not held out"))
    scores: dict[str, dict[str, float]] = {}
    signatures: dict[str, str] = {}
    for name, part in held_out.items():
        result = trainer.evaluator(model, part, beam=beam)
        scores[name] = result.values
        signatures |= result.signatures
        numbers = "  ".join(f"{key} {value:.4f}" for key, value in result.values.items())
        key = "score of beams" if trainer.problem.task == "translate" else "score"
        if trainer.processes.is_first:
            trainer.reporter.line(say(key, name=name, beams=beam.size, numbers=numbers))
    if not trainer.processes.is_first:
        return scores
    facts = about | {
        "scores": scores,
        "signatures": signatures,
        "steps": trainer.progress.step,
        "best_step": trainer.progress.best_step,
        "kept_step": trainer.kept_step,
        "train_seconds": round(trainer.progress.seconds, 2),
        "seconds": round(trainer.total_seconds, 2),
    }
    with interruption.waits():
        trainer.folder.write_about(facts)
        _save(trainer, model, facts)
    return scores


def _sizes(held_out: Mapping[str, HeldOut]) -> str:
    return ", ".join(f"{name} ({len(part.examples):,})" for name, part in held_out.items())


def _save(trainer: Trainer, model: nn.Module, facts: dict[str, Any]) -> None:
    """Save a model folder; baselines, which nothing else can load, save weights only."""
    if trainer.config.kind not in ("transformer", "factors"):
        tensors = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
        write_whole(trainer.folder.path / "weights.safetensors", save(tensors))
        return
    checkpoint.save(
        trainer.folder.model,
        trainer.problem.checkpoint(model, facts),
        card=model_card(facts, describe(model)),
    )


def with_pretraining_placed(config: RunConfig) -> RunConfig:
    """Pretraining uses the data folder, cache and device of the run, unless it has its own."""
    first = config.first
    if first is None:
        return config
    if first.loop.device not in ("auto", config.loop.device):
        raise ConfigError(
            "both runs use one device: set loop.device, got {device} and first.loop.device {other}",
            device=config.loop.device,
            other=first.loop.device,
        )
    data = replace(
        first.data,
        folder=first.data.folder or config.data.folder,
        cache=first.data.cache or config.data.cache,
    )
    loop = replace(first.loop, device=config.loop.device)
    return replace(config, first=with_pretraining_placed(replace(first, data=data, loop=loop)))


def check_unchanged(config: RunConfig, folder: RunFolder) -> None:
    """Refuse changed settings for a complete run: they would be recorded but not used."""
    wanted, there = (
        {name: value for name, value in flat(one).items() if not is_place(name)}
        for one in (config, folder.read_config())
    )
    for name, value in wanted.items():
        if value != there.get(name):
            raise ConfigError(
                "the pretraining run {recipe} in {path} is complete, with first.{name} {value},"
                " not {new}; leave the setting unchanged, or start in another folder",
                recipe=config.recipe,
                path=folder.path,
                name=name,
                value=there.get(name),
                new=value,
            )


@torch.no_grad()
def start_from(model: nn.Module, earlier: nn.Module) -> None:
    """Copy the pretrained weights into the parameters of the same names."""
    known = dict(earlier.named_parameters())
    common = {name: p for name, p in model.named_parameters() if name in known}
    if not common:
        raise TrainingError("the model shares no parameter with the pretrained one")
    for name, parameter in common.items():
        if parameter.shape != known[name].shape:
            raise TrainingError(
                "parameter {name} has shape {shape}, but {other} in the pretrained model; give "
                "both the same sizes",
                name=name,
                shape=tuple(parameter.shape),
                other=tuple(known[name].shape),
            )
        parameter.copy_(known[name])
