"""Training: `glassformer train` a recipe, list the `recipes`, find their `data`."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from glassformer.cli.output import AsJson
from glassformer.language import words

say = words("glassformer.cli.messages")
known = words("glassformer.training.reference")

_FACTS = ("name", "about", "licence", "cite", "source")


def train(*recipe: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> None:
    """Train a model by a recipe; the result is one JSON object."""
    from glassformer.training.command import execute

    execute(recipe, _watch)


def _watch(folder: Path) -> AbstractContextManager[None]:
    """Imported only for `--watch`: a mistyped recipe is reported without importing torch."""
    from glassformer.explorer.training_watch import watch

    return watch(folder)


def recipes(
    name: str | None = None,
    /,
    *,
    as_json: AsJson = False,
) -> None:
    """List the recipes, or all settings of one with their values."""
    from glassformer.training.recipes import RECIPES, recipe
    from glassformer.training.settings import settings_of, to_json

    if name is not None and as_json:
        sys.stdout.write(to_json(recipe(name)))
    elif name is not None:
        for setting in settings_of(recipe(name)):
            value = "none" if setting.value is None else setting.value
            key = f"setting {setting.name.removeprefix('first.').replace('.', ' ')}"
            sys.stdout.write(f"--{setting.name} {value}\n    {known.of(setting.help, key)}\n")
    else:
        width = max(map(len, RECIPES)) + 1
        for recipe_name, about in RECIPES.items():
            shown = f"{recipe_name:<{width}}{known.of(about, f'recipe {recipe_name}')}"
            line = json.dumps({"name": recipe_name, "about": about}) if as_json else shown
            sys.stdout.write(f"{line}\n")


def data(
    name: str | None = None,
    /,
    *,
    folder: Annotated[Path | None, Parameter(name="--data")] = None,
    archive: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """List the data sets, or check (and where possible fetch) the files of one."""
    from glassformer.data.corpora import CORPORA, locate, obtain

    if archive is not None:
        _unpack(name, archive, folder)
    if name is not None:
        found = obtain(name, folder)
        for file in found.corpus.files:
            path = found.file(file)
            line = {"file": file, "path": str(path), "sha256": found.corpus.files[file]}
            sys.stdout.write(f"{json.dumps(line) if as_json else path}\n")
        return
    for corpus in CORPORA.values():
        place = locate(corpus, folder)
        if as_json:
            facts = {name: getattr(corpus, name) for name in _FACTS}
            row = {**facts, "folder": None if place is None else str(place)}
            sys.stdout.write(f"{json.dumps(row, ensure_ascii=False)}\n")
            continue
        of = words("glassformer.data.corpora").of
        lines = (
            of(corpus.about),
            say("data terms", licence=of(corpus.licence), cite=corpus.cite),
            say("data here", place=place) if place else say("data not here", source=corpus.source),
        )
        sys.stdout.write(f"{corpus.name:<14}" + f"\n{'':<14}".join(lines) + "\n")


def _unpack(name: str | None, archive: Path, folder: Path | None) -> None:
    """Make the files of a data set from its published archive."""
    from glassformer.data.corpora import cache_folder
    from glassformer.data.imdb import convert
    from glassformer.errors import ConfigError

    if name not in ("imdb", "imdb-unsup"):
        raise ConfigError(
            "--archive is for imdb and imdb-unsup, got {name}", name=name or "no data set"
        )
    target = folder or cache_folder() / "data"
    convert(archive, target, lambda line: sys.stderr.write(f"{line}\n"))
