"""Functions that move numbers about, count them, or choose among them: no arithmetic."""

from collections.abc import Callable, Sequence

import numpy as np

from glassformer.lessons.formulas.terms import FormulaError
from glassformer.lessons.formulas.values import (
    MOST_NUMBERS,
    Array,
    Mask,
    Numbers,
    broadcast,
    check_size,
    exactly,
    shape_of,
)

__all__ = [
    "causal",
    "column_count",
    "concat",
    "embedding",
    "even",
    "expand",
    "flatten",
    "identity",
    "mask",
    "move",
    "opposite",
    "row_count",
    "stack",
    "stacked",
    "transpose",
    "where",
    "whole_numbers",
]


def move(function: Callable[[Array], Array], x: Numbers) -> Numbers:
    """The same rearrangement of the numbers and of both bounds."""
    mid = function(x.mid)
    return exactly(mid) if x.exact else Numbers(mid, function(x.low), function(x.high))


def transpose(x: Numbers) -> Numbers:
    """Rows become columns; more axes swap their last two."""
    if len(x.shape) < 2:
        return x
    return move(lambda part: np.swapaxes(part, -1, -2), x)


def flatten(x: Numbers) -> Numbers:
    """All numbers in one row."""
    return move(np.ravel, x)


def expand(x: Numbers, axis: int) -> Numbers:
    """A new axis of size 1 where one was dropped."""
    return move(lambda part: np.expand_dims(part, axis), x)


def concat(*parts: Numbers, axis: int) -> Numbers:
    """Parts side by side along an axis."""
    shapes = [part.shape for part in parts]
    at = axis % len(shapes[0])
    before, after = shapes[0][:at], shapes[0][at + 1 :]
    if any(
        (shape[:at], shape[at + 1 :], len(shape)) != (before, after, len(shapes[0]))
        for shape in shapes
    ):
        raise _misfits(shapes)
    check_size((*before, sum(shape[at] for shape in shapes), *after))
    return _join(parts, lambda arrays: np.concatenate(arrays, axis=axis))


def stack(*parts: Numbers) -> Numbers:
    """Vectors as columns."""
    return stacked(parts, -1)


def stacked(parts: Sequence[Numbers], axis: int) -> Numbers:
    """Values of one shape along a new axis."""
    shapes = [part.shape for part in parts]
    if len(set(shapes)) > 1:
        raise _misfits(shapes)
    check_size((len(parts), *shapes[0]))
    return _join(parts, lambda arrays: np.stack(arrays, axis=axis))


def _misfits(shapes: list[tuple[int, ...]]) -> FormulaError:
    listed = ", ".join(map(shape_of, shapes[:8]))
    return FormulaError(f"expected parts that fit together, got {listed}")


def _join(parts: Sequence[Numbers], join: Callable[[list[Array]], Array]) -> Numbers:
    mid = join([part.mid for part in parts])
    if all(part.exact for part in parts):
        return exactly(mid)
    return Numbers(mid, join([part.low for part in parts]), join([part.high for part in parts]))


def row_count(x: Numbers) -> Numbers:
    """The size of the first axis."""
    return exactly(_size(x, 0))


def column_count(x: Numbers) -> Numbers:
    """The size of the last axis."""
    return exactly(_size(x, -1))


def _size(x: Numbers, axis: int) -> int:
    if not x.shape:
        raise FormulaError("expected a vector or a matrix, got one number")
    return x.shape[axis]


def whole_numbers(n: int, stop: int) -> Numbers:
    """0 … n − 1, or n … stop − 1."""
    first, last = (0, n) if stop == -1 else (n, stop)
    if not 1 <= last - first <= MOST_NUMBERS:
        raise FormulaError(f"expected 1 to at most {MOST_NUMBERS} numbers, got {last - first}")
    return exactly(np.arange(first, last, dtype=np.float64))


def identity(n: int) -> Numbers:
    """The n × n matrix with ones on its diagonal."""
    return exactly(np.eye(_side(n)))


def causal(n: int) -> Mask:
    """True at and below the diagonal: a position sees itself and what came before."""
    return Mask(np.tril(np.ones((_side(n), n), dtype=bool)))


def _side(n: int) -> int:
    if not 1 <= n <= MOST_NUMBERS**0.5:
        raise FormulaError(f"expected a size from 1 to {int(MOST_NUMBERS**0.5)}, got {n}")
    return n


def even(x: Numbers) -> Mask:
    """True at even numbers."""
    if not np.array_equal(x.low, x.high):
        raise FormulaError("expected whole numbers, got rounded ones")
    return Mask(np.asarray(x.mid % 2 == 0))


def opposite(allowed: Mask) -> Mask:
    """The mask's triangles exchanged."""
    return Mask(np.swapaxes(allowed.allowed, -1, -2)) if allowed.allowed.ndim > 1 else allowed


def where(allowed: Mask, yes: Numbers, no: Numbers) -> Numbers:
    """Choose number by number."""
    broadcast(allowed.shape, yes.shape, no.shape)
    mid = np.where(allowed.allowed, yes.mid, no.mid)
    if yes.exact and no.exact:
        return exactly(mid)
    low = np.where(allowed.allowed, yes.low, no.low)
    return Numbers(mid, low, np.where(allowed.allowed, yes.high, no.high))


def mask(scores: Numbers, allowed: Mask) -> Numbers:
    """The scores, with −∞ where attention is not allowed."""
    return where(allowed, scores, exactly(-np.inf))


def embedding(ids: Numbers, table: Numbers) -> Numbers:
    """The rows of a table that ids (counted from 0) point at."""
    rows = ids.mid
    if not np.all((rows == np.floor(rows)) & (rows >= 0) & (rows < _size(table, 0))):
        raise FormulaError(f"expected whole ids from 0 to {_size(table, 0) - 1}")
    check_size((*rows.shape, *table.shape[1:]))
    chosen = rows.astype(int)
    return move(lambda part: part[chosen], table)
