"""A workbook: one sheet to read, and sheets with live formulas that its matrices link to.

The other sheets are those of the trace's own workbook: parameters and inputs are plain numbers to
change, everything computed is a formula. Change one, and the matrices on the first sheet follow.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import Any

from glassformer.colours import hex_colour, ink_on
from glassformer.documents import parts as p
from glassformer.documents.renderer import Renderer, text_lines
from glassformer.documents.workbook import TraceSheets, new_book, steps_behind
from glassformer.documents.workbook_paper import fit_paper, points
from glassformer.language import columns_of
from glassformer.tracing import Trace

_WIDTHS = (18, *(11,) * 40)
"""Of the columns, in characters."""
_PROSE_COLUMNS = 11
_WIDEST = 5
"""Columns that a cell of a table may take; longer text is wrapped."""
_FILLED = 0.95
"""How much of its width a line of wrapped text takes at most."""
_TRUTH = '"✓";;"·"'
_TINY = 5e-5
_MOST = 256
_RIGHT = {"align": "right", "valign": "top", "indent": 1}
"""Numbers of a table, off the text that follows them."""
_NUMBER = re.compile(r"([−+-]?)(\d[\d,]*)(?:\.(\d+))?(e[−+-]?\d+)?(%?)")


class Spreadsheet(Renderer[None]):
    """Writes the first sheet, read from top to bottom."""

    def __init__(self, document: p.Document) -> None:
        super().__init__(document)
        self._file = io.BytesIO()
        self._book = new_book(self._file, document.title)
        label = document.label or self.words["index"]
        self._sheet = self._book.add_worksheet(label)
        self._live = TraceSheets(self._book, label, self.words)
        self._formats = self._live.formats
        self._prose = self._book.add_format({"text_wrap": True, "valign": "top"})
        typed = {"font_name": "Consolas", "font_color": "#1F4E9E"}
        self._formula = self._book.add_format(typed)
        self._long_formula = self._book.add_format({**typed, "text_wrap": True, "valign": "top"})
        self._row = 0
        self._last_column = 0
        self._starts = [0]
        self._below_heading = True
        self._heights: dict[int, float] = {}

    def render(self) -> bytes:
        """The .xlsx file."""
        steps, traces = self.document.steps(), self.document.traces()
        for trace in traces:
            shown = [step for step in steps if step.trace is trace]
            names = None if self.document.names is None else self.document.names(trace)
            together = self._first_shown(trace) if len(traces) > 1 else ""
            self._live.add(trace, steps_behind(trace, shown), names, together)
        for column, width in enumerate(_WIDTHS):
            self._sheet.set_column(column, column, width)
        self._sheet.hide_gridlines(2)
        if self.document.title:
            self._line(self.document.title, self._formats.title)
        if steps:
            self._text(self.words["workbook live"], self._prose)
        self.write_all(self.document.parts)
        last = max(_PROSE_COLUMNS, self._last_column)
        across = sum(map(points, _WIDTHS[: last + 1]))
        fit_paper(self._sheet, across, self._starts, self._row, self._heights)
        self._book.close()
        return self._file.getvalue()

    def _first_shown(self, trace: Trace) -> str:
        """`Step 3`: the name of the section that first shows a number of a trace."""
        for part in self.document.parts:
            if isinstance(part, p.Section) and part.number is not None:
                inside = p.Document("", part.parts).traces()
                if any(one is trace for one in inside):
                    return self.words["sheet of step"].format(number=part.number)
        return ""

    def _begin(self, *, is_heading: bool = False) -> None:
        """A page may begin here, unless a heading stands above."""
        if not self._below_heading:
            self._starts.append(self._row)
        self._below_heading = is_heading

    def section(self, part: p.Section) -> None:
        self._row += 1
        self._begin(is_heading=True)
        self._line(_plain(part.heading), self._formats.name)
        self.inside(part)

    def paragraph(self, part: p.Paragraph) -> None:
        """Text merged across several columns."""
        self._begin()
        self._text(_plain(part.text), self._prose)

    def formula(self, part: p.Formula) -> None:
        """Plain text, and below it the number itself, linked to its step's own sheet."""
        self._begin()
        for line in text_lines(part, self.words):
            if columns_of(line) <= _FILLED * _room(0):
                self._line(line, self._formula)
            else:
                self._text(line, self._long_formula)
        value = part.cell.value
        digits = _digits(value, "0.0000##", "0.000E+00")
        written = f'"→ "{digits};"→ −"{digits}'
        live = self._book.add_format({"num_format": written, "align": "left"})
        self._link(0, self._live.address(part.cell.step, part.cell.index), value, live)
        self._row += 1
        if part.code:
            self._line(f"{self.words['in code']}{part.code}", self._formats.quiet)
        self._row += 1

    def question(self, part: p.Question) -> None:
        """The task, and framed cells to fill in."""
        self._begin()
        self._text(self.task(part), self._prose)
        blank = self._book.add_format({"border": 1})
        for column, label in enumerate(part.labels, start=1):
            self._sheet.write_string(self._row, column, label, self._formats.column)
            self._sheet.write_blank(self._row + 1, column, None, blank)
        self._row += 3

    def code(self, part: p.Code) -> None:
        self._begin()
        for line in part.text.splitlines():
            self._line(line, self._formula)

    def table(self, part: p.Table) -> None:
        self._begin()
        if part.caption:
            self._line(part.caption, self._formats.quiet)
        spans = _spans([part.heads, *part.rows])
        numeric = part.is_numeric()
        make = self._book.add_format
        heads = [make({"bold": True, "bottom": 1, **(_RIGHT if n else {})}) for n in numeric]
        self._table_row(list(zip(map(_plain, part.heads), heads, strict=True)), spans)
        for row in part.rows:
            items = zip(map(_plain, row), numeric, strict=True)
            self._table_row([self._number(x) if n else (x, self._prose) for x, n in items], spans)
        self._row += 1

    def _number(self, said: str) -> tuple[float | str, Any]:
        """A number to compute with, and the format that shows it as the text has it."""
        shown = _number_format(said)
        look = {**_RIGHT, "num_format": shown or "General"}
        return said if shown is None else _value(said), self._book.add_format(look)

    def _table_row(
        self, items: Sequence[tuple[float | str, Any]], spans: Sequence[tuple[int, int]]
    ) -> None:
        lines = 1
        for (item, format_), (first, last) in zip(items, spans, strict=True):
            self._last_column = max(self._last_column, last)
            if first < last:
                self._sheet.merge_range(self._row, first, self._row, last, "", format_)
            if isinstance(item, str):
                self._sheet.write_string(self._row, first, item, format_)
                lines = max(lines, math.ceil(columns_of(item) / _room(first, last)))
            else:
                self._sheet.write_number(self._row, first, item, format_)
        self._set_height(lines)
        self._row += 1

    def figure(self, part: p.Figure) -> None:
        """Its numbers, or where to find it."""
        if part.numbers is not None:
            super().figure(part)
            return
        self._begin()
        said = self.words["figure elsewhere"].format(caption=part.caption)
        self._text(said, self._formats.said)

    def facts(self, part: p.Facts) -> None:
        """A row for each: the label in the first column, the text across the others."""
        self._begin()
        for label, said in part.items:
            self._sheet.write_string(self._row, 0, label, self._formats.quiet)
            self._text(_plain(said), self._prose, first=1)
        self._row += 1

    def heatmap(self, part: p.HeatMap) -> None:
        """Links to the cells of the other sheets, coloured by value."""
        self._begin()
        matrix = part.matrix
        target = self._live.address(part.step, part.place(0, 0))
        caption = f"{part.caption or part.step.name} →"
        self._sheet.write_url(self._row, 0, f"internal:{target}", self._formats.link, caption)
        self._row += 1
        self._last_column = max(self._last_column, len(matrix.columns[:_MOST]))
        for column, label in enumerate(matrix.columns[:_MOST]):
            self._sheet.write_string(self._row, column + 1, label, self._formats.column)
        self._row += 1
        for row, (label, line) in enumerate(part.lines(_MOST, _MOST)):
            self._sheet.write_string(self._row, 0, label, self._formats.row)
            for column, cell in enumerate(line):
                source = self._live.address(part.step, part.place(row, column))
                self._cell(column + 1, cell, source, is_truth=cell.text in "✓·")
            self._row += 1
        if note := part.notes(self.words, _MOST, _MOST):
            self._line(note, self._formats.quiet)
        self._row += 1

    def _cell(self, column: int, cell: p.HeatCell, source: str, *, is_truth: bool) -> None:
        digits = _TRUTH if is_truth else _digits(cell.value, "0.0000", "0E+00")
        look: dict[str, Any] = {"num_format": digits, "align": "right"}
        if cell.colour is not None:
            ink = hex_colour(ink_on(cell.colour))
            look |= {"bg_color": hex_colour(cell.colour), "font_color": ink}
        if cell.is_marked:
            look |= {"border": 2, "bold": True}
        format_ = self._book.add_format(look)
        if cell.is_unwritten or cell.text == p.ASKED:
            self._sheet.write_string(self._row, column, cell.text, format_)
            return
        self._link(column, source, cell.value, format_)

    def _link(self, column: int, source: str, value: float, format_: Any) -> None:
        """A number that follows a cell of another sheet."""
        cached: float | str = value if math.isfinite(value) else "−∞"
        # The other sheets encode −∞ as a huge number; here it is shown as −∞.
        formula = f"={source}"
        if value == -math.inf:
            formula = f'=IF({source}<-1E+100,"−∞",{source})'
        self._sheet.write_formula(self._row, column, formula, format_, cached)

    def _line(self, said: str, format_: Any = None) -> None:
        self._sheet.write_string(self._row, 0, said, format_)
        self._row += 1

    def _text(self, said: str, format_: Any, first: int = 0) -> None:
        """A paragraph across several columns, its height set by hand: merged cells do not grow."""
        self._sheet.merge_range(self._row, first, self._row, _PROSE_COLUMNS, said, format_)
        lines = math.ceil(columns_of(said) / (_FILLED * _room(first)))
        self._set_height(lines)
        self._row += 1

    def _set_height(self, lines: int) -> None:
        """Make room for lines of text."""
        if lines > 1:
            self._heights[self._row] = 16.0 * lines
            self._sheet.set_row(self._row, self._heights[self._row])


