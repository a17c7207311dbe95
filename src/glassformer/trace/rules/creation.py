"""Tensors made from settings alone, and those whose numbers are taken as they come."""

from __future__ import annotations

import torch

from glassformer.trace.calls import Call
from glassformer.trace.expressions import (
    Convert,
    Expression,
    Number,
    Scalar,
    add,
    multiply,
    power,
    subtract,
)
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.operands import broadcast
from glassformer.trace.rules.registry import Build, given, rule, unwritten

__all__: list[str] = []

unwritten(
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"
)
# Python numbers that became a tensor.
given("lift_fresh", "lift_fresh_copy", "tensor", "_efficientzerotensor")


def _constant(value: Scalar) -> Build:
    def build(_call: Call, _index: Index) -> Expression:
        return Number(value)

    return build


rule("zeros", "zeros_like", "new_zeros", "zero", constant=True)(_constant(0))
rule("ones", "ones_like", "new_ones", constant=True)(_constant(1))


@rule("full", "full_like", "new_full", constant=True)
def full(call: Call, _index: Index) -> Expression:
    """The fill value."""
    return Number(_held(call, call.number_of("fill_value")))


def _held(call: Call, value: Scalar) -> Scalar:
    """A fill value as the tensor holds it: one of whole numbers cuts it."""
    made = call.outputs[0]
    assert made is not None
    if made.dtype.is_floating_point:
        return value
    return bool(value) if made.dtype == torch.bool else int(value)


@rule("scalar_tensor", constant=True)
def scalar_tensor(call: Call, _index: Index) -> Expression:
    """The number itself."""
    return Number(call.number_of("s"))


@rule("fill")
def fill(call: Call, _index: Index) -> Expression:
    """The fill value: a number, or the one cell of a tensor."""
    value = call.operand("value")
    return broadcast(value, ()) if isinstance(value, View) else Number(_held(call, value))


@rule("arange", constant=True)
def arange(call: Call, index: Index) -> Expression:
    """start + i · step."""
    start, step = call.bound.get("start", 0), call.bound.get("step", 1)
    return Number(start + index[0] * step)


def _spaced(call: Call, index: Index) -> Expression:
    """start + i / (steps − 1) · (end − start); for `logspace` a base to the power of that."""
    start, end = (broadcast(call.operand(name), ()) for name in ("start", "end"))
    share = index[0] / max(1, call.integer("steps") - 1)
    value = add(start, multiply(Number(share), subtract(end, start)))
    if call.operator.name == "logspace":
        value = power(float(call.number_of("base")), value)
    made = call.outputs[0]
    assert made is not None
    return value if made.dtype.is_floating_point else Convert(made.dtype, value)


rule("linspace", "logspace", constant=True)(_spaced)
for _ends in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"):
    rule(f"linspace.{_ends}", f"logspace.{_ends}")(_spaced)


@rule("eye", constant=True)
def eye(_call: Call, index: Index) -> Expression:
    """1 on the diagonal, 0 elsewhere."""
    return Number(int(index[0] == index[1]))


def _triangle_indices(lower: bool) -> Build:
    def build(call: Call, index: Index) -> Expression:
        rows, columns = call.integer("row"), call.integer("col")
        offset = call.integer("offset")
        places = [
            (i, j)
            for i in range(rows)
            for j in range(columns)
            if (j - i <= offset if lower else j - i >= offset)
        ]
        return Number(places[index[1]][index[0]])

    return build


rule("tril_indices", constant=True)(_triangle_indices(lower=True))
rule("triu_indices", constant=True)(_triangle_indices(lower=False))
