"""Operators that work cell by cell, their operands broadcast against each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from glassformer.trace.calls import Call
from glassformer.trace.expressions import (
    Choose,
    Expression,
    Function,
    Number,
    Operation,
    Operator,
    add,
    divide,
    multiply,
    power,
    subtract,
)
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.operands import broadcast
from glassformer.trace.rules.registry import rule

__all__: list[str] = []


def _operand(call: Call, name: str, index: Index) -> Expression:
    return broadcast(call.operand(name), index)


@rule("add")
def addition(call: Call, index: Index) -> Expression:
    """a + α · b."""
    other = multiply(call.bound.get("alpha", 1), _operand(call, "other", index))
    return add(_operand(call, "self", index), other)


@rule("sub", "subtract")
def subtraction(call: Call, index: Index) -> Expression:
    """a − α · b."""
    other = multiply(call.bound.get("alpha", 1), _operand(call, "other", index))
    return subtract(_operand(call, "self", index), other)


@rule("rsub")
def reversed_subtraction(call: Call, index: Index) -> Expression:
    """b − α · a."""
    own = multiply(call.bound.get("alpha", 1), _operand(call, "self", index))
    return subtract(_operand(call, "other", index), own)


@rule("mul", "multiply")
def multiplication(call: Call, index: Index) -> Expression:
    """a · b."""
    return Operation("*", _operand(call, "self", index), _operand(call, "other", index))


@rule("div", "divide", "true_divide")
def division(call: Call, index: Index) -> Expression:
    """a / b, rounded down or towards zero if asked."""
    quotient = divide(_operand(call, "self", index), _operand(call, "other", index))
    mode = call.bound.get("rounding_mode")
    return quotient if mode is None else Function(str(mode), (quotient,))


@rule("floor_divide")
def floor_division(call: Call, index: Index) -> Expression:
    """a / b, rounded down."""
    return Operation("//", _operand(call, "self", index), _operand(call, "other", index))


@rule("remainder")
def remainder(call: Call, index: Index) -> Expression:
    """What is left of a after whole b's; its sign is b's."""
    return Operation("%", _operand(call, "self", index), _operand(call, "other", index))


@rule("pow")
def exponentiation(call: Call, index: Index) -> Expression:
    """a ^ b."""
    return power(_operand(call, "self", index), _operand(call, "exponent", index))


@rule("square")
def square(call: Call, index: Index) -> Expression:
    """a²."""
    return power(_operand(call, "self", index), 2)


@rule("reciprocal")
def reciprocal(call: Call, index: Index) -> Expression:
    """1 / a."""
    return divide(1, _operand(call, "self", index))


@rule("rsqrt")
def reciprocal_root(call: Call, index: Index) -> Expression:
    """1 / √a."""
    return divide(1, Function("sqrt", (_operand(call, "self", index),)))


@rule("addcmul")
def addcmul(call: Call, index: Index) -> Expression:
    """a + v · b · c."""
    product = multiply(_operand(call, "tensor1", index), _operand(call, "tensor2", index))
    return add(_operand(call, "self", index), multiply(call.number_of("value"), product))


@rule("addcdiv")
def addcdiv(call: Call, index: Index) -> Expression:
    """a + v · b / c."""
    quotient = divide(_operand(call, "tensor1", index), _operand(call, "tensor2", index))
    return add(_operand(call, "self", index), multiply(call.number_of("value"), quotient))


@rule("lerp")
def lerp(call: Call, index: Index) -> Expression:
    """a + w · (b − a)."""
    start = _operand(call, "self", index)
    gap = subtract(_operand(call, "end", index), start)
    return add(start, multiply(_operand(call, "weight", index), gap))


@rule("clamp", "clip", "clamp_min", "clamp_max")
def clamp(call: Call, index: Index) -> Expression:
    """min(max(a, least), most)."""
    value = _operand(call, "self", index)
    if call.bound.get("min") is not None:
        value = Function("max", (value, _operand(call, "min", index)))
    if call.bound.get("max") is not None:
        value = Function("min", (value, _operand(call, "max", index)))
    return value


def _unary(name: str) -> Callable[[Call, Index], Expression]:
    def build(call: Call, index: Index) -> Expression:
        return Function(name, (_operand(call, "self", index),))

    return build


for _operator, _function in {
    **{
        name: name
        for name in [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "erf",
            "abs",
            "sign",
        ]
    },
    **{
        name: name for name in ["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"]
    },
    **{name: name for name in ["floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "neg"]},
    "negative": "neg",
    "absolute": "abs",
    "logical_not": "not",
    "special_erf": "erf",
    "special_expm1": "expm1",
    "lgamma": "lgamma",
    "digamma": "digamma",
    "erfinv": "erfinv",
    "i0": "i0",
    "special_i1": "i1",
}.items():
    rule(_operator)(_unary(_function))


rule("frexp")(_unary("mantissa"))
rule("frexp", output=1)(_unary("exponent"))


@rule("angle")
def angle(call: Call, index: Index) -> Expression:
    """π below 0, else 0."""
    value = _operand(call, "self", index)
    turned = Choose(Operation("<", value, Number(0)), Number(math.pi), Number(0))
    return Choose(Function("isnan", (value,)), value, turned)


@rule("isposinf", "isneginf")
def is_infinite(call: Call, index: Index) -> Expression:
    """Whether it is ∞ (or −∞)."""
    end = math.inf if call.operator.name == "isposinf" else -math.inf
    return Operation("=", _operand(call, "self", index), Number(end))


@rule("round")
def rounding(call: Call, index: Index) -> Expression:
    """a, rounded to whole numbers or to so many decimals; halves to the even neighbour."""
    value, decimals = _operand(call, "self", index), int(call.bound.get("decimals", 0))
    if decimals == 0:
        return Function("round", (value,))
    shift = float(10 ** abs(decimals))
    if decimals > 0:
        return divide(Function("round", (multiply(value, shift),)), shift)
    return multiply(Function("round", (divide(value, shift),)), shift)


def _function_of_two(name: str) -> Callable[[Call, Index], Expression]:
    def build(call: Call, index: Index) -> Expression:
        return Function(name, (_operand(call, "self", index), _operand(call, "other", index)))

    return build


for _operator, _function in {
    "maximum": "max",
    "minimum": "min",
    "max.other": "max",
    "min.other": "min",
    "atan2": "atan2",
}.items():
    rule(_operator)(_function_of_two(_function))


def _comparison(operator: Operator) -> Callable[[Call, Index], Expression]:
    def build(call: Call, index: Index) -> Expression:
        left, right = call.operand("self"), call.operand("other")
        return Operation(operator, broadcast(left, index), _as_compared(left, right, index))

    return build


def _as_compared(left: View | float, right: View | float, index: Index) -> Expression:
    """The right side; a number is compared in the tensor's own precision, as torch does."""
    if isinstance(left, View) and isinstance(right, float) and left.dtype.is_floating_point:
        return Number(torch.tensor(right, dtype=left.dtype).item())
    return broadcast(right, index)


