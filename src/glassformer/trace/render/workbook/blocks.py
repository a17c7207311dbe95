"""One step in a sheet: its name, labels, numbers or formulas, and the auxiliary cells beside them.

The workbook of a trace and that of a lesson are made of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from glassformer.cancelling import stop_if_cancelled
from glassformer.trace.evaluate import Evaluation
from glassformer.trace.explanation import NOT_REPRODUCED, Card
from glassformer.trace.expressions import Expression, Number, Scalar
from glassformer.trace.precision import relation
from glassformer.trace.render.addresses import Addresses, index_of
from glassformer.trace.render.files import source_place
from glassformer.trace.render.matrices import is_unwritten, row_labels, shape_text
from glassformer.trace.render.words import Words, meaning, phrases_in
from glassformer.trace.render.workbook.formats import Formats
from glassformer.trace.render.workbook.formulas import Formulas, InexpressibleError, constant
from glassformer.trace.render.workbook.layout import (
    LEFT,
    MOST_COLUMNS,
    Block,
    Layout,
    cell_name,
)
from glassformer.trace.render.workbook.reductions import needs_array

if TYPE_CHECKING:
    from xlsxwriter.worksheet import Worksheet

__all__ = ["Setting", "write_block"]


@dataclass(slots=True)
class Setting:
    """What every sheet needs."""

    layout: Layout
    addresses: Addresses
    formats: Formats
    words: Words
    frozen: dict[int, str] = field(default_factory=dict)
    """The steps that no formula can express, with the reason."""


def write_block(sheet: Worksheet, block: Block, setting: Setting) -> None:
    """Write a step where its block stands."""
    _BlockWriter(sheet, block, setting).write()


class _BlockWriter:
    """Writes one step: title, labels, numbers or formulas, and the auxiliary cells beside them."""

    def __init__(self, sheet: Worksheet, block: Block, setting: Setting) -> None:
        self._sheet = sheet
        self._block = block
        self._step = block.step
        self._setting = setting
        self._auxiliary = _AuxiliaryCells(block)
        shape, all_places = block.step.shape, range(block.rows * block.columns)
        places = all_places if block.step.trace.has_unwritten_memory else ()
        self._holes = {p for p in places if is_unwritten(block.step, index_of(shape, p))}
        self._formulas = Formulas(
            setting.layout, setting.addresses, block.sheet, self._auxiliary.add
        )

    def write(self) -> None:
        """The whole block."""
        self._write_head()
        written = self._expressions()
        usual = self._setting.formats.of(self._step, is_formula=written is not None)
        values = self._step.view.array.reshape(-1)
        for place in range(values.size):
            stop_if_cancelled()
            row, column = self._block.at(place)
            number: Scalar = values[place].item()
            format_ = self._setting.formats.unwritten if place in self._holes else usual
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
        stop_if_cancelled()
        if expression is None:
            raise InexpressibleError(f"no rule for {self._step.op}")
        if isinstance(expression, Number):
            return None
        stored = float(self._step.view.array.reshape(-1)[place])
        difference = Evaluation(expression).relative_difference(stored, self._step.dtype)
        if relation(difference, self._step.dtype) == "≠":
            raise InexpressibleError(NOT_REPRODUCED)
        self._auxiliary.row = self._block.at(place)[0]
        return self._formulas.of(expression)

    def _write_head(self) -> None:
        step, formats, top = self._step, self._setting.formats, self._block.top
        words = self._setting.words
        operator = "" if step.op == step.role else step.op
        facts = [meaning(words, step.name), shape_text(step.shape), operator, words[step.role]]
        facts.insert(0, self._in_symbols())
        if step.line is not None:
            facts.append(f"{source_place(step.line)}  {step.line.text}")
        if self._holes:
            facts.append(f"▒ {words['unwritten']}")
        self._sheet.write_string(top - 3, 0, step.name, formats.name)
        self._sheet.write_string(top - 2, 0, " · ".join(filter(None, facts)), formats.quiet)
        labels = step.labels[-1] if step.shape else None
        for column in range(self._block.columns):
            label = labels[column] if labels else str(column)
            self._sheet.write_string(top - 1, LEFT + column, label, formats.column)
        for row, label in enumerate(row_labels(step, self._setting.words)):
            self._sheet.write_string(top + row, 0, label, formats.row)

    def _in_symbols(self) -> str:
        """What the step is called in formulas, with the formula of its first cell if it has one."""
        step = self._step
        if not step.view.numel:
            return str(step.trace.naming.symbol(step))
        phrases = phrases_in(self._setting.words)
        card = Card(step[(0,) * len(step.shape)], phrases=phrases)
        if card.expression is None:
            return str(step.trace.naming.symbol(step))
        return f"{card.name} {card.relation} {card.formula}"

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
