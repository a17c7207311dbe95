"""Cells that lie in a row, a column or a rectangle of a sheet, as one range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.trace.render.addresses import Cells
from glassformer.trace.render.workbook.layout import LEFT, Layout, cell_name

__all__ = ["Range", "as_range"]


@dataclass(frozen=True, slots=True)
class Range:
    """A rectangle of a sheet, read row by row."""

    sheet: str
    text: str
    shape: tuple[int, int]
    spacings: tuple[int, ...] = ()
    """For each running axis, how many cells of the range one position is."""


def as_range(cells: Cells, layout: Layout, *, spaced: bool = False) -> Range | None:
    """The range of these cells in their order; None if they lie otherwise.

    `spaced` allows regular gaps: the range then also covers what lies between.
    """
    number = cells.step
    if number is None or cells.places.size == 0:
        return None
    block = layout.blocks[number]
    rows, columns = np.divmod(cells.places, block.columns)
    spacings = _spacings(rows, columns, spaced)
    if spacings is None:
        return None
    top, left = int(rows.flat[0]), int(columns.flat[0])
    bottom, right = int(rows.flat[-1]), int(columns.flat[-1])
    first = cell_name(block.top + top, LEFT + left)
    last = cell_name(block.top + bottom, LEFT + right)
    return Range(
        block.sheet, f"{first}:{last}", (bottom - top + 1, right - left + 1), tuple(spacings)
    )


def _spacings(
    rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    columns: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    spaced: bool,
) -> list[int] | None:
    """How far each axis moves; None unless axes move along rows first, then along columns."""
    if rows.ndim > 2:
        return _flattened(rows, columns)
    found: list[int] = []
    moved: list[str] = []
    for axis in range(rows.ndim):
        down, across = np.diff(rows, axis=axis), np.diff(columns, axis=axis)
        if down.size == 0:
            found.append(1)
            continue
        step = int(down.flat[0]) or int(across.flat[0])
        direction = "down" if down.flat[0] else "across"
        wanted_down, wanted_across = (step, 0) if direction == "down" else (0, step)
        steady = bool((down == wanted_down).all() and (across == wanted_across).all())
        if not steady or step < 1 or (step > 1 and not spaced):
            return None
        found.append(step)
        moved.append(direction)
    in_order = moved in ([], ["down"], ["across"], ["down", "across"])
    return found if in_order else None


def _flattened(
    rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    columns: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
) -> list[int] | None:
    """More than two axes: a range only if together they fill whole lines."""
    shape = (int(np.prod(rows.shape[:-1])), rows.shape[-1])
    spacings = _spacings(rows.reshape(shape), columns.reshape(shape), False)
    return None if spacings is None else [1] * rows.ndim
