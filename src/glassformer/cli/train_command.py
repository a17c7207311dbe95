"""`glassformer train`: a training run."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from glassformer.language import words


def train(
    *recipe: Annotated[str, Parameter(allow_leading_hyphen=True)],
) -> None:
    """Train a model by a recipe; the result is one JSON object."""
    from glassformer.training.command import execute

    execute(recipe, _watch)


def _watch(folder: Path) -> AbstractContextManager[None]:
    """Imported only for `--watch`: a mistyped recipe is reported without importing torch."""
    from glassformer.explorer.training_watch import watch

    return watch(folder)


known = words("glassformer.training.reference")


def recipes(
    name: str | None = None,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
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
