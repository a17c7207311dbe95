"""Recipes: complete configs that are known to work, as TOML files beside this one.

A table is a recipe, with its sections as in a user's own `--config` file, and

    about     what it is, in one sentence
    extends   the table whose settings it inherits and overrides
    first     the table of its pretraining run

Tables whose names begin with "_" only serve as bases. Every setting can be changed.
"""

import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import UnknownNameError
from glassformer.training.run_config import RunConfig
from glassformer.training.settings import flat, is_place, restored

_FILES = ("models", "reviews", "translation", "language", "others", "own_data")
_TABLES: dict[str, dict[str, Any]] = {}
for _name in _FILES:
    _file = Path(__file__).with_name(f"{_name}.toml")
    _TABLES |= tomllib.loads(_file.read_text(encoding="utf-8"))

RECIPES: dict[str, str] = {
    name: table["about"] for name, table in _TABLES.items() if not name.startswith("_")
}
"""What each recipe is, by name."""


def recipe(name: str) -> RunConfig:
    if not isinstance(name, str) or name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    return restored(RunConfig, _complete(name), name)


def command_of(config: RunConfig) -> str:
    """The command that gives this config: the recipe and the changed settings."""
    if config.recipe not in RECIPES:  # the pretraining of another recipe
        return f"glassformer train (pretraining: {config.recipe})"
    plain, ours = flat(recipe(config.recipe)), flat(config)
    named = {name for name, value in ours.items() if value != plain.get(name)}
    # An explicit `epochs` overrides the recipe's step count.
    sections = [name.removesuffix("epochs") for name in named if name.endswith("loop.epochs")]
    named |= {f"{section}{name}" for section in sections for name in ("steps", "least_steps")}
    changes = [
        f"--{name} {'none' if value is None else shlex.quote(str(value))}"
        for name, value in ours.items()
        if name in named and not is_place(name)
    ]
    return " ".join(["glassformer train", config.recipe, *changes])


def _complete(name: str) -> dict[str, Any]:
    """All settings of a recipe, in the form of a saved config."""
    settings = {"recipe": name.removeprefix("_"), **_extended(name)}
    if "first" in settings:
        settings["first"] = _complete(settings["first"])
    return settings


def _extended(name: str) -> dict[str, Any]:
    table = {key: value for key, value in _TABLES[name].items() if key not in ("about", "extends")}
    base = _TABLES[name].get("extends")
    return _merged(_extended(base), table) if base else table


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Two nested tables merged; `own` overrides."""
    both = {
        key: _merged(base[key], value)
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        else value
        for key, value in own.items()
    }
    return {**base, **both}
