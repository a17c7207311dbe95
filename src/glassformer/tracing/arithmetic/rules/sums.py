"""Sums of products (linear layers, matrix products, einsum), and reductions of one operand."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import torch

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import RankOrder, evaluate, gathered, order_of
from glassformer.tracing.arithmetic.rules.rule_registry import (
    LETTERS,
    Build,
    broadcast,
    cell,
    row,
    rule,
    running,
)
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call

# --- sums of products ---


@rule("linear")
def linear(call: Call, index: Index) -> e.Expression:
    """Σₖ x[…, k] · W[o, k] + b[o]."""
    x, parameter, bias = call.view("input"), call.view("weight"), call.maybe_view("bias")
    k = e.Axis("k", x.shape[-1])
    rows = index[: x.ndim - 1]
    out = index[x.ndim - 1 :]
    made = e.total(cell(x, *rows, k) * cell(parameter, *out, k), k)
    return made if bias is None else made + cell(bias, *out)


@rule("matmul", "mm", "bmm", "mv", "dot", "vdot")
def matmul(call: Call, index: Index) -> e.Expression:
    """Σₖ A[β, i, k] · B[β, k, j], the batch axes β broadcast."""
    names = call.operator.parameters
    return product(call.view(names[0]), call.view(names[1]), index)


def product(a: View, b: View, index: Index) -> e.Expression:
    """A cell of the matrix product of two views."""
    left, right, k = factors(a, b, index)
    return e.total(e.Entry(a, left) * e.Entry(b, right), k)


_Places = tuple[int | e.Axis, ...]


def factors(a: View, b: View, index: Sequence[int]) -> tuple[_Places, _Places, e.Axis]:
    """The indices of a matrix product's factors in both operands, and the summed axis k."""
    k = e.Axis("k", a.shape[-2 if a.pairs else -1])
    sizes = [view.shape[:-1] if view.pairs else view.shape for view in (a, b)]
    batch = list(index)
    column = [batch.pop()] if len(sizes[1]) > 1 else []
    line = [batch.pop()] if len(sizes[0]) > 1 else []
    leads = []
    for own in (size[:-2] for size in sizes):  # the batch axes are broadcast
        places = zip(own, batch[len(batch) - len(own) :], strict=True)
        leads.append([0 if size == 1 else place for size, place in places])
    return (*leads[0], *line, k), (*leads[1], k, *column), k


@rule("addmm", "addmv", "baddbmm", "addbmm")
def addmm(call: Call, index: Index) -> e.Expression:
    """β · c + α · Σₖ A[i, k] · B[k, j]."""
    _, first, second = call.operator.parameters[:3]
    make = _summed_product if call.operator.name == "addbmm" else product
    made = call.number_of("alpha") * make(call.view(first), call.view(second), index)
    beta = call.number_of("beta")
    if beta == 0:  # torch then ignores c, even if it is NaN
        return made
    return made + beta * broadcast(call.operand("self"), index)


def _summed_product(a: View, b: View, index: Index) -> e.Expression:
    batch, k = e.Axis("s", a.shape[0]), e.Axis("k", a.shape[-1])
    return e.total(cell(a, batch, index[0], k) * cell(b, batch, k, index[1]), batch, k)


def _can_group(call: Call) -> bool:
    """Whether this rule knows the arguments' layout."""
    given = call.maybe_view("offs") is not None
    ranks = (call.view("self").ndim, call.view("mat2").ndim)
    return call.maybe_view("bias") is None and given == (ranks != (3, 3))


