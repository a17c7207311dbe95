"""From the gradient of an operator's output to those of its operands.

A derivative takes the operator as it ran and g = ∂L/∂output, and yields ∂L/∂operand in the
operand's shape. It uses ordinary operators, which are recorded as steps like those of the forward
pass, and the same kernels and summation order as autograd, so that the gradients are bitwise equal.
Operators without a derivative here are left to autograd, which runs them again inside the
recording, followed by their backward pass, operator by operator; those without a rule are shown as
opaque.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import Call, Operator, as_list
from glassformer.tracing.capture.recorder import differentiable, without_onednn

Gradients = Iterator[tuple[str, Tensor]]
"""The wanted gradients, by argument name of the operand."""

aten = torch.ops.aten


class Forward:
    """An operator of the forward pass, as used by its derivative."""

    def __init__(
        self,
        call: Call,
        wanted: frozenset[str],
        tensor_of: Callable[[View], Tensor],
        note: Callable[[str, Tensor], Tensor],
    ) -> None:
        self.call = call
        self.wanted = wanted
        """The argument names (`tensors.0` in a list) whose gradients are needed."""
        self.tensor_of = tensor_of
        self.note = note
        """Names an intermediate result, below the name of the operator's output."""

    def __getitem__(self, name: str) -> Tensor:
        return self.tensor_of(self.call.view(name))

    def shape(self, name: str) -> Index:
        return self.call.view(name).shape

    def operand(self, name: str) -> Any:
        """A tensor or a number."""
        value = self.call.operand(name)
        return self.tensor_of(value) if isinstance(value, View) else value

    def number(self, name: str) -> Any:
        return self.call.number_of(name)

    @property
    def output(self) -> Tensor:
        view = self.call.outputs[0]
        assert view is not None
        return self.tensor_of(view)


Derivative = Callable[[Forward, Tensor], Gradients]
_DERIVATIVES: dict[str, Derivative] = {}


def derivative(*operators: str) -> Callable[[Derivative], Derivative]:
    """Register a generator function as the derivative of these operators."""

    def register(function: Derivative) -> Derivative:
        for operator in operators:
            assert operator not in _DERIVATIVES, f"two derivatives of {operator}"
            _DERIVATIVES[operator] = function
        return function

    return register


def find(operator: Operator) -> Derivative | None:
    return _DERIVATIVES.get(operator.full_name) or _DERIVATIVES.get(operator.name)


def fold(gradient: Tensor, shape: Index) -> Tensor:
    """Undo broadcasting: sum over the axes along which an operand was expanded."""
    lead = gradient.ndim - len(shape)
    axes = [*range(lead)]
    axes += [a + lead for a, size in enumerate(shape) if size == 1 and gradient.size(a + lead) != 1]
    if not axes:
        return gradient
    return gradient.sum(axes, keepdim=True).reshape(shape)


# --- operators of one tensor ---


def _spread(forward: Forward, g: Tensor) -> Tensor:
    """The gradient of a reduction, expanded to the cells that it reduced."""
    shape = forward.shape("self")
    if not forward.call.flag("keepdim"):
        for axis in forward.call.axes("dim", len(shape)):
            g = g.unsqueeze(axis)
    return g.expand(shape)


