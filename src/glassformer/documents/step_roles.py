"""What a step is for: its role in a Transformer, from the trace's stages, symbols and operands.

A role is given only where the structure shows it, in any module; every other step is an
`operation`, of which is said what it computes. The words for a role are in `step_meaning.toml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.tracing import Operand, Step
from glassformer.tracing.attention_structure import Attention, unmoved
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.capture.operator_calls import (
    ACTIVATIONS,
    COPIES,
    LINEAR_MAPS,
    NORMS,
    SOFTMAXES,
)

_PROJECTED = ("queries", "keys", "values")
_ATTENTION = ("weights", "scaled", "scores", "context")
_PARTS = (*_ATTENTION, "masked")
_BRANCHES = {"attn_out": "output", "cross_out": "output", "mlp_out": "contracted"}
_RESIDUAL = frozenset(["resid_mid", "resid_cross", "resid_post"])
_BY_SYMBOL = {
    "Q": "queries", "K": "keys", "V": "values", "QKV": "packed", "KV": "paired", "O": "output",
    "H": "hidden", "G": "gate", "R": "router", "F": "contracted", "z": "logits",
}  # fmt: skip
_BY_TABLE = {"E": "embedding", "P": "positions", "E_type": "segments"}
_FILL = -1_000.0
"""What masks fill in instead of −∞ is less: −1e4, −1e9, the least float."""
_STREAM = frozenset(["x", "N"])
"""Symbols of vectors of the residual stream, and of the same normalised."""


def role_of(step: Step) -> str:
    """The role of a step, `parameter`, `input` or `constant` of a given one, else `operation`."""
    if step.role != "activation":
        return step.role
    if not step.dtype.is_floating_point or step.trace.is_fixed(step) or not step.view.numel:
        return "positions" if _is_position_table(step) else "operation"
    if step.name.startswith(("gradients.", "update.")):
        return "operation"
    return _by_stage(step) or _by_operator(step) or _by_symbol(step) or "operation"


def stages_of(step: Step) -> Sequence[str]:
    """All stages that the trace found for a step."""
    return step.trace.found_stages.every.get(id(step), ())


def _is_position_table(step: Step) -> bool:
    """Vectors of positions depend on no input: `e_pos` in our models, looked up or computed."""
    return step.dtype.is_floating_point and str(step.trace.naming.symbol(step)) == "e_pos"


def _by_stage(step: Step) -> str | None:
    stages = stages_of(step)
    for role in _ATTENTION:
        if role in stages:
            return role
    if "masked" in stages:
        return "masked" if _only_hides(step) else "biased"
    if "queries_rotated" in stages or "keys_rotated" in stages:
        return "rotated"
    projected = [role for role in _PROJECTED if role in stages]
    if len(projected) == 1 and step.op in LINEAR_MAPS | COPIES | {"cat"} | {step.role}:
        return projected[0]
    for stage, role in _BRANCHES.items():
        if stage in stages and step.op in LINEAR_MAPS:
            return role
    if _RESIDUAL.intersection(stages) and residual_sides(step) is not None:
        return "residual"
    return None


def _only_hides(step: Step) -> bool:
    """Whether what changed has no weight: a bias of relative positions is no mask."""
    found = attention_of(step)
    if found is None:
        return True
    first = (0,) * max(0, len(step.shape) - 2)
    counts = floats(found.weights.view, first) > 0
    # A row that is hidden altogether, as of padding, gets equal weights.
    return not np.any(found.changed(first) & counts & (floats(step.view, first) > _FILL))


def _by_operator(step: Step) -> str | None:
    operands = step.operands
    if step.op in NORMS:
        whole = step.call is not None and len(step.call.bound.get("normalized_shape", [0])) == 1
        return "norm" if whole and step.output == 0 else None
    if step.op == "embedding":
        return _table_role(operands)
    if step.op in SOFTMAXES:
        source = operands[0].step
        return "probabilities" if source is not None and role_of(source) == "logits" else None
    if step.op == "add" and len(operands) == 2 and all(o.step is not None for o in operands):
        symbols = [str(o.step.trace.naming.symbol(o.step)) for o in operands if o.step]
        return "embedded" if symbols.count("e_pos") == 1 else None
    return _pooling(step)


def _table_role(operands: Sequence[Operand]) -> str | None:
    table = next((o.step for o in operands if o.argument == "weight"), None)
    ids = next((o.step for o in operands if o.argument == "indices"), None)
    if table is None:
        return None
    known = _BY_TABLE.get(str(table.trace.naming.symbol(table)))
    return known or ("embedding" if ids is not None and ids.role == "input" else None)


def _pooling(step: Step) -> str | None:
    """From one vector per token to one for the text: a sum or mean over tokens, or one of them."""
    operands = step.operands
    if step.op in ("sum", "mean") and len(operands) == 1 and reduced_axis(step) is not None:
        return "pooled" if step.op == "mean" else "total"
    first = operands[0].step if operands else None
    if first is None:
        return None
    if step.op == "div" and len(operands) == 2 and role_of(first) == "total":
        return "pooled" if operands[1].view.numel * first.shape[-1] == step.view.numel else None
    if step.op in LINEAR_MAPS and picked_position(operands) is not None:
        return "picked"
    return None


def reduced_axis(step: Step) -> int | None:
    """The axis of tokens that a sum or mean over vectors of the stream runs along."""
    operand = step.operands[0]
    source, view = operand.step, operand.view
    dims = step.call.bound.get("dim") if step.call is not None else None
    axes = [dims] if isinstance(dims, int) else list(dims or [])
    if source is None or view.ndim < 3 or len(axes) != 1 or axes[0] % view.ndim != view.ndim - 2:
        return None
    while source.op in (*COPIES, "masked_fill", "mul") and source.operands:
        before = source.operands[0].step
        if before is None:
            return None
        source = before
    in_stream = str(source.trace.naming.symbol(source)) in _STREAM
    return view.ndim - 2 if in_stream else None


def picked_position(operands: Sequence[Operand]) -> int | None:
    """The one position that a layer reads of the stream's vectors, if it reads only one."""
    given = next((o for o in operands if o.argument in ("input", "self", "mat1")), None)
    if given is None or given.step is None or given.step.role != "activation":
        return None
    source, view = given.step, given.view
    if view.numel >= source.view.numel or len(source.shape) < 3 or source.shape[0] != 1:
        return None
    if view.numel != source.shape[-1] or str(source.trace.naming.symbol(source)) not in _STREAM:
        return None
    ends = (view.owner((0,) * view.ndim), view.owner(tuple(size - 1 for size in view.shape)))
    positions = {index[-2] for owner, index in ends if owner is source}
    return positions.pop() if len(positions) == 1 else None