@rule("_grouped_mm", covers=_can_group)
def grouped(call: Call, index: Index) -> e.Expression | None:
    """Σₖ A[i, k] · B[k, j] for the group (expert) of a row, a column or a range of k.

    `offs` holds the end of each group: along the rows for a 2-d A and a 3-d B, along the columns
    for a 3-d A and a 2-d B, and along k if both are 2-d (the gradient of the experts' weights).
    """
    a, b, ends = call.view("self"), call.view("mat2"), call.maybe_view("offs")
    if ends is None:
        return product(a, b, index)
    if a.ndim == b.ndim:
        group, row, column = index
        start, end = (int(ends.array[g]) if g >= 0 else 0 for g in (group - 1, group))
        k = e.Axis("k", end - start, start=start)
        return e.total(cell(a, row, k) * cell(b, k, column), k)
    k, (row, column) = e.Axis("k", a.shape[-1]), index
    along = row if a.ndim == 2 else column
    if along >= int(ends.array[-1]):  # the kernel writes nothing beyond the last group
        return None
    s = e.Axis("s", ends.shape[0])
    own = e.total(e.Operation("≤", cell(ends, s), e.Number(along)), s)
    if a.ndim == 2:
        return e.total(cell(a, row, k) * e.Lookup(b, (own, k, column)), k)
    return e.total(e.Lookup(a, (own, row, k)) * cell(b, k, column), k)


@rule("einsum")
def einsum(call: Call, index: Index) -> e.Expression:
    """The product of the operands' cells, summed over the letters missing from the output."""
    operands = call.views("tensors")
    inputs, output = einsum_letters(str(call.bound["equation"]), operands)
    places: dict[str, int | e.Axis] = dict(zip(output, index, strict=True))
    sizes: dict[str, int] = {}
    for letters, view in zip(inputs, operands, strict=True):
        for letter, size in zip(letters, view.shape, strict=True):
            sizes[letter] = size if size != 1 else sizes.get(letter, 1)
    running = [letter for letter in sizes if letter not in places]
    axes = [
        e.Axis(LETTERS[place] if place < len(LETTERS) else f"k{place}", sizes[letter])
        for place, letter in enumerate(running)
    ]
    places.update(zip(running, axes, strict=True))
    pieces = (_factor(view, own, places) for own, view in zip(inputs, operands, strict=True))
    return e.total(reduce(operator.mul, pieces), *axes)


def _factor(view: View, letters: list[str], places: dict[str, int | e.Axis]) -> e.Expression:
    parts = tuple(
        0 if size == 1 else places[letter] for letter, size in zip(letters, view.shape, strict=True)
    )
    letters_used = [part.letter for part in parts if isinstance(part, e.Axis)]
    if len(set(letters_used)) < len(letters_used):  # a diagonal is not a slice of the operand
        return e.Lookup(view, parts)
    return e.Entry(view, parts)


def einsum_letters(equation: str, operands: list[View]) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand's axes and of the output's; `...` becomes numbered letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    left_over = [
        view.ndim - len(part.replace("...", "")) for part, view in zip(parts, operands, strict=True)
    ]
    widest = max((dots for part, dots in zip(parts, left_over, strict=True) if "..." in part),
                 default=0)  # fmt: skip

    def spread(part: str, dots: int) -> list[str]:
        before, mark, after = part.partition("...")
        names = [f"…{place}" for place in range(widest - dots, widest)] if mark else []
        return [*before, *names, *after]

    inputs = [spread(part, dots) for part, dots in zip(parts, left_over, strict=True)]
    if arrow:
        return inputs, spread(right, widest)
    counts = left.replace(",", "").replace("...", "")
    once = sorted(letter for letter in set(counts) if counts.count(letter) == 1)
    return inputs, [f"…{place}" for place in range(widest)] + once


# --- reductions: sums, extremes and their positions, variance, norms ---


def _gathered(call: Call, index: Index) -> tuple[e.Expression, tuple[e.Axis, ...], int]:
    """The cells that the call reduces to one output cell, their axes, and their number."""
    x = call.view("self")
    name = "dim" if "dim" in call.operator.parameters else "dims"
    entry, axes = row(x, index, call.axes(name, x.ndim), call.flag("keepdim"))
    return _as_asked(call, entry), tuple(axes), math.prod(axis.size for axis in axes)


def _as_asked(call: Call, entry: e.Entry) -> e.Expression:
    """The cells as the call reads them: `dtype=torch.int64` truncates each before the sum."""
    dtype: torch.dtype = call.bound.get("dtype") or entry.view.dtype
    cuts = entry.view.dtype.is_floating_point and not dtype.is_floating_point
    return e.Convert(dtype, entry) if cuts else entry


