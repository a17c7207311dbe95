"""One training run from config to model folder: `train(config, folder)`.

prepare the data → build the model → train (or go on) → test once → save
"""

import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from glassformer import __version__, checkpoint
from glassformer.decoding import Beam
from glassformer.errors import ConfigError, GlassformerError, TrainingError, expect
from glassformer.files import as_path, write_whole
from glassformer.nn import count_parameters
from glassformer.text import Tokenizer
from glassformer.training.before import check_unchanged, start_from, with_first_in_place
from glassformer.training.card import model_card
from glassformer.training.config import RunConfig
from glassformer.training.folder import RunFolder
from glassformer.training.interruption import Interruption, listen
from glassformer.training.loop import Trainer
from glassformer.training.others import KINDS
from glassformer.training.problems import Problem, prepare
from glassformer.training.processes import Processes, choose_device
from glassformer.training.progress import Reporter
from glassformer.training.progress import say as progress
from glassformer.training.reference import command_of
from glassformer.training.state import seed_random
from glassformer.training.watching import announced

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
    expect(config, RunConfig, "a RunConfig, such as recipe(…) gives")
    run_folder = RunFolder(as_path(folder, TrainingError, "a run folder"))
    config = with_first_in_place(config)
    _check_folder(run_folder, config, resume)
    _final_beam(config)  # now, not after hours of training
    with Processes.from_environment() as processes, listen() as interruption:
        device = choose_device(config.loop.device, processes)
        processes.join(device)
        say = reporter if reporter and processes.is_first else Reporter()
        where = _Where(device, processes, interruption, say)
        try:
            return _train(config, run_folder, resume, where)
        except (MemoryError, RuntimeError) as error:
            if not _is_lack_of_memory(error):
                raise
            raise TrainingError(
                "{type} has too little memory for this run: raise loop.accumulate, or lower "
                "data.batch_size (data.max_tokens), data.max_len or the model's sizes; states "
                "that were saved are whole",
                type=device.type,
            ) from error


def _is_lack_of_memory(error: Exception) -> bool:
    # The CPU's allocator has no exception of its own.
    return isinstance(
        error, MemoryError | torch.OutOfMemoryError
    ) or "can't allocate memory" in str(error)


@dataclass(frozen=True)
class _Where:
    """What a run and the one before it have in common."""

    device: torch.device
    processes: Processes
    interruption: Interruption
    say: Reporter


def _train(config: RunConfig, folder: RunFolder, resume: bool, where: _Where) -> Result:
    """One run, after the run that it starts from; who watches is told how it stands."""
    writes = config.loop.watch and where.processes.is_first
    with _held(folder, where), announced(folder.path, writes=writes):
        return _follow(config, folder, resume, where)


@contextmanager
def _held(folder: RunFolder, where: _Where) -> Iterator[None]:
    """Only this run writes to the folder; all its processes stop where the first may not."""
    refusal: GlassformerError | None = None
    with ExitStack() as stack:
        if where.processes.is_first:
            try:
                stack.enter_context(folder.held())
            except GlassformerError as error:
                refusal = error
        if where.processes.any(refusal is not None, where.device):
            raise refusal or ConfigError(f"the first process cannot train in {folder.path}")
        yield


def _follow(config: RunConfig, folder: RunFolder, resume: bool, where: _Where) -> Result:
    """From preparing to saving."""
    started = time.perf_counter()
    processes, device, say = where.processes, where.device, where.say
    goes_on = resume and folder.exists()
    if processes.is_first and not goes_on:
        folder.begin(config)
    first = _first(config, folder, resume, where)
    problem = _prepare(config, processes, first.tokenizer if first else None)
    seed_random(config.loop.seed)
    model = KINDS[config.kind](problem.model)
    if first is not None:
        start_from(model, first.model)
    trainer = Trainer(
        config, problem, model, folder=folder, device=device, processes=processes, reporter=say
    )
    seed_random(config.loop.seed + processes.rank)  # dropout differs between processes
    if resume:
        taken_up = trainer.resume()
        say.line(
            _where_it_goes_on(trainer) if taken_up else progress("no state", folder=folder.states)
        )
    about = _about(config, problem, model, device, processes)
    say.line(
        progress(
            "begins",
            recipe=config.recipe,
            examples=len(problem.train),
            parameters=about["parameters"],
            device=device.type,
            updates=trainer.total,
        )
    )
    if processes.is_first:
        if goes_on:  # not before: settings that the run cannot go on with must not replace its own
            folder.begin(config)
        folder.write_about(about)
    try:
        with where.interruption.waits():
            trainer.run(where.interruption)
    finally:
        say.stop()
    scores = _finish(trainer, about, started, where)
    processes.wait()
    position, seconds = trainer.position, time.perf_counter() - started
    return Result(
        folder.path, scores, position.step, position.seconds, seconds, count_parameters(model)
    )


