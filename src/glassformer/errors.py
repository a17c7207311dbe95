"""Everything that Glassformer raises on purpose.

    GlassformerError
    ├── ConfigError       (ValueError)  a setting, or two that do not fit together
    ├── UnknownNameError  (LookupError) a name nobody has given; suggests the nearest
    ├── ShapeError        (ValueError)  a tensor of the wrong shape
    ├── MaskError         (TypeError)   a mask that is not boolean
    ├── InputError        (ValueError)  ids, text or images that a model cannot take
    ├── DataError         (OSError)     a data set that is missing, damaged or not as expected
    ├── TrainingError     (RuntimeError) a run that cannot go on, or cannot be taken up again
    ├── TraceError        (RuntimeError) a computation that cannot be traced, or a cell it has not
    ├── CancelledError    (RuntimeError) work that its caller asked to stop
    ├── ExportError       (RuntimeError) a model that another format cannot hold, or held wrongly
    └── CheckpointError   (OSError)     a model folder that is missing, damaged or foreign

Each message says what was expected, what came, and what to do. The second base of each class is
the built-in exception that a caller who does not know Glassformer would catch.

A message with placeholders is raised with its fields, `InputError("got {n} texts", n=n)`, so that
a command can say it in Chinese: errors.toml has the sentence under its English template.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from numbers import Real
from operator import index


class GlassformerError(Exception):
    """The base of all of them: `except GlassformerError` catches nothing but ours."""

    def __init__(self, message: str = "", /, **fields: object) -> None:
        super().__init__(message.format(**fields) if fields else message)
        self.template = message
        self.fields = fields


class ConfigError(GlassformerError, ValueError):
    """A setting that cannot be, or two settings that do not fit together."""


class UnknownNameError(GlassformerError, LookupError):
    """A preset, step, model or key that does not exist."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        name, known = str(name), sorted(known)
        near = did_you_mean(name, known)
        super().__init__("unknown {what} {name!r}{near}", what=what, name=name, near=near)
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
    """A training run that cannot go on, or that cannot be taken up where it stopped."""


class TraceError(GlassformerError, RuntimeError):
    """A computation that cannot be traced, or a step or cell that a trace does not have."""


class CancelledError(GlassformerError, RuntimeError):
    """Work that stopped because its caller asked: nobody waits for the result any more."""


class ExportError(GlassformerError, RuntimeError):
    """A model that another program's format cannot hold, or whose copy there answers otherwise."""


class CheckpointError(GlassformerError, OSError):
    """A model folder that is missing, damaged or not ours."""


def exit_code(error: BaseException) -> int:
    """Of a command that ends with this: 2 wrong usage, 130 interrupted, 1 any other failure."""
    if isinstance(error, ConfigError | UnknownNameError):
        return 2
    return 130 if isinstance(error, KeyboardInterrupt) else 1


class Fragment(str):
    """A part of an error message that knows what it was made from, as the error itself does."""

    template: str
    fields: dict[str, object]

    @classmethod
    def of(cls, template: str, **fields: object) -> "Fragment":
        """A template with its fields filled in."""
        made = cls(template.format(**fields))
        made.template, made.fields = template, fields
        return made


_DID_YOU_MEAN = {
    1: "; did you mean {a!r}?",
    2: "; did you mean {a!r} or {b!r}?",
    3: "; did you mean {a!r} or {b!r} or {c!r}?",
}


def did_you_mean(name: str, known: Iterable[str], most: int = 12) -> Fragment:
    """The end of an error message: the nearest known name, or the known ones if none is near."""
    known = list(known)
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        return Fragment.of(_DID_YOU_MEAN[len(near)], **dict(zip("abc", near, strict=False)))
    if not known:
        return Fragment.of("; there are none")
    listed = ", ".join(known[:most])
    if len(known) > most:
        return Fragment.of("; there are {names} and {n} more", names=listed, n=len(known) - most)
    return Fragment.of("; there are {names}", names=listed)


def expect(
    value: object,
    kinds: type | tuple[type, ...],
    what: str,
    error: type[GlassformerError] = ConfigError,
) -> None:
    """Refuse an argument of another kind in one line; `what` says what was expected."""
    if not isinstance(value, kinds):
        raise error("expected {what}, got {kind}", what=what, kind=type(value).__name__)


def _shown(value: object) -> str:
    """A value for a message; a number of many digits is not written out."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    return f"{value:,}" if type(value) is int else f"{value!r:.40}"


def expect_number(value: object, name: str) -> None:
    """Refuse in one line what is not a number of some library; ∞ is one, True is not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigError("{name} must be a number, got {value}", name=name, value=_shown(value))
    try:
        float(value)
    except OverflowError:
        raise ConfigError(
            "{name} must be a number that a float can hold, got {value}",
            name=name,
            value=_shown(value),
        ) from None


def expect_whole(
    value: object,
    name: str,
    least: int | None = 1,
    most: int | None = 2**31,
    error: type[GlassformerError] = ConfigError,
) -> int:
    """A whole number within bounds, of whatever library, as Python's own; True is none."""
    try:
        number = index(value) if not isinstance(value, bool) else None  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise error("{name} must be a whole number, got {value}", name=name, value=_shown(value))
    if least is not None and number < least:
        raise error(
            "{name} must be at least {least:,}, got {value}",
            name=name,
            least=least,
            value=_shown(number),
        )
    if most is not None and number > most:
        raise error(
            "{name} must be at most {most:,}, got {value}",
            name=name,
            most=most,
            value=_shown(number),
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
    """Stop what the block traces or writes as soon as `asked()` is true."""
    token = _ASK.set(asked)
    try:
        yield
    finally:
        _ASK.reset(token)


def stop_if_cancelled() -> None:
    """Raise if the caller has asked to stop."""
    asked = _ASK.get()
    if asked is not None and asked():
        raise CancelledError("the work was cancelled")
