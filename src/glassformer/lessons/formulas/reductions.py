"""Functions along an axis: sums, means, deviations, softmax, the largest.

The bounds are sound and as close as is cheap. Softmax is exact at its corners: a weight is least
when its own score is lowest and all others are highest. A deviation moves by no more than the root
mean square of what its numbers move by, since taking the mean away never lengthens a vector.
"""

from collections.abc import Callable

import numpy as np

from glassformer.lessons.formulas.intervals import rising
from glassformer.lessons.formulas.shaping import move
from glassformer.lessons.formulas.values import Array, Numbers, exactly

__all__ = [
    "argmax",
    "deviation",
    "geometric_mean",
    "largest",
    "log_softmax",
    "mean",
    "pooled",
    "proportion",
    "smallest",
    "softmax",
    "total",
    "variance",
]

Reduction = Callable[[Numbers, int], Numbers]


def total(x: Numbers, axis: int) -> Numbers:
    """Σ x."""
    return rising(lambda part: np.asarray(part.sum(axis=axis)), x)


def mean(x: Numbers, axis: int) -> Numbers:
    """Σ x / n."""
    return rising(lambda part: np.asarray(part.mean(axis=axis)), x)


def largest(x: Numbers, axis: int) -> Numbers:
    """The greatest number."""
    return rising(lambda part: np.asarray(part.max(axis=axis)), x)


def smallest(x: Numbers, axis: int) -> Numbers:
    """The least number."""
    return rising(lambda part: np.asarray(part.min(axis=axis)), x)


def geometric_mean(x: Numbers, axis: int) -> Numbers:
    """The n-th root of the product; only for positive numbers, NaN for others."""
    return rising(lambda part: np.asarray(np.exp(np.log(part).mean(axis=axis))), x)


def deviation(x: Numbers, axis: int, missing: int = 0) -> Numbers:
    """The standard deviation; `missing` is 1 for that of a sample, which divides by n − 1."""
    count = x.mid.shape[axis] - missing
    if count < 1:
        return exactly(np.full(np.asarray(x.mid.sum(axis=axis)).shape, np.nan))
    mid = np.asarray(x.mid.std(axis=axis, ddof=missing))
    if x.exact:
        return exactly(mid)
    centre = (x.low + x.high) / 2
    slack = np.asarray(np.sqrt((((x.high - x.low) / 2) ** 2).sum(axis=axis) / count))
    around = np.asarray(centre.std(axis=axis, ddof=missing))
    low, high = np.maximum(around - slack, 0), around + slack
    unknown = np.isnan(
        high
    )  # a bound at infinity leaves nothing to say but that it is not negative
    return Numbers(mid, np.where(unknown, 0.0, low), np.where(unknown, np.inf, high))


def variance(x: Numbers, axis: int, missing: int = 0) -> Numbers:
    """The square of the deviation."""
    return rising(np.square, deviation(x, axis, missing))


def softmax(x: Numbers, axis: int) -> Numbers:
    """e^x / Σ e^x. −∞ gets 0, and so does a row that is −∞ throughout."""
    mid = _softmax(x.mid, axis)
    if x.exact:
        return exactly(mid)
    low = np.moveaxis(x.low, axis, -1)
    high = np.moveaxis(x.high, axis, -1)
    least = np.moveaxis(_against(low, high), -1, axis)
    most = np.moveaxis(_against(high, low), -1, axis)
    return Numbers(mid, least, most)


def _softmax(x: Array, axis: int) -> Array:
    top = x.max(axis=axis, keepdims=True)
    powers = np.exp(x - np.where(np.isfinite(top), top, 0.0))
    below = powers.sum(axis=axis, keepdims=True)
    return np.asarray(np.where(below == 0, 0.0, powers / np.where(below == 0, 1.0, below)))


def _against(own: Array, others: Array) -> Array:
    """The weight of each score when it is `own` and all others are `others`."""
    ahead = np.logaddexp.accumulate(others, axis=-1)
    behind = np.logaddexp.accumulate(others[..., ::-1], axis=-1)[..., ::-1]
    rest = np.full(others.shape, -np.inf)  # log Σ e^x over all but each one
    rest[..., 1:] = ahead[..., :-1]
    rest[..., :-1] = np.logaddexp(rest[..., :-1], behind[..., 1:])
    return np.where(np.isneginf(own), 0.0, 1 / (1 + np.exp(rest - own)))


def log_softmax(x: Numbers, axis: int) -> Numbers:
    """log of the softmax."""
    return rising(np.log, softmax(x, axis))


def proportion(x: Numbers, axis: int) -> Numbers:
    """x / Σ x: what a softmax without its exponential would be."""
    mid = x.mid / x.mid.sum(axis=axis, keepdims=True)
    if x.exact:
        return exactly(mid)
    low, high = x.low.sum(axis=axis, keepdims=True), x.high.sum(axis=axis, keepdims=True)
    # Numerator and denominator share a term; leaving that out of account only widens the bounds.
    corners = np.stack([x.low / low, x.low / high, x.high / low, x.high / high])
    around_zero = (low <= 0) & (high >= 0) | np.isnan(corners).any(axis=0)
    least = np.where(around_zero, -np.inf, corners.min(axis=0))
    return Numbers(mid, least, np.where(around_zero, np.inf, corners.max(axis=0)))


def argmax(x: Numbers, axis: int) -> Numbers:
    """Where the greatest number is, counted from 0; the bounds hold every place it may be."""
    known = np.where(np.isnan(x.mid), -np.inf, x.mid)
    mid = known.argmax(axis=axis).astype(np.float64)
    if x.exact:
        return exactly(mid)
    floor = x.low.max(axis=axis, keepdims=True)
    possible = x.high >= floor
    places = np.arange(x.mid.shape[axis], dtype=np.float64)
    places = np.moveaxis(np.broadcast_to(places, np.moveaxis(x.mid, axis, -1).shape), -1, axis)
    first = np.where(possible, places, np.inf).min(axis=axis)
    last = np.where(possible, places, -np.inf).max(axis=axis)
    return Numbers(mid, first, last)


def pooled(reduce: Reduction, x: Numbers) -> Numbers:
    """Each row taken together with the row below it, as a mistaken range in a spreadsheet does.

    The last row has none below it and stands alone.
    """
    count = x.shape[0]

    def pairs(part: Array) -> Array:
        return np.concatenate(
            [part[:-1].reshape(count - 1, -1), part[1:].reshape(count - 1, -1)], 1
        )

    def last(part: Array) -> Array:
        return part[-1:].reshape(1, -1)

    rows = [reduce(move(last, x), -1)]
    if count > 1:
        rows.insert(0, reduce(move(pairs, x), -1))
    mid, low, high = (
        np.concatenate([getattr(row, at) for row in rows]) for at in ("mid", "low", "high")
    )
    return exactly(mid) if x.exact else Numbers(mid, low, high)
