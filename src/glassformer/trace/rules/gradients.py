"""What the operators of a backward pass compute: one cell of a gradient from those after it.

g is the gradient that comes in, ∂L/∂y; each rule says what ∂L/∂x is.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from glassformer.trace.calls import Call
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Entry,
    Expression,
    Function,
    Lookup,
    Named,
    Number,
    Operation,
    Reduce,
    add,
    divide,
    multiply,
    power,
    subtract,
    total,
)
from glassformer.trace.memory import Index, View
from glassformer.trace.rules import loss
from glassformer.trace.rules.operands import LETTERS, cell
from glassformer.trace.rules.registry import Build, rule

__all__: list[str] = []


def _along(view: View, index: Index, axis: int, letter: str = "j") -> tuple[Entry, Axis]:
    """The cells of a row: the index with one axis running."""
    running = Axis(letter, view.shape[axis])
    return Entry(view, (*index[:axis], running, *index[axis + 1 :])), running


@rule("_softmax_backward_data")
def softmax(call: Call, index: Index) -> Expression:
    """yᵢ · (gᵢ − Σⱼ gⱼ · yⱼ)."""
    g, y = call.view("grad_output"), call.view("output")
    if not index:
        return multiply(cell(y), subtract(cell(g), multiply(cell(g), cell(y))))
    axis = call.axis("dim", y.ndim)
    (incoming, j), (outputs, _) = _along(g, index, axis), _along(y, index, axis)
    mean = Named("ḡ", total(multiply(incoming, outputs), j))
    return multiply(cell(y, *index), subtract(cell(g, *index), mean))


@rule("_log_softmax_backward_data")
def log_softmax(call: Call, index: Index) -> Expression:
    """gᵢ − exp(yᵢ) · Σⱼ gⱼ."""
    g, y = call.view("grad_output"), call.view("output")
    if not index:
        return subtract(cell(g), multiply(Function("exp", (cell(y),)), cell(g)))
    incoming, j = _along(g, index, call.axis("dim", y.ndim))
    probability = Function("exp", (cell(y, *index),))
    return subtract(cell(g, *index), multiply(probability, total(incoming, j)))


class _Norm:
    """The rows of one position of a layer norm, and what they are multiplied by."""

    def __init__(self, call: Call, lead: tuple[int | Axis, ...]) -> None:
        self.x, self.g = call.view("input"), call.view("grad_out")
        self.gain = call.maybe_view("weight")
        self.mean, self.scale = call.view("mean"), call.view("rstd")
        self.lead = lead
        self._at = (*lead, *([0] * (self.mean.ndim - len(lead))))

    def normed(self, *place: int | Axis) -> Expression:
        """x̂ = (x − μ) · r."""
        centred = subtract(cell(self.x, *self.lead, *place), cell(self.mean, *self._at))
        return multiply(centred, self.root)

    def incoming(self, *place: int | Axis) -> Expression:
        """g · γ."""
        g = cell(self.g, *self.lead, *place)
        return g if self.gain is None else multiply(g, cell(self.gain, *place))

    @property
    def root(self) -> Expression:
        """r = 1 / √(σ² + ε)."""
        return cell(self.scale, *self._at)


@rule("native_layer_norm_backward")
def layer_norm(call: Call, index: Index) -> Expression:
    """r · (ĝᵢ − mean ĝ − x̂ᵢ · mean (ĝ · x̂)), with ĝ = g · γ and x̂ = (x − μ) · r."""
    x = call.view("input")
    count = len(call.bound["normalized_shape"])
    lead, own = index[: x.ndim - count], index[x.ndim - count :]
    norm = _Norm(call, lead)
    axes = tuple(Axis(LETTERS[place], size) for place, size in enumerate(x.shape[-count:]))
    size = math.prod(axis.size for axis in axes)
    mean = Named("ḡ", divide(total(norm.incoming(*axes), *axes), size))
    product = multiply(norm.incoming(*axes), norm.normed(*axes))
    tilt = Named("t", divide(total(product, *axes), size))
    left = subtract(norm.incoming(*own), mean)
    return multiply(norm.root, subtract(left, multiply(norm.normed(*own), tilt)))


def _over_positions(call: Call, index: Index) -> tuple[_Norm, tuple[Axis, ...]]:
    x = call.view("input")
    lead = x.shape[: x.ndim - len(index)]
    axes = tuple(Axis(LETTERS[place], size) for place, size in enumerate(lead))
    return _Norm(call, axes), axes


@rule("native_layer_norm_backward", output=1)
def layer_norm_gain(call: Call, index: Index) -> Expression:
    """Σ g · x̂ over the positions."""
    norm, axes = _over_positions(call, index)
    product = multiply(cell(norm.g, *axes, *index), norm.normed(*index))
    return total(product, *axes) if axes else product


@rule("native_layer_norm_backward", output=2)
def layer_norm_bias(call: Call, index: Index) -> Expression:
    """Σ g over the positions."""
    norm, axes = _over_positions(call, index)
    return total(cell(norm.g, *axes, *index), *axes) if axes else cell(norm.g, *index)


@rule("threshold_backward")
def relu(call: Call, index: Index) -> Expression:
    """g where x is above the threshold, else 0."""
    above = Operation(">", cell(call.view("self"), *index), Number(call.number_of("threshold")))
    return Choose(above, cell(call.view("grad_output"), *index), Number(0))


@rule("hardshrink_backward", "softshrink_backward")
def shrink(call: Call, index: Index) -> Expression:
    """g where |x| is above λ, else 0."""
    g = call.view(call.operator.parameters[0])
    size = Function("abs", (cell(call.view("self"), *index),))
    above = Operation(">", size, Number(call.number_of("lambd")))
    return Choose(above, cell(g, *index), Number(0))


@rule("gelu_backward")
def gelu(call: Call, index: Index) -> Expression:
    """g · (Φ(x) + x · φ(x)), or the derivative of the tanh approximation."""
    x, g = cell(call.view("self"), *index), cell(call.view("grad_output"), *index)
    if call.bound["approximate"] == "tanh":
        return multiply(g, _gelu_tanh_slope(x))
    half = divide(add(1, Function("erf", (divide(x, Function("sqrt", (Number(2),))),))), 2)
    bell = Function("exp", (Function("neg", (divide(power(x, 2), 2),)),))
    density = divide(bell, math.sqrt(2 * math.pi))
    return multiply(g, add(half, multiply(x, density)))


def _gelu_tanh_slope(x: Expression) -> Expression:
    """½ (1 + t) + ½ x (1 − t²) u′, where t = tanh u and u = √(2/π) (x + 0.044715 x³)."""
    root = math.sqrt(2 / math.pi)
    inner = multiply(root, add(x, multiply(0.044715, power(x, 3))))
    t = Named("t", Function("tanh", (inner,)))
    slope = multiply(root, add(1, multiply(3 * 0.044715, power(x, 2))))
    curved = multiply(multiply(x, subtract(1, power(t, 2))), slope)
    return divide(add(add(1, t), curved), 2)


@rule("silu_backward")
def silu(call: Call, index: Index) -> Expression:
    """g · s · (1 + x · (1 − s)), s = σ(x)."""
    x, g = cell(call.view("self"), *index), cell(call.view("grad_output"), *index)
    s = Named("s", divide(1, add(1, Function("exp", (Function("neg", (x,)),)))))
    return multiply(g, multiply(s, add(1, multiply(x, subtract(1, s)))))


def _from_output(slope: Callable[[Expression], Expression]) -> Build:
    """g times a slope that the output alone gives."""

    def build(call: Call, index: Index) -> Expression:
        y = cell(call.view("output"), *index)
        return multiply(cell(call.view("grad_output"), *index), slope(y))

    return build


rule("tanh_backward")(_from_output(lambda y: subtract(1, power(y, 2))))
rule("sigmoid_backward")(_from_output(lambda y: multiply(y, subtract(1, y))))


@rule("sgn")
def direction(call: Call, index: Index) -> Expression:
    """−1, 0 or 1: the slope of |x|."""
    return Function("sign", (cell(call.view("self"), *index),))


@rule("embedding_dense_backward")
def embedding(call: Call, index: Index) -> Expression:
    """Σ g over the positions whose id is this row; 0 for the padding's row."""
    g, ids = call.view("grad_output"), call.view("indices")
    if index[0] == call.integer("padding_idx"):
        return Number(0)
    axes = tuple(Axis(LETTERS[place], size) for place, size in enumerate(ids.shape))
    here = Operation("=", cell(ids, *axes), Number(index[0]))
    own = Choose(here, cell(g, *axes, *index[1:]), Number(0))
    gathered = total(own, *axes) if axes else own
    if call.flag("scale_grad_by_freq"):
        count = total(Choose(here, Number(1), Number(0)), *axes)
        return divide(gathered, Function("max", (count, Number(1))))
    return gathered


