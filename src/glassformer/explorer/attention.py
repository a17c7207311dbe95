"""Where a trace's attention weights are, in our models and in others."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np

from glassformer.explorer.schemas import AttentionInfo
from glassformer.trace import Operand, Step, Trace

__all__ = ["attention_layers"]

Kind = Literal["encoder", "decoder", "cross"]
_SOFTMAX = ("softmax", "_softmax", "_safe_softmax")
_PRODUCTS = ("matmul", "bmm")


def attention_layers(trace: Trace, operands: dict[int, tuple[Operand, ...]]) -> list[AttentionInfo]:
    """Every softmax over products whose result weighs something in another product."""
    weighing = {
        id(operand.step)
        for step in trace.steps
        if step.op in _PRODUCTS
        for operand in operands[step.number][:1]
        if operand.step is not None
    }
    found: list[AttentionInfo] = []
    seen: Counter[Kind] = Counter()
    for step in trace.steps:
        if step.op in _SOFTMAX and id(step) in weighing and len(step.shape) in (3, 4):
            part = _part(step)
            found.append(
                AttentionInfo(
                    module=step.module,
                    part=part,
                    layer=seen[part],
                    n_heads=step.shape[-3],
                    weights=step.number,
                )
            )
            seen[part] += 1
    return found


def _part(step: Step) -> Kind:
    """What looks at what: two texts, the past alone, or all of one text."""
    rows, columns = step.labels[-2:]
    if "cross" in step.module or step.shape[-2] != step.shape[-1] or rows != columns:
        return "cross"
    if step.shape[-1] > 1:
        later = np.triu_indices(step.shape[-1], 1)
        return "encoder" if np.any(step.view.array[..., later[0], later[1]]) else "decoder"
    return "decoder" if "decoder" in step.module else "encoder"
