"""What documents are made of: plain frozen data, nothing of any format.

A document holds parts in order; a section holds parts of its own. Text inside a part is `Inline`: a
string, a span with a look, or several of them. Where a part shows numbers of a trace it keeps the
cell or the matrix itself, so that a format may ask for more: TeX, a live formula, an address.

What knows traces is imported where such a part is asked for its numbers: audits have none, and
importing torch takes longer than an audit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from glassformer.language import Sentences, columns_of

if TYPE_CHECKING:
    from glassformer.colours import Colour
    from glassformer.documents.heat_maps import Matrix
    from glassformer.picture import Picture
    from glassformer.tracing import Cell, Step, Trace
    from glassformer.tracing.explanation import Card, EquationChain
    from glassformer.tracing.formula import Names

Look = Literal[
    "plain", "strong", "emphasis", "quiet", "code", "deleted", "inserted", "good", "bad", "caution"
]


@dataclass(frozen=True, slots=True)
class Span:
    """Text in one style."""

    text: str
    look: Look = "plain"


Inline: TypeAlias = str | Span | tuple[str | Span, ...]


def spans(inline: Inline) -> tuple[Span, ...]:
    """The spans of a text; strings are plain."""
    pieces = inline if isinstance(inline, tuple) else (inline,)
    return tuple(piece if isinstance(piece, Span) else Span(piece) for piece in pieces)


def plain(inline: Inline) -> str:
    """The text without styles."""
    return inline if isinstance(inline, str) else "".join(span.text for span in spans(inline))


def with_code(said: str) -> Inline:
    """A sentence in which backticks enclose code."""
    pieces = said.split("`")
    return tuple(Span(piece, "code") if at % 2 else piece for at, piece in enumerate(pieces))


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: Inline
    look: Look = "plain"
    is_answer: bool = False
    """Whether it gives the answers to questions: a worksheet leaves it out."""

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "text", "text": plain(self.text)}


@dataclass(frozen=True, slots=True)
class Remark:
    """A verdict on the preceding part: a lead such as “✗ In the text”, then the sentence."""

    verdict: str
    text: str
    lead: str = ""
    look: Look = "quiet"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "remark", "verdict": self.verdict, "text": self.text}


@dataclass(frozen=True, slots=True)
class Formula:
    """The arithmetic of one cell, in symbols and in numbers.

    `code` is the line of PyTorch that computed it, where a reader is shown one. What its symbols
    stand for is not worked out where the formula above it has done so (`is_defined_above`).
    """

    card: Card
    code: str = ""
    is_defined_above: bool = False

    @property
    def cell(self) -> Cell:
        return self.card.cell

    @property
    def equations(self) -> tuple[EquationChain, ...]:
        """The cell's equation, and those of what it defines."""
        return self.card.equations[: 1 if self.is_defined_above else None]

    def to_dict(self) -> dict[str, Any]:
        """As data; `step` and `index` say which cell of the trace it is."""
        card = self.card
        return {
            "kind": "formula",
            "step": self.cell.step.name,
            "index": list(self.cell.index),
            "name": card.name,
            "symbols": card.formula,
            "numbers": card.numbers,
            "value": card.value,
            "code": self.code,
            "where": [
                {
                    "symbol": d.symbol,
                    "symbols": d.symbols,
                    "numbers": d.numbers,
                    "value": number_text(d.value, card.digits),
                }
                for d in card.definitions
            ],
        }


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A number of a heat map, ready to be shown."""

    value: float
    text: str
    colour: Colour | None
    """Its background; None if the number is not finite or has no scale."""
    is_marked: bool
    is_unwritten: bool = False
    is_blank: bool = False
    """Left to the reader: it has neither number nor colour."""


UNWRITTEN, BLANK = "∅", "____"
ASKED = "?"
"""In place of a number that the reader computes."""


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """A matrix of a trace with its labels; `marked` is the cell that a formula explains.

    `turned` says that rows and columns of the step are exchanged, as for a linear map's parameters
    in x · W; `marked` counts the rows and columns that a reader sees.
    """

    caption: str
    matrix: Matrix
    marked: tuple[int, int] | None = None
    turned: bool = False
    digits: int = 4
    decimals: int | None = None
    """Decimals for numbers below 10; None: `digits` significant digits throughout."""
    hidden: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Rows that a reader is asked to compute, with the number of the question: a question mark
    stands for their numbers."""
    blanks: frozenset[tuple[int, int]] = frozenset()
    """Rows and columns, as a reader sees them, of numbers that a worksheet leaves out."""
    asked_elsewhere: frozenset[tuple[int, int]] = frozenset()
    """The same for numbers that it asks for in another matrix: a question mark stands for them."""

    @property
    def step(self) -> Step:
        return self.matrix.step

    @property
    def is_boolean(self) -> bool:
        """Whether it says yes and no, as a mask does: with ✓ and ·."""
        return str(self.step.dtype) == "torch.bool"

    def place(self, row: int, column: int) -> tuple[int, ...]:
        """The index in the trace of the number shown at a row and column."""
        two = (column, row) if self.turned else (row, column)
        return (*self.matrix.lead, *two[2 - min(2, len(self.step.shape)) :])

    def cells(
        self, rows: int | None = None, columns: int | None = None, *, coloured: bool = True
    ) -> list[list[HeatCell]]:
        """The first rows and columns, formatted and coloured."""
        from glassformer.documents.heat_maps import scale_of

        scale = scale_of(self.step) if coloured else None
        write = _truth if self.is_boolean else self._text
        holes = set(self._holes(rows, columns))

        def cell(number: float, at: tuple[int, int]) -> HeatCell:
            if at in self.blanks:
                return HeatCell(math.nan, BLANK, None, is_marked=False, is_blank=True)
            is_marked = at == self.marked
            if at in holes:
                return HeatCell(math.nan, UNWRITTEN, None, is_marked, is_unwritten=True)
            if at[0] in self.hidden or at in self.asked_elsewhere:
                return HeatCell(number, ASKED, None, is_marked)
            colour = None if scale is None else scale.colour(number)
            return HeatCell(number, write(number), colour, is_marked)

        shown = self.matrix.values[:rows, :columns].tolist()
        return [
            [cell(number, (row, column)) for column, number in enumerate(line)]
            for row, line in enumerate(shown)
        ]

    def lines(
        self, rows: int | None = None, columns: int | None = None, *, coloured: bool = True
    ) -> list[tuple[str, list[HeatCell]]]:
        """The first rows, each with its label."""
        cells = self.cells(rows, columns, coloured=coloured)
        return list(zip(self.matrix.rows, cells, strict=False))

    def _holes(
        self, rows: int | None = None, columns: int | None = None
    ) -> Iterator[tuple[int, ...]]:
        """Where memory stands, among the first rows and columns, that nothing has written to."""
        from glassformer.documents.heat_maps import may_have_holes
        from glassformer.tracing import Cell

        if may_have_holes(self.step.view):
            for place in np.ndindex(self.matrix.values[:rows, :columns].shape):
                if Cell(self.step, self.place(*place)).is_unwritten:
                    yield place

    def _text(self, number: float) -> str:
        if self.decimals is None:
            return number_text(number, self.digits)
        return shown_number(number, self.decimals, self.digits)

    def notes(self, words: Sentences, rows: int | None = None, columns: int | None = None) -> str:
        """Notes on the first rows and columns: what is left out, what ∅ means."""
        shown = self.matrix
        more_rows = 0 if rows is None else len(shown.rows) - rows
        more_columns = 0 if columns is None else len(shown.columns) - columns
        notes = [words["more rows"].format(count=more_rows)] if more_rows > 0 else []
        notes += [words["more columns"].format(count=more_columns)] if more_columns > 0 else []
        if any(self._holes(rows, columns)):
            notes.append(f"{UNWRITTEN} {words['unwritten']}")
        return "; ".join(notes)

    def to_dict(self) -> dict[str, Any]:
        """As data; infinities as strings, which JSON lacks."""
        from glassformer.documents.heat_maps import scale_of

        shown, scale = self.matrix, scale_of(self.step)
        return {
            "kind": "matrix",
            "caption": self.caption,
            "step": self.step.name,
            "at": list(shown.lead),
            "turned": self.turned,
            "marked": None if self.marked is None else list(self.marked),
            "hidden": list(self.hidden),
            "asked": list(self.hidden.values()),
            "rows": list(shown.rows),
            "columns": list(shown.columns),
            "values": [[_json_number(float(x)) for x in row] for row in shown.values],
            "unwritten": [list(place) for place in self._holes()],
            "is_boolean": self.is_boolean,
            "scale": None if scale is None else {"kind": scale.kind, "limit": scale.limit},
        }


