"""The workbook itself: an index, then a sheet for each module, its steps one below another.

Parameters and inputs are plain numbers to change; everything computed is a formula over them.
Each formula carries the number that the run computed, so that a viewer which does not
recalculate shows it too.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from glassformer.errors import TraceError
from glassformer.trace.memory import Index
from glassformer.trace.render.addresses import Addresses, all_steps, flat_place
from glassformer.trace.render.files import source_place
from glassformer.trace.render.matrices import shape_text
from glassformer.trace.render.words import Words, note_in
from glassformer.trace.render.workbook.blocks import Setting, write_block
from glassformer.trace.render.workbook.formats import Formats
from glassformer.trace.render.workbook.formulas import INFINITY
from glassformer.trace.render.workbook.layout import (
    LEFT,
    MOST_COLUMNS,
    Block,
    Layout,
    cell_name,
    lay_out,
)
from glassformer.trace.steps import Step
from glassformer.trace.trace import Trace

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

__all__ = ["TraceSheets", "new_book", "steps_behind", "workbook_bytes"]


def new_book(file: io.BytesIO, title: str) -> Workbook:
    """An empty workbook."""
    try:
        import xlsxwriter
    except ImportError:
        raise TraceError(
            "a workbook needs XlsxWriter: pip install 'glassformer[workbook]'"
        ) from None
    book = xlsxwriter.Workbook(file, {"in_memory": True, "strings_to_formulas": False})
    # A fixed date: the same trace gives the same file.
    book.set_properties({"title": title, "created": datetime(2026, 1, 1)})
    return book


class TraceSheets:
    """The sheets of traces in one workbook, behind a front sheet that shows them."""

    def __init__(self, book: Workbook, front: str, words: Words) -> None:
        self.formats = Formats(book)
        self.frozen: dict[int, str] = {}
        """The steps of the trace added last that no formula can express, with the reason."""
        self._book = book
        self._front = front
        self._words = words
        self._taken = [front]
        self._layouts: dict[int, Layout] = {}

    def add(self, trace: Trace, live: Iterable[Step]) -> Layout:
        """Write steps as formulas, and what they read."""
        layout = lay_out(trace, live, self._taken)
        self._taken += layout.sheets
        self._layouts[id(trace)] = layout
        self.frozen = {}
        setting = Setting(layout, Addresses(), self.formats, self._words, self.frozen)
        for name, blocks in layout.sheets.items():
            _write_sheet(self._book.add_worksheet(name), name, blocks, setting, self._front)
        return layout

    def address(self, step: Step, index: Index) -> str:
        """`'sheet'!B7`: where a cell of a step (or of a view of one) stands."""
        cell = step.trace.cell(step, index)
        block = self._layouts[id(step.trace)].blocks[cell.step.number]
        row, column = block.at(flat_place(cell.step.shape, cell.index))
        return f"'{block.sheet}'!{cell_name(row, column)}"


def steps_behind(trace: Trace, shown: Iterable[Step]) -> list[Step]:
    """The computed steps that are shown, and those that they read, near and far."""
    addresses = Addresses()
    by_number = {step.number: step for step in all_steps(trace)}
    waiting = list(shown)
    found: dict[int, Step] = {}
    while waiting:
        step = waiting.pop()
        if step.number not in found:
            found[step.number] = step
            waiting += [by_number[number] for number in addresses.read_by(step)]
    return [step for step in found.values() if not step.is_view]


def workbook_bytes(trace: Trace, steps: Iterable[Step] | None, words: Words) -> bytes:
    """The .xlsx file of a trace; with `steps`, only those are formulas over what they read."""
    live = [step for step in (trace.steps if steps is None else steps) if not step.is_view]
    memory = io.BytesIO()
    book = new_book(memory, "glassformer")
    index = book.add_worksheet(words["index"])
    sheets = TraceSheets(book, words["index"], words)
    layout = sheets.add(trace, live)
    _write_index(index, trace, layout, sheets.formats, words, sheets.frozen)
    book.close()
    return memory.getvalue()


def _write_sheet(
    sheet: Worksheet, name: str, blocks: Sequence[Block], setting: Setting, back: str
) -> None:
    widest = max(block.columns for block in blocks)
    _fit_paper(sheet)
    sheet.set_column(0, 0, 22)
    sheet.set_column(LEFT, min(LEFT + widest + 8, MOST_COLUMNS - 1), 10)
    sheet.write_url(0, 0, f"internal:'{back}'!A1", setting.formats.link, f"← {back}")
    sheet.write_string(0, 1, name, setting.formats.title)
    for block in blocks:
        write_block(sheet, block, setting)


def _fit_paper(sheet: Worksheet) -> None:
    """Print across, a sheet's whole width on one page."""
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)


def _write_index(
    sheet: Worksheet,
    trace: Trace,
    layout: Layout,
    formats: Formats,
    words: Words,
    frozen: dict[int, str],
) -> None:
    _fit_paper(sheet)
    sheet.set_column(0, 0, 44)
    sheet.set_column(1, 4, 16)
    sheet.set_column(5, 5, 70)
    sheet.write_string(0, 0, words["workbook title"], formats.title)
    row = 1
    infinity = f"{INFINITY:.0E}"
    for key in ("workbook how", "workbook float64", "workbook infinity", "workbook frozen"):
        sheet.write_string(row, 0, words[key].format(infinity=infinity), formats.quiet)
        row += 1
    for role in ("parameter", "input", "constant"):
        sheet.write_string(row, 0, words[role], formats.by_role[role])
        row += 1
    for note in trace.notes:
        sheet.write_string(row, 0, note_in(words, note), formats.quiet)
        row += 1
    heads = ("step", "shape", "operator", "role", "sheet", "source")
    for column, head in enumerate(heads):
        sheet.write_string(row + 1, column, words[head], formats.column_head)
    row += 2
    sheet.freeze_panes(row, 1)
    outputs = {step.number for step in trace.outputs.values()}
    for block in sorted(layout.blocks.values(), key=lambda block: block.step.number):
        _write_index_row(sheet, row, block, formats, words, frozen, outputs)
        row += 1


def _write_index_row(
    sheet: Worksheet,
    row: int,
    block: Block,
    formats: Formats,
    words: Words,
    frozen: dict[int, str],
    outputs: set[int],
) -> None:
    step = block.step
    target = f"internal:'{block.sheet}'!{cell_name(block.top - 3, 0)}"
    sheet.write_url(row, 0, target, formats.link, step.name)
    role = words[step.role]
    if step.number in outputs:
        role = f"{role}, {words['output']}"
    if step.number in frozen:
        role = f"{words['frozen']}: {frozen[step.number]}"
    source = f"{source_place(step.line)}  {step.line.text}" if step.line is not None else ""
    for column, text in enumerate((shape_text(step.shape), step.op, role, block.sheet, source)):
        sheet.write_string(row, column + 1, text, formats.quiet)
