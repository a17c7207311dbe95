"""How rules speak of operands: a cell by broadcasting, a row of cells along running axes."""

from __future__ import annotations

import math

from glassformer.trace.evaluate import evaluate
from glassformer.trace.expressions import Axis, Choose, Entry, Expression, Function, Number, Scalar
from glassformer.trace.memory import Index, View

__all__ = ["LETTERS", "broadcast", "cell", "row", "unless_nan"]

LETTERS = "klmnpqrs"


def broadcast(operand: View | Scalar, index: tuple[int | Axis, ...]) -> Expression:
    """The operand's cell for an output cell, its shape broadcast as torch does."""
    if not isinstance(operand, View):
        return Number(operand)
    skipped = len(index) - operand.ndim
    return Entry(
        operand,
        tuple(
            0 if size == 1 else place
            for size, place in zip(operand.shape, index[skipped:], strict=True)
        ),
    )


def cell(view: View, *index: int | Axis) -> Entry:
    """One cell, or a row of them where the index holds running axes."""
    return Entry(view, index)


def row(view: View, index: Index, axes: tuple[int, ...], keepdim: bool) -> tuple[Entry, list[Axis]]:
    """The cells that a reduction over `axes` gathers for one output cell."""
    running: list[Axis] = []
    parts: list[int | Axis] = []
    rest = iter(index)
    for axis, size in enumerate(view.shape):
        if axis in axes:
            running.append(Axis(LETTERS[len(running)], size))
            parts.append(running[-1])
            if keepdim:
                next(rest)
        else:
            parts.append(next(rest))
    return Entry(view, tuple(parts)), running


def unless_nan(
    value: Expression, otherwise: Expression, at_nan: Expression | None = None
) -> Expression:
    """What a rule gives; where the value is NaN, that NaN or `at_nan`.

    The choice is written only where there is a NaN: elsewhere it would tell a reader nothing.
    """
    if not math.isnan(evaluate(value)):
        return otherwise
    return Choose(Function("isnan", (value,)), value if at_nan is None else at_nan, otherwise)