# The result of reducing no cells; torch rejects the other kinds.
_OF_NOTHING: dict[e.ReduceKind, int] = {"sum": 0, "product": 1, "any": 0, "all": 1}


def _reduction(kind: e.ReduceKind) -> Build:
    def build(call: Call, index: Index) -> e.Expression:
        cells, axes, count = _gathered(call, index)
        if count == 0:
            return e.Number(_OF_NOTHING[kind])
        return e.Reduce(kind, cells, axes) if axes else _alone(kind, cells)

    return build


def _alone(kind: e.ReduceKind, value: e.Expression) -> e.Expression:
    """The reduction of a tensor without axes: the number itself, or position 0."""
    if kind in ("argmax", "argmin"):
        return e.Number(0)
    return e.Operation("≠", value, e.Number(0)) if kind in ("any", "all") else value


_KINDS: dict[e.ReduceKind, str] = {
    "sum": "sum",
    "product": "prod",
    "max": "amax max max.dim",
    "min": "amin min min.dim aminmax",
    "any": "any _is_any_true",
    "all": "all _is_all_true",
    "argmax": "argmax",
    "argmin": "argmin",
}
for _kind, _operators in _KINDS.items():
    rule(*_operators.split())(_reduction(_kind))
rule("aminmax", output=1)(_reduction("max"))
rule("max.dim", output=1)(_reduction("argmax"))
rule("min.dim", output=1)(_reduction("argmin"))


@rule("mean")
def mean(call: Call, index: Index) -> e.Expression:
    """The sum divided by the number of cells."""
    cells, axes, count = _gathered(call, index)
    return e.total(cells, *axes) / count if axes else cells


@rule("trace")
def trace_of_matrix(call: Call, _index: Index) -> e.Expression:
    """The sum of the diagonal."""
    x = call.view("self")
    k = e.Axis("k", min(x.shape))
    return e.total(e.Lookup(x, (k, k)), k)


@rule("logsumexp")
def logsumexp(call: Call, index: Index) -> e.Expression:
    """m + log Σ exp(x − m)."""
    cells, axes, _ = _gathered(call, index)
    return _log_of_sum(cells, axes)


def _log_of_sum(cells: e.Expression, axes: tuple[e.Axis, ...]) -> e.Expression:
    """m + log Σ exp(x − m), m the maximum; without m if it is infinite (a masked row)."""
    largest = e.Named("m", e.Reduce("max", cells, axes) if axes else cells)
    infinite = math.isinf(evaluate(largest))
    body = cells if infinite else cells - largest
    log = e.Function("log", (e.total(e.Function("exp", (body,)), *axes),))
    return log if infinite else largest + log


@rule("count_nonzero")
def count_nonzero(call: Call, index: Index) -> e.Expression:
    """The number of cells that are not 0."""
    cells, axes, _ = _gathered(call, index)
    body = e.Operation("≠", cells, e.Number(0))
    return e.total(body, *axes)


_EXTREMES: tuple[e.ReduceKind, e.ReduceKind] = ("min", "max")


@rule("histc")
def histogram(call: Call, index: Index) -> e.Expression:
    """The number of cells in a bin; the last bin includes its upper end."""
    x, bins = call.view("self"), call.integer("bins")
    if not x.numel:
        return e.Number(0)
    axes = running(x.shape)
    cells: e.Expression = e.Entry(x, axes)
    low, high = (e.Number(call.number_of(name)) for name in ("min", "max"))
    ends: tuple[e.Expression, e.Expression] = (low, high)
    if low == high:  # no range given: that of the cells, widened by 1 on both sides if empty
        least, most = (e.Reduce(k, cells, axes) if axes else cells for k in _EXTREMES)
        if evaluate(least) == evaluate(most):
            least, most = least - 1, most + 1
        ends = (e.Named("low", least), e.Named("high", most))
    width = ends[1] - ends[0] if low == high else e.Number(high.value - low.value)
    place = (cells if ends[0] == e.Number(0) else cells - ends[0]) * bins / width
    whole = e.Function("min", (e.Function("floor", (place,)), e.Number(bins - 1)))
    below = e.Operation("≤", cells, ends[1])
    counted = e.Operation("and", e.Operation("=", whole, e.Number(index[0])), below)
    return e.total(counted, *axes)


