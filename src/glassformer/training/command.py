"""`train` as a command, without a library for commands: it must run where none is installed.

python -m glassformer.training RECIPE [--out DIR] [--resume] [--config FILE] [--section.key V …]
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from glassformer.errors import ConfigError, GlassformerError, UnknownNameError
from glassformer.training.config import RunConfig
from glassformer.training.folder import RunFolder
from glassformer.training.progress import make_reporter
from glassformer.training.recipes import RECIPES, recipe
from glassformer.training.run import train
from glassformer.training.settings import changed, from_arguments, from_file

__all__ = ["configure", "main"]


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
        config = changed(config, from_file(Path(config_file)), config_file)
    return changed(config, from_arguments(settings))


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code. The result is one JSON object on stdout."""
    try:
        name, out, config_file, resume, settings = _parse(arguments)
        folder = Path(out or f"runs/{name}")
        config = configure(
            name,
            config_file=config_file,
            settings=settings,
            resume_from=folder if resume else None,
        )
        result = train(config, folder, resume=resume, reporter=make_reporter())
    except (ConfigError, UnknownNameError) as error:
        return _fail(error, 2)
    except GlassformerError as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted; go on with: {name} --out {folder} --resume\n")
        return 130
    sys.stdout.write(json.dumps(asdict(result) | {"folder": str(result.folder)}) + "\n")
    return 0


def _parse(arguments: Sequence[str]) -> tuple[str, str | None, str | None, bool, list[str]]:
    """Recipe, --out, --config, --resume and the rest."""
    if not arguments or arguments[0].startswith("-"):
        raise ConfigError(f"name a recipe first: {', '.join(RECIPES)}")
    name, *rest = arguments
    options: dict[str, str | None] = {"--out": None, "--config": None}
    settings: list[str] = []
    resume = False
    at = iter(rest)
    for argument in at:
        key, equals, value = argument.partition("=")
        if argument == "--resume":
            resume = True
        elif key in options:
            options[key] = value if equals else next(at, None)
            if not options[key]:
                raise ConfigError(f"{key} needs a value")
        else:
            settings.append(argument)
            if not equals and argument.startswith("--"):
                settings += [following for following in [next(at, None)] if following is not None]
    return name, options["--out"], options["--config"], resume, settings


def _fail(error: Exception, code: int) -> int:
    sys.stderr.write(f"glassformer: {' '.join(str(error).split())}\n")
    return code
