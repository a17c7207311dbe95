"""Settings from the command line (`--section.key value`) and from TOML or JSON files.

Keys are field names, with `-` or `_`. An unknown key is an error that suggests the nearest one; a
wrong value is an error that says what is expected. Needs nothing but Python.
"""

import ast
import inspect
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from glassformer.errors import ConfigError, Fragment, UnknownNameError
from glassformer.files import read_bytes, read_object
from glassformer.nn.config import in_words
from glassformer.python_source import parse_module
from glassformer.training.problems import (
    DataConfig,
    foreign_default,
    problem_class,
    settings_names,
)

T = TypeVar("T")

_RENAMED = {"average": "ema", "agreement": "r_drop"}  # fields of earlier versions
# Locations on this machine, which do not affect the result.
_PLACES = ("data.folder", "data.cache", "loop.device")
# A key `a.a.a…` of n parts takes tomllib n² steps, and n² words of memory.
_MOST_TOML = 64 * 2**10
_MOST_LINE = 4096


@dataclass(frozen=True)
class Arguments:
    """A parsed command line."""

    flags: frozenset[str]
    values: dict[str, str]
    """By option."""
    settings: dict[str, str]
    """By dotted name."""


def parse_arguments(
    arguments: Sequence[str],
    flags: Sequence[str] = (),
    options: Sequence[str] = (),
    short: Mapping[str, str] = MappingProxyType({}),
) -> Arguments:
    """The one parser of `--flag`, `--option value` and `--section.key value` (or `=value`).

    `short` are short names of settings.
    """
    found: set[str] = set()
    values: dict[str, str] = {}
    settings: dict[str, str] = {}
    known = (*short, *flags, *options, "--kind")
    rest = iter(arguments)
    for argument in rest:
        if argument in flags:
            found.add(argument)
            continue
        if not argument.startswith("--"):
            raise ConfigError("expected --section.key value, got {argument!r}", argument=argument)
        key, equals, value = argument.partition("=")
        if "." not in key and key not in known:
            raise UnknownNameError("option", key, known)
        given = value if equals else next(rest, None)
        if given is None or (key in options and not given):
            raise ConfigError("{key} needs a value", key=key)
        if key in options:
            values[key] = given
        else:
            settings[short.get(key, key.removeprefix("--"))] = given
    return Arguments(frozenset(found), values, settings)


def changed(config: T, changes: Mapping[str, Any], source: str = "") -> T:
    """A copy of a nested config with some fields changed, given as {"model.d_model": 64}.

    Values may be strings, as on a command line, or of their own type. `source` is named in error
    messages. A saved config (`source` ends in .json) may have settings of other problems, which are
    ignored.
    """
    data = asdict(cast(Any, config))
    # The problem first: it decides which settings the section `data` has.
    for key in sorted(changes, key=lambda key: not key.endswith("data.problem")):
        *sections, last = key.replace("-", "_").split(".")
        name, place = _RENAMED.get(last, last), data
        for depth, section in enumerate(sections, start=1):
            if (whole := ".".join(sections[:depth])) in changes:
                raise ConfigError(
                    "{section} is set as a whole; it cannot have {name} as well",
                    section=whole,
                    name=key,
                )
            place = place[section] if isinstance(place.get(section), dict) else {}
        if name in _settable(place):
            place[name] = changes[key]
        elif "problem" in place and foreign_default(name) is not MISSING:
            # Results would seem to depend on a setting that the problem ignores.
            if not source.endswith(".json") and str(changes[key]) != str(foreign_default(name)):
                raise ConfigError(
                    "data.{name} is not a setting of the problem {problem}, which has {names}",
                    name=name,
                    problem=place["problem"],
                    names=", ".join(sorted(_settable(place) - {"problem"})),
                )
        else:
            what = Fragment.of("setting in {where}:", where=source) if source else "setting"
            raise UnknownNameError(what, ".".join([*sections, name]), keys(config))
    return restored(type(config), data, "")


def _settable(section: Mapping[str, Any]) -> set[str]:
    """The names in a section, except sections; the pretraining can be set to none as a whole."""
    if "problem" in section:
        return settings_names(problem_class(section["problem"]))
    return {k for k, value in section.items() if not isinstance(value, dict) or k == "first"}


def from_file(path: Path) -> dict[str, Any]:
    """Changes from a TOML file with one table per section, or a run folder's config.json."""
    if path.suffix == ".json":
        data = read_object(path, error=ConfigError, what="the config of a run")
        return dict(_flat(data, ""))
    content = read_bytes(path, error=ConfigError, most=_MOST_TOML)
    if max(map(len, content.splitlines()), default=0) > _MOST_LINE:
        raise ConfigError(
            "{path} has a line of more than {most:,} bytes, the limit for settings",
            path=path,
            most=_MOST_LINE,
        )
    try:
        text = content.decode("utf-8-sig")  # editors on Windows write a byte-order mark
        return dict(_flat(tomllib.loads(text), ""))
    except (ValueError, RecursionError) as error:
        raise ConfigError("{path} is not TOML: {error}", path=path, error=error) from None


