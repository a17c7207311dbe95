"""Everything that Glassformer raises on purpose.

    GlassformerError
    ├── ConfigError       (ValueError)  a setting, or two that do not fit together
    ├── UnknownNameError  (LookupError) an unknown name; suggests the nearest
    ├── ShapeError        (ValueError)  a tensor of the wrong shape
    ├── MaskError         (TypeError)   a mask that is not boolean
    ├── InputError        (ValueError)  ids, text or images that a model cannot take
    ├── DataError         (OSError)     a data set that is missing, damaged or not as expected
    ├── TrainingError     (RuntimeError) a run that cannot continue or resume
    ├── TraceError        (RuntimeError) a computation that cannot be traced, or a missing cell
    │   └── TraceTooLargeError           a trace that would not fit into the memory it may take
    ├── CancelledError    (RuntimeError) work cancelled by its caller
    ├── ExportError       (RuntimeError) a model that another format cannot hold, or gets wrong
    ├── NotInstalledError (ImportError) a library that only an extra installs
    └── CheckpointError   (OSError)     a model folder that is missing, damaged or not ours

Each message says what was expected, what came, and what to do. The second base of each class is
the built-in exception that a caller who does not know Glassformer would catch.

A message with placeholders is raised with its fields, `InputError("got {n} texts", n=n)`, so that
commands can print it in Chinese: errors.toml holds the translation under the English template.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import zip_longest
from math import inf
from numbers import Real
from operator import index
from typing import Annotated, Any, get_args, get_origin, get_type_hints


class GlassformerError(Exception):
    """Base class: `except GlassformerError` catches every error of ours and nothing else."""

    def __init__(self, message: str = "", /, **fields: object) -> None:
        fields = {name: _printable(value) for name, value in fields.items()}
        super().__init__(message.format(**fields) if fields else message)
        self.template = message
        self.fields = fields


class _HugeInt(int):
    """An int that is not written out: Python refuses to print one of over 4,300 digits."""

    def __format__(self, _spec: str) -> str:
        return "a number of more than 40 digits"

    def __repr__(self) -> str:
        return format(self)


def _printable(value: object) -> object:
    return _HugeInt(value) if isinstance(value, int) and abs(value) >= 10**40 else value


def shown(value: object) -> str:
    """A value as an error message shows it, shortened."""
    value = _printable(value)
    return f"{value:,}" if type(value) in (int, _HugeInt) else f"{value!r:.40}"


class ConfigError(GlassformerError, ValueError):
    """An invalid setting, or two settings that do not fit together."""


_MAX_NAME = 80  # characters of an unknown name that its error repeats


class UnknownNameError(GlassformerError, LookupError):
    """A preset, step, model or key that does not exist."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        name, known = str(name), sorted(known)
        near = did_you_mean(name, known)
        shown = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
        super().__init__("unknown {what} {name!r}{near}", what=what, name=shown, near=near)
        self.what = what
        self.name = name
        self.known = known

    def __reduce__(self) -> tuple[type["UnknownNameError"], tuple[str, str, list[str]]]:
        return type(self), (self.what, self.name, self.known)  # it crosses process boundaries


class ShapeError(GlassformerError, ValueError):
    """A tensor whose shape does not fit the module it was given to."""


class MaskError(GlassformerError, TypeError):
    """A mask that is not boolean: an additive or 0/1 mask would silently mean something else."""


class InputError(GlassformerError, ValueError):
    """Data that a model cannot take: ids out of range, a text too long or empty."""


class DataError(GlassformerError, OSError):
    """A data set that is missing, damaged, or without the columns or classes asked for."""


class TrainingError(GlassformerError, RuntimeError):
    """A training run that cannot continue, or cannot resume where it stopped."""


class TraceError(GlassformerError, RuntimeError):
    """A computation that cannot be traced, or a step or cell that a trace does not have."""


class TraceTooLargeError(TraceError):
    """A trace that would keep more numbers than it may."""


