"""Elementwise operators, losses and complex numbers: by formula (`rule_notation` has the syntax).

The names are the arguments of the operator's schema. In gradients, `grad_output` is ∂L/∂y and the
formula gives ∂L/∂x.
"""

from __future__ import annotations

import math

import torch

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.rules.rule_notation import RuleFormula, formula
from glassformer.tracing.arithmetic.rules.rule_registry import (
    Build,
    broadcast,
    cell,
    complex_rule,
    row,
    rule,
    running,
)
from glassformer.tracing.arithmetic.rules.shapes_and_moves import copy, moved, pad, reshape
from glassformer.tracing.arithmetic.rules.sums import factors
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call

FORMULAS = {
    # Arithmetic.
    "add": "self + alpha·other",
    "sub subtract": "self − alpha·other",
    "rsub": "other − alpha·self",
    "mul multiply": "self·other",
    "div divide true_divide": (
        "self/other if rounding_mode is None else "
        "floor(self/other) if rounding_mode == 'floor' else trunc(self/other)"
    ),
    "floor_divide": "self // other",
    "remainder": "self % other",
    "fmod": "unless(isinf(other) and not isinf(self), self, self − other·trunc(self/other))",
    "pow": "self**exponent",
    "square": "self²",
    "reciprocal": "1/self",
    "rsqrt": "1/√(self)",
    "addcmul": "self + value·tensor1·tensor2",
    "addcdiv": "self + value·(tensor1/tensor2)",
    "lerp": "self + weight·(end − self)",
    "clamp clip clamp_min clamp_max": "min(max(self, min), max)",
    "maximum max.other": "max(self, other)",
    "minimum min.other": "min(self, other)",
    "fmax": "unless(isnan(self), other, unless(isnan(other), self, max(self, other)))",
    "fmin": "unless(isnan(self), other, unless(isnan(other), self, min(self, other)))",
    "frac": "self − trunc(self)",
    "round": (
        "round(self) if decimals is None else round(self) if decimals == 0 else "
        "round(self·10**decimals)/10**decimals if decimals > 0 else "
        "round(self/10**(−decimals))·10**(−decimals)"
    ),
    "bitwise_left_shift __lshift__": "self·2**other",
    "bitwise_right_shift __rshift__": "self // 2**other",
    # Functions of one cell or two.
    "negative": "−self",
    "absolute": "abs(self)",
    "logical_not": "not self",
    "special_erf": "erf(self)",
    "special_expm1": "expm1(self)",
    "special_i1": "i1(self)",
    "frexp": "mantissa(self)",
    "sgn": "sign(self)",
    "atan2": "atan2(self, other)",
    "copysign": "copysign(self, other)",
    "erfc special_erfc": "1 − erf(self)",
    "asinh": "sign(self)·log(abs(self) + √(self² + 1))",  # with |x|, nothing cancels
    "acosh": "log(self + √(self − 1)·√(self + 1))",  # NaN below 1
    "atanh": "log((1 + self)/(1 − self))/2",
    "deg2rad": "self·(π/180)",
    "rad2deg": "self·(180/π)",
    "hypot": (
        "unless(isinf(self), abs(self), unless(isinf(other), abs(other), √(self² + other²)))"
    ),
    # The larger one is factored out to avoid overflow; ∞ − ∞ would be NaN.
    "logaddexp": (
        "unless(isinf(self) and self == other, self, "
        "max(self, other) + log1p(exp(−abs(self − other))))"
    ),
    "logaddexp2": (
        "unless(isinf(self) and self == other, self, "
        "max(self, other) + log2(1 + exp2(−abs(self − other))))"
    ),
    "ldexp": "self·2**other",
    "xlogy special_xlogy": "unless(isnan(other), other, 0 if self == 0 else self·log(other))",
    "special_xlog1py": "unless(isnan(other), other, 0 if self == 0 else self·log1p(other))",
    "special_erfcx": "erfcx(self)",
    "special_log_ndtr": (
        "log(erfcx(−self/√2)/2) − self²/2 if self < −1 else log1p(−(1 − erf(self/√2))/2)"
    ),
    "special_entr": "0 if self == 0 else −∞ if self < 0 else −(self·log(self))",
    "heaviside": "values if self == 0 else 1 if self > 0 else 0",
    "sinc": "1 if self == 0 else sin(π·self)/(π·self)",
    "logit special_logit": (
        "p = min(max(self, eps), 1 − eps); log(self/(1 − self)) if eps is None else log(p/(1 − p))"
    ),
    "angle": "self if isnan(self) else π if self < 0 else 0",
    "signbit": "copysign(1, self) < 0",  # −0 has a sign
    "isposinf": "self == ∞",
    "isneginf": "self == −∞",
    # Choices.
    "where.self where.ScalarSelf where.ScalarOther where.Scalar": "self if condition else other",
    "masked_fill": "value if mask else self",
    # Activations.
    "relu": "max(self, 0)",
    "relu6": "min(max(self, 0), 6)",
    "hardtanh": "min(max(self, min_val), max_val)",
    "leaky_relu": "self if self > 0 else negative_slope·self",
    "elu": "scale·self if self > 0 else scale·alpha·expm1(input_scale·self)",
    "celu": "self if self > 0 else alpha·expm1(1/alpha·self)",
    "selu": (
        "1.0507009873554805·self if self > 0 else 1.0507009873554805·1.6732632423543772·expm1(self)"
    ),
    "gelu": (
        "self·(1 + erf(self/√2))/2 if approximate == 'none' else "
        "self·(1 + tanh((2/π)**0.5·(self + 0.044715·self³)))/2"
    ),
    "silu": "self/(1 + exp(−self))",
    "sigmoid": "1/(1 + exp(−self))",
    "log_sigmoid": "min(self, 0) − log1p(exp(−abs(self)))",  # does not overflow
    "softplus": (
        "self if beta·self > threshold else "
        "log1p(exp(self)) if beta == 1 else log1p(exp(beta·self))/beta"
    ),
    "mish": "self·tanh(log1p(exp(self)))",
    "hardsigmoid": "min(max(self + 3, 0), 6)/6",
    "hardswish": "self·min(max(self + 3, 0), 6)/6",
    "threshold": "unless(isnan(self), self, self if self > threshold else value)",
    "hardshrink": "unless(isnan(self), self, self if abs(self) > lambd else 0)",
    "softshrink": (
        "unless(isnan(self), self, "
        "(self − lambd if self > 0 else self + lambd) if abs(self) > lambd else 0)"
    ),
    # Gradients of activations.
    "threshold_backward": "grad_output if self > threshold else 0",
    "hardshrink_backward": "grad_out if abs(self) > lambd else 0",
    "softshrink_backward": "grad_output if abs(self) > lambd else 0",
    "tanh_backward": "grad_output·(1 − output²)",
    "sigmoid_backward": "grad_output·(output·(1 − output))",
    "silu_backward": "s = 1/(1 + exp(−self)); grad_output·(s·(1 + self·(1 − s)))",
    "gelu_backward": (
        "t = tanh((2/π)**0.5·(self + 0.044715·self³)); "
        "grad_output·((1 + erf(self/√2))/2 + self·(exp(−(self²/2))/(2·π)**0.5)) "
        "if approximate == 'none' else grad_output·"
        "((1 + t + self·(1 − t²)·((2/π)**0.5·(1 + 3·0.044715·self²)))/2)"
    ),
}