def _by_symbol(step: Step) -> str | None:
    symbol = str(step.trace.naming.symbol(step))
    if symbol == "e_pos":
        return "positions"
    if symbol == "C" and step.op in COPIES:
        return "joined"
    if symbol in (f"H_{step.op}", f"G_{step.op}") and step.op in ACTIVATIONS:
        return "activated"
    role = _BY_SYMBOL.get(symbol)
    return role if role is not None and step.op in LINEAR_MAPS else None


# --- attention ---


def attention_of(step: Step) -> Attention | None:
    """The attention that a step is part of, if it is its scores, weights, context or between."""
    for found in step.trace.found_stages.attentions:
        if any(step is found.stages.get(stage) for stage in _PARTS):
            return found
    return None


def attention_reading(step: Step) -> Attention | None:
    """The attention whose queries, keys or values a step is."""
    for found in step.trace.found_stages.attentions:
        if any(step is unmoved(o.view) for o in (*found.scores.operands, *found.context.operands)):
            return found
    return None


# --- residual sums ---


def residual_sides(step: Step) -> tuple[Operand, Operand] | None:
    """The stream and the branch that a residual sum adds, if the trace tells which is which."""
    operands = step.operands
    if step.op != "add" or len(operands) != 2 or step.call is None:
        return None
    if step.call.bound.get("alpha", 1) != 1 or any(o.view.shape != step.shape for o in operands):
        return None
    branches = [o for o in operands if o.step and _BRANCHES.keys() & set(stages_of(o.step))]
    streams = [o for o in operands if o not in branches]
    return (streams[0], branches[0]) if len(streams) == len(branches) == 1 else None


def branch_kind(branch: Operand) -> str:
    """`attention`, `cross` or `feed-forward`: what a residual sum adds."""
    stages = stages_of(branch.step) if branch.step is not None else ()
    names = {"cross_out": "cross", "attn_out": "attention", "mlp_out": "feed-forward"}
    return next(names[stage] for stage in names if stage in stages)


def floats(view: View, lead: Index = ()) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A view's numbers in float64, or those of one slice."""
    return np.asarray(view.array[lead], dtype=np.float64)