class CancelledError(GlassformerError, RuntimeError):
    """Work that its caller cancelled: nobody waits for the result any more."""


class ExportError(GlassformerError, RuntimeError):
    """A model that another format cannot hold, or whose exported copy gives other results."""


class NotInstalledError(GlassformerError, ImportError):
    """A library that an extra of this package installs: the message names the extra."""


class CheckpointError(GlassformerError, OSError):
    """A model folder that is missing, damaged or not ours."""


def exit_code(error: BaseException) -> int:
    """The exit code of a failed command: 2 wrong usage, 130 interrupted, 1 anything else."""
    if isinstance(error, ConfigError | UnknownNameError):
        return 2
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: torch's error for a GPU and its message for a CPU included."""
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    return "out of memory" in str(error) or "allocate memory" in str(error)


class Fragment(str):
    """Part of an error message that keeps its template and fields, so that it can be translated."""

    template: str
    fields: dict[str, object]

    @classmethod
    def of(cls, template: str, **fields: object) -> "Fragment":
        made = cls(template.format(**fields))
        made.template, made.fields = template, fields
        return made


_DID_YOU_MEAN = {
    1: "; did you mean {a!r}?",
    2: "; did you mean {a!r} or {b!r}?",
    3: "; did you mean {a!r} or {b!r} or {c!r}?",
}


def did_you_mean(name: str, known: Iterable[str], most: int = 12) -> Fragment:
    """The end of an error message: the nearest known names, or the known ones if none is near."""
    from difflib import get_close_matches  # only for an error: no command waits for it

    known = list(known)
    near = (
        [one for one in known if one.casefold() == name.casefold()][:3]
        or get_close_matches(name, known, n=3, cutoff=0.9)  # a typo
        or _near_last_parts(name, known)[:3]
        or get_close_matches(name, known, n=3, cutoff=0.6)
    )
    if near:
        return Fragment.of(_DID_YOU_MEAN[len(near)], **dict(zip("abc", near, strict=False)))
    if not known:
        return Fragment.of("; there are none")
    listed = ", ".join(known[:most])
    if len(known) > most:
        return Fragment.of("; there are {names} and {n} more", names=listed, n=len(known) - most)
    return Fragment.of("; there are {names}", names=listed)


_LEAST_STEM = 3  # letters: half of all names begin with an a or an l


def _near_last_parts(name: str, known: list[str]) -> list[str]:
    """Names that end like this one: `model.attention.n_heads` for `model.n_heads`.

    For `weight`, `a.weight` and `a.weights` may be meant: one of each ending comes first.
    """
    from difflib import get_close_matches

    endings: dict[str, list[str]] = {}
    for one in sorted(known, key=lambda one: not one.endswith(f".{name}")):
        rest, _, last = one.rpartition(".")
        if rest:
            endings.setdefault(last, []).append(one)
    asked = name.rpartition(".")[-1]
    longer = [
        last
        for last in endings
        if last == asked or (len(asked) >= _LEAST_STEM and last.startswith(asked))
    ]
    near = sorted(longer, key=len) or get_close_matches(asked, endings, n=3, cutoff=0.8)
    by_turns = zip_longest(*(endings[last] for last in near))
    return [one for turn in by_turns for one in turn if one is not None]


def expect(
    value: object,
    kinds: type | tuple[type, ...],
    what: str,
    error: type[GlassformerError] = ConfigError,
) -> None:
    """Raise unless the argument is of these types; `what` says what was expected."""
    if not isinstance(value, kinds):
        raise error("expected {what}, got {kind}", what=what, kind=type(value).__name__)


