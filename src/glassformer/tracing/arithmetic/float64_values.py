"""The value of an expression in float64, from the operands that a reader is shown.

The evaluation also records the size of its inputs: because terms may cancel, the difference between
a float32 result and its float64 recomputation is measured relative to
max(|value|, Σ|terms|, largest |operand|).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.notes import ShownAsText

Floats = npt.NDArray[np.float64] | np.float64
Rounding = torch.dtype | int
"""What operands are rounded to: a dtype, or a number of decimals."""

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sign(value: Floats) -> Floats:
    """The sign as torch defines it: 0 for NaN."""
    return np.nan_to_num(np.sign(value), nan=0.0)


def _by_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Floats], Floats]:
    """A function that numpy lacks, computed by torch in float64."""

    def apply(value: Floats) -> Floats:
        return function(torch.as_tensor(np.asarray(value, dtype=np.float64))).numpy()

    return apply


FUNCTIONS: dict[str, Callable[..., Floats]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "erf": _erf,
    "erfinv": _by_torch(torch.erfinv),
    "lgamma": _by_torch(torch.lgamma),
    "digamma": _by_torch(torch.digamma),
    "i0": _by_torch(torch.i0),
    "i1": _by_torch(torch.special.i1),
    "erfcx": _by_torch(torch.special.erfcx),
    "mantissa": lambda value: np.frexp(value)[0],
    "exponent": lambda value: np.frexp(value)[1].astype(np.float64),
    "copysign": np.copysign,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "neg": np.negative,
    "abs": np.abs,
    "sign": _sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "max": np.maximum,
    "min": np.minimum,
    "not": np.logical_not,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}

_OPERATIONS: dict[str, Callable[..., Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": np.power,
    "//": np.floor_divide,
    "%": np.mod,
    "=": np.equal,
    "≠": np.not_equal,
    "<": np.less,
    "≤": np.less_equal,
    ">": np.greater,
    "≥": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "&": lambda left, right: (_whole(left) & _whole(right)).astype(np.float64),
    "|": lambda left, right: (_whole(left) | _whole(right)).astype(np.float64),
}


def _whole(value: Floats) -> npt.NDArray[np.int64]:
    return np.asarray(value).astype(np.int64)


RankOrder = Literal["largest", "smallest"]
"""Which cells come first."""


def order_of(row: npt.NDArray[Any], first: RankOrder) -> npt.NDArray[np.int64]:
    """The places of the last axis as a stable sort orders them; NaN counts as the largest."""
    if first == "smallest":
        return np.argsort(row, -1, kind="stable")
    # Sorted from the other end: a minus sign would leave NaN the largest, and last.
    from_end = np.argsort(row[..., ::-1], -1, kind="stable")[..., ::-1]
    found: npt.NDArray[np.int64] = row.shape[-1] - 1 - from_end
    return found


_REDUCTIONS: dict[e.ReduceKind, Callable[[npt.NDArray[Any], int], Any]] = {
    "sum": lambda row, _: row.sum(-1),
    "product": lambda row, _: row.prod(-1),
    "max": lambda row, _: row.max(-1),
    "min": lambda row, _: row.min(-1),
    "any": lambda row, _: (row != 0).any(-1),
    "all": lambda row, _: (row != 0).all(-1),
    "argmax": lambda row, _: row.argmax(-1),
    "argmin": lambda row, _: row.argmin(-1),
    "last argmax": lambda row, _: row.shape[-1] - 1 - row[..., ::-1].argmax(-1),
    "last argmin": lambda row, _: row.shape[-1] - 1 - row[..., ::-1].argmin(-1),
    "smallest": lambda row, rank: np.sort(row, -1)[..., rank],
    "largest": lambda row, rank: np.sort(row, -1)[..., row.shape[-1] - 1 - rank],
    "place smallest": lambda row, rank: order_of(row, "smallest")[..., rank],
    "place largest": lambda row, rank: order_of(row, "largest")[..., rank],
}
"""Of the last axis; NaN counts as the largest."""

# Operands this much larger than the result are a mask's fill value (−1e9, the lowest float), not
# summands: counted as operands, they would excuse any error.
_FILL = 1e6


_EXACT = 2**53  # float64 cannot represent every integer beyond this


class Limits(NamedTuple):
    """What a dtype can tell apart."""

    largest: float
    """Its largest number."""
    gap: float
    """Two of its numbers closer than this count as equal."""
    tolerance: float
    """The largest relative difference at which a rule still reproduces a number."""


# A correct result differs from its float64 recomputation by little more than the dtype's rounding.
_TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
_TOLERANCE = 1e-6


@cache
def limits(dtype: torch.dtype) -> Limits:
    """The limits of a dtype; integers have no largest number and no gap.

    Kernels may flush subnormal numbers to zero: those of float64 in float64, all others in float32,
    in which shorter dtypes are computed as well. Shorter dtypes also round to their own smallest
    step.
    """
    if not dtype.is_floating_point:
        return Limits(math.inf, 0.0, _TOLERANCE)
    info = torch.finfo(dtype)
    flushed = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32)
    gap = max(info.smallest_normal * info.eps, flushed.smallest_normal)
    return Limits(info.max, gap, _TOLERANCES.get(dtype, _TOLERANCE))


class Evaluation:
    """One evaluation: its value, the sizes of its inputs, and the values of its parts.

    The values of named parts (μ, m) and of the terms of sums are kept: whoever writes the formula
    asks for them again.
    """

    def __init__(self, expression: e.Expression, rounding: Rounding | None = None) -> None:
        self._rounding = rounding
        self._named: dict[int, Floats] = {}
        self._terms: dict[int, tuple[e.Reduce, npt.NDArray[np.float64]]] = {}
        self._sizes: list[float] = []
        self.is_exact = True
        """False if an integer was read that float64 may not represent."""
        self.expression = expression
        self.value = self.of(expression)

    def of(self, part: e.Expression) -> float:
        """The value of the expression, or of a part of it."""
        with np.errstate(all="ignore"):
            return float(self._of(part, ()))

    def terms(self, reduce: e.Reduce, scope: tuple[e.Axis, ...] = ()) -> npt.NDArray[np.float64]:
        """The values that a reduction combines, in order; their axis follows those of a scope."""
        if not scope and id(reduce) in self._terms:
            return self._terms[id(reduce)][1]
        inner = scope + reduce.axes
        with np.errstate(all="ignore"):
            values = np.broadcast_to(self._of(reduce.body, inner), [axis.size for axis in inner])
        rows = values.reshape(*values.shape[: len(scope)], -1).astype(np.float64)
        if not scope:
            self._terms[id(reduce)] = reduce, rows  # a reduction that is kept keeps its id
        return rows

    def relative_difference(self, shown: float, dtype: torch.dtype = torch.float32) -> float:
        """|shown − value|, relative to max(|value|, Σ|terms|, largest |operand|).

        The fill values of masks do not count as operands. 0 if both are the same infinity or NaN, ∞
        if only one is. A sum beyond the largest number of its dtype (two masks of −65504 in
        float16) is stored as infinity and counts as equal.
        """
        value, allowed = self.value, limits(dtype)
        if shown == value or (math.isnan(shown) and math.isnan(value)):
            return 0.0
        if math.isinf(shown) and value * math.copysign(1, shown) > allowed.largest:
            return 0.0
        gap = abs(shown - value)
        if gap < allowed.gap:
            return 0.0
        if not math.isfinite(gap):
            return math.inf
        with np.errstate(all="ignore"):
            terms = self._sum_of_terms(self.expression)
        limit = _FILL * max(1.0, abs(value))
        scale = max([abs(value), terms, *(size for size in self._sizes if size < limit)])
        return gap / scale if scale else math.inf

    def _sum_of_terms(self, expression: e.Expression) -> float:
        """Σ|terms| of a sum; factors and divisors outside it apply to every term."""
        match expression:
            case e.Operation(operator="+" | "-", left=left, right=right):
                return self._sum_of_terms(left) + self._sum_of_terms(right)
            case e.Operation(operator="*", left=left, right=right):
                return self._sum_of_terms(left) * self._sum_of_terms(right)
            case e.Operation(operator="/", left=left, right=right):
                divisor = abs(float(self._of(right, ())))
                return self._sum_of_terms(left) / divisor if divisor else 0.0
            case e.Reduce(kind="sum"):
                size = float(np.abs(self.terms(expression)).sum())
            case _:
                size = abs(float(self._of(expression, ())))
        return size if math.isfinite(size) else 0.0

    def _of(self, expression: e.Expression, scope: tuple[e.Axis, ...]) -> Floats:
        """The value: a number, or an array with one axis per letter in scope."""
        match expression:
            case e.Entry():
                return self._entry(expression, scope)
            case e.Number(value=value):
                return np.float64(value)
            case e.Operation(operator=operator, left=left, right=right):
                return _OPERATIONS[operator](self._of(left, scope), self._of(right, scope))
            case e.Reduce(kind=kind, rank=rank):
                rows = self.terms(expression, scope)
                return np.asarray(_REDUCTIONS[kind](rows, rank), dtype=np.float64)
            case e.Function(name=name, arguments=arguments):
                return FUNCTIONS[name](*(self._of(part, scope) for part in arguments))
            case e.Named(body=body):
                if id(expression) not in self._named:
                    self._named[id(expression)] = self._of(body, ())
                return self._named[id(expression)]
            case e.Lookup():
                return self._lookup(expression, scope)
            case e.Choose(condition=condition, yes=yes, no=no):
                if scope:
                    chosen = np.not_equal(self._of(condition, scope), 0)
                    return np.where(chosen, self._of(yes, scope), self._of(no, scope))
                return self._of(yes if self._of(condition, scope) else no, scope)
            case e.Convert(dtype=dtype, body=body):
                return _convert(self._of(body, scope), dtype)

    def _read(self, values: npt.NDArray[np.generic] | np.generic) -> Floats:
        """Operands as float64, rounded if requested; records their size."""
        numbers = np.asarray(values, dtype=np.float64)
        if values.dtype.kind in "iu" and numbers.size and np.abs(numbers).max() > _EXACT:
            self.is_exact = False
        if self._rounding is not None:
            numbers = _rounded(numbers, self._rounding)
        if numbers.size:
            size = float(np.abs(numbers).max())
            if math.isfinite(size):
                self._sizes.append(size)
            else:
                finite = numbers[np.isfinite(numbers)]
                self._sizes.append(float(np.abs(finite).max()) if finite.size else 0.0)
        return numbers

    def _read_one(self, value: float) -> Floats:
        """`_read` for a single operand, without the cost of an array."""
        number = np.float64(value)
        if isinstance(value, int) and abs(value) > _EXACT:
            self.is_exact = False
        if self._rounding is not None:
            return self._read(number)
        if math.isfinite(number):
            self._sizes.append(abs(float(number)))
        return number

    def _entry(self, entry: e.Entry, scope: tuple[e.Axis, ...]) -> Floats:
        index: list[int | slice] = []
        letters: list[str] = []
        for part in entry.index:
            if isinstance(part, int):
                index.append(part)
                continue
            letters.append(part.letter)
            end = part.start + part.size * part.step
            # Counting down past 0, a slice has no end.
            index.append(slice(part.start, end if end >= 0 else None, part.step))
        if not letters:
            return self._read_one(entry.view.array[tuple(index)].item())
        values = self._read(entry.view.array[tuple(index)])
        is_aligned = letters == [axis.letter for axis in scope]
        return values if is_aligned else _align(values, letters, scope)

    def _lookup(self, lookup: e.Lookup, scope: tuple[e.Axis, ...]) -> Floats:
        places: list[npt.NDArray[np.int64]] = []
        for part, size in zip(lookup.index, lookup.view.shape, strict=True):
            if isinstance(part, int):
                place = np.asarray(part)
            elif isinstance(part, e.Axis):
                steps = part.start + part.step * np.arange(part.size)
                place = np.asarray(_align(steps.astype(np.float64), [part.letter], scope))
            else:
                place = np.asarray(self._of(part, scope))
            whole = place.astype(np.int64)
            places.append(np.where(whole < 0, whole + size, whole) if lookup.wrap else whole)
        return self._read(lookup.view.array[tuple(places)])


class RunningSums(Evaluation):
    """An evaluation that rounds to a dtype after every addition, as some kernels do."""

    def __init__(self, expression: e.Expression, dtype: torch.dtype) -> None:
        self._dtype = dtype
        super().__init__(expression)

    def _of(self, expression: e.Expression, scope: tuple[e.Axis, ...]) -> Floats:
        match expression:
            case e.Operation(operator="+"):
                terms = [self._of(term, scope) for term in e.summands_of(expression)]
                rows = np.stack(np.broadcast_arrays(*terms), -1)
            case e.Reduce(kind="sum"):
                rows = self.terms(expression, scope)
            case _:
                return super()._of(expression, scope)
        total = np.zeros(rows.shape[:-1])
        for place in range(rows.shape[-1]):
            total = _rounded(total + rows[..., place], self._dtype)
        return total


def _align(values: Floats, letters: list[str], scope: tuple[e.Axis, ...]) -> Floats:
    """An array with axes `letters`, transposed and expanded to the axes of the scope."""
    wanted = [axis.letter for axis in scope]
    present = [letter for letter in wanted if letter in letters]
    ordered = np.transpose(values, [letters.index(letter) for letter in present])
    keep = tuple(slice(None) if letter in letters else None for letter in wanted)
    return np.asarray(ordered[keep])


def _convert(value: Floats, dtype: torch.dtype) -> Floats:
    """The cast as torch does it, including infinities to integers."""
    return torch.as_tensor(np.asarray(value)).to(dtype).to(torch.float64).numpy()


def evaluate(expression: e.Expression) -> float:
    """The expression's value in float64."""
    return Evaluation(expression).value


