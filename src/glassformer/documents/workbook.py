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

from glassformer.colours import BLUE, ORANGE, WHITE, hex_colour
from glassformer.documents.heat_maps import (
    axis_labels,
    row_labels,
    scale_of,
    shape_text,
    unwritten_places,
)
from glassformer.documents.renderer import legend_text, meaning_of
from glassformer.documents.trace_data import Addresses, all_steps, note_in
from glassformer.documents.workbook_formulas import (
    INFINITE,
    INFINITY,
    Formulas,
    InexpressibleError,
    constant,
    needs_array,
)
from glassformer.documents.workbook_layout import (
    HEAD,
    LEFT,
    MOST_COLUMNS,
    MOST_NUMBERS,
    Layout,
    SheetBlock,
    cell_name,
    lay_out,
)
from glassformer.documents.workbook_paper import fit_paper, points
from glassformer.errors import NotInstalledError, stop_if_cancelled
from glassformer.language import Sentences, columns_of
from glassformer.tracing.arithmetic.expressions import Expression, Number, Scalar
from glassformer.tracing.arithmetic.float64_values import Evaluation
from glassformer.tracing.capture.memory import Index, flat_place, index_of
from glassformer.tracing.explanation import NOT_REPRODUCED, Card
from glassformer.tracing.formula import Names, to_text
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet


# --- formats ---
# How cells look: fill by role for what may be changed, heat colours for what is computed.


_FLOAT, _WHOLE = "0.0000", "0"
_LABELS, _NUMBERS = 22, 10
"""The widths of columns in characters."""
_SAID = 7
"""The last column of a text that is set across columns."""
_FILLED = 0.95
"""How much of its width a line of wrapped text takes at most."""
_FILL = {"parameter": "#DDEBF7", "input": "#E2EFDA", "constant": "#EDEDED", "activation": "#FFFFFF"}
_INK = {"parameter": "#1F4E9E", "input": "#2E6B1F", "constant": "#444444", "activation": "#000000"}


class Formats:
    """The cell formats of a workbook, each made once."""

    def __init__(self, book: Workbook) -> None:
        make = book.add_format
        self.title = make({"bold": True, "font_size": 14})
        self.name = make({"bold": True, "font_size": 12})
        self.quiet = make({"font_color": "#555555", "valign": "top"})
        self.said = make({"font_color": "#555555", "valign": "top", "text_wrap": True})
        self.link = make({"font_color": "#1F4E9E", "underline": 1})
        self.column = make({"align": "right", "font_color": "#555555", "bottom": 1})
        self.column_head = make({"bold": True, "bottom": 1})
        self.row = make({"font_color": "#555555", "right": 1})
        self.auxiliary = make({"num_format": _FLOAT, "italic": True, "font_color": "#7A4B00"})
        self.by_role: dict[str, Any] = {}
        self._whole: dict[str, Any] = {}
        for role, fill in _FILL.items():
            look = {"font_color": _INK[role], "border": 1, "border_color": "#D0D0D0"}
            if role != "activation":
                look["bg_color"] = fill
            self.by_role[role] = make({**look, "num_format": _FLOAT})
            self._whole[role] = make({**look, "num_format": _WHOLE})
        self._frozen = make({"num_format": _FLOAT, "pattern": 14, "fg_color": "#D9D9D9"})
        self.unwritten = make({"num_format": _FLOAT, "pattern": 4, "font_color": "#999999"})
        self._minus_infinity = make({"num_format": '"−∞"', "font_color": "#333333"})
        self._infinity = make({"num_format": '"∞"', "font_color": "#333333"})

    def of(self, step: Step, *, is_formula: bool) -> Any:
        """The format of a step's numbers."""
        if step.role == "activation" and not is_formula:
            return self._frozen
        table = self.by_role if step.dtype.is_floating_point else self._whole
        return table[step.role]

    def colour(self, sheet: Worksheet, block: SheetBlock) -> None:
        """Heat colours over a block of computed numbers; −∞ in words."""
        if block.step.role != "activation" or block.rows == 0 or block.columns == 0:
            return
        area = (block.top, LEFT, block.top + block.rows - 1, LEFT + block.columns - 1)
        for sign, format_ in (("<=", self._minus_infinity), (">=", self._infinity)):
            bound = f"-{INFINITE}" if sign == "<=" else INFINITE
            rule = {"type": "cell", "criteria": sign, "value": f"={bound}", "format": format_}
            sheet.conditional_format(*area, {**rule, "stop_if_true": True})
        scale = scale_of(block.step)
        if scale is None:
            return
        look: dict[str, Any] = {"type": "3_color_scale", "min_type": "num", "max_type": "num"}
        if scale.kind == "probability":
            look |= {"type": "2_color_scale", "min_value": 0, "max_value": 1}
            look |= {"min_color": hex_colour(WHITE), "max_color": hex_colour(ORANGE)}
        else:
            look |= {"mid_type": "num", "min_value": -scale.limit, "mid_value": 0}
            look |= {"max_value": scale.limit, "min_color": hex_colour(BLUE)}
            look |= {"mid_color": hex_colour(WHITE), "max_color": hex_colour(ORANGE)}
        sheet.conditional_format(*area, look)


