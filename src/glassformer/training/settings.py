"""Changing a config from outside: `--section.key value` on a command line, TOML or JSON files.

Keys are the fields' names, with `-` or `_`. A key that does not exist is an error that suggests
the nearest one; a value that does not fit says what would. Needs nothing but Python.
"""

import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from glassformer.errors import ConfigError, UnknownNameError
from glassformer.files import read_bytes

__all__ = ["changed", "from_arguments", "from_file", "keys", "restored", "to_json"]

T = TypeVar("T")


def changed(config: T, changes: Mapping[str, Any], source: str = "") -> T:
    """A copy of a nested config with some fields changed, given as {"model.d_model": 64}.

    Values may be strings, as a command line has them, or of their own type. `source` is named in
    front of error messages.
    """
    known = set(keys(config))
    tree: dict[str, Any] = {}
    for key, value in changes.items():
        name = key.replace("-", "_")
        if name not in known:
            raise UnknownNameError(f"setting{source and f' in {source}'}", name, known)
        *sections, last = name.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ConfigError(
                    "{section} is set as a whole; it cannot have {name} as well",
                    section=section,
                    name=name,
                )
        place[last] = value
    result: T = _replaced(config, tree, "")
    return result


def from_arguments(arguments: Sequence[str]) -> dict[str, str]:
    """Changes from `--section.key value` or `--section.key=value`."""
    changes: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            raise ConfigError("expected --section.key value, got {argument!r}", argument=argument)
        name, equals, value = argument[2:].partition("=")
        given = value if equals else next(rest, None)
        if given is None:
            raise ConfigError("--{name} needs a value", name=name)
        changes[name] = given
    return changes


def from_file(path: Path) -> dict[str, Any]:
    """Changes from a TOML file with one table a section, or a JSON file such as a run folder's."""
    content = read_bytes(path, error=ConfigError)
    try:
        text = content.decode("utf-8-sig")  # Windows' editors write a mark
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            "{path} is not {format}: {error}",
            path=path,
            format=path.suffix[1:].upper() or "TOML",
            error=error,
        ) from None
    if not isinstance(data, dict):
        raise ConfigError("{path} must hold sections with settings", path=path)
    return dict(_flat(data, ""))


def keys(config: Any, prefix: str = "") -> Iterator[str]:
    """The dotted names of all fields that can be set."""
    for field in fields(config):
        value = getattr(config, field.name)
        name = f"{prefix}{field.name}"
        if is_dataclass(value):
            yield from keys(value, f"{name}.")
        if not is_dataclass(value) or field.default is None:  # a section that may be left out
            yield name


def to_json(config: Any) -> str:
    """A config as text; `restored` reads it again."""
    return json.dumps(asdict(config), indent=1, ensure_ascii=False) + "\n"


def restored(cls: type[T], data: Mapping[str, Any], where: str = "config") -> T:
    """The config that `to_json` wrote, given the parsed object."""
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in hints:
            raise UnknownNameError("setting", f"{where}.{key}", [f"{where}.{h}" for h in hints])
        nested = next((h for h in _options(hints[key]) if is_dataclass(h)), None)
        values[key] = (
            restored(nested, value, f"{where}.{key}")
            if isinstance(nested, type) and isinstance(value, Mapping)
            else _converted(value, hints[key], f"{where}.{key}")
        )
    missing = [field.name for field in fields(cast(Any, cls)) if _is_required(field, data)]
    if missing:
        raise ConfigError(
            "{where} lacks {missing!r}, which every config has", where=where, missing=missing[0]
        )
    return cls(**values)


def _is_required(field: Field[Any], data: Mapping[str, Any]) -> bool:
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    return not has_default and field.name not in data


def _replaced(config: Any, tree: Mapping[str, Any], where: str) -> Any:
    """All changes of one section at once: halfway, its fields need not fit together."""
    hints = get_type_hints(type(config))
    values: dict[str, Any] = {}
    for name, value in tree.items():
        current = getattr(config, name)
        path = f"{where}{name}"
        values[name] = (
            _replaced(current, value, f"{path}.")
            if is_dataclass(current) and isinstance(value, Mapping)
            else _converted(value, hints[name], path)
        )
    return replace(config, **values)


def _flat(data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _converted(value: Any, hint: Any, where: str) -> Any:
    """A value as the type that a field wants."""
    for option in _options(hint):
        try:
            return _as(option, value)
        except (TypeError, ValueError, OverflowError):  # a whole number that no float can hold
            continue
    wanted = " or ".join(_in_words(option) for option in _options(hint))
    raise ConfigError(
        "{where} must be {wanted}, got {value!r}", where=where, wanted=wanted, value=value
    )


def _options(hint: Any) -> list[Any]:
    """The alternatives of a union or a Literal, strictest first: any text would pass for str."""
    parts = [hint]
    if get_origin(hint) is Literal or NoneType in get_args(hint) or len(get_args(hint)) > 1:
        parts = list(get_args(hint)) if get_origin(hint) is not Literal else [hint]
    return sorted(parts, key=lambda part: part is str)


def _as(option: Any, value: Any) -> Any:
    if get_origin(option) is Literal:
        if isinstance(value, bool):  # TOML's word for a switch
            value = "on" if value else "off"
        for choice in get_args(option):
            if value == choice or (isinstance(value, str) and value == str(choice)):
                return choice
        raise ValueError
    if option is NoneType:
        if value is None or (isinstance(value, str) and value.lower() in ("none", "")):
            return None
        raise ValueError
    if option is bool:
        return _as_bool(value)
    if option is int:
        return _as_int(value)
    if option is float:
        if isinstance(value, bool) or not math.isfinite(float(value)):
            raise ValueError
        return float(value)
    if not isinstance(value, option):
        raise ValueError
    return value


def _as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if not isinstance(value, str) or value.lower() not in words:
        raise ValueError
    return words[value.lower()]


def _as_int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    return int(value)


def _in_words(option: Any) -> str:
    if get_origin(option) is Literal:
        return " or ".join(map(repr, get_args(option)))
    names = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "none"}
    return names.get(option, "a text" if option is str else str(option))