# Operators with the name of their function.
_PLAIN = """
    exp exp2 expm1 log log2 log10 log1p sqrt erf abs sign sin cos tan asin acos atan sinh cosh tanh
    floor ceil trunc isnan isinf isfinite neg lgamma digamma erfinv i0
"""
FORMULAS |= {name: f"{name}(self)" for name in _PLAIN.split()}

for _operators, _text in FORMULAS.items():
    rule(*_operators.split())(formula(_text))
rule("frexp", output=1)(formula("exponent(self)"))

# --- losses: the formula of one position, summed or averaged over all ---

LOSSES = {
    "mse_loss": "(self − target)²",
    "l1_loss": "abs(self − target)",
    "smooth_l1_loss": (
        "abs(self − target) if beta == 0 else "
        "(self − target)²/(2·beta) if abs(self − target) < beta else abs(self − target) − beta/2"
    ),
    "huber_loss": (
        "(self − target)²/2 if abs(self − target) ≤ delta else delta·(abs(self − target) − delta/2)"
    ),
    "soft_margin_loss": "log1p(exp(−(target·self)))",
    # torch clamps the logarithms at −100.
    "binary_cross_entropy": (
        "−(target·max(log(self), −100) + (1 − target)·max(log(1 − self), −100))·weight"
    ),
    "binary_cross_entropy_with_logits": (
        "((1 − target)·self + (1 if pos_weight is None else (pos_weight − 1)·target + 1)"
        "·(log1p(exp(−abs(self))) + max(−self, 0)))·weight"
    ),
}


def _reduced(loss: RuleFormula) -> Build:
    def build(call: Call, index: Index) -> e.Expression:
        reduction, x = call.integer("reduction"), call.view("self")
        if reduction == 0:
            return loss(call, index)
        axes = running(x.shape)
        gathered = e.total(loss(call, axes), *axes)
        return gathered / x.numel if reduction == 1 else gathered

    return build


