"""The workbook itself: an index, then a sheet for each module, its steps one below another.

Parameters and inputs are plain numbers to change; everything computed is a formula over them.
Each formula carries the number that the run computed, so that a viewer which does not
recalculate shows it too.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from glassformer.errors import TraceError
from glassformer.trace.expressions import Expression, Number, Scalar
from glassformer.trace.render.addresses import Addresses, index_of
from glassformer.trace.render.files import source_place
from glassformer.trace.render.matrices import row_labels, shape_text
from glassformer.trace.render.words import Words, meaning, note_in
from glassformer.trace.render.workbook.formats import Formats
from glassformer.trace.render.workbook.formulas import (
    INFINITY,
    Formulas,
    InexpressibleError,
    constant,
)
from glassformer.trace.render.workbook.layout import (
    LEFT,
    MOST_COLUMNS,
    Block,
    Layout,
    cell_name,
    lay_out,
)
from glassformer.trace.render.workbook.reductions import needs_array
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
        _write_sheet(sheet, name, blocks, _Setting(layout, addresses, formats, words, frozen))
    _write_index(index, trace, layout, formats, words, frozen)
    book.close()
    return memory.getvalue()


@dataclass(slots=True)
class _Setting:
    """What every sheet needs."""

    layout: Layout
    addresses: Addresses
    formats: Formats
    words: Words
    frozen: dict[int, str]
    """The steps that no formula can express, with the reason."""


def _write_sheet(sheet: Worksheet, name: str, blocks: Sequence[Block], setting: _Setting) -> None:
    widest = max(block.columns for block in blocks)
    _fit_paper(sheet)
    sheet.set_column(0, 0, 22)
    sheet.set_column(LEFT, min(LEFT + widest + 8, MOST_COLUMNS - 1), 10)
    back = setting.words["index"]
    sheet.write_url(0, 0, f"internal:'{back}'!A1", setting.formats.link, f"← {back}")
    sheet.write_string(0, 1, name, setting.formats.title)
    for block in blocks:
        _BlockWriter(sheet, block, setting).write()


def _fit_paper(sheet: Worksheet) -> None:
    """Print across, a sheet's whole width on one page."""
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)


class _BlockWriter:
    """Writes one step: title, labels, numbers or formulas, and the auxiliary cells beside them."""

    def __init__(self, sheet: Worksheet, block: Block, setting: _Setting) -> None:
        self._sheet = sheet
        self._block = block
        self._step = block.step
        self._setting = setting
        self._auxiliary = _AuxiliaryCells(block)
        self._formulas = Formulas(
            setting.layout, setting.addresses, block.sheet, self._auxiliary.add
        )

    def write(self) -> None:
        """The whole block."""
        self._write_head()
        written = self._expressions()
        format_ = self._setting.formats.of(self._step, is_formula=written is not None)
        values = self._step.view.array.reshape(-1)
        for place in range(values.size):
            row, column = self._block.at(place)
            number: Scalar = values[place].item()
            if written is None or written[place] is None:
                self._number(row, column, number, format_)
            else:
                self._formula(row, column, written[place], number, format_)
        self._write_auxiliary()
        self._setting.formats.colour(self._sheet, self._block)

    def _expressions(self) -> list[str | None] | None:
        """A formula for each cell; None for the whole step if it stands as numbers."""
        step = self._step
        if step.number not in self._setting.layout.live or step.role != "activation":
            return None
        try:
            return [
                self._formula_of(place, step.expression(index_of(step.shape, place)))
                for place in range(self._block.rows * self._block.columns)
            ]
        except InexpressibleError as reason:
            self._setting.frozen[step.number] = str(reason)
            self._auxiliary.cells.clear()
            return None

    def _formula_of(self, place: int, expression: Expression | None) -> str | None:
        if expression is None:
            raise InexpressibleError(f"no rule for {self._step.op}")
        if isinstance(expression, Number):
            return None
        self._auxiliary.row = self._block.at(place)[0]
        return self._formulas.of(expression)

    def _write_head(self) -> None:
        step, formats, top = self._step, self._setting.formats, self._block.top
        words = self._setting.words
        operator = "" if step.op == step.role else step.op
        facts = [meaning(words, step.name), shape_text(step.shape), operator, words[step.role]]
        if step.line is not None:
            facts.append(f"{source_place(step.line)}  {step.line.text}")
        self._sheet.write_string(top - 3, 0, step.name, formats.name)
        self._sheet.write_string(top - 2, 0, " · ".join(filter(None, facts)), formats.quiet)
        labels = step.labels[-1] if step.shape else None
        for column in range(self._block.columns):
            label = labels[column] if labels else str(column)
            self._sheet.write_string(top - 1, LEFT + column, label, formats.column)
        for row, label in enumerate(row_labels(step, self._setting.words)):
            self._sheet.write_string(top + row, 0, label, formats.row)

    def _number(self, row: int, column: int, number: Scalar, format_: Any) -> None:
        if math.isnan(number):
            self._sheet.write_formula(row, column, "=NA()", format_, "#N/A")
        else:
            self._sheet.write_number(row, column, _finite(number), format_)

    def _formula(
        self, row: int, column: int, formula: str | None, number: Scalar, format_: Any
    ) -> None:
        cached = "#N/A" if math.isnan(number) else _finite(number)
        if needs_array(str(formula)):
            self._sheet.write_array_formula(
                row, column, row, column, f"{{={formula}}}", format_, cached
            )
        else:
            self._sheet.write_formula(row, column, f"={formula}", format_, cached)

    def _write_auxiliary(self) -> None:
        formats = self._setting.formats
        for (row, column), (label, formula, number) in self._auxiliary.cells.items():
            self._sheet.write_string(self._block.top - 1, column, label, formats.column)
            self._formula(row, column, formula, number, formats.auxiliary)


@dataclass(slots=True)
class _AuxiliaryCells:
    """Cells right of a block for parts of its formulas: one for each different formula."""

    block: Block
    row: int = 0
    cells: dict[tuple[int, int], tuple[str, str, float]] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def add(self, label: str, formula: str, number: Callable[[], float]) -> str:
        """The name of the cell that holds a formula."""
        if formula not in self._known:
            column = LEFT + self.block.columns + 1
            while (self.row, column) in self.cells:
                column += 1
            if column >= MOST_COLUMNS:
                raise InexpressibleError("its auxiliary cells do not fit beside it")
            self.cells[self.row, column] = (label, formula, number())
            self._known[formula] = cell_name(self.row, column)
        return self._known[formula]


def _finite(number: Scalar) -> float:
    """A number that a spreadsheet can hold."""
    return float(constant(number).text) if math.isinf(number) else float(number)


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
