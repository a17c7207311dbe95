"""Cells that lie in a row, a column or a rectangle of a sheet, as one range."""

from __future__ import annotations

from dataclasses import dataclass

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
    if cells.step is None or 0 in cells.sizes:
        return None
    block = layout.blocks[cells.step]
    moving = _merged(cells, block.columns) if len(cells.sizes) > 2 else _moving(cells)
    top, left = divmod(cells.base, block.columns)
    down = across = 0
    directions = []
    for size, stride in moving:
        if stride % block.columns == 0:
            directions.append("down")
            down, pace = (size - 1) * stride // block.columns, stride // block.columns
        else:
            directions.append("across")
            across, pace = (size - 1) * stride, stride
        if pace < 1 or (pace > 1 and not spaced):
            return None
    in_order = directions in ([], ["down"], ["across"], ["down", "across"])
    if not in_order or left + across >= block.columns:
        return None
    first = cell_name(block.top + top, LEFT + left)
    last = cell_name(block.top + top + down, LEFT + left + across)
    text = f"{first}:{last}"
    return Range(block.sheet, text, (down + 1, across + 1), _spacings(cells, block.columns))


def _moving(cells: Cells) -> list[tuple[int, int]]:
    """The axes along which there is more than one cell."""
    pairs = zip(cells.sizes, cells.strides, strict=True)
    return [(size, stride) for size, stride in pairs if size > 1]


def _merged(cells: Cells, columns: int) -> list[tuple[int, int]]:
    """Axes that continue each other as one; more than two make a range only if they do."""
    merged: list[tuple[int, int]] = []
    for size, stride in reversed(_moving(cells)):
        if merged:
            inner, pace = merged[0]
            if stride == inner * pace and pace % columns == 0:
                merged[0] = (inner * size, pace)
                continue
        merged.insert(0, (size, stride))
    return merged


def _spacings(cells: Cells, columns: int) -> tuple[int, ...]:
    """A position's cells of the range: rows for what moves down, columns for what moves across."""
    return tuple(
        1 if size == 1 else stride // columns if stride % columns == 0 else stride
        for size, stride in zip(cells.sizes, cells.strides, strict=True)
    )
