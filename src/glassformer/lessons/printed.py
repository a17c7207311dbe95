"""Printed numbers as they stand in an example file → `Digits`.

A cell is a number, `null` where nothing is printed, `"-inf"`, or a formula of numbers alone such as
`"2*1/6"`, for an article that prints one. `"..."` stands for as many unprinted cells (or rows) as
the declared shape leaves open.
"""

import math
from typing import Any

import numpy as np

from glassformer.errors import ConfigError
from glassformer.lessons.example import Digits
from glassformer.lessons.formulas import FormulaError, Numbers, parse
from glassformer.lessons.formulas.bounds import Array, Value, check_size, shape_of
from glassformer.lessons.formulas.evaluator import Evaluator, Work, WorkSpentError

__all__ = ["read_digits"]

_ELLIPSIS = ("...", "…")
_MINUS_INFINITY = ("-inf", "−∞", "-∞", "-Infinity")
_MOST_FORMULA = 200  # characters of a printed formula
_MOST_DECIMALS = 12  # beyond that float64 itself is the limit
_LARGEST = 1e100  # beyond that products overflow


def read_digits(
    cells: Any,
    shape: tuple[int, ...] | None,
    decimals: Any,
    significant: Any,
    exact: bool,
    work: Work,
) -> Digits:
    """The digits of a step; raises `ConfigError` with what was expected and what came.

    `work` is what the printed formulas of the whole example may take.
    """
    values = _numbers(cells, shape, work)
    if exact and decimals is None and significant is None:
        return Digits(values, np.zeros(values.shape, dtype=np.int64), exact=True)
    places = _places(values, decimals, significant)
    _check_precision(values, places)
    return Digits(values, places, exact)


def _numbers(cells: Any, shape: tuple[int, ...] | None, work: Work) -> Array:
    if shape is not None:
        check_size(shape)
    check_size(_shape(cells))
    nested = _fill(cells, shape)
    found = _shape(nested)
    check_size(found)
    if shape is not None and found != shape:
        raise ConfigError(f"expected the declared {shape_of(shape)}, got {shape_of(found)}")
    flat: list[float] = []
    _collect(nested, found, flat, [], work)
    return np.array(flat, dtype=np.float64).reshape(found)


def _fill(cells: Any, shape: tuple[int, ...] | None) -> Any:
    """Replace each "..." and each missing row by the unprinted cells it stands for."""
    if shape and (cells is None or cells in _ELLIPSIS):
        cells = [None] * shape[0]
    if not isinstance(cells, list):
        return cells
    dots = [i for i, cell in enumerate(cells) if isinstance(cell, str) and cell in _ELLIPSIS]
    if dots:
        if not shape:
            raise ConfigError('expected a "shape" beside printed "..."')
        open_ = shape[0] - (len(cells) - 1)
        if len(dots) > 1 or open_ < 0:
            raise ConfigError(f'expected one "..." and at most {shape[0]} cells beside it')
        cells = cells[: dots[0]] + [None] * open_ + cells[dots[0] + 1 :]
    if shape and len(cells) != shape[0]:
        return cells  # not filled up to another size than was declared, and refused for it
    below = shape[1:] if shape else None
    return [_fill(cell, below) for cell in cells]


def _shape(cells: Any) -> tuple[int, ...]:
    """The shape that the first cells show; whether the others have it is seen on the way."""
    shape: list[int] = []
    while isinstance(cells, list):
        if not cells:
            raise ConfigError("expected at least one number, got an empty list")
        shape.append(len(cells))
        cells = cells[0]
    return tuple(shape)


def _collect(
    cells: Any, shape: tuple[int, ...], flat: list[float], at: list[int], work: Work
) -> None:
    if shape:
        if not isinstance(cells, list) or len(cells) != shape[0]:
            got = f"{len(cells)}" if isinstance(cells, list) else "a single number"
            raise ConfigError(f"ragged rows: expected {shape[0]} cells at {at}, got {got}")
        for i, cell in enumerate(cells):
            _collect(cell, shape[1:], flat, [*at, i], work)
        return
    flat.append(_cell(cells, at, work))


def _cell(cell: Any, at: list[int], work: Work) -> float:
    if cell is None:
        return math.nan
    if isinstance(cell, str):
        if cell in _MINUS_INFINITY:
            return -math.inf
        value = _formula(cell, work)
        if isinstance(value, Numbers) and not value.shape and np.isfinite(value.mid):
            return float(value.mid)
    elif isinstance(cell, int | float) and not isinstance(cell, bool) and abs(cell) < _LARGEST:
        return float(cell)
    elif isinstance(cell, list):
        raise ConfigError(f"ragged rows: expected a number at {at}, got a list")
    raise ConfigError(f"expected a number at {at}, got {cell!r}")


def _formula(cell: str, work: Work) -> Value:
    if len(cell) > _MOST_FORMULA:
        raise ConfigError(
            f"expected a printed formula of at most {_MOST_FORMULA} characters, got {len(cell)}"
        )
    try:
        work.take(10 * len(cell))
        return Evaluator({}, work=work).value(parse(cell))
    except WorkSpentError:
        raise FormulaError("expected fewer printed formulas") from None


def _places(values: Array, decimals: Any, significant: Any) -> np.ndarray:
    if significant is not None:
        if decimals is not None:
            raise ConfigError('expected either "decimals" or "significant", got both')
        digits = _whole(significant, "significant", 1)
        with np.errstate(all="ignore"):
            leading = np.floor(np.log10(np.abs(values)))
        leading = np.where(np.isfinite(leading), leading, 0)
        return np.asarray(digits - 1 - leading, dtype=np.int64)
    if isinstance(decimals, list):
        if not values.shape or len(decimals) != values.shape[-1]:
            raise ConfigError(
                f"expected decimals for each of {values.shape[-1] if values.shape else 1} columns, "
                f"got {len(decimals)}"
            )
        each = [_whole(part, "decimals", 0) for part in decimals]
        return np.broadcast_to(np.array(each, dtype=np.int64), values.shape).copy()
    return np.full(values.shape, _whole(decimals, "decimals", 0), dtype=np.int64)


def _whole(value: Any, what: str, least: int) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not least <= value <= _MOST_DECIMALS
    ):
        raise ConfigError(
            f'expected "{what}" as a whole number from {least} to {_MOST_DECIMALS}, got {value!r}'
        )
    return value


def _check_precision(values: Array, places: np.ndarray) -> None:
    """A number with more decimals than its step declares: one of the two is a mistake."""
    finite = np.isfinite(values)
    scaled = np.where(finite, values, 0.0) * 10.0**places
    off = finite & (np.abs(scaled - np.rint(scaled)) > 1e-6 * np.maximum(1.0, np.abs(scaled)))
    if off.any():
        at = tuple(int(part) for part in np.argwhere(off)[0])
        value, place = float(values[at]), int(places[at])
        raise ConfigError(f"expected at most {place} decimals at {list(at)}, got {value!r}")
