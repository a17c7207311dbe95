"""Worksheets: a document with blanks in its matrices, and an answer sheet at the end.

A step that asks a question leaves the row it asks for to the reader; a step that works out one
number of a matrix, others of that matrix. A number becomes a blank only if the sheet shows what it
is computed from, in a matrix or in the formula of the step, and no formula gives it away; numbers
that are 0, or stand in a sentence or elsewhere in the matrix, are asked for last. Which ones is
decided by the document's words, so a worksheet is the same every time. Other matrices have a
question mark where they repeat a blank. Remarks on the texts are left out, and drawings in which a
blank's number is written stand on the answer sheet: they would show the answers.
"""

from __future__ import annotations

import math
import os
import random
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

import numpy as np

from glassformer.documents import parts as p
from glassformer.documents.renderer import DocumentWriter, words_in, writer
from glassformer.errors import TraceError
from glassformer.language import Sentences
from glassformer.tracing import Cell
from glassformer.tracing.arithmetic.expressions import Entry
from glassformer.tracing.arithmetic.float64_values import fits
from glassformer.tracing.cells import leaves
from glassformer.tracing.explanation import Card

_ENDINGS = {".html": "html", ".tex": "tex", ".md": "md", ".txt": "terminal"}
_MOST = 2
"""Blanks in one matrix."""
_NUMBER = re.compile(r"(-?(?:\d+|inf))(\.\d+)?(%?)")
_EQUAL = 1e-6
"""The relative difference up to which two computed numbers are the same."""
_SMALL = 0.02
"""The share of a matrix's largest number up to which a number is nearly 0."""
_MOST_OPERANDS = 40
"""A number that takes longer to work out is not asked for."""

Blanks: TypeAlias = dict[int, list[tuple[Cell, Card]]]
"""By the place of a section in the document: what it leaves blank, with the answers."""


class Worksheet(DocumentWriter):
    """A worksheet in the format that the file's ending says; Markdown where there is no file."""

    def render(self) -> str | bytes:
        return writer(worksheet(self.document), "md").render()

    def save(self, path: str | os.PathLike[str]) -> Path:
        ending = Path(path).suffix.lower()
        if ending not in _ENDINGS:
            raise TraceError(
                "a worksheet is a file that ends in {endings}, got {path}",
                endings=", ".join(_ENDINGS),
                path=path,
            )
        return writer(worksheet(self.document), _ENDINGS[ending]).save(path)


def worksheet(document: p.Document) -> p.Document:
    """The document with blanks and an answer sheet."""
    words = words_in(document.language)
    asked = _choose(document)
    blanks = {cell for found in asked.values() for cell, _ in found}
    hidden = frozenset(blanks | _repeated(document, blanks))
    moved = [figure for figure in document.figures() if _writes(figure, hidden)]
    questions = [part for part in document.walk() if isinstance(part, p.Question)]
    body: list[p.Part] = []
    for at, part in enumerate(document.parts):
        here = frozenset(cell for cell, _ in asked.get(at, ()))
        kept = _blanked(part, hidden, here, questions, moved, words)
        body += [] if kept is None else [kept]
    maps = [x for x in p.Document("", tuple(body)).walk() if isinstance(x, p.HeatMap)]
    marks = any(part.hidden or part.asked_elsewhere for part in maps)
    task = words["worksheet task"].format(
        count=len(blanks), question_marks=words["worksheet question marks"] if marks else ""
    )
    head = (
        p.Paragraph(words["worksheet name"]),
        p.Paragraph(task if hidden else words["worksheet without blanks"], "strong"),
    )
    title = words["worksheet title"].format(title=document.title)
    answers = [_answers(document, asked, moved)] if hidden else []
    return replace(document, title=title, parts=(*head, *body, *answers), data=None)


