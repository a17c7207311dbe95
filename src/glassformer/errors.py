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
"""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "CancelledError",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "ExportError",
    "GlassformerError",
    "InputError",
    "MaskError",
    "ShapeError",
    "TraceError",
    "TrainingError",
    "UnknownNameError",
    "did_you_mean",
]


class GlassformerError(Exception):
    """The base of all of them: `except GlassformerError` catches nothing but ours."""


class ConfigError(GlassformerError, ValueError):
    """A setting that cannot be, or two settings that do not fit together."""


class UnknownNameError(GlassformerError, LookupError):
    """A preset, step, model or key that does not exist."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        super().__init__(f"unknown {what} {name!r}{did_you_mean(name, known)}")
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


def did_you_mean(name: str, known: Iterable[str], most: int = 12) -> str:
    """The end of an error message: the nearest known name, or the known ones if none is near."""
    known = list(known)
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        return "; did you mean " + " or ".join(map(repr, near)) + "?"
    if not known:
        return "; there are none"
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return "; there are " + ", ".join(known[:most]) + more
