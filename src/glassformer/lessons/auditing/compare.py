"""Printed against recomputed, cell by cell.

A printed number is right if what it may stand for (half a unit of its last digit either way) and
what the formula may give (whatever the unprinted digits of its inputs are) have a value in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.lessons.example import Digits, Step
from glassformer.lessons.formulas.values import Array, Numbers, Value, Words

__all__ = ["Cells", "Comparison", "compare", "overlap", "same_words"]

Cells = NDArray[np.bool_]

# Room for the rounding of float64 itself, relative to the numbers compared.
_ROOM = 1e-11


@dataclass(frozen=True, eq=False)
class Comparison:
    """Which printed cells are right, wrong, or open because too little is printed to say."""

    right: Cells
    wrong: Cells
    open: Cells
    same_shape: bool = True

    @property
    def checked(self) -> int:
        """How many cells could be decided."""
        return int(self.right.sum() + self.wrong.sum())


def compare(step: Step, value: Value) -> Comparison:
    """What is printed of a step against a value computed for it."""
    if isinstance(step.printed, Words):
        return _compare_words(step, value)
    assert isinstance(step.printed, Digits)
    digits = step.printed
    if not isinstance(value, Numbers) or value.shape != digits.values.shape:
        nowhere = np.zeros(digits.values.shape, dtype=bool)
        return Comparison(nowhere, digits.shown, nowhere, same_shape=False)
    meets = overlap(digits, value)
    unbounded = (np.isinf(value.low) | np.isinf(value.high)) & (value.low != value.high)
    unbounded |= np.isnan(value.low) | np.isnan(value.high)
    shown = digits.shown
    return Comparison(shown & meets & ~unbounded, shown & ~meets, shown & meets & unbounded)


def overlap(digits: Digits, value: Numbers) -> Cells:
    """Where a computed number may be the one that the printed digits stand for."""
    with np.errstate(all="ignore"):
        low, high = _bounds(digits)
        size = np.maximum(np.abs(digits.values), np.abs(value.mid))
        room = _ROOM * np.where(np.isfinite(size), np.maximum(size, 1e-3), 1.0)
        meets = (value.low <= high + room) & (value.high >= low - room)
    # NaN compares false with everything: a number nobody knows contradicts nothing.
    return np.asarray(meets | np.isnan(value.low) | np.isnan(value.high))


def _bounds(digits: Digits) -> tuple[Array, Array]:
    return digits.values - digits.half, digits.values + digits.half


def _compare_words(step: Step, value: Value) -> Comparison:
    assert isinstance(step.printed, Words)
    printed = step.printed.items
    nowhere = np.zeros(len(printed), dtype=bool)
    if not isinstance(value, Words) or len(value.items) != len(printed):
        return Comparison(nowhere, ~nowhere, nowhere, same_shape=False)
    unknown = np.array([item is None for item in value.items], dtype=bool)
    same = np.array(same_words(step, printed, value.items), dtype=bool)
    return Comparison(same & ~unknown, ~same & ~unknown, unknown)


def same_words(
    step: Step, printed: tuple[str | None, ...], computed: tuple[str | None, ...]
) -> list[bool]:
    """Word by word, by the step's own rule for capitals and order."""

    def plain(word: str | None) -> str:
        return (word or "").casefold() if step.ignore_case else (word or "")

    if step.any_order:
        computed_words = sorted(map(plain, computed))
        missing = list(computed_words)
        same = []
        for word in map(plain, printed):
            same.append(word in missing)
            if word in missing:
                missing.remove(word)
        return same
    return [plain(a) == plain(b) for a, b in zip(printed, computed, strict=True)]
