"""The operands of a cell as blocks: thousands of numbers without one `Cell` object each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glassformer.tracing.arithmetic.expressions import (
    Axis,
    Choose,
    Entry,
    Expression,
    Lookup,
    Reduce,
    fix,
    walk,
)
from glassformer.tracing.arithmetic.float64_values import evaluate
from glassformer.tracing.capture.memory import Index, View
from glassformer.tracing.cells import Cell, leaves
from glassformer.tracing.steps import Operand, Step

MOST_BLOCKS = 64
"""No more blocks than this are listed."""
Range = tuple[int, int]


class CellBlock(NamedTuple):
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


def reads(expression: Expression) -> Iterator[tuple[View, list[range]]]:
    """The blocks that an expression reads: a window, and places on each of its axes.

    Of a choice, the condition and the branch that was taken.
    """
    match expression:
        case Entry(view=view, index=index):
            yield view, [_places(part) for part in index]
        case Lookup(view=view, index=index, wrap=wrap):
            yield (
                view,
                [
                    _places(part if isinstance(part, int | Axis) else _looked_up(part, size, wrap))
                    for part, size in zip(index, view.shape, strict=True)
                ],
            )
            for part in expression.parts:
                yield from reads(part)
        case Choose(condition=condition, yes=yes, no=no):
            yield from reads(condition)
            yield from reads(yes if evaluate(condition) else no)
        case Reduce(body=body, axes=axes) if any(
            isinstance(part, Lookup | Choose) for part in walk(body)
        ):
            for at in product(*(range(axis.size) for axis in axes)):
                letters = (axis.letter for axis in axes)
                yield from reads(fix(body, dict(zip(letters, at, strict=True))))
        case _:
            for part in expression.parts:
                yield from reads(part)


def _places(part: int | Axis) -> range:
    if isinstance(part, int):
        return range(part, part + 1)
    return range(part.start, part.start + part.step * part.size, part.step)


def _looked_up(part: Expression, size: int, wrap: bool) -> int:
    place = int(evaluate(part))
    return place + size if wrap and place < 0 else place


def blocks_of(cell: Cell) -> list[CellBlock]:
    """The distinct blocks that a cell's arithmetic reads."""
    expression = cell.expression
    if expression is None:
        return []
    operands = cell.step.operands
    found: dict[CellBlock, None] = {}
    for view, places in reads(expression):
        ranges = [(min(at[0], at[-1]), max(at[0], at[-1])) for at in places]
        for block in _blocks(view, ranges, operands):
            found[block] = None
            if len(found) >= MOST_BLOCKS:
                return list(found)
    return list(found)


def _blocks(view: View, ranges: list[Range], operands: Sequence[Operand]) -> Iterator[CellBlock]:
    """One block per matrix slice that the ranges cover."""
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


def _block(operand: int | None, step: int | None, ranges: list[Range], lead: Index) -> CellBlock:
    lead = lead or tuple(low for low, _ in ranges[:-2])
    return CellBlock(
        operand=operand,
        step=step,
        lead=lead,
        rows=ranges[-2] if len(ranges) > 1 else (0, 0),
        columns=ranges[-1] if ranges else (0, 0),
    )


def blocks_of_mask(step: Step, mask: npt.NDArray[np.bool_]) -> list[CellBlock]:
    """The marked cells of a step as blocks: one if they form a rectangle, else row by row."""
    found: list[CellBlock] = []
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
