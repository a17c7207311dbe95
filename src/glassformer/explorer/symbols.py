"""What formulas call a tensor: `W_Q` for `to_queries.weight`, `Q` for the queries.

Known are the names of our own modules and the five names under which a trace writes fused
attention out; anything else is called by its own short name.
"""

from __future__ import annotations

import re

from glassformer.trace import Step
from glassformer.trace.render.latex_math import math_name

__all__ = ["short_name", "symbol_of", "tex_of"]

_PARAMETERS = {
    "to_queries": "Q",
    "to_keys": "K",
    "to_values": "V",
    "to_output": "O",
    "expand": "1",
    "contract": "2",
    "gate": "3",
}
_OUTPUTS = {"logits": "z"}
_ATTENTION = {
    "projected_queries": "Q",
    "queries": "Q",
    "projected_keys": "K",
    "keys": "K",
    "projected_values": "V",
    "values": "V",
    "scores": "S",
    "scaled": r"\tilde{S}",
    "masked": "M",
    "weights": "A",
    "context": "C",
}
_REPEATED = re.compile(r"\.\d+$")


def short_name(step: Step) -> str:
    """A step's name as seen from its module; a parameter's with the module that holds it."""
    if step.role == "parameter":
        return ".".join(step.name.split(".")[-2:])
    inside = f"{step.module}." if step.module else ""
    return step.name.removeprefix(inside)


def symbol_of(step: Step) -> str | None:
    """The LaTeX of its symbol, or None."""
    *path, last = step.name.split(".")
    if step.role == "parameter":
        owner = path[-1] if path else ""
        if owner in _PARAMETERS and last in ("weight", "bias"):
            return f"{'W' if last == 'weight' else 'b'}_{_PARAMETERS[owner]}"
        if "norm" in owner and last in ("weight", "bias"):
            return r"\gamma" if last == "weight" else r"\beta"
        if owner == "embedding" and last == "weight":
            return "E"
        return None
    if _REPEATED.search(step.name):
        return None
    attends = step.expanded or "attention" in step.module
    return (_ATTENTION if attends else _OUTPUTS).get(short_name(step))


def tex_of(step: Step) -> str:
    """Its symbol, or its short name set upright."""
    return symbol_of(step) or math_name(short_name(step))
