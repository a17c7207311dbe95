"""The command `train`, without a command-line library: it must run where none is installed.

`glassformer train` and `python -m glassformer.training` both call `execute`.
"""

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, Fragment, GlassformerError, exit_code
from glassformer.language import chosen_language, message_of, speak, words
from glassformer.training.log import check_plotting, make_reporter, plot_run
from glassformer.training.recipes import RECIPES, recipe
from glassformer.training.run_config import RunConfig
from glassformer.training.run_folder import RunFolder
from glassformer.training.settings import changed, from_file, parse_arguments

say = words("glassformer.training.log")

_FLAGS = ("--resume", "--plot", "--watch")
_OPTIONS = ("--out", "--config")
_SHORT = {
    "--text": "data.file",
    "--csv": "data.file",
    "--pairs": "data.file",
    "--text-column": "data.text_column",
    "--label-column": "data.label_column",
}

Watcher = Callable[[Path], AbstractContextManager[None]]
"""Shows the run in a folder while it lasts."""


def configure(
    name: str,
    changes: Mapping[str, str],
    *,
    config_file: str | None = None,
    resume_from: Path | None = None,
) -> RunConfig:
    """A recipe (or the config of the run to resume), changed by a file and the command line."""
    config = recipe(name)
    folder = RunFolder(resume_from) if resume_from else None
    if folder and folder.exists():
        there = folder.read_config()
        if there.recipe == name:  # a run of another recipe is refused when it starts
            config = there
    if config_file is not None:
        from_there = from_file(Path(config_file))
        if from_there.get("recipe", name) != name:
            raise ConfigError(
                "{config_file} is a config of the recipe {other}, not of {name}",
                config_file=config_file,
                other=from_there["recipe"],
                name=name,
            )
        config = changed(config, _with_explicit_epochs(from_there), config_file)
    return changed(config, _with_explicit_epochs(changes))


def _with_explicit_epochs(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """An explicit `epochs` overrides the recipe's step count."""
    meant = dict(changes)
    for key in changes:
        if key.endswith("loop.epochs"):
            section = key.removesuffix("epochs")
            meant.setdefault(f"{section}steps", None)
            meant.setdefault(f"{section}least_steps", 0)
    return meant


def execute(arguments: Sequence[str], watcher: Watcher | None = None) -> None:
    """Run the command; the result is one JSON object on stdout."""
    if not arguments or arguments[0].startswith("-"):
        raise ConfigError("name a recipe first: {names}", names=", ".join(RECIPES))
    name, given = arguments[0], parse_arguments(arguments[1:], _FLAGS, _OPTIONS, _SHORT)
    if "--plot" in given.flags:
        check_plotting()  # now, not after hours of training
    folder = Path(given.values.get("--out", f"runs/{name}"))
    resume, watched = "--resume" in given.flags, "--watch" in given.flags
    config = configure(
        name,
        {**given.settings, **({"loop.watch": "true"} if watched else {})},
        config_file=given.values.get("--config"),
        resume_from=folder if resume else None,
    )
    # Imported late: mistakes in the settings are reported without waiting for torch.
    from glassformer.training.processes import Processes
    from glassformer.training.run import train

    try:
        with watcher(folder) if watcher and watched else nullcontext():
            result = train(config, folder, resume=resume, reporter=make_reporter())
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_resume(name, RunFolder(folder))) from None
    if not Processes.from_environment().is_first:
        return
    sys.stdout.write(json.dumps(asdict(result) | {"folder": str(result.folder)}) + "\n")
    sys.stdout.flush()
    if "--plot" in given.flags:
        sys.stderr.write(f"{say('plot', file=plot_run(folder))}\n")
    if config.kind == "transformer" and config.data.runs_on_text:
        sys.stderr.write(f"{say('use', folder=shlex.quote(str(folder)))}\n")


def main(arguments: Sequence[str]) -> int:
    """The command as a program of its own; returns its exit code."""
    try:
        speak(chosen_language())
        if "--help" in arguments or "-h" in arguments:
            usage = words("glassformer.cli.help")("train RECIPE").strip()
            sys.stdout.write(f"{usage}\n\n{say('recipes', names=', '.join(RECIPES))}\n")
            return 0
        execute(arguments)
    except (GlassformerError, OSError, KeyboardInterrupt) as error:
        sys.stderr.write(f"glassformer: {message_of(error)}\n")
        return exit_code(error)
    return 0


def _how_to_resume(recipe: str, folder: RunFolder) -> str:
    if folder.never_began():
        return Fragment.of("interrupted before the first step; run the same command to start again")
    return Fragment.of(
        "interrupted; to resume: glassformer train {recipe} --out {out} --resume",
        recipe=recipe,
        out=shlex.quote(str(folder.path)),
    )
