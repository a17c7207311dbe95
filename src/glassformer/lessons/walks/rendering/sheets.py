"""The sheets behind a lesson's workbook: every step that the lesson shows, as live formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glassformer.trace import Step, Trace
from glassformer.trace.memory import Index
from glassformer.trace.render.addresses import Addresses, all_steps, flat_place
from glassformer.trace.render.words import Words
from glassformer.trace.render.workbook.blocks import Setting, write_block
from glassformer.trace.render.workbook.formats import Formats
from glassformer.trace.render.workbook.layout import Layout, cell_name, lay_out

if TYPE_CHECKING:
    from xlsxwriter import Workbook

__all__ = ["Sheets"]


class Sheets:
    """Traces in one workbook, each on sheets of its own."""

    def __init__(self, book: Workbook, reserved: Sequence[str], words: Words) -> None:
        self._book = book
        self._words = words
        self._formats = Formats(book)
        self._taken = list(reserved)
        self._layouts: dict[int, Layout] = {}

    def add(self, trace: Trace, shown: Sequence[Step]) -> None:
        """Write the steps shown and all that they come from, back to parameters and inputs."""
        addresses = Addresses()
        layout = lay_out(trace, _behind(trace, shown, addresses), self._taken)
        self._taken += layout.sheets
        self._layouts[id(trace)] = layout
        setting = Setting(layout, addresses, self._formats, self._words)
        for name, blocks in layout.sheets.items():
            sheet = self._book.add_worksheet(name)
            sheet.set_column(0, 0, 22)
            for block in blocks:
                write_block(sheet, block, setting)

    def address(self, step: Step, index: Index) -> str:
        """`'sheet'!B7`: where a cell of a step (or of a view of one) stands."""
        cell = step.trace.cell(step, index)
        block = self._layouts[id(step.trace)].blocks[cell.step.number]
        row, column = block.at(flat_place(cell.step.shape, cell.index))
        return f"'{block.sheet}'!{cell_name(row, column)}"


def _behind(trace: Trace, shown: Sequence[Step], addresses: Addresses) -> list[Step]:
    """The computed steps that are shown, and those that they read, near and far."""
    by_number = {step.number: step for step in all_steps(trace)}
    waiting = [owner for step in shown for owner in _owners(step, by_number, addresses)]
    found: dict[int, Step] = {}
    while waiting:
        step = waiting.pop()
        if step.number not in found:
            found[step.number] = step
            waiting += [by_number[number] for number in addresses.read_by(step)]
    return [step for step in found.values() if not step.is_view]


def _owners(step: Step, by_number: dict[int, Step], addresses: Addresses) -> list[Step]:
    """A step itself; of a view, the steps whose numbers it shows."""
    return [by_number[n] for n in addresses.read_by(step)] if step.is_view else [step]
