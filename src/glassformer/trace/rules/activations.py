"""Activation functions, each spelt out."""

from __future__ import annotations

import math

from glassformer.trace.calls import Call
from glassformer.trace.expressions import (
    Choose,
    Expression,
    Function,
    Number,
    Operation,
    add,
    divide,
    multiply,
    power,
    subtract,
)
from glassformer.trace.memory import Index
from glassformer.trace.rules.operands import broadcast, cell, unless_nan
from glassformer.trace.rules.registry import rule

__all__: list[str] = []


def _own(call: Call, index: Index) -> Expression:
    return broadcast(call.operand("self"), index)


def _exp(value: Expression) -> Expression:
    return Function("exp", (value,))


def _minus(value: Expression) -> Expression:
    return Function("neg", (value,))


def _sigmoid(value: Expression) -> Expression:
    return divide(1, add(1, _exp(_minus(value))))


@rule("relu")
def relu(call: Call, index: Index) -> Expression:
    """max(x, 0)."""
    return Function("max", (_own(call, index), Number(0)))


@rule("relu6")
def relu6(call: Call, index: Index) -> Expression:
    """min(max(x, 0), 6)."""
    return Function("min", (relu(call, index), Number(6)))


@rule("hardtanh")
def hardtanh(call: Call, index: Index) -> Expression:
    """min(max(x, least), most)."""
    least, most = call.number_of("min_val"), call.number_of("max_val")
    return Function("min", (Function("max", (_own(call, index), Number(least))), Number(most)))


@rule("leaky_relu")
def leaky_relu(call: Call, index: Index) -> Expression:
    """x where positive, else slope · x."""
    x = _own(call, index)
    slope = call.number_of("negative_slope")
    return Choose(Operation(">", x, Number(0)), x, multiply(Number(slope), x))


@rule("prelu")
def prelu(call: Call, index: Index) -> Expression:
    """x where positive, else slope[channel] · x."""
    x, slope = _own(call, index), call.view("weight")
    channel = index[1] if slope.numel > 1 else 0
    at = (channel,) if slope.ndim else ()
    return Choose(Operation(">", x, Number(0)), x, multiply(cell(slope, *at), x))


@rule("elu", "selu", "celu")
def elu(call: Call, index: Index) -> Expression:
    """s · x where positive, else s · α · (exp(x · t) − 1)."""
    x = _own(call, index)
    alpha, scale, inner = (
        (1.6732632423543772, 1.0507009873554805, 1.0)
        if call.operator.name == "selu"
        else (
            float(call.bound.get("alpha", 1.0)),
            float(call.bound.get("scale", 1.0)),
            float(call.bound.get("input_scale", 1.0)),
        )
    )
    if call.operator.name == "celu":
        inner = 1 / alpha
    below = multiply(scale * alpha, Function("expm1", (multiply(inner, x),)))
    return Choose(Operation(">", x, Number(0)), multiply(scale, x), below)


@rule("gelu")
def gelu(call: Call, index: Index) -> Expression:
    """x/2 · (1 + erf(x/√2)), or its tanh approximation."""
    x = _own(call, index)
    if call.bound["approximate"] == "tanh":
        cubic = add(x, multiply(Number(0.044715), power(x, 3)))
        inner = Function("tanh", (multiply(Number(math.sqrt(2 / math.pi)), cubic),))
    else:
        inner = Function("erf", (divide(x, Function("sqrt", (Number(2),))),))
    return multiply(divide(x, 2), add(1, inner))


@rule("silu")
def silu(call: Call, index: Index) -> Expression:
    """x / (1 + exp(−x))."""
    x = _own(call, index)
    return divide(x, add(1, _exp(_minus(x))))


@rule("sigmoid")
def sigmoid(call: Call, index: Index) -> Expression:
    """1 / (1 + exp(−x))."""
    return _sigmoid(_own(call, index))


@rule("log_sigmoid")
def log_sigmoid(call: Call, index: Index) -> Expression:
    """min(x, 0) − log(1 + exp(−|x|)), which does not overflow."""
    x = _own(call, index)
    tail = Function("log1p", (_exp(_minus(Function("abs", (x,)))),))
    return subtract(Function("min", (x, Number(0))), tail)


@rule("softplus")
def softplus(call: Call, index: Index) -> Expression:
    """log(1 + exp(β · x)) / β, and x itself beyond the threshold."""
    x, beta = _own(call, index), float(call.number_of("beta"))
    scaled = multiply(beta, x)
    curve: Expression = Function("log1p", (_exp(scaled),))
    curve = curve if beta == 1 else divide(curve, beta)
    return Choose(Operation(">", scaled, Number(call.number_of("threshold"))), x, curve)


@rule("mish")
def mish(call: Call, index: Index) -> Expression:
    """x · tanh(log(1 + exp(x)))."""
    x = _own(call, index)
    return Operation("*", x, Function("tanh", (Function("log1p", (_exp(x),)),)))


@rule("hardsigmoid")
def hardsigmoid(call: Call, index: Index) -> Expression:
    """min(max(x + 3, 0), 6) / 6."""
    return divide(_six(_own(call, index)), 6)


@rule("hardswish")
def hardswish(call: Call, index: Index) -> Expression:
    """x · min(max(x + 3, 0), 6) / 6."""
    x = _own(call, index)
    return divide(Operation("*", x, _six(x)), 6)


def _six(x: Expression) -> Expression:
    return Function("min", (Function("max", (add(x, 3), Number(0))), Number(6)))


@rule("glu")
def glu(call: Call, index: Index) -> Expression:
    """a · σ(b), the two halves of one axis."""
    x = call.view("self")
    axis = call.axis("dim", x.ndim)
    second = list(index)
    second[axis] += x.shape[axis] // 2
    return multiply(cell(x, *index), _sigmoid(cell(x, *second)))


@rule("threshold")
def threshold(call: Call, index: Index) -> Expression:
    """x above the threshold, else the given value."""
    x = _own(call, index)
    above = Operation(">", x, Number(call.number_of("threshold")))
    return unless_nan(x, Choose(above, x, Number(call.number_of("value"))))


@rule("hardshrink")
def hardshrink(call: Call, index: Index) -> Expression:
    """x, and 0 where |x| ≤ λ."""
    x = _own(call, index)
    far = Operation(">", Function("abs", (x,)), _lambda(call))
    return unless_nan(x, Choose(far, x, Number(0)))


@rule("softshrink")
def softshrink(call: Call, index: Index) -> Expression:
    """x moved towards 0 by λ, and 0 where |x| ≤ λ."""
    x, step = _own(call, index), _lambda(call)
    moved = Choose(Operation(">", x, Number(0)), subtract(x, step), add(x, step))
    far = Operation(">", Function("abs", (x,)), step)
    return unless_nan(x, Choose(far, moved, Number(0)))


def _lambda(call: Call) -> Number:
    return Number(call.number_of("lambd"))