def _truth(number: float) -> str:
    return "✓" if number else "·"


def _json_number(number: float) -> float | str:
    if math.isnan(number):
        return "NaN"
    return number if math.isfinite(number) else "inf" if number > 0 else "-inf"


_NUMBER = re.compile(r"[-−+]?(?:(?:0|[1-9][\d,]*)?(?:\.\d+)?(?:e[-−+]?\d+)?|∞|NaN)%?|…|\?|<")
_PROSE = 40
"""A column with longer text than this counts as prose and is wrapped."""


@dataclass(frozen=True, slots=True)
class Table:
    """Words and numbers in rows; `shares`, one per row from −1 to 1, are drawn as bars."""

    caption: str
    heads: tuple[Inline, ...]
    rows: tuple[tuple[Inline, ...], ...]
    shares: tuple[float, ...] = ()

    @property
    def has_heads(self) -> bool:
        """Whether any column has a heading."""
        return any(map(plain, self.heads))

    def sizes(self) -> list[int]:
        """The width of each column with its heading, in half-width characters."""
        columns = zip(self.heads, *self.rows, strict=True)
        return [max(columns_of(plain(item)) for item in column) for column in columns]

    def columns(self) -> list[list[str]]:
        """The plain text of each column, without its heading."""
        return [[plain(row[at]) for row in self.rows] for at in range(len(self.heads))]

    def is_numeric(self) -> list[bool]:
        """Which columns hold only numbers, and so are right-aligned."""
        return [
            all(_NUMBER.fullmatch(word) for item in column for word in item.split())
            for column in self.columns()
        ]

    def widths(self) -> list[int]:
        """Relative widths of prose columns; 0: as wide as the text."""
        columns = [list(map(columns_of, column)) for column in self.columns()]
        return [
            math.isqrt(sum(lengths)) if max(lengths, default=0) > _PROSE else 0
            for lengths in columns
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "table",
            "caption": self.caption,
            "heads": [plain(head) for head in self.heads],
            "rows": [[plain(item) for item in row] for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing from the numbers of a trace; its caption is the drawing's title."""

    name: str
    drawing: Picture
    numbers: Table | None = None
    """What formats without drawings show, where no other part holds the numbers drawn."""

    @property
    def caption(self) -> str:
        return self.drawing.title

    def to_dict(self) -> dict[str, Any]:
        """As data; the SVG needs nothing else."""
        svg = self.drawing.svg()
        return {"kind": "figure", "name": self.name, "caption": self.caption, "svg": svg}


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an answer is right, and a sentence that says what went wrong if it is not."""

    is_right: bool
    said: str

    def __repr__(self) -> str:
        return f"{'✓' if self.is_right else '✗'} {self.said}"


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A task with hidden numbers; `labels` name them, `check` judges one text per number."""

    text: str
    cells: tuple[Cell, ...]
    labels: tuple[str, ...]
    check: Callable[[Sequence[str]], Judgement]
    number: int = 1
    row: str = ""
    """The label of the row that they are."""
    given: tuple[HeatMap, ...] = ()
    """The matrices that they are computed from."""

    @property
    def answers(self) -> tuple[str, ...]:
        """The right numbers as a matrix of a lesson shows them."""
        return tuple(shown_number(float(cell.value)) for cell in self.cells)

    def answer(self, *numbers: object) -> Judgement:
        """Judge an answer: `question.answer(4, 16, 12)`, or one text, `"4 16 12"`."""
        texts = [text for given in numbers for text in split_answer(str(given))]
        return self.check(texts)

    def rows_in(self, shown: HeatMap) -> list[int]:
        """The rows of a matrix with the numbers asked for, and under the same label."""
        return [
            row
            for row, label in enumerate(shown.matrix.rows)
            if label == self.row and np.array_equal(shown.matrix.values[row], self._numbers)
        ]

    def is_repeated_in(self, parts: Iterable[Part]) -> bool:
        """Whether another matrix has the row, too; the same one shown again is there to be read."""
        own = self.cells[0].step
        maps = [part for part in parts if isinstance(part, HeatMap) and part.step is not own]
        return any(map(self.rows_in, maps))

    @property
    def _numbers(self) -> list[float]:
        return [float(cell.value) for cell in self.cells]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "question",
            "question": self.number,
            "text": self.text,
            "labels": list(self.labels),
            "answers": list(self.answers),
            "given": [{"step": one.step.name, "at": list(one.matrix.lead)} for one in self.given],
        }


def split_answer(line: str) -> list[str]:
    """The numbers of a typed line, between spaces, commas or semicolons."""
    for sign in ",;，；、[]()":
        line = line.replace(sign, " ")
    return line.split()


def number_text(number: float, digits: int) -> str:
    from glassformer.tracing.formula import number as written

    return written(number, digits)


def shown_number(value: float, decimals: int = 3, digits: int = 4) -> str:
    """A number among others: a few decimals below 10, a few digits above."""
    if not math.isfinite(value):
        return number_text(value, digits).replace("-", "−")
    if 0 < abs(value) < 0.5 * 10**-decimals:
        return f"{value:.0e}".replace("-", "−")
    rounded = value if abs(value) >= 10 else round(value, decimals)
    return number_text(rounded, digits).replace("-", "−")


@dataclass(frozen=True, slots=True)
class Code:
    """Preformatted lines."""

    text: str

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "code", "text": self.text}