def gathered(reduce: e.Reduce) -> npt.NDArray[np.float64]:
    """The values that a reduction combines, in order."""
    return Evaluation(e.Number(0)).terms(reduce)


# --- precision ---
# What rounding does to a cell: the error it may cause, and the cell at several precisions.


@dataclass(frozen=True, slots=True, repr=False)
class Precisions(ShownAsText):
    """The cell as stored, and recomputed from operands at each precision, the result rounded too.

    `rounded` is what a reader gets from the digits printed in an article.
    """

    stored: e.Scalar
    float64: float
    float32: float
    bfloat16: float
    rounded: float
    decimals: int

    def __str__(self) -> str:
        return (
            f"stored {self.stored!r}, float64 {self.float64!r}, float32 {self.float32!r}, "
            f"bfloat16 {self.bfloat16!r}, {self.decimals} decimals {self.rounded!r}"
        )


def at_precisions(expression: e.Expression | None, stored: e.Scalar, decimals: int) -> Precisions:
    """A cell's arithmetic, with its operands and its result rounded to each precision."""
    found = []
    for rounding in (torch.float64, torch.float32, torch.bfloat16, decimals):
        value = float(stored) if expression is None else Evaluation(expression, rounding).value
        found.append(float(_rounded(np.asarray(value), rounding)))
    float64, float32, bfloat16, rounded = found
    return Precisions(stored, float64, float32, bfloat16, rounded, decimals)