@rule("bincount")
def bincount(call: Call, index: Index) -> e.Expression:
    """The number of cells equal to this bin's number, or the sum of their weights."""
    x, weights = call.view("self"), call.maybe_view("weights")
    k = e.Axis("k", x.shape[0])
    one = e.Number(1) if weights is None else e.Entry(weights, (k,))
    here = e.Operation("=", e.Entry(x, (k,)), e.Number(index[0]))
    return e.total(e.Choose(here, one, e.Number(0)), k)


def _running(kind: e.ReduceKind) -> Build:
    def build(call: Call, index: Index) -> e.Expression:
        x = call.view("self")
        if not index:
            return e.Number(0) if "arg" in kind else e.Entry(x, ())
        cells, k = _up_to(x, call.axis("dim", x.ndim), index)
        return e.Reduce(kind, _as_asked(call, cells), (k,))

    return build


@rule("logcumsumexp")
def logcumsumexp(call: Call, index: Index) -> e.Expression:
    """log Σ exp(x) over the cells up to this one."""
    x = call.view("self")
    if not index:
        return e.Entry(x, ())
    cells, k = _up_to(x, call.axis("dim", x.ndim), index)
    return _log_of_sum(cells, (k,))


def _up_to(x: View, axis: int, index: Index) -> tuple[e.Entry, e.Axis]:
    """The cells along an axis up to and including an index."""
    k = e.Axis("k", index[axis] + 1, ends=True)
    return e.Entry(x, (*index[:axis], k, *index[axis + 1 :])), k


rule("cumsum")(_running("sum"))
rule("cumprod")(_running("product"))
rule("cummax")(_running("max"))
rule("cummin")(_running("min"))
rule("cummax", output=1)(_running("last argmax"))
rule("cummin", output=1)(_running("last argmin"))


def _variance(call: Call, index: Index) -> tuple[e.Expression, e.Expression]:
    """The mean, and Σ (x − μ)² / (n − correction)."""
    cells, axes, count = _gathered(call, index)
    correction = call.bound.get("correction", 1 if call.bound.get("unbiased", True) else 0)
    correction = 1 if correction is None else correction
    centre = e.Named("μ", e.total(cells, *axes) / count)
    squared = (cells - centre) ** 2
    squares = e.total(squared, *axes)
    return centre.body, squares / max(0, count - correction)


def _spread(part: int, root: bool) -> Callable[[Call, Index], e.Expression]:
    def build(call: Call, index: Index) -> e.Expression:
        value = _variance(call, index)[part]
        return e.Function("sqrt", (value,)) if root else value

    return build


rule("var")(_spread(1, root=False))
rule("std")(_spread(1, root=True))
rule("var_mean")(_spread(1, root=False))
rule("std_mean")(_spread(1, root=True))
rule("var_mean", "std_mean", output=1)(_spread(0, root=False))


@rule("norm", "linalg_vector_norm")
def norm(call: Call, index: Index) -> e.Expression:
    """(Σ |x|ᵖ)^(1/p); max |x| for p = ∞."""
    cells, axes, _ = _gathered(call, index)
    order = call.bound.get("ord", call.bound.get("p", 2))
    order = 2.0 if order is None else float(order)
    size = e.Function("abs", (cells,))
    if order == 0:
        return e.total(e.Operation("≠", cells, e.Number(0)), *axes)
    if not axes:
        return size
    if math.isinf(order):
        return e.Reduce("max" if order > 0 else "min", size, axes)
    if order == 1:
        return e.total(size, *axes)
    if order == 2:
        return e.Function("sqrt", (e.total(cells**2, *axes),))
    return e.total(size**order, *axes) ** (1 / order)


# --- ranks: the n-th largest of a row, the median, the n-th nonzero cell ---