for _operators, _text in LOSSES.items():
    rule(_operators)(_reduced(formula(_text)))

# --- negative log-likelihood ---

_NONE, _MEAN = 0, 1


@rule("nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward")
def nll_loss(call: Call, index: Index) -> e.Expression:
    """−Σ w[t] · x[…, t] / Σ w[t] over the targets t that are not ignored."""
    if call.integer("reduction") == _NONE:
        return -1 * _likelihood(call, index)[0]
    axes = running(call.view("target").shape)
    likelihood, counted = (e.total(part, *axes) for part in _likelihood(call, axes))
    if call.integer("reduction") == _MEAN:
        likelihood = likelihood / counted
    return -likelihood


@rule("nll_loss_forward", "nll_loss2d_forward", output=1)
def nll_loss_weight(call: Call, _index: Index) -> e.Expression:
    """Σ w[t] over the targets that are not ignored."""
    if call.integer("reduction") == _NONE and call.view("self").ndim > 1:
        return e.Number(0)  # torch leaves it at 0 and does not use it
    axes = running(call.view("target").shape)
    return e.total(_likelihood(call, axes)[1], *axes)


def _likelihood(call: Call, places: tuple[int | e.Axis, ...]) -> tuple[e.Expression, e.Expression]:
    """w[t] · x[n, t, …] for one target (or a running one), and its w[t] (0 if ignored)."""
    x, targets, parameter = call.view("self"), call.view("target"), call.maybe_view("weight")
    target, ignore = cell(targets, *places), call.integer("ignore_index")
    ignored = bool((targets.array == ignore).any())
    # An ignored target is not a class: look up class 0 instead, and discard the result.
    chosen: e.Expression = e.Function("max", (target, e.Number(0))) if ignored else target
    batch = places[:1] if x.ndim > 1 else ()
    value: e.Expression = e.Lookup(x, (*batch, chosen, *places[1:]))
    weight: e.Expression = e.Number(1)
    if parameter is not None:
        weight = e.Lookup(parameter, (chosen,))
        value = weight * value
    if not ignored:
        return value, weight
    skip = e.Operation("=", target, e.Number(ignore))
    return e.Choose(skip, e.Number(0), value), e.Choose(skip, e.Number(0), weight)


