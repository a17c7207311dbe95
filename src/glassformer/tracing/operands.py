"""The operands of a cell as blocks: thousands of numbers without one `Cell` object each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from glassformer.tracing.arithmetic.expressions import Expression
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.cells import Cell, leaves, reads
from glassformer.tracing.steps import Operand, Step

MOST_BLOCKS = 64
"""No more blocks than this are listed."""
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of cells, ends included, in a slice of a step or of an operand."""

    operand: int | None
    """The number of the operand; None for the step itself, or for a step that the rule reads."""
    step: int | None
    lead: Index
    rows: Range
    columns: Range


def first_operands(expression: Expression, most: int) -> list[Cell]:
    """The first distinct cells that an expression reads, in the order of the formula."""
    found: dict[Cell, None] = {}
    for cell in leaves(expression):
        found[cell] = None
        if len(found) == most:
            break
    return list(found)


def count_operands(expression: Expression) -> int:
    """The number of distinct cells that an expression reads."""
    addresses: dict[int, list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = defaultdict(list)
    for view, places in reads(expression):
        if view.version.base is not None:  # written in place: a cell may be in two versions
            return len(set(leaves(expression)))
        at = np.array([view.offset], dtype=np.int64)
        for axis, stride in zip(places, view.strides, strict=True):
            at = np.add.outer(at, np.array(axis, dtype=np.int64) * stride).reshape(-1)
        addresses[id(view.version)].append(at * view.dtype.itemsize)
    return sum(len(np.unique(np.concatenate(parts))) for parts in addresses.values())


def blocks_of(cell: Cell) -> list[Region]:
    """The distinct regions that a cell's arithmetic reads."""
    expression = cell.expression
    if expression is None:
        return []
    operands = cell.step.operands
    found: dict[Region, None] = {}
    for view, places in reads(expression):
        ranges = [(min(at[0], at[-1]), max(at[0], at[-1])) for at in places]
        for block in _blocks(view, ranges, operands):
            found[block] = None
            if len(found) >= MOST_BLOCKS:
                return list(found)
    return list(found)


def _blocks(view: View, ranges: list[Range], operands: Sequence[Operand]) -> Iterator[Region]:
    """One region per matrix slice that the ranges cover."""
    place = next((k for k, operand in enumerate(operands) if operand.view is view), None)
    if place is None:  # a window made by the rule itself: refer to the step that wrote it
        step, first = view.owner(tuple(low for low, _ in ranges))
        yield _block(None, step.number, [(at, at) for at in first], ())
        return
    owner = operands[place].step
    number = None if owner is None else owner.number
    leads = [range(low, high + 1) for low, high in ranges[:-2]]
    for lead in product(*leads):
        yield _block(place, number, ranges, lead)


def _block(operand: int | None, step: int | None, ranges: list[Range], lead: Index) -> Region:
    lead = lead or tuple(low for low, _ in ranges[:-2])
    return Region(
        operand=operand,
        step=step,
        lead=lead,
        rows=ranges[-2] if len(ranges) > 1 else (0, 0),
        columns=ranges[-1] if ranges else (0, 0),
    )


def blocks_of_mask(step: Step, mask: npt.NDArray[np.bool_]) -> list[Region]:
    """The marked cells of a step: one region if they form a rectangle, else one or more per row."""
    found: list[Region] = []
    shape = mask.shape if mask.ndim > 1 else (1, *mask.shape) if mask.ndim else (1, 1)
    flat = mask.reshape(-1, *shape[-2:])
    for number in np.flatnonzero(flat.any(axis=(1, 2))):
        lead = tuple(int(i) for i in np.unravel_index(number, mask.shape[:-2] or (1,)))
        lead = lead if mask.ndim > 2 else ()
        for rows, columns in _rectangles(flat[number]):
            found.append(_block(None, step.number, [*((p, p) for p in lead), rows, columns], lead))
            if len(found) >= MOST_BLOCKS:
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
