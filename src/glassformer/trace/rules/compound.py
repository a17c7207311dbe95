"""Functions of one cell or two that are written out by simpler ones: erfc, hypot, logit, shifts."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from glassformer.trace.calls import Call
from glassformer.trace.evaluate import evaluate
from glassformer.trace.expressions import (
    Choose,
    Expression,
    Function,
    Number,
    Operation,
    add,
    divide,
    power,
    subtract,
)
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.operands import broadcast, unless_nan
from glassformer.trace.rules.registry import Build, rule

__all__: list[str] = []


def _log(value: Expression) -> Expression:
    return Function("log", (value,))


def _of_one(write: Callable[[Expression], Expression]) -> Build:
    def build(call: Call, index: Index) -> Expression:
        return write(broadcast(call.operand("self"), index))

    return build


def _of_two(write: Callable[[Expression, Expression], Expression]) -> Build:
    def build(call: Call, index: Index) -> Expression:
        first, second = call.operator.parameters[:2]
        return write(broadcast(call.operand(first), index), broadcast(call.operand(second), index))

    return build


@rule("erfc", "special_erfc")
@_of_one
def erfc(x: Expression) -> Expression:
    """1 − erf(x)."""
    return subtract(1, Function("erf", (x,)))


@rule("frac")
@_of_one
def frac(x: Expression) -> Expression:
    """What stands after the point."""
    return subtract(x, Function("trunc", (x,)))


@rule("asinh")
@_of_one
def asinh(x: Expression) -> Expression:
    """log(x + √(x² + 1)), of |x| and with its sign, so that nothing cancels."""
    size = Function("abs", (x,))
    root = Function("sqrt", (add(power(x, 2), 1),))
    return Operation("*", Function("sign", (x,)), _log(add(size, root)))


@rule("acosh")
@_of_one
def acosh(x: Expression) -> Expression:
    """log(x + √(x − 1) · √(x + 1)): below 1, no number."""
    roots = (Function("sqrt", (part,)) for part in (subtract(x, 1), add(x, 1)))
    return _log(add(x, Operation("*", *roots)))


@rule("atanh")
@_of_one
def atanh(x: Expression) -> Expression:
    """log((1 + x) / (1 − x)) / 2."""
    return divide(_log(divide(add(1, x), subtract(1, x))), 2)


@rule("deg2rad")
@_of_one
def deg2rad(x: Expression) -> Expression:
    """x · π/180."""
    return Operation("*", x, Number(math.pi / 180))


@rule("rad2deg")
@_of_one
def rad2deg(x: Expression) -> Expression:
    """x · 180/π."""
    return Operation("*", x, Number(180 / math.pi))


@rule("hypot")
@_of_two
def hypot(a: Expression, b: Expression) -> Expression:
    """√(a² + b²); ∞ where one of them is, even beside a NaN."""
    root = Function("sqrt", (add(power(a, 2), power(b, 2)),))
    for side in (a, b):
        if math.isinf(evaluate(side)):
            return Choose(Function("isinf", (side,)), Function("abs", (side,)), root)
    return root


@rule("logaddexp")
@_of_two
def logaddexp(a: Expression, b: Expression) -> Expression:
    """log(exp(a) + exp(b)), the larger one taken out so that it does not overflow."""
    if math.isinf(evaluate(a)) and evaluate(a) == evaluate(b):  # their gap is no number
        return Function("max", (a, b))
    gap = Function("neg", (Function("abs", (subtract(a, b),)),))
    return add(Function("max", (a, b)), Function("log1p", (Function("exp", (gap,)),)))


@rule("logaddexp2")
@_of_two
def logaddexp2(a: Expression, b: Expression) -> Expression:
    """log₂(2ᵃ + 2ᵇ), the larger one taken out so that it does not overflow."""
    if math.isinf(evaluate(a)) and evaluate(a) == evaluate(b):
        return Function("max", (a, b))
    gap = Function("neg", (Function("abs", (subtract(a, b),)),))
    return add(Function("max", (a, b)), Function("log2", (add(1, Function("exp2", (gap,))),)))


@rule("fmax", "fmin")
def fmax(call: Call, index: Index) -> Expression:
    """The larger (or smaller) one; a NaN gives way to a number."""
    a, b = (broadcast(call.operand(name), index) for name in ("self", "other"))
    if math.isnan(evaluate(a)):
        return Choose(Function("isnan", (a,)), b, a)
    if math.isnan(evaluate(b)):
        return Choose(Function("isnan", (b,)), a, b)
    return Function(call.operator.name.removeprefix("f"), (a, b))


@rule("copysign")
@_of_two
def copysign(a: Expression, b: Expression) -> Expression:
    """|a| with the sign of b; that of −0 is minus."""
    return Function("copysign", (a, b))


@rule("signbit")
@_of_one
def signbit(x: Expression) -> Expression:
    """Whether there is a minus before the number; −0 has one."""
    return Operation("<", Function("copysign", (Number(1), x)), Number(0))


@rule("sinc")
@_of_one
def sinc(x: Expression) -> Expression:
    """sin(π · x) / (π · x), and 1 at 0."""
    angle = Operation("*", Number(math.pi), x)
    return Choose(Operation("=", x, Number(0)), Number(1), divide(Function("sin", (angle,)), angle))


@rule("ldexp")
@_of_two
def ldexp(a: Expression, b: Expression) -> Expression:
    """a · 2ᵇ."""
    return Operation("*", a, power(2, b))


@rule("xlogy", "special_xlogy")
@_of_two
def xlogy(a: Expression, b: Expression) -> Expression:
    """a · log(b), and 0 where a is, unless b is NaN."""
    product = Operation("*", a, _log(b))
    return unless_nan(b, Choose(Operation("=", a, Number(0)), Number(0), product))


@rule("special_xlog1py")
@_of_two
def xlog1py(a: Expression, b: Expression) -> Expression:
    """a · log(1 + b), and 0 where a is, unless b is NaN."""
    product = Operation("*", a, Function("log1p", (b,)))
    return unless_nan(b, Choose(Operation("=", a, Number(0)), Number(0), product))


@rule("special_entr")
@_of_one
def entropy(x: Expression) -> Expression:
    """−x · log(x); 0 at 0, −∞ below it."""
    above = Function("neg", (Operation("*", x, _log(x)),))
    below = Choose(Operation("<", x, Number(0)), Number(-math.inf), above)
    return Choose(Operation("=", x, Number(0)), Number(0), below)


@rule("heaviside")
@_of_two
def heaviside(x: Expression, at_zero: Expression) -> Expression:
    """0 below 0, 1 above it, and the given number at 0."""
    above = Choose(Operation(">", x, Number(0)), Number(1), Number(0))
    return Choose(Operation("=", x, Number(0)), at_zero, above)


@rule("fmod")
@_of_two
def fmod(a: Expression, b: Expression) -> Expression:
    """What is left of a after whole b's; its sign is a's."""
    left = subtract(a, Operation("*", b, Function("trunc", (divide(a, b),))))
    if math.isinf(evaluate(b)) and not math.isinf(evaluate(a)):  # 0 · ∞ is no number
        return Choose(Function("isinf", (b,)), a, left)
    return left


@rule("logit", "special_logit")
def logit(call: Call, index: Index) -> Expression:
    """log(p / (1 − p)), p first moved off 0 and 1 by ε if asked."""
    p = broadcast(call.operand("self"), index)
    if call.bound.get("eps") is not None:
        eps = float(call.bound["eps"])
        p = Function("min", (Function("max", (p, Number(eps))), Number(1 - eps)))
    return _log(divide(p, subtract(1, p)))


@rule("bitwise_left_shift", "__lshift__")
@_of_two
def left_shift(a: Expression, places: Expression) -> Expression:
    """a · 2ⁿ."""
    return Operation("*", a, power(2, places))


@rule("bitwise_right_shift", "__rshift__")
@_of_two
def right_shift(a: Expression, places: Expression) -> Expression:
    """a / 2ⁿ, rounded down."""
    return Operation("//", a, power(2, places))


@rule("bitwise_xor", "__xor__")
def bitwise_xor(call: Call, index: Index) -> Expression:
    """Either a or b; of whole numbers, the bits of one of them that are not in both."""
    left, right = call.operand("self"), call.operand("other")
    a, b = broadcast(left, index), broadcast(right, index)
    if isinstance(left, View) and left.dtype == torch.bool:
        return Operation("xor", a, b)
    return subtract(Operation("|", a, b), Operation("&", a, b))