def _ranked(place_of: bool) -> Build:
    """The value of a given rank along an axis, or its position: sort, topk."""

    def build(call: Call, index: Index) -> e.Expression:
        x = call.view("self")
        if not index:
            return e.Number(0) if place_of else e.Entry(x, ())
        axis, rank = call.axis("dim", x.ndim), index[call.axis("dim", x.ndim)]
        j = e.Axis("j", x.shape[axis])
        cells = e.Entry(x, (*index[:axis], j, *index[axis + 1 :]))
        kind: RankOrder = (
            "largest" if call.flag("largest") or call.flag("descending") else "smallest"
        )
        in_any_order = call.bound.get("sorted") is False
        if place_of or in_any_order:
            row = gathered(e.Reduce("sum", cells, (j,)))
            allowed = range(call.integer("k")) if in_any_order else range(rank, rank + 1)
            rank = _rank_taken(row, int(call.made(-1).array[index]), allowed, kind, rank)
        return e.Reduce(_PLACES[kind] if place_of else kind, cells, (j,), rank)

    return build


_PLACES: dict[RankOrder, e.ReduceKind] = {"largest": "place largest", "smallest": "place smallest"}


def _rank_taken(
    row: npt.NDArray[np.float64], taken: int, allowed: range, kind: RankOrder, rank: int
) -> int:
    """The rank, in a stable sort, of the cell that a kernel took for one of the `allowed` ranks.

    An unstable kernel may have taken any of several equal cells. `rank` is what the kernel says,
    and stays where it took a wrong cell.
    """
    order = order_of(row, kind)
    own, last = int(np.flatnonzero(order == taken)[0]), order[allowed[-1]]
    is_right = own in allowed or np.array_equal(row[taken], row[last], equal_nan=True)
    return own if is_right else rank


def _first_nan(cells: e.Expression, axes: tuple[e.Axis, ...], place_of: bool) -> e.Expression:
    """The median of a row with a NaN is NaN."""
    found = e.Function("isnan", (cells,))
    if place_of:
        return e.Reduce("argmax", found, axes)
    return e.Choose(e.Reduce("any", found, axes), e.Number(math.nan), e.Number(0))


def _middle(place_of: bool) -> Build:
    """The lower of the middle values (median), or the k-th smallest; or its position."""

    def build(call: Call, index: Index) -> e.Expression:
        x = call.view("self")
        if not x.ndim:
            return e.Number(0) if place_of else e.Entry(x, ())
        whole = call.bound.get("dim") is None
        over = tuple(range(x.ndim)) if whole else (call.axis("dim", x.ndim),)
        cells, letters = row(x, index, over, call.flag("keepdim"))
        axes = tuple(letters)
        values = gathered(e.Reduce("min", cells, axes))
        known = int(np.count_nonzero(~np.isnan(values)))
        if call.operator.name == "median" and known < len(values):
            return _first_nan(cells, axes, place_of)
        rank = call.integer("k") - 1 if "k" in call.bound else max(0, (known - 1) // 2)
        if not place_of:
            return e.Reduce("smallest", cells, axes, rank)
        taken = int(call.made(1).array[index])
        rank = _rank_taken(values, taken, range(rank, rank + 1), "smallest", rank)
        return e.Reduce("place smallest", cells, axes, rank)

    return build


rule("median", "nanmedian", "kthvalue")(_middle(place_of=False))
rule("median", "nanmedian", "kthvalue", output=1)(_middle(place_of=True))


@rule("nonzero")
def nonzero(call: Call, index: Index) -> e.Expression:
    """The position along one axis of the n-th nonzero cell."""
    x, (rank, axis) = call.view("self"), index
    axes = running(x.shape)
    cells = e.Entry(x, axes)
    holds = cells if x.dtype == torch.bool else e.Operation("≠", cells, e.Number(0))
    place: e.Expression = e.Reduce("place largest", holds, axes, rank)
    inner = math.prod(x.shape[axis + 1 :])
    place = e.Operation("//", place, e.Number(inner)) if inner > 1 else place
    return e.Operation("%", place, e.Number(x.shape[axis])) if axis else place


rule("topk", "sort")(_ranked(place_of=False))
rule("topk", "sort", output=1)(_ranked(place_of=True))
rule("argsort")(_ranked(place_of=True))
