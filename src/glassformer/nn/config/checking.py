"""What every config does: refuse a value that cannot be, and come back from plain data.

Knows dataclasses and their annotations, and nothing of models.
"""

import math
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from glassformer.errors import ConfigError, UnknownNameError

T = TypeVar("T")


class Checked:
    """Rejects a value that the field's annotation does not allow, and names the choices."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if not _fits(value, hint):
                raise ConfigError(
                    "{kind}.{name} must be {in_words}, got {value!r}",
                    kind=type(self).__name__,
                    name=name,
                    in_words=_in_words(hint),
                    value=value,
                )

    def _require(self, holds: bool, message: str) -> None:
        if not holds:
            raise ConfigError(message)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of the annotated type; a whole number passes for a float, ∞ does not."""
    options = get_args(hint)
    if getattr(hint, "__origin__", None) is Literal:
        return any(value == option and type(value) is type(option) for option in options)
    if options:
        return any(_fits(value, option) for option in options)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        return False


def _in_words(hint: Any) -> str:
    options = get_args(hint)
    if getattr(hint, "__origin__", None) is Literal:
        return " or ".join(map(repr, options))
    if options:
        return " or ".join(_in_words(option) for option in options)
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(
        hint, "none" if hint is type(None) else getattr(hint, "__name__", str(hint))
    )


def positive(config: object, name: str, most: int = 2**24) -> None:
    """Refuse a size below 1, or beyond all sense; None, where the field allows it, is none."""
    value = getattr(config, name)
    if value is not None and value < 1:
        raise ConfigError("{name} must be at least 1, got {value}", name=name, value=value)
    at_most(config, name, most)


def at_most(config: object, name: str, most: int) -> None:
    """Refuse a size that would fill any memory, before anything is built; None is none."""
    value = getattr(config, name)
    if value is not None and value > most:
        raise ConfigError(
            "{name} must be at most {most:,}, got {value:,}", name=name, most=most, value=value
        )


def probability(config: object, name: str) -> None:
    """Refuse a share that is negative, or all."""
    value = getattr(config, name)
    if not 0 <= value < 1:
        raise ConfigError("{name} must be in [0, 1), got {value}", name=name, value=value)


def known_field(config: Any, name: str) -> None:
    """Refuse a setting that a config does not have."""
    known = [f.name for f in fields(config)] if is_dataclass(config) else []
    if name not in known:
        raise UnknownNameError("setting", name, known)


def config_of(cls: type[T], config: object, settings: dict[str, Any]) -> T:
    """A config that was given, or one made of settings given by name; never both."""
    if config is None:
        for name in settings:
            known_field(cls, name)
        return cls(**settings)
    if settings or not isinstance(config, cls):
        got = "both" if settings else f"{config!r:.60}"
        raise ConfigError(
            "expected {kind}(…) or its settings by name, got {got}", kind=cls.__name__, got=got
        )
    return config


def from_dict(cls: type[T], data: Any, where: str) -> T:
    """A config, and those in it, from plain data; `where` is how messages call it."""
    if not isinstance(data, dict):
        raise ConfigError(
            "{where} must be an object with settings, got {data!r}", where=where, data=data
        )
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in hints:
            raise UnknownNameError("setting", f"{where}.{key}", [f"{where}.{h}" for h in hints])
        hint = hints[key]
        nested = is_dataclass(hint) and isinstance(hint, type)
        values[key] = from_dict(hint, value, f"{where}.{key}") if nested else value
    return cls(**values)
