"""Where the operands of a cell stand in the panels of its equation, as blocks to outline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from glassformer.explorer.operands import reads
from glassformer.explorer.schemas import Region
from glassformer.trace import Cell, Operand, Step
from glassformer.trace.memory import Index, View

__all__ = ["regions_of", "regions_of_mask"]

_MOST = 64
Range = tuple[int, int]


def regions_of(cell: Cell) -> list[Region]:
    """The blocks that a cell's arithmetic reads, each once."""
    expression = cell.expression
    if expression is None:
        return []
    operands = cell.step.operands
    found: dict[tuple[object, ...], Region] = {}
    for view, places in reads(expression):
        ranges = [(min(at[0], at[-1]), max(at[0], at[-1])) for at in places]
        for region in _blocks(view, ranges, operands):
            key = (region.operand, region.step, *region.lead, region.rows, region.columns)
            found.setdefault(key, region)
            if len(found) >= _MOST:
                return list(found.values())
    return list(found.values())


def _blocks(view: View, ranges: list[Range], operands: Sequence[Operand]) -> Iterator[Region]:
    """One block for each slice that the ranges reach."""
    place = next((k for k, operand in enumerate(operands) if operand.view is view), None)
    if place is None:  # a window that the rule made itself: by the step that wrote it
        step, first = view.owner(tuple(low for low, _ in ranges))
        yield _region(None, step.number, [(at, at) for at in first], ())
        return
    owner = operands[place].step
    number = None if owner is None else owner.number
    leads = [range(low, high + 1) for low, high in ranges[:-2]]
    for lead in product(*leads):
        yield _region(place, number, ranges, lead)


def _region(operand: int | None, step: int | None, ranges: list[Range], lead: Index) -> Region:
    lead = lead or tuple(low for low, _ in ranges[:-2])
    return Region(
        operand=operand,
        step=step,
        lead=list(lead),
        rows=ranges[-2] if len(ranges) > 1 else (0, 0),
        columns=ranges[-1] if ranges else (0, 0),
    )


def regions_of_mask(step: Step, mask: npt.NDArray[np.bool_]) -> list[Region]:
    """The cells of a step that are marked, as blocks: whole where they fill one, else by row."""
    found: list[Region] = []
    shape = mask.shape if mask.ndim > 1 else (1, *mask.shape) if mask.ndim else (1, 1)
    flat = mask.reshape(-1, *shape[-2:])
    for number in np.flatnonzero(flat.any(axis=(1, 2))):
        lead = tuple(int(i) for i in np.unravel_index(number, mask.shape[:-2] or (1,)))
        lead = lead if mask.ndim > 2 else ()
        for rows, columns in _rectangles(flat[number]):
            found.append(_region(None, step.number, [*((p, p) for p in lead), rows, columns], lead))
            if len(found) >= _MOST:
                return found
    return found


def _rectangles(marked: npt.NDArray[np.bool_]) -> Iterator[tuple[Range, Range]]:
    rows, columns = np.flatnonzero(marked.any(axis=1)), np.flatnonzero(marked.any(axis=0))
    down, across = (int(rows[0]), int(rows[-1])), (int(columns[0]), int(columns[-1]))
    if marked[down[0] : down[1] + 1, across[0] : across[1] + 1].all():
        yield down, across
        return
    for row in rows:
        places = np.flatnonzero(marked[row])
        for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            yield (int(row), int(row)), (int(run[0]), int(run[-1]))