@dataclass(frozen=True, slots=True)
class Facts:
    """Labelled facts."""

    items: tuple[tuple[str, Inline], ...]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "facts", "items": [[label, plain(said)] for label, said in self.items]}


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree: a line, and the branches below it."""

    text: Inline
    branches: tuple[Tree, ...] = ()

    def lines(self, depth: int = 0) -> Iterator[str]:
        """One line per branch, indented."""
        yield "  " * depth + plain(self.text)
        for branch in self.branches:
            yield from branch.lines(depth + 1)

    def to_dict(self) -> dict[str, Any]:
        below = [branch.to_dict() for branch in self.branches]
        return {"kind": "tree", "text": plain(self.text), "branches": below}


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the parts below it."""

    title: Inline
    parts: tuple[Part, ...]
    number: int | None = None
    new_page: bool = False
    """Whether it begins a page where there are pages."""
    folded: bool = False
    """Whether a page shows it only when asked, and slides not at all."""

    @property
    def heading(self) -> tuple[Span, ...]:
        """The title after its number, where it has one."""
        number = () if self.number is None else (Span(f"{self.number}. "),)
        return (*number, *spans(self.title))

    def to_dict(self) -> dict[str, Any]:
        below = [part.to_dict() for part in self.parts]
        return {"kind": "section", "title": plain(self.title), "parts": below}


