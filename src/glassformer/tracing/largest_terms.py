"""Which of many terms matter most: those that a reader is shown of a long sum."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from glassformer.tracing.arithmetic.expressions import ReduceKind

_UPWARDS = ("max", "argmax", "last argmax", "largest", "place largest")
_DOWNWARDS = ("min", "argmin", "last argmin", "smallest", "place smallest")
_BLOCK = 64


def largest_terms(
    values: npt.NDArray[np.float64], most: int, kind: ReduceKind = "sum"
) -> list[int]:
    """The places of the values that matter most, in their own order; all if they are few.

    In a sum those are the largest by size, for an extreme those nearest to it.
    """
    if len(values) <= most:
        return list(range(len(values)))
    known = values if np.isfinite(values).all() else np.nan_to_num(values, nan=np.inf)
    weights = known if kind in _UPWARDS else -known if kind in _DOWNWARDS else np.abs(known)
    places: list[int] = np.sort(_first_largest(weights, most)).tolist()
    return places


def _first_largest(weights: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.int64]:
    """The places of the largest; of equal ones the first."""
    least = _nth_largest(weights, most)
    above = np.flatnonzero(weights > least)
    return np.concatenate([above, np.flatnonzero(weights == least)[: most - len(above)]])


def _nth_largest(weights: npt.NDArray[np.float64], n: int) -> float:
    """The n-th largest of many numbers.

    It lies in one of the n blocks whose own largest are the largest: to look into these alone takes
    a tenth of the time of looking through a vocabulary of 50,000.
    """
    whole = len(weights) // _BLOCK * _BLOCK
    if whole > 2 * n * _BLOCK:
        blocks = weights[:whole].reshape(-1, _BLOCK)
        highest = np.argpartition(blocks.max(1), -n)[-n:]
        weights = np.concatenate([blocks[highest].ravel(), weights[whole:]])
    return float(np.partition(weights, -n)[-n])
