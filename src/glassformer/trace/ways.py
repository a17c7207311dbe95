"""How an operator is run under the recorder: whole, written out, or in its parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import torch
from torch._decomp import decomposition_table

from glassformer.trace import rules
from glassformer.trace.calls import Operator

__all__ = ["LAYOUT_ALONE", "Way", "decompose", "is_idle", "way_of"]

# In-place operators that change how a tensor is seen, and no number.
LAYOUT_ALONE = frozenset(
    [
        "detach",
        "requires_grad",
        "retain_grad",
        "squeeze",
        "unsqueeze",
        "transpose",
        "swapaxes",
        "swapdims",
        "t",
    ]
)

Way = Literal["whole", "attention", "dropout", "decomposed", "unseen"]


@cache
def way_of(operator: Operator) -> Way:
    """How an operator is run under the recorder."""
    if operator.func.namespace == "prim":
        return "unseen"
    if operator.name == "scaled_dot_product_attention":
        return "attention"
    if operator.name == "dropout":
        return "dropout"
    return "decomposed" if rules.must_decompose(operator) else "whole"


def is_idle(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether this is a dropout that drops nothing: it returns its input, which needs no rule."""
    if not operator.name.endswith("dropout") or "train" not in operator.parameters:
        return False
    position = operator.parameters.index("train")
    return not (args[position] if position < len(args) else kwargs["train"])


def decompose(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator as the smaller ones it is made of; NotImplemented where that cannot be."""
    whole = torch._C.DispatchKey.CompositeImplicitAutograd
    # The kernel that the model itself would run comes before torch's rewriting of it in Python,
    # which for some operators and releases gives other shapes.
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), whole):
        return func._op_dk(whole, *args, **kwargs)
    made = func.decompose(*args, **kwargs)
    if made is NotImplemented and (written_out := _written_out(func)) is not None:
        return written_out(*args, **kwargs)
    return made


def _written_out(func: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """Torch's own rewriting of an operator in simpler ones: mostly of a backward pass.

    Those of `torch._refs` are left aside: they are made of primitives that no rule explains.
    """
    found = decomposition_table.get(func)
    own = found is not None and found.__module__ == "torch._decomp.decompositions"
    return found if own and not func._schema.is_mutable else None
