"""The sheets behind a lesson's workbook: every step that the lesson shows, as live formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from glassformer.trace import Step, Trace
from glassformer.trace.expressions import Number, Scalar
from glassformer.trace.memory import Index
from glassformer.trace.render.addresses import Addresses, all_steps, flat_place, index_of
from glassformer.trace.render.matrices import row_labels
from glassformer.trace.render.workbook.formats import Formats
from glassformer.trace.render.workbook.formulas import Formulas, InexpressibleError, constant
from glassformer.trace.render.workbook.layout import LEFT, Block, Layout, cell_name, lay_out
from glassformer.trace.render.workbook.reductions import needs_array

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

__all__ = ["Sheets"]


class Sheets:
    """Traces in one workbook, each on sheets of its own."""

    def __init__(self, book: Workbook, reserved: Sequence[str]) -> None:
        self._book = book
        self._formats = Formats(book)
        self._taken = list(reserved)
        self._layouts: dict[int, Layout] = {}

    def add(self, trace: Trace, shown: Sequence[Step]) -> None:
        """Write the steps shown and all that they come from, back to parameters and inputs."""
        addresses = Addresses()
        layout = lay_out(trace, _behind(trace, shown, addresses), self._taken)
        self._taken += layout.sheets
        self._layouts[id(trace)] = layout
        for name, blocks in layout.sheets.items():
            sheet = self._book.add_worksheet(name)
            sheet.set_column(0, 0, 22)
            for block in blocks:
                _BlockWriter(sheet, block, layout, addresses, self._formats).write()

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


@dataclass(slots=True)
class _BlockWriter:
    """Writes one step: its name, labels, numbers or formulas; helping cells to the right."""

    sheet: Worksheet
    block: Block
    layout: Layout
    addresses: Addresses
    formats: Formats
    row: int = 0
    helpers: dict[str, str] = field(default_factory=dict)
    used: set[tuple[int, int]] = field(default_factory=set)

    def write(self) -> None:
        """The whole block."""
        step, block = self.block.step, self.block
        self.sheet.write_string(block.top - 3, 0, step.name, self.formats.name)
        labels = step.labels[-1] if step.shape else None
        for column in range(block.columns):
            label = labels[column] if labels else str(column)
            self.sheet.write_string(block.top - 1, LEFT + column, label, self.formats.column)
        for row, label in enumerate(row_labels(step)):
            self.sheet.write_string(block.top + row, 0, label, self.formats.row)
        formulas = Formulas(self.layout, self.addresses, block.sheet, self._helper)
        for place, value in enumerate(step.view.array.reshape(-1)):
            self._cell(place, value.item(), formulas)
        self.formats.colour(self.sheet, block)

    def _cell(self, place: int, number: Scalar, formulas: Formulas) -> None:
        step = self.block.step
        self.row, column = self.block.at(place)
        expression = step.expression(index_of(step.shape, place))
        formula = None
        if expression is not None and not isinstance(expression, Number):
            try:
                formula = formulas.of(expression)
            except InexpressibleError:  # it stands as a number, and looks so
                formula = None
        format_ = self.formats.of(step, is_formula=formula is not None)
        if formula is None:
            self.sheet.write_number(self.row, column, _finite(number), format_)
        else:
            self._formula(self.row, column, formula, number, format_)

    def _formula(self, row: int, column: int, formula: str, number: Scalar, format_: Any) -> None:
        if needs_array(formula):
            self.sheet.write_array_formula(
                row, column, row, column, f"{{={formula}}}", format_, _finite(number)
            )
        else:
            self.sheet.write_formula(row, column, f"={formula}", format_, _finite(number))

    def _helper(self, label: str, formula: str, number: Callable[[], float]) -> str:
        """The cell that holds a part of a formula, right of the row that first needs it."""
        if formula not in self.helpers:
            column = LEFT + self.block.columns + 1
            while (self.row, column) in self.used:
                column += 1
            self.used.add((self.row, column))
            self.sheet.write_string(self.block.top - 1, column, label, self.formats.column)
            self._formula(self.row, column, formula, number(), self.formats.auxiliary)
            self.helpers[formula] = cell_name(self.row, column)
        return self.helpers[formula]


def _finite(number: Scalar) -> float:
    """A number that a spreadsheet can hold."""
    return float(constant(number).text) if math.isinf(number) else float(number)
