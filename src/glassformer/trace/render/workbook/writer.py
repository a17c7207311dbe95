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
from glassformer.trace.render.addresses import Addresses
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
    from xlsxwriter.worksheet import Worksheet

__all__ = ["workbook_bytes"]


def workbook_bytes(trace: Trace, steps: Iterable[Step] | None, words: Words) -> bytes:
    """The .xlsx file of a trace; with `steps`, only those are formulas over what they read."""
    try:
        import xlsxwriter
    except ImportError:
        raise TraceError(
            "a workbook needs XlsxWriter: pip install 'glassformer[workbook]'"
        ) from None
    live = [step for step in (trace.steps if steps is None else steps) if not step.is_view]
    index_name = words["index"]
    layout = lay_out(trace, live, [index_name])
    memory = io.BytesIO()
    book = xlsxwriter.Workbook(memory, {"in_memory": True, "strings_to_formulas": False})
    # A fixed date: the same trace gives the same file.
    book.set_properties({"title": "glassformer", "created": datetime(2026, 1, 1)})
    formats = Formats(book)
    index = book.add_worksheet(index_name)
    frozen: dict[int, str] = {}
    addresses = Addresses()
    for name, blocks in layout.sheets.items():
        sheet = book.add_worksheet(name)
        _write_sheet(sheet, name, blocks, Setting(layout, addresses, formats, words, frozen))
    _write_index(index, trace, layout, formats, words, frozen)
    book.close()
    return memory.getvalue()


def _write_sheet(sheet: Worksheet, name: str, blocks: Sequence[Block], setting: Setting) -> None:
    widest = max(block.columns for block in blocks)
    _fit_paper(sheet)
    sheet.set_column(0, 0, 22)
    sheet.set_column(LEFT, min(LEFT + widest + 8, MOST_COLUMNS - 1), 10)
    back = setting.words["index"]
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
