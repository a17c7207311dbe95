"""The values of formulas (numbers with bounds, words, masks) and interval arithmetic on them.

A printed 0.27 stands for anything from 0.265 to 0.275, so every number carries the least and the
greatest value it may have, besides `mid`, its value with all printed digits taken at face value.
Bounds are sound: if each operand may be anything between its bounds, the result lies between the
bounds returned. Monotonic functions are bounded at the ends, products at the corners, sine and
cosine at the turning points between. An unprinted number lies between −∞ and ∞, and its `mid` is
NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.audit.formulas.terms import FormulaError
from glassformer.errors import Fragment

Array: TypeAlias = NDArray[np.float64]

# Limits for one value. An example may come from anyone: the size of a result is checked before it
# is computed, so that a short formula cannot exhaust the memory.
MOST_NUMBERS = 100_000
MOST_AXES = 4
MOST_CHARACTERS = 1_000_000


@dataclass(frozen=True, eq=False)
class BoundedNumbers:
    """Numbers with bounds, of one shape. Exact ones hold the same array three times."""

    mid: Array
    low: Array
    high: Array

    @property
    def exact(self) -> bool:
        """Whether the bounds are the number itself, so that arithmetic can skip them."""
        return self.low is self.mid and self.high is self.mid

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, columns, …; () for one number."""
        return self.mid.shape


@dataclass(frozen=True)
class WordList:
    """A list of words; `None` for an unknown one."""

    items: tuple[str | None, ...]
    single: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(count,), or () for a single word."""
        return () if self.single else (len(self.items),)


@dataclass(frozen=True, eq=False)
class Mask:
    """True where a query may attend."""

    allowed: NDArray[np.bool_]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.allowed.shape


Value: TypeAlias = BoundedNumbers | WordList | Mask


def exactly(values: ArrayLike) -> BoundedNumbers:
    """Numbers without uncertainty."""
    array = np.asarray(values, dtype=np.float64)
    return BoundedNumbers(array, array, array)


def check_size(shape: tuple[int, ...]) -> None:
    """Refuse a shape that is too large; call it before allocating anything."""
    if len(shape) > MOST_AXES:
        raise FormulaError("expected at most {most} axes, got {n}", most=MOST_AXES, n=len(shape))
    if math.prod(shape) > MOST_NUMBERS:
        raise FormulaError(
            "expected at most {most} numbers, got {shape}", most=MOST_NUMBERS, shape=shape_of(shape)
        )


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an elementwise result of values of these shapes."""
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise FormulaError(
            "expected shapes that fit together, got {shapes}", shapes=listed(shapes)
        ) from error
    check_size(shape)
    return shape


def shape_of(shape: tuple[int, ...]) -> str:
    """A shape in words: `6 × 4`, `3 numbers`, `one number`."""
    if len(shape) > 1:
        return " × ".join(map(str, shape))
    return (
        Fragment.of("one number") if shape in ((), (1,)) else Fragment.of("{n} numbers", n=shape[0])
    )


def listed(shapes: Iterable[tuple[int, ...]]) -> str:
    """The sizes of several shapes: `2 × 3, 4`."""
    return ", ".join(" × ".join(map(str, shape)) or "1" for shape in shapes)


def describe(value: Value) -> str:
    """A value in an error message: `6 × 4`, `3 words`, `a mask of 3 × 3`."""
    match value:
        case BoundedNumbers():
            return shape_of(value.shape)
        case WordList():
            if value.single or len(value.items) == 1:
                return Fragment.of("one word")
            return Fragment.of("{n} words", n=len(value.items))
        case Mask():
            return Fragment.of("a mask of {shape}", shape=shape_of(value.shape))


_AT_ONCE = 100_000  # products held in memory at a time


def bounded(
    mid: Array, ends: Callable[[], tuple[Array, Array]], *operands: BoundedNumbers
) -> BoundedNumbers:
    """A result with its bounds, which are computed only if an operand has any."""
    exact = all(operand.exact for operand in operands)
    return exactly(mid) if exact else BoundedNumbers(mid, *ends())


def rising(function: Callable[..., Array], *operands: BoundedNumbers) -> BoundedNumbers:
    """A function that never falls, or that only moves numbers: it maps bounds to bounds."""

    def at(which: str) -> Array:
        return np.asarray(function(*(getattr(operand, which) for operand in operands)))

    return bounded(at("mid"), lambda: (at("low"), at("high")), *operands)


def rising_from_zero(function: Callable[[Array], Array], x: BoundedNumbers) -> BoundedNumbers:
    """The same, undefined below zero: a number there gives NaN, a lower bound counts as zero."""
    noise = (x.mid < 0) & (x.mid > -1e-12)  # a zero with float64 noise: mean(x^2) - mean(x)^2

    def ends() -> tuple[Array, Array]:
        low = function(np.where(x.high < 0, np.nan, np.maximum(x.low, 0.0)))
        return low, function(np.where(noise, np.maximum(x.high, 0.0), x.high))

    return bounded(function(np.where(noise, 0.0, x.mid)), ends, x)


