"""The value of an expression in float64, from the operands that a reader is shown.

The evaluation also records the size of its inputs: because terms may cancel, the difference between
a float32 result and its float64 recomputation is measured relative to
max(|value|, Σ|terms|, largest |operand|).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.capture.memory import as_floats
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
}

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
    "place smallest": lambda row, rank: np.argsort(row, -1, kind="stable")[..., rank],
    "place largest": lambda row, rank: np.argsort(-as_floats(row), -1, kind="stable")[..., rank],
}
"""Of the last axis; NaN counts as the largest."""

# Operands this much larger than the result are a mask's fill value (−1e9, the lowest float), not
# summands: counted as operands, they would excuse any error.
_FILL = 1e6


_EXACT = 2**53  # float64 cannot represent every integer beyond this


def limits(dtype: torch.dtype) -> tuple[float, float]:
    """The largest number of a dtype, and the gap below which two of its numbers count as equal.

    Kernels may flush subnormal numbers to zero: those of float64 in float64, all others in float32,
    in which shorter dtypes are computed as well. Shorter dtypes also round to their own smallest
    step. Integers have neither limit.
    """
    if not dtype.is_floating_point:
        return math.inf, 0.0
    info = torch.finfo(dtype)
    flushed = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32)
    return info.max, max(info.smallest_normal * info.eps, flushed.smallest_normal)


class Evaluation:
    """One evaluation: its value, and the sizes of its inputs.

    `named` caches the values of named parts (μ, m), by identity, across evaluations of the same
    tree; only the first evaluation then knows the sizes of their inputs.
    """

    def __init__(
        self,
        expression: e.Expression,
        rounding: Rounding | None = None,
        named: dict[int, Floats] | None = None,
    ) -> None:
        self._rounding = rounding
        self._named = {} if named is None else named
        self._sizes: list[float] = []
        self.is_exact = True
        """False if an integer was read that float64 may not represent."""
        self._expression = expression
        with np.errstate(all="ignore"):
            self.value = float(self._of(expression, ()))

    @property
    def scale(self) -> float:
        """max(|value|, Σ|terms|, largest |operand|), ignoring the fill values of masks."""
        size = abs(self.value) if math.isfinite(self.value) else 0.0
        limit = _FILL * max(1.0, size)
        with np.errstate(all="ignore"):
            terms = self._sum_of_terms(self._expression)
        return max([size, terms, *(s for s in self._sizes if s < limit)])

    def relative_difference(self, shown: float, dtype: torch.dtype = torch.float32) -> float:
        """|shown − value| / scale; 0 if both are the same infinity or NaN, ∞ if only one is.

        A sum beyond the largest number of its dtype (two masks of −65504 in float16) is stored as
        infinity and counts as equal.
        """
        largest, smallest = limits(dtype)
        if math.isnan(shown) and math.isnan(self.value):
            return 0.0
        if shown == self.value:
            return 0.0
        if math.isinf(shown) and self.value * math.copysign(1, shown) > largest:
            return 0.0
        gap = abs(shown - self.value)
        if gap < smallest:
            return 0.0
        scale = self.scale if math.isfinite(gap) else 0.0
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
            case e.Reduce(kind="sum", body=body, axes=axes):
                terms = np.abs(self._of(body, axes))
                size = float(np.sum(terms)) * math.prod(a.size for a in axes) / max(1, terms.size)
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
            case e.Operation():
                return self._operation(expression, scope)
            case e.Reduce():
                return self._reduce(expression, scope)
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
        numbers = as_floats(values)
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
        running = [part for part in entry.index if isinstance(part, e.Axis)]
        if not running:
            return self._read_one(entry.view.array[entry.index].item())  # type: ignore[index]  # no Axis
        index = tuple([_positions(p) if isinstance(p, e.Axis) else p for p in entry.index])
        values = self._read(entry.view.array[index])
        return _align(values, [part.letter for part in running], scope)

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

    def _operation(self, operation: e.Operation, scope: tuple[e.Axis, ...]) -> Floats:
        left = self._of(operation.left, scope)
        right = self._of(operation.right, scope)
        if operation.operator in ("&", "|"):
            whole = np.asarray(left).astype(np.int64), np.asarray(right).astype(np.int64)
            bits = whole[0] & whole[1] if operation.operator == "&" else whole[0] | whole[1]
            return bits.astype(np.float64)
        return _OPERATIONS[operation.operator](left, right)

    def _reduce(self, reduce: e.Reduce, scope: tuple[e.Axis, ...]) -> Floats:
        inner = scope + reduce.axes
        shape = tuple(axis.size for axis in inner)
        values = np.broadcast_to(self._of(reduce.body, inner), shape)
        flat = values.reshape(*shape[: len(scope)], -1)
        return np.asarray(_REDUCTIONS[reduce.kind](flat, reduce.rank), dtype=np.float64)


def _positions(axis: e.Axis) -> slice:
    """The positions that a letter runs over; a slice that counts down past 0 has no end."""
    end = axis.start + axis.size * axis.step
    return slice(axis.start, end if end >= 0 else None, axis.step)


def _align(values: Floats, letters: list[str], scope: tuple[e.Axis, ...]) -> Floats:
    """An array with axes `letters`, transposed and expanded to the axes of the scope."""
    wanted = [axis.letter for axis in scope]
    if letters == wanted:
        return values
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


def gathered(reduce: e.Reduce, named: dict[int, Floats] | None = None) -> npt.NDArray[np.float64]:
    """The values that a reduction combines, in order; `named` as in `Evaluation`."""
    with np.errstate(all="ignore"):
        values = Evaluation(e.Number(0), named=named)._of(reduce.body, reduce.axes)
    shape = tuple(axis.size for axis in reduce.axes)
    return np.array(np.broadcast_to(values, shape).reshape(-1))


# --- precision ---
# What rounding does to a cell: the error it may cause, and the cell at several precisions.


Relation = Literal["=", "≠"]

# A correct result differs from its float64 recomputation by little more than the dtype's rounding.
_TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
_TOLERANCE = 1e-6


def tolerance(dtype: torch.dtype) -> float:
    """The largest relative difference at which a rule still reproduces a number of this dtype."""
    return _TOLERANCES.get(dtype, _TOLERANCE)


def relation(difference: float, dtype: torch.dtype) -> Relation:
    """The sign to print between a rule's arithmetic and the stored number.

    Every renderer uses this sign: none may print "=" if a rule does not reproduce the number.
    """
    return "=" if difference <= tolerance(dtype) else "≠"


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

    def at(rounding: Rounding) -> float:
        value = float(stored) if expression is None else Evaluation(expression, rounding).value
        return float(_rounded(np.asarray(value), rounding))

    return Precisions(
        stored,
        float64=at(torch.float64),
        float32=at(torch.float32),
        bfloat16=at(torch.bfloat16),
        rounded=at(decimals),
        decimals=decimals,
    )


def _rounded(values: npt.NDArray[np.float64], to: Rounding) -> npt.NDArray[np.float64]:
    if isinstance(to, int):
        return np.round(values, to)
    rounded: npt.NDArray[np.float64] = torch.as_tensor(values).to(to).double().numpy()
    return rounded


# --- the largest terms ---

_UPWARDS = ("max", "argmax", "last argmax", "largest", "place largest")
_DOWNWARDS = ("min", "argmin", "last argmin", "smallest", "place smallest")
_BLOCK = 64


def largest_terms(
    values: npt.NDArray[np.float64], most: int, kind: e.ReduceKind = "sum"
) -> list[int]:
    """The positions of the values that matter most, in their original order.

    For a sum, the largest in absolute value; for an extreme, those nearest to it.
    """
    if len(values) <= most:
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
