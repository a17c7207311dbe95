"""Complex numbers: each is a pair of real ones, and every cell is one of the two.

The index of a cell ends with 0 for the real part and 1 for the imaginary one. Operators that move
complex numbers without changing them are views, for the most part, and need no rule.
"""

from __future__ import annotations

import math

from glassformer.trace.calls import Call
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Expression,
    Function,
    Named,
    Number,
    Operation,
    add,
    divide,
    multiply,
    power,
    subtract,
    total,
)
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.layout import copy, moved, pad, reshape
from glassformer.trace.rules.operands import broadcast, cell, row
from glassformer.trace.rules.products import factors
from glassformer.trace.rules.registry import complex_rule

_Pair = tuple[Expression, Expression | None]


def _pair(call: Call, name: str, place: Index) -> _Pair:
    """Both parts of an operand, broadcast; a real one has no imaginary part."""
    operand = call.bound[name]
    if isinstance(operand, View) and operand.pairs:
        return broadcast(operand, (*place, 0)), broadcast(operand, (*place, 1))
    if isinstance(operand, complex):
        return Number(operand.real), Number(operand.imag)
    return broadcast(operand, place), None


def _scaled(call: Call, pair: _Pair) -> _Pair:
    alpha, (real, imaginary) = call.bound.get("alpha", 1), pair
    return multiply(alpha, real), None if imaginary is None else multiply(alpha, imaginary)


@complex_rule("add", "sub")
def addition(call: Call, index: Index) -> Expression:
    """(a + c) + (b + d)i: each part on its own."""
    first = _pair(call, "self", index[:-1])[index[-1]] or Number(0)
    second = _scaled(call, _pair(call, "other", index[:-1]))[index[-1]] or Number(0)
    return (add if call.operator.name == "add" else subtract)(first, second)


def _times(left: _Pair, right: _Pair, part: int) -> Expression:
    """(ac − bd) + (ad + bc)i, without what a real factor has not."""
    (a, b), (c, d) = left, right
    if d is None:
        return Operation("*", (a if part == 0 else b) or Number(0), c)
    if b is None:
        return Operation("*", a, c if part == 0 else d)
    if part == 0:
        return subtract(Operation("*", a, c), Operation("*", b, d))
    return add(Operation("*", a, d), Operation("*", b, c))


@complex_rule("mul")
def multiplication(call: Call, index: Index) -> Expression:
    """(ac − bd) + (ad + bc)i."""
    left, right = (_pair(call, name, index[:-1]) for name in ("self", "other"))
    return _times(left, right, index[-1])


@complex_rule("div")
def division(call: Call, index: Index) -> Expression:
    """(a + bi) · (c − di) / (c² + d²); by a real number, each part on its own."""
    left, (c, d) = (_pair(call, name, index[:-1]) for name in ("self", "other"))
    if d is None:
        return divide(left[index[-1]] or Number(0), c)
    product = _times(left, (c, Function("neg", (d,))), index[-1])
    return divide(product, add(power(c, 2), power(d, 2)))


@complex_rule("neg", "negative")
def negation(call: Call, index: Index) -> Expression:
    """−a − bi."""
    return Function("neg", (broadcast(call.view("self"), index),))


@complex_rule("_conj", "_conj_physical")
def conjugate(call: Call, index: Index) -> Expression:
    """a − bi."""
    part = broadcast(call.view("self"), index)
    return Function("neg", (part,)) if index[-1] else part


@complex_rule("abs")
def size(call: Call, index: Index) -> Expression:
    """√(a² + b²)."""
    a, b = _pair(call, "self", index)
    assert b is not None, "the size of a real number is another rule's"
    return Function("sqrt", (add(power(a, 2), power(b, 2)),))


@complex_rule("angle")
def angle(call: Call, index: Index) -> Expression:
    """atan2(b, a)."""
    a, b = _pair(call, "self", index)
    assert b is not None, "the angle of a real number is another rule's"
    return Function("atan2", (b, a))


@complex_rule("polar")
def polar(call: Call, index: Index) -> Expression:
    """r · cos φ + r · sin φ · i."""
    turn = Function("sin" if index[-1] else "cos", (broadcast(call.view("angle"), index[:-1]),))
    return Operation("*", broadcast(call.view("abs"), index[:-1]), turn)


@complex_rule("exp")
def exponential(call: Call, index: Index) -> Expression:
    """exp(a) · cos b + exp(a) · sin b · i."""
    a, b = _pair(call, "self", index[:-1])
    assert b is not None, "of a complex number there are two parts"
    turn = Function("sin" if index[-1] else "cos", (b,))
    return Operation("*", Function("exp", (a,)), turn)


@complex_rule("complex")
def pairing(call: Call, index: Index) -> Expression:
    """One part or the other."""
    return broadcast(call.view("imag" if index[-1] else "real"), index[:-1])


@complex_rule("sgn")
def direction(call: Call, index: Index) -> Expression:
    """The number over its size, and 0 at 0."""
    a, b = _pair(call, "self", index[:-1])
    assert b is not None, "the sign of a real number is another rule's"
    length = Named("r", Function("sqrt", (add(power(a, 2), power(b, 2)),)))
    part = divide(b if index[-1] else a, length)
    return Choose(Operation("=", length, Number(0)), Number(0), part)


@complex_rule("to", "_to_copy", "copy")
def cast(call: Call, index: Index) -> Expression:
    """The same number; what was real has no imaginary part."""
    source = call.view("src" if call.operator.name == "copy" else "self")
    if source.pairs:
        return broadcast(source, index)
    return Number(0) if index[-1] else broadcast(source, index[:-1])


# Of numbers that are only copied, the pairs are one axis more.
complex_rule("clone", "contiguous")(copy)
complex_rule("reshape", "flatten")(reshape)
complex_rule("constant_pad_nd")(pad)
complex_rule("cat", "concat", "index", "index_select", "gather")(moved(0))


def _parts(view: View, *index: int | Axis) -> _Pair:
    """Both parts of the cells of an operand; a real one has no imaginary part."""
    if view.pairs:
        return cell(view, *index, 0), cell(view, *index, 1)
    return cell(view, *index), None


@complex_rule("matmul", "mm", "bmm", "mv", "dot", "vdot")
def product(call: Call, index: Index) -> Expression:
    """Σₖ (ac − bd) + (ad + bc)i; `vdot` takes a − bi on the left."""
    names = call.operator.parameters
    a, b = call.view(names[0]), call.view(names[1])
    *place, part = index
    left, right, k = factors(a, b, place)
    (real, imaginary), other = _parts(a, *left), _parts(b, *right)
    if call.operator.name == "vdot" and imaginary is not None:
        imaginary = Function("neg", (imaginary,))
    return total(_times((real, imaginary), other, part), k)


@complex_rule("sum", "mean")
def complex_sum(call: Call, index: Index) -> Expression:
    """Each part on its own."""
    x = call.view("self")
    entry, axes = row(x, index, call.axes("dim", x.ndim - 1), call.flag("keepdim"))
    summed = total(entry, *axes)
    count = math.prod(axis.size for axis in axes)
    return divide(summed, count) if call.operator.name == "mean" and axes else summed