Part: TypeAlias = (
    Paragraph
    | Remark
    | Formula
    | HeatMap
    | Table
    | Figure
    | Code
    | Facts
    | Tree
    | Question
    | Section
)


@dataclass(frozen=True, slots=True)
class Document:
    """Parts in order, in one language."""

    title: str
    parts: tuple[Part, ...]
    language: str = "en"
    label: str = ""
    """One word for the kind of document: the name of its sheet in a workbook."""
    data: Callable[[], Mapping[str, Any]] | None = None
    """What the JSON format writes instead of the parts, for kinds with a schema of their own."""
    names: Callable[[Trace], Names] | None = None
    """What its formulas call the steps of a trace; None: as the trace does."""

    def walk(self) -> Iterator[Part]:
        """All parts, each section before its contents."""
        waiting = list(reversed(self.parts))
        while waiting:
            part = waiting.pop()
            yield part
            if isinstance(part, Section):
                waiting += reversed(part.parts)

    def figures(self) -> list[Figure]:
        return [part for part in self.walk() if isinstance(part, Figure)]

    def steps(self) -> list[Step]:
        """The steps whose numbers it shows, each once."""
        shown = (
            part.step if isinstance(part, HeatMap) else part.cell.step
            for part in self.walk()
            if isinstance(part, HeatMap | Formula)
        )
        return list(dict.fromkeys(shown))

    def traces(self) -> list[Trace]:
        """The traces that its numbers come from, in order of appearance."""
        return list({id(step.trace): step.trace for step in self.steps()}.values())

    def to_dict(self) -> Mapping[str, Any]:
        if self.data is not None:
            return self.data()
        parts = [part.to_dict() for part in self.parts]
        return {"title": self.title, "language": self.language, "parts": parts}