def _blanked(
    part: p.Part,
    hidden: frozenset[Cell],
    here: frozenset[Cell],
    questions: Sequence[p.Question],
    moved: Sequence[p.Figure],
    words: Sentences,
) -> p.Part | None:
    """A part without the hidden numbers; None for what would show them.

    `here` are those that its section asks for, `moved` the drawings on the answer sheet.
    """
    if isinstance(part, p.Remark) or (isinstance(part, p.Paragraph) and part.is_answer):
        return None
    if isinstance(part, p.Figure):
        said = words["drawing in answers"].format(caption=part.caption)
        return p.Paragraph(said, "quiet") if part in moved else part
    if isinstance(part, p.Question):  # its row is blank in the matrix above, if nothing tells it
        return p.Paragraph(part.text, "strong") if hidden.intersection(part.cells) else None
    if isinstance(part, p.Section):
        inside = (_blanked(one, hidden, here, questions, moved, words) for one in part.parts)
        return replace(part, parts=tuple(one for one in inside if one is not None))
    if isinstance(part, p.HeatMap):
        places = [(at, cell) for at, cell in _cells(part) if cell in hidden]
        blanks = frozenset(at for at, cell in places if cell in here)
        asked = {one.number for one in questions if hidden.intersection(one.cells)}
        # The same numbers again: not to be seen, and not to be filled in twice.
        again = frozenset(at for at, _ in places) - blanks
        filled = {row for row, _ in blanks}
        rows = {row: n for row, n in part.hidden.items() if n in asked and row not in filled}
        return replace(part, blanks=blanks, asked_elsewhere=again, hidden=rows)
    return part


def _writes(figure: p.Figure, hidden: Iterable[Cell]) -> bool:
    """Whether one of these numbers, rounded, is among those written in a drawing."""
    root = ElementTree.fromstring(figure.drawing.svg(alone=False))  # noqa: S314  our own SVG
    written = _numbers_in(" ".join(root.itertext()))
    return any(_is_among(float(cell.value), written) for cell in hidden)


def _numbers_in(said: str) -> list[tuple[float, float]]:
    """The numbers of a text, and by how much what they stand for may differ.

    They have two decimals, of which zeros may be left out, or four digits; or as many as they have.
    """
    found = _NUMBER.findall(said.replace("−", "-").replace("∞", "inf"))
    written = []
    for whole, decimals, percent in found:
        number, places = float(whole + decimals), max(0, len(decimals) - 1)
        if percent:
            written.append((number / 100, 0.005 * 10**-places))
        else:
            written.append((number, max(0.5 * 10 ** -max(2, places), 5e-4 * abs(number))))
    return written


def _is_among(value: float, written: Iterable[tuple[float, float]]) -> bool:
    """Whether a number is among those written; one that is nearly 0 is not told by a 0."""
    return any(
        value == number or (number != 0 and abs(value - number) <= apart)
        for number, apart in written
    )


def _answers(document: p.Document, asked: Blanks, moved: Sequence[p.Figure]) -> p.Section:
    """Every blank with its arithmetic, in the order of the sheet, and the drawings kept back."""
    words, parts = words_in(document.language), list[p.Part]()
    for at, blanks in asked.items():
        section = document.parts[at]
        assert isinstance(section, p.Section)
        title = p.plain(section.title)
        if section.number is not None:
            title = words["answer of"].format(title=title, number=section.number)
        parts.append(p.Section(title, tuple(_worked_out(card for _, card in blanks))))
    return p.Section(words["answers"], (*parts, *moved), new_page=True)


def _worked_out(cards: Iterable[Card]) -> Iterator[p.Formula]:
    """The answers; what they have in common with the one above, such as the sum of a softmax,
    stands there."""
    above: list[str] = []
    for card in cards:
        defined = [f"{part.symbols} = {part.numbers}" for part in card.definitions]
        yield p.Formula(card, is_defined_above=bool(defined) and defined == above)
        above = defined


# --- which numbers ---


def _choose(document: p.Document) -> Blanks:
    """The blanks of each section that works out a number of a matrix it shows."""
    told = set(_told(document))
    questions = [part for part in document.walk() if isinstance(part, p.Question)]
    needed = {cell for part in questions for asked in part.cells for cell in _operands(asked)}
    hidden = {cell for part in questions for cell in part.cells} - told
    shown: set[Cell] = set()
    asked: Blanks = {}
    for at, section in enumerate(document.parts):
        if not isinstance(section, p.Section):
            continue
        maps = [part for part in section.parts if isinstance(part, p.HeatMap)]
        shown |= {cell for part in maps for _, cell in _cells(part)}
        example = next((part for part in section.parts if isinstance(part, p.Formula)), None)
        marked = [part for part in maps if part.marked is not None]
        if example is None or not marked or marked[-1].step is not example.cell.step:
            continue
        rows = [part for part in section.parts if isinstance(part, p.Question)]
        if rows:
            cells = [cell for part in rows for cell in part.cells if cell in hidden]
            asked |= {at: [(cell, _answer(cell, example.card)) for cell in cells]} if cells else {}
            continue
        seed = zlib.crc32(f"{document.title}/{at}/{example.cell.name}".encode())
        order = random.Random(seed)  # noqa: S311  which numbers to ask for
        known = (shown | _written(example.card)) - hidden
        found = [
            (cell, card)
            for cell in _candidates(marked[-1], section, order)
            if cell not in told | needed | hidden
            and (card := _card(cell, example.card, known)) is not None
        ][:_MOST]
        if found:
            asked[at] = found
            hidden |= {cell for cell, _ in found}
            hidden |= _repeated(document, hidden)
    return asked