def flat(config: Any) -> dict[str, Any]:
    """The values of all settings, by their dotted names."""
    return dict(_flat(asdict(config), ""))


def keys(config: Any) -> list[str]:
    """The dotted names of all settings, and of a section that can be set to none as a whole."""
    names = list(flat(config))
    return names if getattr(config, "first", None) is None else [*names, "first"]


def to_json(config: Any) -> str:
    """A config as JSON; `restored` reads it."""
    return json.dumps(asdict(config), indent=1, ensure_ascii=False) + "\n"


def restored(cls: type[T], data: Mapping[str, Any], where: str = "config") -> T:
    """The config that `to_json` wrote, from its parsed JSON.

    Configs of earlier versions have the settings of all problems; those of others are ignored.
    """
    if issubclass(cls, DataConfig) and "problem" in data:
        cls = cast(type[T], problem_class(data["problem"]))
        data = {key: value for key, value in data.items() if not _is_foreign(cls, key)}
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for name, value in data.items():
        key = _RENAMED.get(name, name)
        path = f"{where}.{key}".removeprefix(".")
        if key not in hints or get_origin(hints[key]) is ClassVar:
            what = Fragment.of("setting in {where}:", where=where)
            raise UnknownNameError(what, key, _names(cls))
        nested = next((h for h in _options(hints[key]) if is_dataclass(h)), None)
        values[key] = (
            restored(nested, value, path)
            if isinstance(nested, type) and isinstance(value, Mapping)
            else _converted(value, hints[key], path)
        )
    missing = [
        one.name
        for one in fields(cast(Any, cls))
        if one.name not in data and one.default is MISSING and one.default_factory is MISSING
    ]
    if missing:
        raise ConfigError(
            "{where} lacks {missing!r}, which every config needs", where=where, missing=missing[0]
        )
    return cls(**values)


def _names(cls: type) -> Iterator[str]:
    """The fields of a config class, and the dotted names of those one section below."""
    for name, hint in get_type_hints(cls).items():
        if get_origin(hint) is not ClassVar:
            yield name
            for nested in filter(is_dataclass, _options(hint)):
                yield from (f"{name}.{inner.name}" for inner in fields(nested))


@dataclass(frozen=True)
class Setting:
    """One field of a config, by its dotted name."""

    name: str
    value: Any
    help: str


def settings_of(config: Any, prefix: str = "") -> Iterator[Setting]:
    """All fields of a nested config, with their help texts."""
    sentences = _sentences(type(config))
    for one in fields(config):
        value = getattr(config, one.name)
        if is_dataclass(value):
            yield from settings_of(value, f"{prefix}{one.name}.")
        else:
            yield Setting(f"{prefix}{one.name}", value, sentences.get(one.name, ""))


def is_place(name: str) -> bool:
    """Whether a setting, of a run or its pretraining, is a location on this machine."""
    return name.removeprefix("first.") in _PLACES


def _sentences(cls: type) -> dict[str, str]:
    """The docstring under each field in the source; subclasses inherit it."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not is_dataclass(base):
            continue
        (tree,) = parse_module(inspect.getsource(base)).body
        assert isinstance(tree, ast.ClassDef)
        for line, after in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found[line.target.id] = " ".join(str(after.value.value).split())
    return found


def _is_foreign(cls: type, name: str) -> bool:
    """Whether a setting belongs only to other problems."""
    return (
        issubclass(cls, DataConfig)
        and name not in settings_names(cls)
        and foreign_default(name) is not MISSING
    )


def _flat(data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _converted(value: Any, hint: Any, where: str) -> Any:
    """A value converted to the type of its field."""
    for option in _options(hint):
        try:
            return _as(option, value)
        except (TypeError, ValueError, OverflowError):  # the last: an int too large for a float
            continue
    section = next(filter(is_dataclass, _options(hint)), None)
    if section is not None:
        raise ConfigError(
            "{where} is a section with the settings {names}, got {value!r:.60}",
            where=where,
            names=", ".join(one.name for one in fields(section)),
            value=value,
        )
    raise ConfigError(
        "{where} must be {wanted}, got {value!r:.60}",
        where=where,
        wanted=in_words(hint),
        value=value,
    )


def _options(hint: Any) -> list[Any]:
    """The alternatives of a union, strictest first: str would accept any text."""
    parts = () if get_origin(hint) is Literal else get_args(hint)
    return sorted(parts or [hint], key=lambda part: part is str)


def _as(option: Any, value: Any) -> Any:
    if get_origin(option) is Literal:
        if isinstance(value, bool):  # a switch in TOML
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
    number = int(value)
    if abs(number) >= 10**40:  # Python does not even print an int of over 4,300 digits
        raise ValueError
    return number
