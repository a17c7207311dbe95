"""From the gradient of an operator's output to those of its operands: by autograd, but for a few.

Autograd builds the graph of the operator outside the recording; the graph runs backwards inside it,
on the recorded operands and results. So each gradient is made by ordinary operators, recorded like
those of the forward pass, and is bitwise that of autograd; operators without a rule are shown as
opaque. Where autograd keeps numbers that the trace does not have, the operator runs once more
inside the recording.

A few operators have a derivative of their own: matrix products, which autograd would take apart
into reshaped copies; norms, whose mean and deviation get names; and what draws random numbers. It
takes the operator as it ran and g = ∂L/∂output, and yields ∂L/∂operand in the operand's shape, by
the same kernels and in the same summation order as autograd.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import _disable_current_modes

from glassformer.errors import TraceError
from glassformer.tracing.capture.decompositions import without_onednn
from glassformer.tracing.capture.memory import View
from glassformer.tracing.capture.operator_calls import Call, Operator, as_list
from glassformer.tracing.capture.recorder import differentiable

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

    def __getitem__(self, name: str) -> Any:
        """An argument: a tensor, or a number."""
        value = self.call.bound[name]
        return self.tensor_of(value) if isinstance(value, View) else value


# --- linear layers and matrix products: the other factor times g, summed over all products ---


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


def matmul(forward: Forward, g: Tensor) -> Gradients:
    """∂L/∂A = g · Bᵀ;  ∂L/∂B = Aᵀ · g."""
    a, b = forward["self"], forward["other"]
    g = g if b.ndim > 1 else g.unsqueeze(-1)
    g = g if a.ndim > 1 else g.unsqueeze(-2)
    left = a if a.ndim > 1 else a.unsqueeze(0)
    right = b if b.ndim > 1 else b.unsqueeze(1)
    if "self" in forward.wanted:
        yield "self", (g @ right.mT).sum_to_size(left.shape).reshape(a.shape)
    if "other" in forward.wanted:
        if right.ndim == 2:
            yield "other", (_rows(left).mT @ _rows(g)).reshape(b.shape)
        else:
            yield "other", (left.mT @ g).sum_to_size(right.shape).reshape(b.shape)


# --- norms, randomness ---


def layer_norm(forward: Forward, g: Tensor) -> Gradients:
    """Through the mean and the deviation of the row as well as the cell itself."""
    shape, x = list(forward["normalized_shape"]), forward["input"]
    gain, bias = forward["weight"], forward["bias"]
    # The mean and the deviation, which the forward operator does not return.
    again, mean, scale = aten.native_layer_norm(x, shape, gain, bias, forward["eps"])
    forward.note("again", again)
    forward.note("mean", mean)
    forward.note("reciprocal_deviation", scale)
    names = ("input", "weight", "bias")
    wanted = [name in forward.wanted for name in names]
    made = aten.native_layer_norm_backward(g, x, shape, mean, scale, gain, bias, wanted)
    yield from (pair for pair in zip(names, made, strict=True) if pair[0] in forward.wanted)


def rrelu(forward: Forward, g: Tensor) -> Gradients:
    """g times the slope that was drawn for the cell."""
    slopes = forward.call.outputs[-1]
    assert slopes is not None and forward.call.unreturned[-1] == "noise"
    yield "self", g * forward.tensor_of(slopes)


_DERIVATIVES: dict[str, Callable[[Forward, Tensor], Gradients]] = {
    "linear": linear,
    "matmul": matmul,
    "layer_norm": layer_norm,
    "rrelu_with_noise": rrelu,
}


def has_own(operator: Operator) -> bool:
    """Whether an operator has a derivative of its own."""
    return operator.name in _DERIVATIVES


# --- the rest: by autograd ---


def differentiate(forward: Forward, gradients: list[Tensor | None]) -> Gradients:
    """The gradients of the wanted operands, from those of the outputs (None if there is none).

    Nothing is yielded for an operand if no output depends on it differentiably.
    """
    call = forward.call
    first, *others = gradients
    own = _DERIVATIVES.get(call.operator.name)
    if own and first is not None and not call.is_complex and all(g is None for g in others):
        yield from own(forward, first)
        return
    try:
        yield from _by_autograd(forward, gradients)
    except RuntimeError as error:
        if not _NO_DERIVATIVE.match(str(error)):
            raise
        raise TraceError(
            "torch cannot differentiate {operator} with respect to these inputs, so nothing trains "
            "through it: detach them, or leave it out",
            operator=call.operator.name,
        ) from error


_NO_DERIVATIVE = re.compile("(the )?derivative for .* is not implemented")


def _by_autograd(forward: Forward, gradients: list[Tensor | None]) -> Gradients:
    call, saved = forward.call, _SavedTensors(forward)
    with differentiable(), without_onednn(call.without_onednn):
        with _disable_current_modes():
            leaves = {
                name: forward.tensor_of(view).detach().requires_grad_()
                for name, view in call.tensors().items()
                if name in forward.wanted
            }
            with saved_tensors_hooks(saved.pack, saved.unpack):
                made = _run_again(forward, leaves)
        if not saved.are_recorded(made):
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


class _SavedTensors:
    """What autograd keeps of an operator that runs outside the recording, as the trace has it."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._tensors: list[Tensor] = []

    def pack(self, tensor: Tensor) -> int:
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def unpack(self, place: int) -> Tensor:
        return self._tensors[place]

    def are_recorded(self, made: list[Any]) -> bool:
        """Whether all are recorded operands or results; new results give way to recorded ones."""
        forward, call = self._forward, self._forward.call
        known = {_storage(forward.tensor_of(view)) for view in call.inputs()}
        for place, tensor in enumerate(self._tensors):
            if _storage(tensor) in known:
                continue
            recorded = next(
                (
                    forward.tensor_of(view)
                    for output, view in zip(made, call.outputs, strict=False)
                    if view is not None and _storage(output) == _storage(tensor)
                ),
                None,
            )
            if recorded is None or _layout(recorded) != _layout(tensor):
                return False
            self._tensors[place] = recorded
        return True


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _layout(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype


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