def _mean(forward: Forward, g: Tensor) -> Tensor:
    return _spread(forward, g / (forward.call.view("self").numel // max(1, g.numel())))


_OF_ONE: dict[str, Callable[[Forward, Tensor], Tensor]] = {
    "neg": lambda _, g: -g,
    "relu": lambda f, g: aten.threshold_backward(g, f.output, 0),
    "gelu": lambda f, g: aten.gelu_backward(g, f["self"], approximate=f.number("approximate")),
    "silu": lambda f, g: aten.silu_backward(g, f["self"]),
    "tanh": lambda f, g: aten.tanh_backward(g, f.output),
    "sigmoid": lambda f, g: aten.sigmoid_backward(g, f.output),
    # Filled cells do not depend on the input: 0 there, g elsewhere.
    "masked_fill.Scalar": lambda f, g: fold(g.masked_fill(f["mask"], 0), f.shape("self")),
    # Raising one weight of a softmax lowers the others.
    "softmax _softmax _safe_softmax": lambda f, g: aten._softmax_backward_data(
        g, f.output, f.number("dim"), f.output.dtype
    ),
    "log_softmax _log_softmax": lambda f, g: aten._log_softmax_backward_data(
        g, f.output, f.number("dim"), f.output.dtype
    ),
    "sum": _spread,
    "mean": _mean,
    "clone contiguous to _to_copy reshape flatten unflatten _unsafe_view _reshape_copy view_copy": (
        lambda f, g: g.reshape(f.shape(f.call.operator.parameters[0]))
    ),
}


def _of_one(gradient: Callable[[Forward, Tensor], Tensor]) -> Derivative:
    def derive(forward: Forward, g: Tensor) -> Gradients:
        yield forward.call.operator.parameters[0], gradient(forward, g)

    return derive


for _operators, _gradient in _OF_ONE.items():
    derivative(*_operators.split())(_of_one(_gradient))


# --- arithmetic ---


@derivative("add", "sub")
def add(forward: Forward, g: Tensor) -> Gradients:
    """A sum passes its gradient on to both sides; a difference negates it on the right."""
    if "self" in forward.wanted:
        yield "self", fold(g, forward.shape("self"))
    if "other" in forward.wanted:
        alpha = forward.call.bound.get("alpha", 1)
        if forward.call.operator.name == "add":
            g = g if alpha == 1 else g * alpha
        else:
            g = -g if alpha == 1 else g * -alpha
        yield "other", fold(g, forward.shape("other"))


@derivative("mul")
def multiply(forward: Forward, g: Tensor) -> Gradients:
    """g times the other factor."""
    if "self" in forward.wanted:
        yield "self", fold(g * forward.operand("other"), forward.shape("self"))
    if "other" in forward.wanted:
        yield "other", fold(g * forward["self"], forward.shape("other"))


@derivative("div.Tensor", "div.Scalar")
def divide(forward: Forward, g: Tensor) -> Gradients:
    """g / b to the dividend, −g · (a / b) / b to the divisor."""
    b = forward.operand("other")
    if "self" in forward.wanted:
        yield "self", fold(g / b, forward.shape("self"))
    if "other" in forward.wanted:
        yield "other", fold(-g * (forward["self"] / b / b), forward.shape("other"))


@derivative("where.self", "where.ScalarOther", "where.ScalarSelf")
def where(forward: Forward, g: Tensor) -> Gradients:
    """g to the chosen side, 0 to the other."""
    condition = forward["condition"]
    if "self" in forward.wanted:
        yield "self", fold(torch.where(condition, g, 0.0), forward.shape("self"))
    if "other" in forward.wanted:
        yield "other", fold(torch.where(condition, 0.0, g), forward.shape("other"))


# --- linear layers and matrix products: the other factor times g, summed over all products ---


@derivative("linear")
def linear(forward: Forward, g: Tensor) -> Gradients:
    """∂L/∂x = g · W;  ∂L/∂W[o, k] = Σ g[…, o] · x[…, k];  ∂L/∂b[o] = Σ g[…, o]."""
    if "input" in forward.wanted:
        yield "input", g @ forward["weight"]
    if "weight" in forward.wanted:
        yield "weight", _rows(g).mT @ _rows(forward["input"])
    if "bias" in forward.wanted:
        yield "bias", _rows(g).sum(0) if g.ndim > 1 else g


def _rows(x: Tensor) -> Tensor:
    """All positions as rows of one matrix."""
    return x.reshape(math.prod(x.shape[:-1]), x.size(-1))


@derivative("matmul", "mm", "bmm", "mv", "dot")
def matmul(forward: Forward, g: Tensor) -> Gradients:
    """∂L/∂A = g · Bᵀ;  ∂L/∂B = Aᵀ · g."""
    first, second = forward.call.operator.parameters[:2]
    a, b = forward[first], forward[second]
    g = g if b.ndim > 1 else g.unsqueeze(-1)
    g = g if a.ndim > 1 else g.unsqueeze(-2)
    left = a if a.ndim > 1 else a.unsqueeze(0)
    right = b if b.ndim > 1 else b.unsqueeze(1)
    if first in forward.wanted:
        yield first, fold(g @ right.mT, left.shape).reshape(a.shape)
    if second in forward.wanted:
        if right.ndim == 2:
            yield second, (_rows(left).mT @ _rows(g)).reshape(b.shape)
        else:
            yield second, fold(left.mT @ g, right.shape).reshape(b.shape)


@derivative("addmm")
def addmm(forward: Forward, g: Tensor) -> Gradients:
    """As for a product, and β · g to the added matrix."""
    alpha, beta = forward.number("alpha"), forward.number("beta")
    scaled = g if alpha == 1 else g * alpha
    if "mat1" in forward.wanted:
        yield "mat1", scaled @ forward["mat2"].mT
    if "mat2" in forward.wanted:
        yield "mat2", forward["mat1"].mT @ scaled
    if "self" in forward.wanted:
        yield "self", fold(g if beta == 1 else g * beta, forward.shape("self"))


# --- norms, lookups, joins ---


@derivative("layer_norm")
def layer_norm(forward: Forward, g: Tensor) -> Gradients:
    """Through the mean and the deviation of the row as well as the cell itself."""
    shape = list(forward.call.bound["normalized_shape"])
    x, gain, bias = forward["input"], forward.operand("weight"), forward.operand("bias")
    # The mean and the deviation, which the forward operator does not return.
    again, mean, scale = aten.native_layer_norm(x, shape, gain, bias, forward.number("eps"))
    forward.note("again", again)
    forward.note("mean", mean)
    forward.note("reciprocal_deviation", scale)
    names = ("input", "weight", "bias")
    wanted = [name in forward.wanted for name in names]
    made = aten.native_layer_norm_backward(g, x, shape, mean, scale, gain, bias, wanted)
    yield from (pair for pair in zip(names, made, strict=True) if pair[0] in forward.wanted)


@derivative("nll_loss_nd")
def nll_loss(forward: Forward, g: Tensor) -> Gradients:
    """−g / n to the log-probability of each target that is not ignored, 0 to all others."""
    x, target, weight = forward["self"], forward["target"], forward.operand("weight")
    settings = (forward.number("reduction"), forward.number("ignore_index"))
    plain = x.ndim < 3
    run = aten.nll_loss_forward if plain else aten.nll_loss2d_forward
    back = aten.nll_loss_backward if plain else aten.nll_loss2d_backward
    if x.ndim > 2 and x.ndim != 4:  # the kernel expects two axes of positions
        x, target = x.reshape(*x.shape[:2], 1, -1), target.reshape(len(target), 1, -1)
        g = g.reshape(target.shape) if g.ndim else g
    again, count = run(x, target, weight, *settings)
    forward.note("again", again)
    forward.note("count", count)
    yield "self", back(g, x, target, weight, *settings, count).reshape(forward.shape("self"))


@derivative("rrelu_with_noise")
def rrelu(forward: Forward, g: Tensor) -> Gradients:
    """g times the slope that was drawn for the cell; outside training, the mean slope below 0."""
    lower, upper = float(forward.number("lower")), float(forward.number("upper"))
    if forward.call.flag("training"):
        slopes = forward.call.outputs[-1]
        assert slopes is not None and forward.call.unreturned[-1] == "noise"
        yield "self", g * forward.tensor_of(slopes)
    else:
        yield "self", aten.leaky_relu_backward(g, forward["self"], (lower + upper) / 2, False)


@derivative("embedding")
def embedding(forward: Forward, g: Tensor) -> Gradients:
    """Each row of the table sums the gradients of the positions that looked it up."""
    rows = forward.shape("weight")[0]
    padding, by_count = forward.number("padding_idx"), forward.call.flag("scale_grad_by_freq")
    ids = forward["indices"]
    yield "weight", aten.embedding_dense_backward(g, ids, rows, padding, by_count)


@derivative("cat", "concat")
def cat(forward: Forward, g: Tensor) -> Gradients:
    """Each piece gets its part of g."""
    axis, start = forward.call.axis("dim", g.ndim), 0
    for place, piece in enumerate(forward.call.views("tensors")):
        if piece.shape == (0,):
            continue
        if f"tensors.{place}" in forward.wanted:
            yield f"tensors.{place}", g.narrow(axis, start, piece.shape[axis])
        start += piece.shape[axis]


@derivative("stack")
def stack(forward: Forward, g: Tensor) -> Gradients:
    """Each piece gets its part of g."""
    axis = forward.call.axis("dim", g.ndim)
    for place in range(g.size(axis)):
        if f"tensors.{place}" in forward.wanted:
            yield f"tensors.{place}", g.select(axis, place)


# --- the rest: by autograd ---


def by_autograd(forward: Forward, gradients: list[Tensor | None]) -> Iterator[tuple[str, Tensor]]:
    """The gradients of the wanted operands, from those of the outputs (None if there is none).

    Nothing is yielded for an operand if no output depends on it differentiably.
    """
    call = forward.call
    with differentiable(), without_onednn(call.without_onednn):
        leaves = {
            name: forward.tensor_of(view).detach().requires_grad_()
            for name, view in call.tensors().items()
            if name in forward.wanted
        }
        made = _run_again(forward, leaves)
        pairs = [
            (output, gradient)
            for output, gradient in zip(made, gradients, strict=False)
            if gradient is not None and isinstance(output, Tensor) and output.requires_grad
        ]
        if not pairs:
            return
        outputs, incoming = zip(*pairs, strict=True)
        found = torch.autograd.grad(outputs, list(leaves.values()), incoming, allow_unused=True)
    for name, gradient in zip(leaves, found, strict=True):
        if gradient is not None:
            yield name, gradient


def _run_again(forward: Forward, leaves: dict[str, Tensor]) -> list[Any]:
    """Run the operator on the same operands, with the wanted ones as leaves of a new graph."""
    call = forward.call
    written = {name for _, name in call.operator.writes_to(call.args, call.kwargs)}

    def tensor(name: str, view: View) -> Tensor:
        given = leaves[name] if name in leaves else forward.tensor_of(view)
        return given.clone() if name in written else given

    args, kwargs = call.mapped(tensor)
    outs = {a.name for a in call.operator.func._schema.arguments if a.is_out}
    if not outs:
        return as_list(call.operator.func(*args, **kwargs))
    kwargs = {name: value for name, value in kwargs.items() if name not in outs}
    return as_list(call.operator.func.overloadpacket(*args, **kwargs))
