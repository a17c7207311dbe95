"""The table of derivatives: from an operator's incoming gradient to those of its operands.

A derivative is a generator. It is given the operator as it ran and g = ∂L/∂output, and yields
∂L/∂operand under the operand's argument name, in the operand's shape, for those that are wanted.
It computes with ordinary operators, which are recorded as steps like those of the forward pass.
Where autograd has a kernel or an order of summing, the same is used: the gradients then equal
autograd's to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from glassformer.trace.calls import Call, Operator
from glassformer.trace.memory import Index, View

__all__ = ["Derivative", "Forward", "Gradients", "derivative", "find", "fold"]

Gradients = Iterator[tuple[str, Tensor]]


class Forward:
    """An operator of the forward pass, as its derivative sees it."""

    def __init__(
        self,
        call: Call,
        wanted: frozenset[str],
        tensor_of: Callable[[View], Tensor],
        note: Callable[[str, Tensor], Tensor],
    ) -> None:
        self.call = call
        self.wanted = wanted
        """The argument names (`tensors.0` in a list) whose gradients matter."""
        self.tensor_of = tensor_of
        self.note = note
        """Gives a result on the way a name below that of the operator's output."""

    def __getitem__(self, name: str) -> Tensor:
        return self.tensor_of(self.call.view(name))

    def shape(self, name: str) -> Index:
        """The sizes of a tensor argument."""
        return self.call.view(name).shape

    def operand(self, name: str) -> Any:
        """A tensor, or the number that stands in its place."""
        value = self.call.operand(name)
        return self.tensor_of(value) if isinstance(value, View) else value

    def number(self, name: str) -> Any:
        """A number among the arguments."""
        return self.call.number_of(name)

    @property
    def output(self) -> Tensor:
        """What the operator made."""
        view = self.call.outputs[0]
        assert view is not None
        return self.tensor_of(view)


Derivative = Callable[[Forward, Tensor], Gradients]
_DERIVATIVES: dict[str, Derivative] = {}


def derivative(*operators: str) -> Callable[[Derivative], Derivative]:
    """Register a generator as the derivative of these operators."""

    def register(function: Derivative) -> Derivative:
        for operator in operators:
            assert operator not in _DERIVATIVES, f"two derivatives of {operator}"
            _DERIVATIVES[operator] = function
        return function

    return register


def find(operator: Operator) -> Derivative | None:
    """The derivative of an operator, if there is one."""
    full = _DERIVATIVES.get(f"{operator.name}.{operator.overload}")
    return full or _DERIVATIVES.get(operator.name)


def fold(gradient: Tensor, shape: Index) -> Tensor:
    """Undo broadcasting: sum over the axes along which an operand was repeated."""
    lead = gradient.ndim - len(shape)
    axes = [*range(lead)]
    axes += [a + lead for a, size in enumerate(shape) if size == 1 and gradient.size(a + lead) != 1]
    if not axes:
        return gradient
    return gradient.sum(axes, keepdim=True).reshape(shape)