# --- blocks ---
# One step in a sheet: its name, labels, numbers or formulas, and the auxiliary cells beside them.
#
# The workbook of a trace and that of a lesson are made of these.


@dataclass(slots=True)
class WorkbookSetting:
    """What every sheet needs."""

    layout: Layout
    addresses: Addresses
    formats: Formats
    words: Sentences
    names: Names | None = None
    """Of the steps in formulas; None: those of their trace."""
    frozen: dict[int, str] = field(default_factory=dict)
    """The steps that no formula can express, with the reason."""


class _BlockWriter:
    """Writes one step: title, labels, numbers or formulas, and the auxiliary cells beside them."""

    def __init__(self, sheet: Worksheet, block: SheetBlock, setting: WorkbookSetting) -> None:
        self._sheet = sheet
        self._block = block
        self._step = block.step
        self._setting = setting
        self._auxiliary = _AuxiliaryCells(block)
        self._holes = set(unwritten_places(block.step))
        self.heights: dict[int, float] = {}
        """Of the lines that are not as high as usual."""
        self._formulas = Formulas(
            setting.layout, setting.addresses, block.sheet, self._auxiliary.add
        )

    @property
    def last_column(self) -> int:
        """The last column in use."""
        beside = [column for _, column in self._auxiliary.cells]
        return max([LEFT + self._block.columns - 1, *beside])

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
                self._formula_of(place, step.expression(index_of(place, step.shape)))
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
        if difference > self._step.tolerance:
            raise InexpressibleError(NOT_REPRODUCED)
        self._auxiliary.row = self._block.at(place)[0]
        return self._formulas.of(expression)

    def _write_head(self) -> None:
        step, formats, top = self._step, self._setting.formats, self._block.top
        words = self._setting.words
        operator = "" if step.op == step.role else step.op
        facts = [meaning_of(words, step.name), shape_text(step.shape), operator, words[step.role]]
        facts.insert(0, self._in_symbols())
        if self._names.is_turned(step):
            facts.insert(1, words["turned"])
        if step.line is not None:
            facts.append(f"{step.line.place}  {step.line.text}")
        if self._holes:
            facts.append(f"▒ {words['unwritten']}")
        self._sheet.write_string(top - 3, 0, step.name, formats.name)
        self._say(top - 2, " · ".join(filter(None, facts)))
        first = dict(self._names.axes(step))
        last = len(step.shape) - 1
        begin = first.get(last, int(self._names.is_textbook))
        labels = axis_labels(step, last, begin) if step.shape else ("",)
        for column, label in enumerate(labels):
            self._sheet.write_string(top - 1, LEFT + column, label, formats.column)
        for row, label in enumerate(row_labels(step, words, first)):
            self._sheet.write_string(top + row, 0, label, formats.row)

    def _say(self, row: int, said: str) -> None:
        """A text across columns, its height set by hand: merged cells do not grow."""
        room = _LABELS + _NUMBERS * _SAID
        self._sheet.merge_range(row, 0, row, _SAID, said, self._setting.formats.said)
        lines = math.ceil(columns_of(said) / (_FILLED * room))
        if lines > 1:
            self.heights[row] = 15.0 * lines
            self._sheet.set_row(row, self.heights[row])

    @property
    def _names(self) -> Names:
        return self._setting.names or self._step.trace.naming

    def _in_symbols(self) -> str:
        """What the step is called in formulas, with the formula of its first cell if it has one."""
        step = self._step
        symbol = str(self._names.symbol(step))
        if not step.view.numel:
            return symbol
        language = self._setting.words.language
        card = Card(step[(0,) * len(step.shape)], language=language, names=self._names)
        if card.expression is None:
            return symbol
        said = (
            to_text(tree, language=language, minus=True) for tree in (card.name_tree, card.tree)
        )
        formula = f" {card.relation} ".join(said)
        return " · ".join(filter(None, (formula, legend_text(card, self._setting.words))))

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

    block: SheetBlock
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