def _rounded(values: npt.NDArray[np.float64], to: Rounding) -> npt.NDArray[np.float64]:
    if isinstance(to, int):
        return np.round(values, to)
    rounded: npt.NDArray[np.float64] = torch.as_tensor(values).to(to).double().numpy()
    return rounded


# --- the largest terms ---

_UPWARDS = ("max", "argmax", "last argmax", "largest", "place largest")
_DOWNWARDS = ("min", "argmin", "last argmin", "smallest", "place smallest")
_BLOCK = 64


def fits(count: int, most: int) -> bool:
    """Whether so many terms are all written: a note on a single one takes as much room as it."""
    return count <= most + 1


def largest_terms(
    values: npt.NDArray[np.float64], most: int, kind: e.ReduceKind = "sum"
) -> list[int]:
    """The positions of the values that matter most, in their original order.

    For a sum, the largest in absolute value; for an extreme, those nearest to it.
    """
    if fits(len(values), most):
        return list(range(len(values)))
    known = values if np.isfinite(values).all() else np.nan_to_num(values, nan=np.inf)
    weights = known if kind in _UPWARDS else -known if kind in _DOWNWARDS else np.abs(known)
    places: list[int] = np.sort(_first_largest(weights, most)).tolist()
    return places


def _first_largest(weights: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.int64]:
    """The positions of the largest values; of equal ones, the first."""
    least = _nth_largest(weights, most)
    above = np.flatnonzero(weights > least)
    return np.concatenate([above, np.flatnonzero(weights == least)[: most - len(above)]])


def _nth_largest(weights: npt.NDArray[np.float64], n: int) -> float:
    """The n-th largest value.

    It lies in one of the n blocks with the largest maxima; searching only these takes a tenth of
    the time for a vocabulary of 50,000.
    """
    whole = len(weights) // _BLOCK * _BLOCK
    if whole > 2 * n * _BLOCK:
        blocks = weights[:whole].reshape(-1, _BLOCK)
        highest = np.argpartition(blocks.max(1), -n)[-n:]
        weights = np.concatenate([blocks[highest].ravel(), weights[whole:]])
    return float(np.partition(weights, -n)[-n])