def _room(first: int, last: int = _PROSE_COLUMNS) -> int:
    """The width of columns in half-width characters."""
    return sum(_WIDTHS[first : last + 1])


def _digits(value: float, usual: str, tiny: str) -> str:
    """The format of a number: whole, usual, or so small that the usual one would show zeros."""
    if not math.isfinite(value):
        return usual
    return "0" if value == int(value) else tiny if abs(value) < _TINY else usual


def _number_format(said: str) -> str | None:
    """The format in which a number is shown as it is written; None for what is no number."""
    found = _NUMBER.fullmatch(said)
    if found is None:
        return None
    sign, whole, digits, power, percent = found.groups()
    shown = "#,##0" if "," in whole else "0"
    shown += "." + "0" * len(digits) if digits else ""
    shown += "E+00" if power else ""
    shown += percent
    return f"+{shown};−{shown}" if sign == "+" else f"{shown};−{shown}"


def _value(said: str) -> float:
    """The number that a text writes."""
    value = float(said.replace("−", "-").replace(",", "").removesuffix("%"))
    return value / 100 if said.endswith("%") else value


def _spans(rows: Sequence[Sequence[p.Inline]]) -> list[tuple[int, int]]:
    """The first and last column of the sheet that each column of a table takes."""
    spans: list[tuple[int, int]] = []
    for texts in zip(*rows, strict=True):
        first = spans[-1][1] + 1 if spans else 0
        wanted = max(columns_of(_plain(text)) for text in texts) + 2
        last = first
        while _room(first, last) < wanted and last + 1 < first + _WIDEST:
            last += 1
        spans.append((first, last))
    return spans


def _plain(inline: p.Inline) -> str:
    """Plain text; an arrow joins deleted and inserted text."""
    return "".join(f"{s.text} →" if s.look == "deleted" else s.text for s in p.spans(inline))
