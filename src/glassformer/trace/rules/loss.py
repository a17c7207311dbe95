"""Losses. Cross-entropy is decomposed into log-softmax and the negative log-likelihood here."""

from __future__ import annotations

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


@rule("nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward")
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


def _pointwise(difference: str) -> Build:
    """A loss that is a sum or mean over pairs of cells."""

    def build(call: Call, index: Index) -> Expression:
        x, target = call.view("self"), call.view("target")
        if call.integer("reduction") == _NONE:
            gap = subtract(broadcast(x, index), broadcast(target, index))
            return power(gap, 2) if difference == "square" else Function("abs", (gap,))
        axes = tuple(Axis(LETTERS[place], size) for place, size in enumerate(x.shape))
        gap = subtract(cell(x, *axes), cell(target, *axes))
        body = power(gap, 2) if difference == "square" else Function("abs", (gap,))
        gathered = total(body, *axes) if axes else body
        return divide(gathered, x.numel) if call.integer("reduction") == _MEAN else gathered

    return build


rule("mse_loss")(_pointwise("square"))
rule("l1_loss")(_pointwise("absolute"))