def new_book(file: io.BytesIO, title: str) -> Workbook:
    """An empty workbook."""
    try:
        import xlsxwriter
    except ImportError:
        raise NotInstalledError(
            "a workbook needs XlsxWriter: pip install 'glassformer[workbook]'"
        ) from None
    book = xlsxwriter.Workbook(file, {"in_memory": True, "strings_to_formulas": False})
    # A fixed date: the same trace gives the same file.
    book.set_properties({"title": title, "created": datetime(2026, 1, 1)})
    return book


class TraceSheets:
    """The sheets of traces in one workbook, behind a front sheet that shows them."""

    def __init__(self, book: Workbook, front: str, words: Sentences) -> None:
        self.formats = Formats(book)
        self._book = book
        self._front = front
        self._words = words
        self._taken = [front]
        self._layouts: dict[int, Layout] = {}

    def add(
        self, trace: Trace, live: Iterable[Step], names: Names | None = None, together: str = ""
    ) -> WorkbookSetting:
        """Write steps as formulas, and what they read.

        `together` is the name of a single sheet for them, if they are few enough for one.
        """
        layout = lay_out(trace, live, self._taken, together)
        self._taken += layout.sheets
        self._layouts[id(trace)] = layout
        setting = WorkbookSetting(layout, Addresses(), self.formats, self._words, names)
        for name, blocks in layout.sheets.items():
            _write_sheet(self._book.add_worksheet(name), name, blocks, setting, self._front)
        return setting

    def address(self, step: Step, index: Index) -> str:
        """`'sheet'!B7`: where a cell of a step (or of a view of one) stands."""
        cell = step[index]
        block = self._layouts[id(step.trace)].blocks[cell.step.number]
        row, column = block.at(flat_place(cell.index, cell.step.shape))
        return f"'{block.sheet}'!{cell_name(row, column)}"


def steps_behind(trace: Trace, shown: Sequence[Step]) -> list[Step]:
    """The computed steps that are shown, and those that they read, near and far.

    If these are too many numbers for a workbook (a trained model), the steps shown alone: what they
    read then stands as plain numbers.
    """
    addresses = Addresses()
    by_number = {step.number: step for step in all_steps(trace)}

    def read_by(step: Step) -> list[Step]:
        return [by_number[number] for number in addresses.read_by(step)]

    waiting = list(shown)
    found: dict[int, Step] = {}
    while waiting:
        step = waiting.pop()
        if step.number not in found:
            found[step.number] = step
            waiting += read_by(step)
    chosen = list(found.values())
    if sum(math.prod(step.shape) for step in chosen) > MOST_NUMBERS:
        chosen = [one for step in shown for one in (read_by(step) if step.is_view else [step])]
    return [step for step in chosen if not step.is_view]


