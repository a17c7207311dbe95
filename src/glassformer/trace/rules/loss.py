"""Losses. Cross-entropy is decomposed into log-softmax and the negative log-likelihood here."""

from __future__ import annotations

from collections.abc import Callable

from glassformer.trace.calls import Call
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Entry,
    Expression,
    Function,
    Lookup,
    Number,
    Operation,
    add,
    divide,
    multiply,
    power,
    subtract,
    total,
)
from glassformer.trace.memory import Index
from glassformer.trace.rules.operands import LETTERS, broadcast, cell
from glassformer.trace.rules.registry import Build, rule

__all__: list[str] = []

_NONE, _MEAN = 0, 1


@rule("nll_loss", "nll_loss_nd", "nll_loss2d")
def nll_loss(call: Call, index: Index) -> Expression:
    """−Σ w[t] · x[…, t] / Σ w[t] over the targets t that are not ignored."""
    targets = call.view("target")
    if call.integer("reduction") == _NONE:
        return multiply(-1, _likelihood(call, index)[0])
    axes = tuple(Axis(LETTERS[place], size) for place, size in enumerate(targets.shape))
    likelihood, counted = _likelihood(call, axes)
    gathered = total(likelihood, *axes) if axes else likelihood
    if call.integer("reduction") == _MEAN:
        count = total(counted, *axes) if axes else counted
        gathered = divide(gathered, count)
    return Function("neg", (gathered,))


def _likelihood(call: Call, places: tuple[int | Axis, ...]) -> tuple[Expression, Expression]:
    """w[t] · x[n, t, …] of one target (or of a running one), and the w[t] that counts for it."""
    x, targets, parameter = call.view("self"), call.view("target"), call.maybe_view("weight")
    target = Entry(targets, places)
    ignore = call.integer("ignore_index")
    ignored = bool((targets.array == ignore).any())
    # An ignored target is no class: any class stands in for it, and is then not used.
    chosen: Expression = Function("max", (target, Number(0))) if ignored else target
    batch = places[:1] if x.ndim > 1 else ()
    value: Expression = Lookup(x, (*batch, chosen, *places[1:]))
    weight: Expression = Number(1)
    if parameter is not None:
        weight = Lookup(parameter, (chosen,))
        value = multiply(weight, value)
    if ignored:
        skip = Operation("=", target, Number(ignore))
        return Choose(skip, Number(0), value), Choose(skip, Number(0), weight)
    return value, weight


_Places = tuple[int | Axis, ...]


def _pointwise(one: Callable[[Call, _Places], Expression]) -> Build:
    """A loss that is a sum or mean, over all cells, of what `one` gives for each."""

    def build(call: Call, index: Index) -> Expression:
        x = call.view("self")
        if call.integer("reduction") == _NONE:
            return one(call, index)
        axes = tuple(Axis(LETTERS[place], size) for place, size in enumerate(x.shape))
        gathered = total(one(call, axes), *axes) if axes else one(call, axes)
        return divide(gathered, x.numel) if call.integer("reduction") == _MEAN else gathered

    return build


def _gap(call: Call, places: _Places) -> Expression:
    return subtract(cell(call.view("self"), *places), cell(call.view("target"), *places))


@rule("mse_loss")
@_pointwise
def mse_loss(call: Call, places: _Places) -> Expression:
    """(x − t)²."""
    return power(_gap(call, places), 2)


@rule("l1_loss")
@_pointwise
def l1_loss(call: Call, places: _Places) -> Expression:
    """|x − t|."""
    return Function("abs", (_gap(call, places),))


@rule("binary_cross_entropy_with_logits")
@_pointwise
def binary_cross_entropy_with_logits(call: Call, places: _Places) -> Expression:
    """(1 − t) · x + w · (log(1 + exp(−|x|)) + max(−x, 0)), w = 1 + (positive weight − 1) · t."""
    x, target = cell(call.view("self"), *places), cell(call.view("target"), *places)
    minus = Function("neg", (x,))
    tail = Function("log1p", (Function("exp", (Function("neg", (Function("abs", (x,)),)),)),))
    surprise = add(tail, Function("max", (minus, Number(0))))
    positive, weight = call.maybe_view("pos_weight"), call.maybe_view("weight")
    if positive is not None:
        extra = multiply(subtract(broadcast(positive, places), 1), target)
        surprise = multiply(add(extra, 1), surprise)
    loss = add(Operation("*", subtract(1, target), x), surprise)
    return loss if weight is None else multiply(loss, broadcast(weight, places))


@rule("smooth_l1_loss")
@_pointwise
def smooth_l1_loss(call: Call, places: _Places) -> Expression:
    """(x − t)² / 2β where |x − t| < β, else |x − t| − β/2."""
    beta, gap = float(call.number_of("beta")), _gap(call, places)
    size = Function("abs", (gap,))
    if beta == 0:
        return size
    near = divide(power(gap, 2), 2 * beta)
    return Choose(Operation("<", size, Number(beta)), near, subtract(size, beta / 2))


@rule("huber_loss")
@_pointwise
def huber_loss(call: Call, places: _Places) -> Expression:
    """(x − t)² / 2 where |x − t| ≤ δ, else δ · (|x − t| − δ/2)."""
    delta, gap = float(call.number_of("delta")), _gap(call, places)
    size = Function("abs", (gap,))
    far = multiply(delta, subtract(size, delta / 2))
    return Choose(Operation("≤", size, Number(delta)), divide(power(gap, 2), 2), far)


@rule("binary_cross_entropy")
@_pointwise
def binary_cross_entropy(call: Call, places: _Places) -> Expression:
    """−(t · log p + (1 − t) · log(1 − p)), a logarithm no lower than −100."""
    p, target = cell(call.view("self"), *places), cell(call.view("target"), *places)
    weight = call.maybe_view("weight")

    def log(value: Expression) -> Expression:
        return Function("max", (Function("log", (value,)), Number(-100)))

    right = Operation("*", target, log(p))
    wrong = Operation("*", subtract(1, target), log(subtract(1, p)))
    loss = Function("neg", (add(right, wrong),))
    return loss if weight is None else multiply(loss, broadcast(weight, places))


@rule("soft_margin_loss")
@_pointwise
def soft_margin_loss(call: Call, places: _Places) -> Expression:
    """log(1 + exp(−t · x))."""
    x, target = cell(call.view("self"), *places), cell(call.view("target"), *places)
    against = Function("neg", (Operation("*", target, x),))
    return Function("log1p", (Function("exp", (against,)),))