def expect_number(value: object, name: str) -> None:
    """Raise unless the value is a real number (of any library); ∞ is one, True is not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigError("{name} must be a number, got {value}", name=name, value=shown(value))
    try:
        float(value)
    except OverflowError:
        raise ConfigError(
            "{name} must be a number that a float can hold, got {value}",
            name=name,
            value=shown(value),
        ) from None


_WRONG = {
    "[": "{name} must be at least {least:,}, got {value}",
    "(": "{name} must be above {least:,}, got {value}",
    "]": "{name} must be at most {most:,}, got {value}",
    ")": "{name} must be below {most:,}, got {value}",
}


def expect_in(value: float | None, name: str, interval: str) -> None:
    """Raise unless a number is in an interval, such as "(0, ∞)" or "[1, 2^24]"; None passes."""
    if value is None:
        return
    expect_number(value, name)
    if not -inf < value < inf:
        raise ConfigError("{name} must be a finite number, got {value}", name=name, value=value)
    least, most = map(_end, interval[1:-1].split(", "))
    if value < least or (value == least and interval[0] == "("):
        raise ConfigError(_WRONG[interval[0]], name=name, least=least, value=shown(value))
    if value > most or (value == most and interval[-1] == ")"):
        raise ConfigError(_WRONG[interval[-1]], name=name, most=most, value=shown(value))


def _end(text: str) -> float:
    """An end of an interval: `0.99`, `2^24` or `∞`."""
    if "^" in text:
        base, exponent = map(int, text.split("^"))
        return int(base**exponent)
    number = inf if text == "∞" else float(text)
    return int(number) if number.is_integer() else number


def expect_ranges(config: object, section: str = "") -> None:
    """`expect_in` for the fields of a config that name one: `Annotated[int, "[1, 2^24]"]`.

    None passes only where the type of the field allows it.
    """
    kind: Any = type(config)
    for name, (interval, may_be_none) in _intervals(kind).items():
        value = getattr(config, name)
        if not may_be_none:
            expect_number(value, f"{section}{name}")
        expect_in(value, f"{section}{name}", interval)


@cache
def _intervals(kind: Any) -> dict[str, tuple[str, bool]]:
    """By field: the interval, and whether the field may be None."""
    return {
        name: (option.__metadata__[0], option is not hint)
        for name, hint in get_type_hints(kind, include_extras=True).items()
        for option in (hint, *get_args(hint))
        if get_origin(option) is Annotated
    }


def expect_whole(
    value: object,
    name: str,
    least: int | None = 1,
    most: int | None = 2**31,
    error: type[GlassformerError] = ConfigError,
) -> int:
    """A whole number within bounds, from any library, as a Python int; True is not one."""
    try:
        number = index(value) if not isinstance(value, bool) else None  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise error("{name} must be a whole number, got {value}", name=name, value=shown(value))
    if least is not None and number < least:
        raise error(
            "{name} must be at least {least:,}, got {value}",
            name=name,
            least=least,
            value=shown(number),
        )
    if most is not None and number > most:
        raise error(
            "{name} must be at most {most:,}, got {value}",
            name=name,
            most=most,
            value=shown(number),
        )
    return number


# --- cancelling --------------------------------------------------------------------------------
# Work that nobody waits for any more can be stopped from another thread:
#
#     stop = threading.Event()
#     with cancelled_by(stop.is_set):
#         t = trace(model, ids)          # raises CancelledError soon after stop.set()
#
# Checked before each operator of a trace, an edit and a replay, before each step of a verification,
# before each decoded token, and before each matrix or cell written to a file. An operator that is
# already running is not interrupted.

_ASK: ContextVar[Callable[[], bool] | None] = ContextVar("cancelled", default=None)


@contextmanager
def cancelled_by(asked: Callable[[], bool]) -> Iterator[None]:
    """Cancel what the block computes or writes as soon as `asked()` is true.

    Inside another such block, whichever asks first cancels.
    """
    outer = _ASK.get()
    token = _ASK.set(asked if outer is None else lambda: asked() or outer())
    try:
        yield
    finally:
        _ASK.reset(token)


def stop_if_cancelled() -> None:
    """Raise CancelledError if the caller has asked to stop."""
    asked = _ASK.get()
    if asked is not None and asked():
        raise CancelledError("the work was cancelled")
