"""How rules speak of operands: a cell by broadcasting, a row of cells along running axes.

And how a dtype holds what a rule gives: whole numbers that it cannot hold begin again at its other
end.
"""

from __future__ import annotations

import math

import torch

from glassformer.tracing.arithmetic.expressions import (
    Axis,
    Entry,
    Expression,
    Function,
    Number,
    Operation,
    Reduce,
    Scalar,
    add,
    subtract,
)
from glassformer.tracing.arithmetic.float64_values import evaluate
from glassformer.tracing.capture.memory import Index, View

LETTERS = "klmnpqrs"


def broadcast(operand: View | Scalar, index: tuple[int | Axis, ...]) -> Expression:
    """The operand's cell for an output cell, its shape broadcast as torch does."""
    if not isinstance(operand, View):
        return Number(operand)
    shape = operand.shape
    places = index[len(index) - len(shape) :]
    if 1 in shape:
        places = tuple([0 if size == 1 else at for size, at in zip(shape, places, strict=True)])
    return Entry(operand, places)


def cell(view: View, *index: int | Axis) -> Entry:
    """One cell, or a row of them where the index holds running axes."""
    return Entry(view, index)


def running(shape: Index) -> tuple[Axis, ...]:
    """A letter for each axis of a shape."""
    return tuple(Axis(LETTERS[place], size) for place, size in enumerate(shape))


def row(view: View, index: Index, axes: tuple[int, ...], keepdim: bool) -> tuple[Entry, list[Axis]]:
    """The cells that a reduction over `axes` gathers for one output cell."""
    letters: list[Axis] = []
    parts: list[int | Axis] = []
    rest = iter(index)
    for axis, size in enumerate(view.shape):
        if axis in axes:
            letters.append(Axis(LETTERS[len(letters)], size))
            parts.append(letters[-1])
            if keepdim:
                next(rest)
        else:
            parts.append(next(rest))
    return Entry(view, tuple(parts)), letters


_ARITHMETIC = frozenset(["+", "-", "*", "^", "//"])
# (int64 is left out: what does not fit there, float64 cannot tell apart either.)
_SMALL = frozenset(
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32]
)


def held(expression: Expression, dtype: torch.dtype) -> Expression:
    """The expression as a tensor of that type holds it: 200 + 100 is 44 in uint8, 300 mod 256.

    Written out only where it changes the number. In bool, 1 + 1 is 1.
    """
    if dtype not in _SMALL or not _may_overflow(expression):
        return expression
    value = evaluate(expression)
    if not math.isfinite(value):
        return expression
    if dtype == torch.bool:
        return expression if value in (0, 1) else Operation("≠", expression, Number(0))
    kind = torch.iinfo(dtype)
    if kind.min <= value <= kind.max:
        return expression
    size = Number(kind.max - kind.min + 1)
    if kind.min == 0:
        return Operation("%", expression, size)
    return subtract(Operation("%", add(expression, -kind.min), size), -kind.min)


def _may_overflow(expression: Expression) -> bool:
    match expression:
        case Operation(operator=operator):
            return operator in _ARITHMETIC
        case Function(name=name):
            return name in ("neg", "abs")
        case Reduce(kind=kind):
            return kind in ("sum", "product")
        case _:
            return False