def _repeated(document: p.Document, hidden: set[Cell]) -> set[Cell]:
    """The cells of matrices that repeat hidden numbers: copies of them, and equal numbers at the
    same place of the same matrix in another head or another run."""
    maps = [part for part in document.walk() if isinstance(part, p.HeatMap)]
    places = {
        (part.step.name, part.matrix.rows[row], part.matrix.columns[column]): cell
        for part in maps
        for (row, column), cell in _cells(part)
        if cell in hidden
    }
    found: set[Cell] = set()
    for part in maps:
        for (row, column), cell in _cells(part):
            twin = places.get((part.step.name, part.matrix.rows[row], part.matrix.columns[column]))
            if twin is not None and math.isclose(cell.value, twin.value, rel_tol=_EQUAL):
                found.add(cell)
    for part in maps:
        found |= {cell for _, cell in _cells(part) if _copied(cell) in hidden | found}
    return found - hidden


def _copied(cell: Cell) -> Cell | None:
    """The cell that a cell is a copy of."""
    if not isinstance(cell.expression, Entry):
        return None
    (source,) = leaves(cell.expression)
    return source


def _told(document: p.Document) -> Iterator[Cell]:
    """The cells whose numbers a formula of the document writes down."""
    for part in document.walk():
        if isinstance(part, p.Formula):
            yield part.cell
            yield from _operands(part.cell)


def _written(card: Card) -> set[Cell]:
    """The numbers that a formula computes with, if it writes all of them down (of a mask it
    writes only the outcome)."""
    operands = set(_operands(card.cell))
    numbers = {cell for cell in operands if not isinstance(cell.value, bool)}
    return numbers if fits(len(operands), card.most) else set()


def _operands(cell: Cell) -> Iterator[Cell]:
    return iter(()) if cell.expression is None else leaves(cell.expression)


def _cells(part: p.HeatMap) -> Iterator[tuple[tuple[int, int], Cell]]:
    for row in range(len(part.matrix.rows)):
        for column in range(len(part.matrix.columns)):
            yield (row, column), Cell(part.step, part.place(row, column))


def _candidates(part: p.HeatMap, section: p.Section, order: random.Random) -> Iterable[Cell]:
    """The cells of a matrix, those that teach most first: not nearly 0, in no sentence of the
    step, not in the row of the example, and not a number that the matrix has several times."""
    assert part.marked is not None
    (row, _), values = part.marked, part.matrix.values
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0))
    written = _numbers_in(" ".join(_sentences(section)))
    places = [(place, cell) for place, cell in _cells(part) if place != part.marked]
    order.shuffle(places)

    def rank(found: tuple[tuple[int, int], Cell]) -> tuple[bool, bool, bool, int, float]:
        place, _ = found
        value = float(values[place])
        times = int(np.isclose(values, value, rtol=_EQUAL, atol=0).sum())
        among = value if times > 1 else 0.0  # of equal numbers all, if any
        tells_little = not _SMALL * largest < abs(value) <= largest
        return tells_little, _is_among(value, written), place[0] == row, times, among

    return (cell for _, cell in sorted(places, key=rank))


def _sentences(section: p.Section) -> Iterator[str]:
    """What a section says in sentences and tables."""
    for part in section.parts:
        if isinstance(part, p.Paragraph):
            yield p.plain(part.text)
        elif isinstance(part, p.Table):
            yield from (p.plain(item) for line in part.rows for item in line)


def _card(cell: Cell, example: Card, known: set[Cell]) -> Card | None:
    """The answer, in the notation of the example; None if the sheet does not let one compute it."""
    if cell.expression is None or cell.is_unwritten:
        return None
    operands = list(leaves(cell.expression))
    if len(operands) > _MOST_OPERANDS or not set(operands) <= known:
        return None
    card = _answer(cell, example)
    return card if card.relation == "=" and not card.is_copy else None


def _answer(cell: Cell, example: Card) -> Card:
    """A cell worked out in the notation of the example."""
    return Card(cell, digits=example.digits, language=example.language, names=example.sight.names)
