"""Cells and source lines as links."""

from __future__ import annotations

import linecache

from glassformer.explorer.http_errors import plain
from glassformer.explorer.schemas import CellRef, SourceInfo
from glassformer.tracing import Cell, Line
from glassformer.tracing.capture.source_lines import from_package
from glassformer.tracing.formula import Sight, leaf_of


def cell_ref(cell: Cell, sight: Sight | None = None) -> CellRef:
    """A link to a cell, with what stands there; named as in the formula where it is seen."""
    step = cell.step
    return CellRef(
        step=step.number,
        index=list(cell.index),
        name=str(leaf_of(cell, sight or step.trace.naming.sight(step))),
        role=step.role,
        value=plain(cell.value),
        labels=[
            None if labels is None else labels[place]
            for labels, place in zip(step.labels, cell.index, strict=True)
        ],
    )


def source_info(line: Line | None, around: int = 0) -> SourceInfo | None:
    """A source line, the file named from its package down; `around`: so many lines about it."""
    if line is None:
        return None

    def text(number: int) -> str:
        return linecache.getline(line.file, number).rstrip("\n")

    n_lines = len(linecache.getlines(line.file)) if around else 0
    before = range(max(1, line.number - around), line.number)
    after = range(line.number + 1, min(n_lines, line.number + around) + 1)
    return SourceInfo(
        file=from_package(line.file),
        line=line.number,
        text=line.text,
        before=[text(number) for number in before],
        after=[text(number) for number in after],
    )
