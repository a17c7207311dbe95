"""What the functions of a formula do: reduce along an axis, move numbers about, work on words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from glassformer.audit.formulas.bounds import (
    MOST_NUMBERS,
    Array,
    Mask,
    Numbers,
    Value,
    Words,
    broadcast,
    check_size,
    exactly,
    rising,
    shape_of,
)
from glassformer.audit.formulas.terms import FormulaError
from glassformer.errors import did_you_mean
from glassformer.text import split_words

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


def words(text: Words) -> Words:
    """The words of one text or of several, in order, without punctuation."""
    return Words(tuple(word for line in _known(text) for word in split_words(line, "drop")))


def lower(items: Words) -> Words:
    """In small letters."""
    return Words(tuple(item.lower() for item in _known(items)), items.single)


def distinct(items: Words) -> Words:
    """Each word once, in order of appearance."""
    return Words(tuple(dict.fromkeys(_known(items))))


def count(items: Value) -> Numbers:
    """How many words, or rows."""
    if isinstance(items, Words):
        return exactly(len(items.items))
    if not items.shape:
        raise FormulaError("expected a list, got one number")
    return exactly(items.shape[0])


def lookup(items: Words, keys: Words, numbers: Numbers) -> Numbers:
    """The numbers beside the words; a capital letter makes no difference."""
    known = _known(keys)
    if not items.items:
        raise FormulaError("expected at least one word to look up")
    if numbers.shape[:1] != (len(known),):
        raise FormulaError(f"expected one number for each of {len(known)} words")
    check_size((len(items.items), *numbers.shape[1:]))
    place = {key.lower(): at for at, key in enumerate(known)}
    missing = [item for item in _known(items) if item.lower() not in place]
    if missing:
        near = did_you_mean(missing[0], known)
        raise FormulaError(f"expected words of the list, got {missing[0]!r}{near}")
    chosen = np.array([place[item.lower()] for item in _known(items)], dtype=int)
    return move(lambda part: part[chosen], numbers)


def pick(items: Words, at: Numbers) -> Words:
    """The word at a place; unknown where the place is not certain."""
    if at.shape:
        raise FormulaError("expected one place")
    place = float(at.mid)
    if at.low != at.high or np.isnan(place):
        return Words((None,), single=True)
    if not 0 <= place < len(items.items):
        raise FormulaError(f"expected a place from 0 to {len(items.items) - 1}, got {place:g}")
    return Words((items.items[int(place)],), single=True)


def _known(items: Words) -> list[str]:
    known = [item for item in items.items if item is not None]
    if len(known) != len(items.items):
        raise FormulaError("expected words that are all known")
    return known