_NONE, _MEAN = 0, 1


@rule("nll_loss_backward", "nll_loss2d_backward")
def nll_loss(call: Call, index: Index) -> Expression:
    """−g · w[c] / Σw where c is the position's target and counts, else 0."""
    x, targets, weight = call.view("self"), call.view("target"), call.maybe_view("weight")
    g = call.view("grad_output")
    place, own = (index[:1] + index[2:], index[1]) if x.ndim > 1 else ((), index[0])
    target = cell(targets, *(place if targets.ndim else ()))
    value: Expression = cell(g, *(place if g.ndim else ()))
    if weight is not None:
        value = multiply(value, cell(weight, own))
    if call.integer("reduction") == _MEAN:
        value = divide(value, cell(call.view("total_weight")))
    if own == call.integer("ignore_index"):
        return Number(0)
    return Choose(Operation("=", target, Number(own)), Function("neg", (value,)), Number(0))


rule("nll_loss_forward", "nll_loss2d_forward")(loss.nll_loss)


@rule("nll_loss_forward", "nll_loss2d_forward", output=1)
def nll_loss_weight(call: Call, _index: Index) -> Expression:
    """Σ w[t] over the targets that count."""
    targets, weight = call.view("target"), call.maybe_view("weight")
    if call.integer("reduction") == _NONE:
        return Number(0)  # torch leaves it at 0, and does not read it
    axes = tuple(Axis(LETTERS[place], size) for place, size in enumerate(targets.shape))
    target, ignore = cell(targets, *axes), Number(call.integer("ignore_index"))
    one: Expression = Number(1)
    if weight is not None:  # an ignored target is no class: any class stands in for it
        one = Lookup(weight, (Function("max", (target, Number(0))),))
    counted = Choose(Operation("=", target, ignore), Number(0), one)
    return Reduce("sum", counted, axes) if axes else counted