_COMPARISONS: dict[str, Operator] = {
    "eq": "=",
    "ne": "≠",
    "lt": "<",
    "le": "≤",
    "gt": ">",
    "ge": "≥",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
}
for _operator, _sign in _COMPARISONS.items():
    rule(_operator)(_comparison(_sign))


def _bits(logical: Operator, binary: Operator) -> Callable[[Call, Index], Expression]:
    def build(call: Call, index: Index) -> Expression:
        left, right = call.operand("self"), call.operand("other")
        is_bool = isinstance(left, View) and left.dtype == torch.bool
        sign = logical if is_bool else binary
        return Operation(sign, broadcast(left, index), broadcast(right, index))

    return build


rule("bitwise_and", "__and__")(_bits("and", "&"))
rule("bitwise_or", "__or__")(_bits("or", "|"))


@rule("bitwise_not")
def bitwise_not(call: Call, index: Index) -> Expression:
    """not a; for whole numbers −a − 1."""
    value = _operand(call, "self", index)
    if call.view("self").dtype == torch.bool:
        return Function("not", (value,))
    return subtract(Function("neg", (value,)), 1)


@rule("nan_to_num")
def nan_to_num(call: Call, index: Index) -> Expression:
    """a, with numbers in the place of NaN and the infinities."""
    value, dtype = _operand(call, "self", index), call.view("self").dtype
    least, most = torch.finfo(dtype).min, torch.finfo(dtype).max

    def setting(name: str, default: float) -> Number:
        given = call.bound.get(name)
        return Number(default if given is None else float(given))

    infinity = Operation("=", value, Number(float("inf")))
    minus_infinity = Operation("=", value, Number(float("-inf")))
    finite = Choose(
        infinity,
        setting("posinf", most),
        Choose(minus_infinity, setting("neginf", least), value),
    )
    return Choose(Function("isnan", (value,)), setting("nan", 0.0), finite)
