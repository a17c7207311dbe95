"""How an operator is run under the recorder: whole, written out, or in its parts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.trace import decompositions, rules
from glassformer.trace.calls import Operator
from glassformer.trace.recurrent import is_recurrent

# In-place operators that change how a tensor is seen, and no number.
LAYOUT_ALONE = frozenset(
    [
        "detach",
        "as_strided",
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

Way = Literal["whole", "attention", "recurrent", "dropout", "decomposed", "unseen"]


def way_of(operator: Operator, args: tuple[Any, ...]) -> Way:
    """How a call of an operator is run under the recorder."""
    way = _way_of(operator)
    if way == "whole" and _is_written_out_if_complex(operator) and _any_complex(args):
        return "decomposed"
    return way


@cache
def _way_of(operator: Operator) -> Way:
    if operator.func.namespace == "prim":
        return "unseen"
    if operator.name == "scaled_dot_product_attention":
        return "attention"
    if is_recurrent(operator):
        return "recurrent"
    if operator.name == "dropout":
        return "dropout"
    return "decomposed" if rules.must_decompose(operator) else "whole"


@cache
def _is_written_out_if_complex(operator: Operator) -> bool:
    return rules.must_decompose(operator, is_complex=True)


def _any_complex(values: Iterable[Any]) -> bool:
    for value in values:
        if isinstance(value, Tensor):
            if value.is_complex():
                return True
        elif isinstance(value, list) and _any_complex(value):
            return True
    return False


def is_idle(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether this is a dropout that drops nothing: it returns its input, which needs no rule."""
    if not operator.name.endswith("dropout") or "train" not in operator.parameters:
        return False
    given = {**dict(zip(operator.parameters, args, strict=False)), **kwargs}
    return not given["train"] or given["p"] == 0


def decompose(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator as the smaller ones it is made of; NotImplemented where that cannot be."""
    whole = torch._C.DispatchKey.CompositeImplicitAutograd
    # The kernel that the model itself would run comes before torch's rewriting of it in Python,
    # which for some operators and releases gives other shapes.
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), whole):
        return func._op_dk(whole, *args, **kwargs)
    made = func.decompose(*args, **kwargs)
    if made is NotImplemented and (written_out := decompositions.find(func)) is not None:
        return written_out(*args, **kwargs)
    return made
