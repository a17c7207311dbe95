"""A lesson as a workbook: one sheet to read, and sheets with live formulas that it shows.

The matrices of the first sheet are links into the others, where parameters and inputs are plain
numbers to change and everything computed is a formula: change one, and the lesson's matrices
follow. The formulas are the trace's own (`trace/render/workbook`).
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from glassformer.errors import TraceError
from glassformer.lessons.walks.lesson import (
    Formula,
    HeatMap,
    Lesson,
    Paragraph,
    PlainPart,
    Remark,
    Table,
)
from glassformer.lessons.walks.phrases import Speaker
from glassformer.lessons.walks.rendering.cells import formula_lines
from glassformer.lessons.walks.rendering.sheets import Sheets
from glassformer.trace.render.colours import hex_colour, ink_on
from glassformer.trace.render.words import words_in
from glassformer.trace.render.workbook.formats import Formats

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

__all__ = ["to_workbook"]

_PROSE_COLUMNS = 11
_CHARACTERS_A_LINE = {"en": 120, "zh": 66}


def to_workbook(lesson: Lesson) -> bytes:
    """The .xlsx file."""
    try:
        import xlsxwriter
    except ImportError:
        raise TraceError(
            "a workbook needs XlsxWriter: pip install 'glassformer[workbook]'"
        ) from None
    say = Speaker(lesson.language)
    memory = io.BytesIO()
    book = xlsxwriter.Workbook(memory, {"in_memory": True, "strings_to_formulas": False})
    # A fixed date: the same lesson gives the same file.
    book.set_properties({"title": lesson.title, "created": datetime(2026, 1, 1)})
    reading = book.add_worksheet(say("lesson sheet"))
    sheets = Sheets(book, [say("lesson sheet")], words_in(lesson.language))
    for trace in lesson.traces():
        sheets.add(trace, _shown_steps(lesson, trace))
    _ReadingSheet(book, reading, sheets, say).write(lesson)
    book.close()
    return memory.getvalue()


def _shown_steps(lesson: Lesson, trace: object) -> list[Any]:
    steps = [part.step for part in lesson.parts() if isinstance(part, HeatMap)]
    steps += [part.cell.step for part in lesson.parts() if isinstance(part, Formula)]
    return [step for step in dict.fromkeys(steps) if step.trace is trace]


@dataclass
class _ReadingSheet:
    """Writes the first sheet from top to bottom."""

    book: Workbook
    sheet: Worksheet
    sheets: Sheets
    say: Speaker
    row: int = 0

    def write(self, lesson: Lesson) -> None:
        """The whole lesson."""
        self.formats = Formats(self.book)
        self.prose = self.book.add_format({"text_wrap": True, "valign": "top"})
        self.formula = self.book.add_format({"font_name": "Consolas", "font_color": "#1F4E9E"})
        self.sheet.set_landscape()
        self.sheet.fit_to_pages(1, 0)
        self.sheet.set_column(0, 0, 18)
        self.sheet.set_column(1, 40, 11)
        self.sheet.hide_gridlines(2)
        self._line(lesson.title, self.formats.title)
        for said in (lesson.summary, self.say("how to read"), self.say("workbook how")):
            self._text(said)
        for number, step in enumerate(lesson.steps, start=1):
            self.row += 1
            self._line(f"{number}. {step.title}", self.formats.name)
            for part in step.plain_parts:
                self._part(part)

    def _part(self, part: PlainPart) -> None:
        match part:
            case Paragraph(text=said):
                self._text(said)
            case Remark(text=said):
                self._text(self.say("in the text:") + said)
            case Formula():
                for line in formula_lines(part, self.say):
                    self._line(line, self.formula)
            case HeatMap():
                self._heat_map(part)
            case Table():
                self._table(part)

    def _line(self, said: str, format_: Any = None) -> None:
        self.sheet.write_string(self.row, 0, said, format_)
        self.row += 1

    def _text(self, said: str) -> None:
        """A paragraph over several columns; a merged cell does not grow by itself."""
        self.sheet.merge_range(self.row, 0, self.row, _PROSE_COLUMNS, said, self.prose)
        lines = math.ceil(len(said) / _CHARACTERS_A_LINE[self.say.language])
        self.sheet.set_row(self.row, 16 * lines)
        self.row += 1

    def _table(self, part: Table) -> None:
        if part.caption:
            self._line(part.caption, self.formats.quiet)
        for column, head in enumerate(part.heads):
            self.sheet.write_string(self.row, column, head, self.formats.column_head)
        self.row += 1
        for row in part.rows:
            for column, item in enumerate(row):
                self.sheet.write_string(self.row, column, item)
            self.row += 1
        self.row += 1

    def _heat_map(self, part: HeatMap) -> None:
        found = part.matrix
        target = self.sheets.address(part.step, part.place(0, 0))
        self.sheet.write_url(
            self.row, 0, f"internal:{target}", self.formats.link, f"{part.caption} →"
        )
        self.row += 1
        for column, label in enumerate(found.columns):
            self.sheet.write_string(self.row, column + 1, label, self.formats.column)
        self.row += 1
        for row, label in enumerate(found.rows):
            self.sheet.write_string(self.row, 0, label, self.formats.row)
            for column in range(len(found.columns)):
                self._cell(part, row, column)
            self.row += 1
        self.row += 1

    def _cell(self, part: HeatMap, row: int, column: int) -> None:
        found = part.matrix
        number = float(found.values[row, column])
        source = self.sheets.address(part.step, part.place(row, column))
        cached: float | str = number if math.isfinite(number) else "−∞"
        # −∞ stands as a huge number on the other sheets; here it is shown as what it means.
        formula = f'=IF({source}<-1E+100,"−∞",{source})' if number == -math.inf else f"={source}"
        look = self._look(part, number, marked=part.marked == (row, column))
        self.sheet.write_formula(self.row, column + 1, formula, look, cached)

    def _look(self, part: HeatMap, number: float, *, marked: bool) -> Any:
        look: dict[str, Any] = {"num_format": "General" if part.is_truth else "0.0000"}
        if math.isfinite(number) and number == int(number):
            look["num_format"] = "0"
        look["align"] = "right"
        colour = part.scale.colour(number) if part.scale is not None else None
        if colour is not None:
            look |= {"bg_color": hex_colour(colour), "font_color": hex_colour(ink_on(colour))}
        if marked:
            look |= {"border": 2, "bold": True}
        return self.book.add_format(look)
