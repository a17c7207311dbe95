"""Complex numbers: each is a pair of real numbers, and every cell is one of the two.

The index of a cell ends with 0 for the real part, 1 for the imaginary part. Most operators that
only move complex numbers are views and need no rule.
"""

from __future__ import annotations

import math

from glassformer.tracing.arithmetic.expressions import (
    Axis,
    Expression,
    Number,
    total,
)
from glassformer.tracing.arithmetic.rules.products import factors
from glassformer.tracing.arithmetic.rules.rule_notation import RuleFormula, formula
from glassformer.tracing.arithmetic.rules.rule_registry import (
    Build,
    broadcast,
    cell,
    complex_rule,
    row,
)
from glassformer.tracing.arithmetic.rules.shapes_and_moves import copy, moved, pad, reshape
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call

# Real and imaginary part, with a + bi as the first and c + di as the second operand; b or d is None
# if that operand is real.
_PRODUCT = (
    "a·c if d is None else a·c if b is None else a·c − b·d",
    "b·c if d is None else a·d if b is None else a·d + b·c",
)
PARTS = {
    "add": (
        "a + alpha·c",
        "b if d is None else alpha·d if b is None else b + alpha·d",
    ),
    "sub": (
        "a − alpha·c",
        "b if d is None else −(alpha·d) if b is None else b − alpha·d",
    ),
    "rsub": (
        "c − alpha·a",
        "−(alpha·b) if d is None else d if b is None else d − alpha·b",
    ),
    "mul": _PRODUCT,
    "div": (
        "a/c if d is None else a·c/(c² + d²) if b is None else (a·c + b·d)/(c² + d²)",
        "b/c if d is None else −(a·d)/(c² + d²) if b is None else (b·c − a·d)/(c² + d²)",
    ),
    "reciprocal": ("a/(a² + b²)", "−b/(a² + b²)"),
    "square": ("a² − b²", "2·a·b"),
    "neg negative": ("−a", "−b"),
    "_conj _conj_physical": ("a", "−b"),
    "exp": ("exp(a)·cos(b)", "exp(a)·sin(b)"),
    "sgn": ("r = √(a² + b²); 0 if r == 0 else a/r", "r = √(a² + b²); 0 if r == 0 else b/r"),
    "polar": ("a·cos(c)", "a·sin(c)"),
    "complex": ("a", "c"),
}
_REAL = {"abs": "√(a² + b²)", "angle": "atan2(b, a)"}
"""Operators with a real result."""


def _pair(call: Call, name: str, place: Index) -> tuple[Expression, Expression | None]:
    """Both parts of an operand, broadcast; None for the imaginary part of a real one."""
    operand = call.bound[name]
    if isinstance(operand, View) and operand.pairs:
        return broadcast(operand, (*place, 0)), broadcast(operand, (*place, 1))
    if isinstance(operand, complex):
        return Number(operand.real), Number(operand.imag)
    return broadcast(operand, place), None


_LETTERS = (("a", "b"), ("c", "d"))


def _by_parts(*parts: RuleFormula) -> Build:
    def build(call: Call, index: Index) -> Expression:
        *place, part = index if len(parts) > 1 else (*index, 0)
        given: dict[str, Expression | None] = {}
        for name, (real, imaginary) in zip(call.operator.parameters, _LETTERS, strict=False):
            given[real], given[imaginary] = _pair(call, name, tuple(place))
        return parts[part].of(**given, alpha=call.bound.get("alpha", 1))

    return build


for _operators, _texts in PARTS.items():
    complex_rule(*_operators.split())(_by_parts(*map(formula, _texts)))
for _operators, _text in _REAL.items():
    complex_rule(_operators)(_by_parts(formula(_text)))

_TIMES = tuple(map(formula, _PRODUCT))


@complex_rule("to", "_to_copy", "copy")
def cast(call: Call, index: Index) -> Expression:
    """The same number; the imaginary part of a real one is 0."""
    source = call.view("src" if call.operator.name == "copy" else "self")
    if source.pairs:
        return broadcast(source, index)
    return Number(0) if index[-1] else broadcast(source, index[:-1])


# For operators that only copy, the pair is just one more axis.
complex_rule("clone", "contiguous")(copy)
complex_rule("reshape", "flatten")(reshape)
complex_rule("constant_pad_nd")(pad)
complex_rule("cat", "concat", "index", "index_select", "gather")(moved(0))


def _parts(view: View, *index: int | Axis) -> tuple[Expression, Expression | None]:
    """Both parts of an operand's cells; None for the imaginary part of a real one."""
    if view.pairs:
        return cell(view, *index, 0), cell(view, *index, 1)
    return cell(view, *index), None


@complex_rule("matmul", "mm", "bmm", "mv", "dot", "vdot")
def product(call: Call, index: Index) -> Expression:
    """Σₖ (ac − bd) + (ad + bc)i; `vdot` conjugates its left operand."""
    names = call.operator.parameters
    a, b = call.view(names[0]), call.view(names[1])
    *place, part = index
    left, right, k = factors(a, b, place)
    (real, imaginary), (c, d) = _parts(a, *left), _parts(b, *right)
    if call.operator.name == "vdot" and imaginary is not None:
        imaginary = -imaginary
    return total(_TIMES[part].of(a=real, b=imaginary, c=c, d=d), k)


@complex_rule("sum", "mean")
def complex_sum(call: Call, index: Index) -> Expression:
    """Real and imaginary parts are summed separately."""
    x = call.view("self")
    entry, axes = row(x, index, call.axes("dim", x.ndim - 1), call.flag("keepdim"))
    summed = total(entry, *axes)
    count = math.prod(axis.size for axis in axes)
    return summed / count if call.operator.name == "mean" and axes else summed
