"""`train` as a command, without a library for commands: it must run where none is installed.

glassformer train RECIPE, or python -m glassformer.training RECIPE, then any of
    --out DIR          the run folder (runs/RECIPE unless given)
    --resume           go on where the folder's run stopped
    --config FILE      settings from a TOML file, or from a run folder's config.json
    --plot             draw the run into its folder (needs matplotlib)
    --watch            keep pictures of attention; the command `glassformer` also shows them live
    --section.key V    one setting
    --text FILE, --pairs FILE, --csv FILE, --text-column NAME, --label-column NAME
                       your own data
"""

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, Fragment, GlassformerError, UnknownNameError
from glassformer.language import chosen_language, message_of, speak, words
from glassformer.training.config import RunConfig
from glassformer.training.folder import RunFolder
from glassformer.training.plot import check_drawing, plot_run
from glassformer.training.progress import make_reporter
from glassformer.training.recipes import RECIPES, recipe
from glassformer.training.settings import changed, from_arguments, from_file

__all__ = ["configure", "execute", "main"]

say = words("glassformer.training.progress")

# Short names of settings, for what nearly every user of them sets.
_SHORT = {
    "--text": "--data.file",
    "--csv": "--data.file",
    "--pairs": "--data.file",
    "--text-column": "--data.text_column",
    "--label-column": "--data.label_column",
}
_FLAGS = ("--resume", "--plot", "--watch")
_VALUES = ("--out", "--config")
_ANSWERABLE = ("classify-imdb", "classify-csv", "translate", "continue")
_OPTIONS = (*_SHORT, *_FLAGS, *_VALUES, "--kind")  # all that may be given without a section


@dataclass
class _Request:
    """What a command line asks for."""

    recipe: str
    values: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    settings: list[str] = field(default_factory=list)


def configure(
    name: str, *, config_file: str | None, settings: Sequence[str], resume_from: Path | None
) -> RunConfig:
    """A recipe (or the config of the run to resume) with a file's and a command line's changes."""
    config = recipe(name)
    folder = RunFolder(resume_from) if resume_from else None
    if folder and folder.exists():
        there = folder.read_config()
        if there.recipe == name:  # another recipe's is refused where the run begins
            config = there
    if config_file is not None:
        changes = from_file(Path(config_file))
        if changes.get("recipe", name) != name:
            raise ConfigError(
                "{config_file} is a config of the recipe {other}, not of {name}",
                config_file=config_file,
                other=changes["recipe"],
                name=name,
            )
        config = changed(config, _as_meant(changes), config_file)
    return changed(config, _as_meant(from_arguments(settings)))


def _as_meant(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Who names epochs means them: the recipe's own number of updates does not go before."""
    meant = dict(changes)
    for key in changes:
        if key.endswith("loop.epochs"):
            section = key.removesuffix("epochs")
            meant.setdefault(f"{section}steps", None)
            meant.setdefault(f"{section}least_steps", 0)
    return meant


Watcher = Callable[[Path], AbstractContextManager[None]]
"""What shows the run of a folder while it lasts."""


def execute(arguments: Sequence[str], watcher: Watcher | None = None) -> None:
    """Run the command; the result is one JSON object on stdout."""
    request = _parse(arguments)
    if "--plot" in request.flags:
        check_drawing()  # now, not after hours of training
    folder = Path(request.values.get("--out", f"runs/{request.recipe}"))
    resume, watched = "--resume" in request.flags, "--watch" in request.flags
    config = configure(
        request.recipe,
        config_file=request.values.get("--config"),
        settings=[*request.settings, *(["--loop.watch=true"] if watched else [])],
        resume_from=folder if resume else None,
    )
    # Not before: a mistake in the settings is answered without waiting for torch.
    from glassformer.training.processes import Processes
    from glassformer.training.run import train

    show = watcher(folder) if watcher and watched else nullcontext()
    try:
        with show:
            result = train(config, folder, resume=resume, reporter=make_reporter())
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_go_on(request.recipe, RunFolder(folder))) from None
    if not Processes.from_environment().is_first:
        return
    sys.stdout.write(json.dumps(asdict(result) | {"folder": str(result.folder)}) + "\n")
    sys.stdout.flush()
    if "--plot" in request.flags:
        sys.stderr.write(f"{say('plot', file=plot_run(folder))}\n")
    if config.kind == "transformer" and config.data.problem.startswith(_ANSWERABLE):
        sys.stderr.write(f"{say('use', folder=shlex.quote(str(folder)))}\n")


def main(arguments: Sequence[str]) -> int:
    """The command as a program of its own; returns its exit code."""
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(f"{__doc__}\nRECIPE is one of {', '.join(RECIPES)}.\n")
        return 0
    try:
        speak(chosen_language())
        execute(arguments)
    except (ConfigError, UnknownNameError) as error:
        return _fail(error, 2)
    except (GlassformerError, OSError) as error:
        return _fail(error, 1)
    except KeyboardInterrupt as error:
        return _fail(error, 130)
    return 0


def _parse(arguments: Sequence[str]) -> _Request:
    """The recipe, our options, and everything else as settings."""
    if not arguments or arguments[0].startswith("-"):
        raise ConfigError("name a recipe first: {names}", names=", ".join(RECIPES))
    request = _Request(arguments[0])
    rest = iter(arguments[1:])
    for argument in rest:
        key, equals, value = argument.partition("=")
        if argument in _FLAGS:
            request.flags.add(argument)
            continue
        if not argument.startswith("--"):
            raise ConfigError("expected --section.key value, got {argument!r}", argument=argument)
        if "." not in key and key not in _OPTIONS:
            raise UnknownNameError("option", key, _OPTIONS)
        given = value if equals else next(rest, None)
        if given is None or (key in _VALUES and not given):
            raise ConfigError("{key} needs a value", key=key)
        if key in _VALUES:
            request.values[key] = given
        else:
            request.settings.append(f"{_SHORT.get(key, key)}={given}")
    return request


def _how_to_go_on(recipe: str, folder: RunFolder) -> str:
    if folder.never_began():
        return Fragment.of("interrupted before the first update; the same command starts again")
    return Fragment.of(
        "interrupted; to go on: glassformer train {recipe} --out {out} --resume",
        recipe=recipe,
        out=shlex.quote(str(folder.path)),
    )


def _fail(error: BaseException, code: int) -> int:
    sys.stderr.write(f"glassformer: {message_of(error)}\n")
    return code