def dipping(
    function: Callable[[Array], Array], x: BoundedNumbers, lowest: float = 0.0
) -> BoundedNumbers:
    """A function that falls until `lowest` and rises from there, like |x|, x², GELU and SiLU."""

    def at(part: Array) -> Array:
        value = function(part)
        return np.where(np.isneginf(part) & np.isnan(value), 0.0, value)  # GELU and SiLU

    def ends() -> tuple[Array, Array]:
        low, high = at(x.low), at(x.high)
        passes = (x.low <= lowest) & (x.high >= lowest)
        bottom = function(np.asarray(lowest))
        return np.where(passes, bottom, np.minimum(low, high)), np.maximum(low, high)

    return bounded(at(x.mid), ends, x)


def wave(function: Callable[[Array], Array], x: BoundedNumbers, top: float) -> BoundedNumbers:
    """A sine or cosine with its maximum at `top`: ±1 if a turning point lies between the bounds."""

    def passes(turning: float) -> NDArray[np.bool_]:
        whole = 2 * np.pi
        first = np.ceil((x.low - turning) / whole) * whole + turning
        return np.asarray((first <= x.high) | ~np.isfinite(x.low) | ~np.isfinite(x.high))

    def ends() -> tuple[Array, Array]:
        low, high = function(x.low), function(x.high)
        least = np.where(passes(top + np.pi), -1.0, np.minimum(low, high))
        return least, np.where(passes(top), 1.0, np.maximum(low, high))

    return bounded(function(x.mid), ends, x)


def negative(x: BoundedNumbers) -> BoundedNumbers:
    return bounded(-x.mid, lambda: (-x.high, -x.low), x)


def add(x: BoundedNumbers, y: BoundedNumbers) -> BoundedNumbers:
    return rising(np.add, x, y)


def subtract(x: BoundedNumbers, y: BoundedNumbers) -> BoundedNumbers:
    return add(x, negative(y))


def multiply(x: BoundedNumbers, y: BoundedNumbers) -> BoundedNumbers:
    return bounded(x.mid * y.mid, lambda: _products(x, y), x, y)


def divide(x: BoundedNumbers, y: BoundedNumbers) -> BoundedNumbers:
    """x / y; anything if y may be zero."""

    def ends() -> tuple[Array, Array]:
        around_zero = (y.low <= 0) & (y.high >= 0)
        low, high = _products(x, BoundedNumbers(1 / y.mid, 1 / y.high, 1 / y.low))
        return np.where(around_zero, -np.inf, low), np.where(around_zero, np.inf, high)

    return bounded(x.mid / y.mid, ends, x, y)


def power(x: BoundedNumbers, y: BoundedNumbers) -> BoundedNumbers:
    """x ^ y, bounded at the corners if the base is not negative; a square is bounded anywhere."""
    if y.exact and np.all(y.mid == 2):
        return dipping(lambda base: base**y.mid, x)

    def ends() -> tuple[Array, Array]:
        corners = [a**b for a in (x.low, x.high) for b in (y.low, y.high)]
        return _among(corners, unknown=x.low < 0)

    return bounded(x.mid**y.mid, ends, x, y)


def proportion(x: BoundedNumbers, axis: int) -> BoundedNumbers:
    """x / Σ x. The bounds ignore that x is a term of the sum, which only widens them."""

    def ends() -> tuple[Array, Array]:
        low, high = (part.sum(axis=axis, keepdims=True) for part in (x.low, x.high))
        corners = [a / b for a in (x.low, x.high) for b in (low, high)]
        return _among(corners, unknown=(low <= 0) & (high >= 0))

    return bounded(x.mid / x.mid.sum(axis=axis, keepdims=True), ends, x)


def _among(corners: list[Array], unknown: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The least and greatest of several values; −∞ and ∞ where nothing is known."""
    values = np.stack(np.broadcast_arrays(*corners))
    unknown = np.isnan(values).any(axis=0) | unknown
    low, high = values.min(axis=0), values.max(axis=0)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def matmul(x: BoundedNumbers, y: BoundedNumbers) -> BoundedNumbers:
    """x @ y, for matrices and vectors whose inner sizes agree."""
    mid = x.mid @ y.mid

    def ends() -> tuple[Array, Array]:
        left = [np.atleast_2d(part)[:, :, None] for part in (x.mid, x.low, x.high)]
        right = [
            part[None, :, None] if part.ndim == 1 else part[None] for part in (y.mid, y.low, y.high)
        ]
        low = np.zeros((left[0].shape[0], right[0].shape[2]))
        high = np.zeros_like(low)
        # In blocks of columns of x and rows of y, so that the array of products stays small.
        some = max(1, _AT_ONCE // low.size)
        for k in range(0, left[0].shape[1], some):
            a = BoundedNumbers(*(part[:, k : k + some] for part in left))
            b = BoundedNumbers(*(part[:, k : k + some] for part in right))
            least, most = _products(a, b)
            low += least.sum(axis=1)
            high += most.sum(axis=1)
        return low.reshape(mid.shape), high.reshape(mid.shape)

    return bounded(mid, ends, x, y)


def _products(x: BoundedNumbers, y: BoundedNumbers) -> tuple[Array, Array]:
    """The least and greatest product; zero times an unknown finite number is zero."""
    low = high = _product(x.low, y.low)
    for corner in (_product(x.low, y.high), _product(x.high, y.low), _product(x.high, y.high)):
        low, high = np.minimum(low, corner), np.maximum(high, corner)
    return low, high


def _product(a: Array, b: Array) -> Array:
    product = np.asarray(a * b)
    product[np.isnan(product)] = 0.0
    return product