def workbook_bytes(trace: Trace, steps: Iterable[Step] | None, words: Sentences) -> bytes:
    """The .xlsx file of a trace; with `steps`, only those are formulas over what they read."""
    live = [step for step in (trace.steps if steps is None else steps) if not step.is_view]
    memory = io.BytesIO()
    book = new_book(memory, "glassformer")
    index = book.add_worksheet(words["index"])
    sheets = TraceSheets(book, words["index"], words)
    _write_index(index, trace, sheets.add(trace, live))
    book.close()
    return memory.getvalue()


def _write_sheet(
    sheet: Worksheet, name: str, blocks: Sequence[SheetBlock], setting: WorkbookSetting, back: str
) -> None:
    widest = max(block.columns for block in blocks)
    sheet.set_column(0, 0, _LABELS)
    sheet.set_column(LEFT, min(LEFT + widest + 8, MOST_COLUMNS - 1), _NUMBERS)
    sheet.freeze_panes(1, 1)
    sheet.write_url(0, 0, f"internal:'{back}'!A1", setting.formats.link, f"← {back}")
    sheet.write_string(0, 1, name, setting.formats.title)
    writers = [_BlockWriter(sheet, block, setting) for block in blocks]
    for writer in writers:
        writer.write()
    last = max(_SAID, *(writer.last_column for writer in writers))
    heights = {row: height for writer in writers for row, height in writer.heights.items()}
    starts = [0, *(block.top - HEAD for block in blocks[1:])]
    end = blocks[-1].top + blocks[-1].rows
    fit_paper(sheet, points(_LABELS) + last * points(_NUMBERS), starts, end, heights)


def _write_index(sheet: Worksheet, trace: Trace, setting: WorkbookSetting) -> None:
    formats, words = setting.formats, setting.words
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)
    for first, last, width in ((0, 0, 44), (1, 4, 16), (5, 5, 70)):
        sheet.set_column(first, last, width)
    how = ("workbook how", "workbook float64", "workbook infinity", "workbook frozen")
    lines = [
        (words["workbook title"], formats.title),
        *((words[key].format(infinity=f"{INFINITY:.0E}"), formats.quiet) for key in how),
        *((words[role], formats.by_role[role]) for role in ("parameter", "input", "constant")),
        *((note_in(words, note), formats.quiet) for note in trace.notes),
    ]
    for row, (said, look) in enumerate(lines):
        sheet.write_string(row, 0, said, look)
    first = len(lines) + 2
    for column, head in enumerate(("step", "shape", "operator", "role", "sheet", "source")):
        sheet.write_string(first - 1, column, words[head], formats.column_head)
    sheet.freeze_panes(first, 1)
    blocks = sorted(setting.layout.blocks.values(), key=lambda block: block.step.number)
    for row, block in enumerate(blocks, start=first):
        step = block.step
        target = f"internal:'{block.sheet}'!{cell_name(block.top - 3, 0)}"
        sheet.write_url(row, 0, target, formats.link, step.name)
        source = f"{step.line.place}  {step.line.text}" if step.line is not None else ""
        role = _role_in_words(step, setting)
        for column, text in enumerate((shape_text(step.shape), step.op, role, block.sheet, source)):
            sheet.write_string(row, column + 1, text, formats.quiet)


def _role_in_words(step: Step, setting: WorkbookSetting) -> str:
    words = setting.words
    if step.number in setting.frozen:
        return f"{words['frozen']}: {setting.frozen[step.number]}"
    is_output = step.number in {one.number for one in step.trace.outputs.values()}
    return f"{words[step.role]}, {words['output']}" if is_output else words[step.role]
