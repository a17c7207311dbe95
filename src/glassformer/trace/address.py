"""A cell by what a person types: `encoder.blocks.0.attention.scores[0,1,2]`."""

from __future__ import annotations

import re

from glassformer.errors import TraceError
from glassformer.trace.cells import Cell
from glassformer.trace.trace import Trace

__all__ = ["find_cell"]

_ADDRESS = re.compile(r"(?P<name>[^\[\]]+?)\s*(?:\[(?P<index>[^\[\]]*)\])?")


def find_cell(trace: Trace, address: str) -> Cell:
    """The cell at `step[i, j]`; a step of one number needs no index."""
    found = _ADDRESS.fullmatch(address.strip())
    if found is None:
        raise TraceError(
            "a cell is written as step[i, j], such as logits[0, 1]; got {address!r}",
            address=address,
        )
    step = trace[found["name"].strip()]
    parts = [part.strip() for part in (found["index"] or "").split(",") if part.strip()]
    try:
        index = tuple(int(part) for part in parts)
    except ValueError:
        raise TraceError(
            "the indices of a cell are whole numbers, got [{found}]; {name} has shape {shape}",
            found=found["index"],
            name=step.name,
            shape=tuple(step.shape),
        ) from None
    return step[index]
