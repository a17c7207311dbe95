"""Sums of products: linear layers, the matrix products, einsum."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.rules.rule_registry import LETTERS, broadcast, cell, rule
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call


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
            sizes[letter] = max(size, sizes.get(letter, 1))
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
    widest = (
        max(
            view.ndim - len(part.replace("...", ""))
            for part, view in zip(parts, operands, strict=True)
            if "..." in part
        )
        if "..." in left
        else 0
    )

    def spread(part: str, dots: int) -> list[str]:
        before, mark, after = part.partition("...")
        names = [f"…{place}" for place in range(widest - dots, widest)] if mark else []
        return [*before, *names, *after]

    inputs = [
        spread(part, view.ndim - len(part.replace("...", "")))
        for part, view in zip(parts, operands, strict=True)
    ]
    if arrow:
        return inputs, spread(right, widest)
    counts = left.replace(",", "").replace("...", "")
    once = sorted(letter for letter in set(counts) if counts.count(letter) == 1)
    return inputs, [f"…{place}" for place in range(widest)] + once
