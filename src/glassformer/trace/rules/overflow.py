"""Whole numbers that a type cannot hold: they begin again at its other end."""

from __future__ import annotations

import math

import torch

from glassformer.trace.evaluate import evaluate
from glassformer.trace.expressions import (
    Expression,
    Function,
    Number,
    Operation,
    Reduce,
    add,
    subtract,
)

__all__ = ["held"]

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
