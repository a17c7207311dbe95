"""`glassformer recipes`: what can be trained, and what can be set."""

import json
import sys
from typing import Annotated

from cyclopts import Parameter


def recipes(
    name: str | None = None,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """List the recipes, or all settings of one with their values.

    Parameters
    ----------
    name:
        A recipe.
    as_json:
        Write JSON: {"name", "about"} per line, or the complete config, which --config reads.
    """
    from glassformer.training.recipes import RECIPES, recipe
    from glassformer.training.settings import settings_of, to_json

    if name is not None and as_json:
        sys.stdout.write(to_json(recipe(name)))
    elif name is not None:
        for setting in settings_of(recipe(name)):
            value = "none" if setting.value is None else setting.value
            sys.stdout.write(f"--{setting.name} {value}\n    {setting.help}\n")
    else:
        for known, about in RECIPES.items():
            line = json.dumps({"name": known, "about": about}) if as_json else f"{known:<18}{about}"
            sys.stdout.write(f"{line}\n")
