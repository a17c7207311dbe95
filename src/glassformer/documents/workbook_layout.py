"""Where each step stands in the workbook: a rectangle on the sheet of its module.

A tensor of shape a×b×c becomes a rectangle of a·b rows and c columns, without gaps, so that any
row of it is a range and an embedding's table can be looked up by its row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from glassformer.documents.trace_data import Addresses, Cells, all_steps
from glassformer.errors import TraceError
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace

MOST_COLUMNS, MOST_ROWS = 16_384, 1_048_576
MOST_NUMBERS = 1_000_000
_FEW = 1_000
"""Lines that a single sheet for the steps of all modules may have."""
HEAD, GAP, FIRST_ROW, LEFT = 3, 2, 2, 1
"""Lines above a block's numbers (name, facts, column labels), lines below; first line, column."""


@dataclass(frozen=True, slots=True)
class SheetBlock:
    """The rectangle of one step; rows and columns count from 0."""

    step: Step
    sheet: str
    top: int
    rows: int
    columns: int

    def at(self, place: int) -> tuple[int, int]:
        """Row and column of the cell at a place."""
        row, column = divmod(place, self.columns)
        return self.top + row, LEFT + column


@dataclass(slots=True)
class Layout:
    """The blocks by the number of their step, and the sheets in order."""

    blocks: dict[int, SheetBlock] = field(default_factory=dict)
    sheets: dict[str, list[SheetBlock]] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    """The steps that are written as formulas; the others stand as numbers."""


def column_name(column: int) -> str:
    """0 → A, 25 → Z, 26 → AA."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def cell_name(row: int, column: int) -> str:
    """(0, 0) → A1."""
    return f"{column_name(column)}{row + 1}"


def lay_out(
    trace: Trace, live: Iterable[Step], reserved: Iterable[str], together: str = ""
) -> Layout:
    """Place the live steps and all that they read; refuse what no sheet can hold.

    They stand on the sheets of their modules; those that are few on a sheet called `together`, if
    it has a name.
    """
    layout = Layout()
    live = list(live)
    layout.live = {step.number for step in live}
    needed = set(layout.live)
    addresses = Addresses()
    needed = needed.union(*(addresses.read_by(step) for step in live))
    steps = [step for step in all_steps(trace) if step.number in needed]
    _check_sizes(steps)
    rooms = {step.module for step in trace.steps if step.number in needed}
    names = _SheetNames(reserved)
    rows: dict[str, int] = {}
    n_rows = sum(math.prod(step.shape[:-1]) + HEAD + GAP for step in steps)
    is_one = bool(together) and n_rows <= _FEW
    for step in sorted(steps, key=lambda step: (step.role == "activation", step.number)):
        sheet = names.of(together if is_one else _room(step, rooms))
        row = rows.get(sheet, FIRST_ROW)
        columns = step.shape[-1] if step.shape else 1
        block = SheetBlock(step, sheet, row + HEAD, math.prod(step.shape[:-1]), columns)
        rows[sheet] = block.top + block.rows + GAP
        if rows[sheet] > MOST_ROWS:
            raise TraceError(
                "the steps of {room} need more than {most_rows:,} lines, the most a sheet "
                "holds; choose fewer with steps=[…]",
                room=_room(step, rooms) or "the model",
                most_rows=MOST_ROWS,
            )
        layout.blocks[step.number] = block
        layout.sheets.setdefault(sheet, []).append(block)
    return layout


def _check_sizes(steps: list[Step]) -> None:
    for step in steps:
        width = (step.shape[-1] if step.shape else 1) + LEFT
        if width > MOST_COLUMNS:
            raise TraceError(
                "{name} is {width:,} numbers wide and a sheet has {most_columns:,} columns; "
                "choose steps without it with steps=[…]",
                name=step.name,
                width=step.shape[-1],
                most_columns=MOST_COLUMNS,
            )
    count = sum(math.prod(step.shape) for step in steps)
    if count > MOST_NUMBERS:
        raise TraceError(
            "the workbook would hold {count:,} numbers, more than the {most_numbers:,} "
            "that spreadsheet programs open with ease; choose fewer with steps=[…]",
            count=count,
            most_numbers=MOST_NUMBERS,
        )


def _room(step: Step, rooms: set[str]) -> str:
    """The module on whose sheet a step stands: its own, or the nearest around it with steps."""
    path = step.module
    while path and path not in rooms:
        path = path.rpartition(".")[0]
    return path


class _SheetNames:
    """Module paths as sheet names: at most 31 characters, none of `[]:*?/\\`, unique."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._of: dict[str, str] = {}
        self._taken = {name.casefold() for name in [*reserved, "History"]}

    def of(self, path: str) -> str:
        """The sheet of a module."""
        if path not in self._of:
            plain = re.sub(r"[\[\]:*?/\\']", "_", path) or "model"
            name = plain if len(plain) <= 31 else "…" + plain[-30:]
            number = 2
            while name.casefold() in self._taken:
                ending = f"~{number}"
                name = plain[: 31 - len(ending)] + ending
                number += 1
            self._taken.add(name.casefold())
            self._of[path] = name
        return self._of[path]


# --- ranges ---
# Cells that lie in a row, a column or a rectangle of a sheet, as one range.


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
    spacings = tuple(
        1 if size == 1 else stride // block.columns if stride % block.columns == 0 else stride
        for size, stride in zip(cells.sizes, cells.strides, strict=True)
    )
    return Range(block.sheet, text, (down + 1, across + 1), spacings)


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
