"""The score of a trained model on the data it was made for, as its own run would have tested it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Beam
from glassformer.errors import ConfigError, DataError, UnknownNameError
from glassformer.training.config import RunConfig
from glassformer.training.evaluation import Evaluator, Scores
from glassformer.training.problems import HeldOut, Problem, prepare
from glassformer.training.processes import Processes, choose_device, precision
from glassformer.training.recipes import RECIPES, recipe
from glassformer.training.settings import changed, restored

__all__ = ["assess"]

_AT_ONCE = 16_384  # tokens


def assess(
    model: Checkpoint, split: str = "test", *, data: Path | None = None, device: str = "auto"
) -> dict[str, Scores]:
    """Scores by part: `test` is every test part that there is; `validation`, or a part's name."""
    config = _config_of(model)
    if data is not None:
        config = changed(config, {"data.folder": str(data)})
    problem = prepare(config, model.tokenizer)
    _check_same_data(model, problem)
    parts: dict[str, HeldOut] = dict(problem.tests)
    if problem.valid is not None:
        parts["validation"] = problem.valid
    wanted = list(problem.tests) if split == "test" and problem.tests else [split]
    if split == "test" and not problem.tests:
        raise ConfigError("these data have no test part; ask for --split validation")
    for name in wanted:
        if name not in parts:
            raise UnknownNameError("split", name, ["test", *parts])
    where = choose_device(device, Processes())
    # A CPU is the reference, in float32, whatever the model was trained in elsewhere.
    asked = "float32" if where.type == "cpu" else config.loop.precision
    evaluator = Evaluator(problem, where, Processes(), precision(asked, where), max_tokens=_AT_ONCE)
    beam = Beam(size=config.loop.beam, length_penalty=config.loop.length_penalty)
    home = next(model.model.parameters()).device
    moved = model.model.to(where)
    try:
        return {name: evaluator(moved, parts[name], beam=beam) for name in wanted}
    finally:
        model.model.to(home)


def _check_same_data(model: Checkpoint, problem: Problem) -> None:
    """Of other files another part is held out: what was learnt by heart would pass for new."""
    known = model.about.get("checksums")
    if isinstance(known, Mapping) and dict(known) != problem.checksums:
        names = ", ".join(sorted({*known, *problem.checksums}))
        raise DataError(
            "{names}: not the data that this model was trained on, so what is held out of "
            "them may have been learnt from; `glassformer run` reads any text",
            names=names,
        )


def _config_of(model: Checkpoint) -> RunConfig:
    """The config of the run that made a model; its model folder keeps it."""
    name = str(model.about.get("recipe", "nothing"))
    if name not in RECIPES and "run" not in model.about:
        raise ConfigError(
            "this model was not made by a recipe (its card says {name!r}), so it has no test data",
            name=name,
        )
    kept = model.about.get("run")
    config = restored(RunConfig, kept) if isinstance(kept, Mapping) else recipe(name)
    sizes: dict[str, Any] = {"data.max_len": model.config.max_len}
    # The literature on Multi30k reports this form; a run does without it, to need less installed.
    sizes["data.tokenised_bleu"] = config.data.problem == "translate-multi30k"
    return replace(changed(config, sizes), first=None, model=model.config)
