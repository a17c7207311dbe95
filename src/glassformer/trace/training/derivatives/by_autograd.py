"""The derivative of an operator that has none of its own here: torch's, operator by operator.

The operator runs once more with autograd on, inside the recording, and so does its backward pass.
What autograd computes is recorded as steps; those without a rule are shown as opaque, not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from glassformer.trace.calls import Call
from glassformer.trace.memory import View
from glassformer.trace.switches import differentiable, without_onednn
from glassformer.trace.training.derivatives.registry import Forward

__all__ = ["by_autograd", "tensor_arguments"]


def tensor_arguments(call: Call) -> Iterator[tuple[str, View]]:
    """The tensors that an operator was given, by argument name; in a list `tensors.0`, ….

    The same in the order of the schema for every caller: positions, then keywords.
    """
    given = dict(zip(call.operator.parameters, call.args, strict=False)) | call.kwargs
    for name, value in given.items():
        if isinstance(value, View):
            yield name, value
        elif isinstance(value, list | tuple):
            for place, part in enumerate(value):
                if isinstance(part, View):
                    yield f"{name}.{place}", part


def by_autograd(forward: Forward, gradients: list[Tensor | None]) -> Iterator[tuple[str, Tensor]]:
    """The gradients of the wanted operands, from those of the outputs (None where there is none).

    Nothing is yielded for an operand that the outputs do not depend on smoothly.
    """
    call = forward.call
    with differentiable(), without_onednn(call.without_onednn):
        leaves = {
            name: forward.tensor_of(view).detach().requires_grad_()
            for name, view in tensor_arguments(call)
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
    """The operator on the same operands, the wanted ones replaced by leaves of a new graph."""
    call = forward.call
    written = {name for _, name in call.operator.writes_to(call.args, call.kwargs)}

    def tensor(name: str, value: Any) -> Any:
        if isinstance(value, View):
            given = leaves[name] if name in leaves else forward.tensor_of(value)
            return given.clone() if name in written else given
        if isinstance(value, list | tuple):
            return type(value)(tensor(f"{name}.{n}", part) for n, part in enumerate(value))
        return value

    names = call.operator.parameters
    args = [tensor(name, value) for name, value in zip(names, call.args, strict=False)]
    kwargs = {name: tensor(name, value) for name, value in call.kwargs.items()}
    result = call.operator.func(*args, **kwargs)
    return list(result) if isinstance(result, list | tuple) else [result]