@rule("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_gradient(call: Call, index: Index) -> e.Expression:
    """−g · w[c] / Σw if c is the position's target and not ignored, else 0."""
    x, targets, weight = call.view("self"), call.view("target"), call.maybe_view("weight")
    g = call.view("grad_output")
    place, own = (index[:1] + index[2:], index[1]) if x.ndim > 1 else ((), index[0])
    target = cell(targets, *(place if targets.ndim else ()))
    value: e.Expression = cell(g, *(place if g.ndim else ()))
    if weight is not None:
        value = value * cell(weight, own)
    if call.integer("reduction") == _MEAN:
        value = value / cell(call.view("total_weight"))
    if own == call.integer("ignore_index"):
        return e.Number(0)
    return e.Choose(e.Operation("=", target, e.Number(own)), -value, e.Number(0))


# --- rules that depend on a dtype or a position ---

_COMPARISONS: dict[str, e.OperatorSign] = {
    "eq": "=", "ne": "≠", "lt": "<", "le": "≤", "gt": ">", "ge": "≥", "logical_and": "and",
    "logical_or": "or", "logical_xor": "xor",
}  # fmt: skip


@rule(*_COMPARISONS)
def comparison(call: Call, index: Index) -> e.Expression:
    """a < b; a Python number is first rounded to the tensor's dtype, as torch does."""
    left, right = call.operand("self"), call.operand("other")
    if isinstance(left, View) and isinstance(right, float) and left.dtype.is_floating_point:
        right = torch.tensor(right, dtype=left.dtype).item()
    return e.Operation(
        _COMPARISONS[call.operator.name], broadcast(left, index), broadcast(right, index)
    )


def _by_kind(of_truths: str, of_numbers: str) -> Build:
    """Bitwise operators are logic on bools and arithmetic on integers."""
    truths, numbers = formula(of_truths), formula(of_numbers)

    def build(call: Call, index: Index) -> e.Expression:
        own = call.operand("self")
        is_bool = isinstance(own, View) and own.dtype == torch.bool
        return (truths if is_bool else numbers)(call, index)

    return build


rule("bitwise_and", "__and__")(_by_kind("self and other", "self & other"))
rule("bitwise_or", "__or__")(_by_kind("self or other", "self | other"))
rule("bitwise_xor", "__xor__")(_by_kind("self ^ other", "(self | other) − (self & other)"))
rule("bitwise_not")(_by_kind("not self", "−self − 1"))

_NAN_TO_NUM = formula("nan if isnan(x) else posinf if x == ∞ else neginf if x == −∞ else x")
_LEAKY, _GATED = formula("x if x > 0 else slope·x"), formula("a·(1/(1 + exp(−b)))")


@rule("nan_to_num")
def nan_to_num(call: Call, index: Index) -> e.Expression:
    """x, with NaN and the infinities replaced, by default with 0 and the dtype's extremes."""
    x = call.view("self")
    ends = {"nan": 0.0, "posinf": torch.finfo(x.dtype).max, "neginf": torch.finfo(x.dtype).min}
    given = {name: call.bound.get(name) for name in ends}
    chosen = {name: ends[name] if value is None else float(value) for name, value in given.items()}
    return _NAN_TO_NUM.of(x=broadcast(x, index), **chosen)


@rule("prelu")
def prelu(call: Call, index: Index) -> e.Expression:
    """x if positive, else slope[channel] · x."""
    x, slope = call.view("self"), call.view("weight")
    at = (index[1] if slope.numel > 1 else 0,) if slope.ndim else ()
    return _LEAKY.of(x=cell(x, *index), slope=cell(slope, *at))


@rule("glu")
def glu(call: Call, index: Index) -> e.Expression:
    """a · σ(b), where a and b are the two halves of an axis."""
    x = call.view("self")
    axis, second = call.axis("dim", x.ndim), list(index)
    second[axis] += x.shape[axis] // 2
    return _GATED.of(a=cell(x, *index), b=cell(x, *second))


# --- complex numbers ---
# Each is a pair of real numbers, and every cell is one of the two: its index ends with 0 for the
# real part, 1 for the imaginary part. Most operators that only move complex numbers are views and
# need no rule.

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


def _pair(call: Call, name: str, place: Index) -> tuple[e.Expression, e.Expression | None]:
    """Both parts of an operand, broadcast; None for the imaginary part of a real one."""
    operand = call.bound[name]
    if isinstance(operand, View) and operand.pairs:
        return broadcast(operand, (*place, 0)), broadcast(operand, (*place, 1))
    if isinstance(operand, complex):
        return e.Number(operand.real), e.Number(operand.imag)
    return broadcast(operand, place), None


_LETTERS = (("a", "b"), ("c", "d"))


def _by_parts(*parts: RuleFormula) -> Build:
    def build(call: Call, index: Index) -> e.Expression:
        *place, part = index if len(parts) > 1 else (*index, 0)
        given: dict[str, e.Expression | None] = {}
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
def cast(call: Call, index: Index) -> e.Expression:
    """The same number; the imaginary part of a real one is 0."""
    source = call.view("src" if call.operator.name == "copy" else "self")
    if source.pairs:
        return broadcast(source, index)
    return e.Number(0) if index[-1] else broadcast(source, index[:-1])


# For operators that only copy, the pair is just one more axis.
complex_rule("clone", "contiguous")(copy)
complex_rule("reshape", "flatten")(reshape)
complex_rule("constant_pad_nd")(pad)
complex_rule("cat", "concat", "index", "index_select", "gather")(moved(0))


def _parts(view: View, *index: int | e.Axis) -> tuple[e.Expression, e.Expression | None]:
    """Both parts of an operand's cells; None for the imaginary part of a real one."""
    if view.pairs:
        return cell(view, *index, 0), cell(view, *index, 1)
    return cell(view, *index), None


@complex_rule("matmul", "mm", "bmm", "mv", "dot", "vdot")
def complex_product(call: Call, index: Index) -> e.Expression:
    """Σₖ (ac − bd) + (ad + bc)i; `vdot` conjugates its left operand."""
    names = call.operator.parameters
    a, b = call.view(names[0]), call.view(names[1])
    *place, part = index
    left, right, k = factors(a, b, place)
    (real, imaginary), (c, d) = _parts(a, *left), _parts(b, *right)
    if call.operator.name == "vdot" and imaginary is not None:
        imaginary = -imaginary
    return e.total(_TIMES[part].of(a=real, b=imaginary, c=c, d=d), k)


@complex_rule("sum", "mean")
def complex_sum(call: Call, index: Index) -> e.Expression:
    """Real and imaginary parts are summed separately."""
    x = call.view("self")
    entry, axes = row(x, index, call.axes("dim", x.ndim - 1), call.flag("keepdim"))
    summed = e.total(entry, *axes)
    count = math.prod(axis.size for axis in axes)
    return summed / count if call.operator.name == "mean" and axes else summed