def _where_it_goes_on(trainer: Trainer) -> str:
    step, total = trainer.position.step, trainer.total
    if step < total:
        return progress("goes on", step=step, total=total)
    return progress("nothing left", step=step, total=total)


def _first(
    config: RunConfig, folder: RunFolder, resume: bool, where: _Where
) -> checkpoint.Checkpoint | None:
    """The model that a run starts from, trained in a folder inside its own if it is not yet."""
    if config.first is None:
        return None
    inside = folder.first
    if not inside.model.is_dir():
        where.say.line(progress("first", recipe=config.first.recipe, folder=inside.path))
        _train(config.first, inside, resume, where)
        where.processes.wait()
    else:
        check_unchanged(config.first, inside)
    return checkpoint.load(inside.model)


def _final_beam(config: RunConfig) -> Beam:
    """That of the translations which are scored at the end."""
    return Beam(size=config.loop.beam, length_penalty=config.loop.length_penalty)


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


def _prepare(config: RunConfig, processes: Processes, tokenizer: Tokenizer | None) -> Problem:
    """The first process tokenises; the others find it done."""
    if processes.is_first:
        problem = prepare(config, tokenizer)
        processes.wait()
        return problem
    processes.wait()
    return prepare(config, tokenizer)


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
        "command": command_of(config),
        "run": {**asdict(config), "first": None},
        **problem.about,
    }


def _finish(
    trainer: Trainer, about: dict[str, Any], started: float, where: _Where
) -> dict[str, dict[str, float]]:
    """Test the chosen weights once, and save them."""
    model = trainer.final_model()
    beam = _final_beam(trainer.config)
    if trainer.kept_step != trainer.position.step:
        where.say.line(progress("best", step=trainer.kept_step))
    held_out = dict(trainer.problem.tests)
    if trainer.problem.valid is not None:
        held_out = {"validation": trainer.problem.valid, **held_out}
    if not held_out:
        where.say.line(progress("not held out"))
    scores: dict[str, dict[str, float]] = {}
    signatures: dict[str, str] = {}
    for name, part in held_out.items():
        result = trainer.evaluator(model, part, beam=beam)
        scores[name] = result.values
        signatures |= result.signatures
        numbers = "  ".join(f"{key} {value:.4f}" for key, value in result.values.items())
        key = "score of beams" if trainer.problem.task == "translate" else "score"
        if trainer.processes.is_first:
            where.say.line(progress(key, name=name, beams=beam.size, numbers=numbers))
    if not trainer.processes.is_first:
        return scores
    facts = about | {
        "scores": scores,
        "signatures": signatures,
        "steps": trainer.position.step,
        "best_step": trainer.position.best_step,
        "kept_step": trainer.kept_step,
        "train_seconds": round(trainer.position.seconds, 2),
        "seconds": round(time.perf_counter() - started, 2),
    }
    with where.interruption.waits():
        trainer.folder.write_about(facts)
        _save(trainer, model, facts)
    return scores


def _save(trainer: Trainer, model: nn.Module, facts: dict[str, Any]) -> None:
    """A model folder; of what no other part can use (others.KINDS), the weights alone."""
    problem = trainer.problem
    if trainer.config.kind not in ("transformer", "factors"):
        tensors = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
        write_whole(trainer.folder.path / "weights.safetensors", save(tensors))
        return
    checkpoint.save(
        trainer.folder.model,
        checkpoint.Checkpoint(
            model=model,
            config=problem.model,
            tokenizer=problem.tokenizer,
            labels=problem.labels,
            about=facts,
        ),
        card=model_card(facts, model),
    )
