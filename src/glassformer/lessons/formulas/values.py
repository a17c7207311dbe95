"""What a formula computes with: numbers between bounds, words, and masks.

A printed 0.27 stands for anything from 0.265 to 0.275, so every number carries the lowest and the
highest value it may have, beside `mid`, its value when all printed digits are taken as they stand.
Bounds are sound: the true value lies between them whatever the unprinted digits are. A number that
is not printed at all lies between −∞ and ∞, and its `mid` is NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.lessons.formulas.terms import FormulaError

__all__ = [
    "MOST_AXES",
    "MOST_CHARACTERS",
    "MOST_NUMBERS",
    "Array",
    "Mask",
    "Numbers",
    "Value",
    "Words",
    "broadcast",
    "check_size",
    "describe",
    "exactly",
    "shape_of",
]

Array: TypeAlias = NDArray[np.float64]

# What one value may hold. An example comes from a stranger: the size of a result is checked before
# it is computed, so that a short formula cannot fill the memory.
MOST_NUMBERS = 100_000
MOST_AXES = 4
MOST_CHARACTERS = 1_000_000


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers with bounds, of one shape. Exact ones hold the same array three times."""

    mid: Array
    low: Array
    high: Array

    @property
    def exact(self) -> bool:
        """Whether the bounds are the number itself; arithmetic then need not look at them."""
        return self.low is self.mid and self.high is self.mid

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, columns, …; () for one number."""
        return self.mid.shape

    def faces(self) -> Numbers:
        """The same numbers taken as they stand, without bounds."""
        return exactly(self.mid)


@dataclass(frozen=True)
class Words:
    """A list of words; `None` where it is not known which."""

    items: tuple[str | None, ...]
    single: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """How many, or () for one word that is no list."""
        return () if self.single else (len(self.items),)


@dataclass(frozen=True, eq=False)
class Mask:
    """True where a query may attend."""

    allowed: NDArray[np.bool_]

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.allowed.shape


Value: TypeAlias = Numbers | Words | Mask


def exactly(values: ArrayLike) -> Numbers:
    """Numbers without any doubt."""
    array = np.asarray(values, dtype=np.float64)
    return Numbers(array, array, array)


def check_size(shape: tuple[int, ...]) -> None:
    """Refuse a shape that no value may have; to be called before anything of it is made."""
    if len(shape) > MOST_AXES:
        raise FormulaError(f"expected at most {MOST_AXES} axes, got {len(shape)}")
    if math.prod(shape) > MOST_NUMBERS:
        raise FormulaError(f"expected at most {MOST_NUMBERS} numbers, got {shape_of(shape)}")


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what is computed number by number from values of these shapes."""
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError as error:
        listed = ", ".join(map(shape_of, shapes))
        raise FormulaError(f"expected shapes that fit together, got {listed}") from error
    check_size(shape)
    return shape


def shape_of(shape: tuple[int, ...]) -> str:
    """A shape in words: `6 × 4`, `3 numbers`, `one number`."""
    if not shape:
        return "one number"
    return f"{shape[0]} numbers" if len(shape) == 1 else " × ".join(map(str, shape))


def describe(value: Value) -> str:
    """What a value is, for error messages."""
    match value:
        case Numbers():
            return shape_of(value.shape)
        case Words():
            return "one word" if value.single else f"{len(value.items)} words"
        case Mask():
            return f"a mask of {shape_of(value.shape)}"
