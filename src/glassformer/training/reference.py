"""What can be set, with its value and its help: the sentence under each field of the configs."""

import ast
import inspect
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from glassformer.training.config import RunConfig
from glassformer.training.recipes import RECIPES, recipe

__all__ = ["Setting", "command_of", "is_place", "settings_of"]

# Where things are on this machine changes no result.
_PLACES = ("data.folder", "data.cache", "loop.device")


@dataclass(frozen=True)
class Setting:
    """One field of a config."""

    name: str
    value: Any
    help: str


def settings_of(config: Any, prefix: str = "") -> Iterator[Setting]:
    """All fields of a nested config by their dotted names, with their help."""
    sentences = _sentences(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            yield from settings_of(value, f"{prefix}{field.name}.")
        else:
            yield Setting(f"{prefix}{field.name}", value, sentences.get(field.name, ""))


def _sentences(cls: type) -> dict[str, str]:
    """The docstring that follows each field in the source."""
    (tree,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[field.target.id] = " ".join(str(after.value.value).split())
    return found


def command_of(config: RunConfig) -> str:
    """The command that gives this config: the recipe, and what was set otherwise."""
    if config.recipe not in RECIPES:  # the first part of another recipe
        return f"glassformer train (the run before another: {config.recipe})"
    plain = {setting.name: setting.value for setting in settings_of(recipe(config.recipe))}
    ours = {setting.name: setting.value for setting in settings_of(config)}
    named = {name for name, value in ours.items() if value != plain.get(name)}
    # Naming epochs puts the recipe's own number of updates out of force.
    sections = [name.removesuffix("epochs") for name in named if name.endswith("loop.epochs")]
    named |= {f"{section}{name}" for section in sections for name in ("steps", "least_steps")}
    changes = [
        f"--{name} {'none' if value is None else shlex.quote(str(value))}"
        for name, value in ours.items()
        if name in named and not is_place(name)
    ]
    return " ".join(["glassformer train", config.recipe, *changes])


def is_place(name: str) -> bool:
    """Whether a setting says where things are, of a run or of the one before it."""
    return name.removeprefix("first.") in _PLACES
