"""Results of a learner's function beside the right ones, and what tells them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.documents.heat_maps import shape_text
from glassformer.language import words

say = words("glassformer.lessons.exercises.feedback")

_TOLERANCE = 2e-5
"""Relative to the largest number: some hundred roundings of float32. A slip changes far more."""
_ERRORS = {
    "condition": r"Boolean value of Tensor",
    "largest and place": r"torch\.return_types",
    "size no whole number": r"tuple of ints|'float' object cannot be interpreted as an integer",
    "product": r"cannot be multiplied|for first two dimensions of batch2",
    "targets": r"Expected target size",
    "none argument": r"'NoneType'",
}
"""PyTorch's messages that do not say what to do, by the key of the sentence that does."""


def copied(value: Any, dtype: torch.dtype | None = None) -> Any:
    """Arguments with tensors of their own; those of floats as `dtype`, if given."""
    match value:
        case Tensor():
            return value.clone().to(dtype if dtype and value.is_floating_point() else value.dtype)
        case tuple() | list():
            return type(value)(copied(item, dtype) for item in value)
        case dict():
            return {key: copied(item, dtype) for key, item in value.items()}
    return value


def is_same(given: Any, wanted: Any) -> bool:
    """Whether two results are the same: kind, shape, and numbers up to rounding."""
    if isinstance(wanted, Tensor):
        return (
            isinstance(given, Tensor)
            and given.shape == wanted.shape
            and _sort(given) == _sort(wanted)
            and not bool(_places(given, wanted).any())
        )
    if isinstance(wanted, tuple | list):
        return (
            isinstance(given, tuple | list)
            and len(given) == len(wanted)
            and all(map(is_same, given, wanted))
        )
    if isinstance(wanted, dict):
        return given.keys() == wanted.keys() and all(is_same(given[k], wanted[k]) for k in wanted)
    try:
        return bool(given == wanted)
    except Exception:  # objects of a learner's may compare in any way
        return False


def _sort(x: Tensor) -> str:
    return "bool" if x.dtype == torch.bool else "float" if x.is_floating_point() else "int"


def _places(given: Tensor, wanted: Tensor) -> Tensor:
    """Where two tensors of one shape differ by more than rounding."""
    one, other = given.detach().double(), wanted.detach().double()
    finite = other[other.isfinite()].abs()
    scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
    return ~torch.isclose(one, other, rtol=0.0, atol=_TOLERANCE * scale, equal_nan=True)


def difference(given: Any, wanted: Any) -> tuple[str, dict[str, object]]:
    """What tells a wrong result from the right one: the key of a sentence, and its facts."""
    if given is None:
        return "nothing", {}
    if isinstance(wanted, tuple):
        if not isinstance(given, tuple | list):
            return "tuple", {"wanted": len(wanted), "kind": type(given).__name__}
        if len(given) != len(wanted):
            return "tuple length", {"wanted": len(wanted), "given": len(given)}
        pairs = zip(given, wanted, strict=True)
        return next(difference(one, other) for one, other in pairs if not is_same(one, other))
    if not isinstance(wanted, Tensor):
        return "value", {"given": _written(given), "wanted": _written(wanted)}
    if isinstance(given, tuple | list) and any(is_same(one, wanted) for one in given):
        return "with others", {"count": len(given)}
    if not isinstance(given, Tensor):
        return "type", {"kind": type(given).__name__}
    if given.shape != wanted.shape:
        return "shape", {"given": tuple(given.shape), "wanted": tuple(wanted.shape)}
    if _sort(given) != _sort(wanted):
        return "dtype", {"given": given.dtype, "wanted": say[f"sort {_sort(wanted)}"]}
    place = tuple(_places(given, wanted).nonzero()[0].tolist())
    if bool(given[place].isnan()):
        return "nan", {"place": list(place), "wanted": _number(wanted[place])}
    return "differs", {
        "place": list(place),
        "given": _number(given[place]),
        "wanted": _number(wanted[place]),
        "count": int(_places(given, wanted).sum()),
        "all": wanted.numel(),
    }


def _written(value: Any) -> str:
    return f"{' '.join(repr(value).split()):.60}"


def _number(x: Tensor) -> str:
    return str(x.item()) if _sort(x) != "float" else f"{x.item():.6g}"


def kind(argument: Any) -> str:
    """An argument as a hint shows it: `tensor 3×4`, a number itself."""
    match argument:
        case Tensor():
            return f"tensor {shape_text(argument.shape)}".rstrip()
        case bool() | int() | float() | None:
            return str(argument)
    return "…"


def known_error(error: BaseException) -> str | None:
    """The key of what to do about an exception, if it is a well-known one."""
    found = (key for key, pattern in _ERRORS.items() if re.search(pattern, str(error)))
    return next(found, None)


def axes_of(arguments: Sequence[Any]) -> int:
    """The most axes of any argument."""
    return max((one.dim() for one in arguments if isinstance(one, Tensor)), default=0)
