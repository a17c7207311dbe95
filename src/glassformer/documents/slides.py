"""Slides: one HTML file, one slide per step, with speaker's notes; or a PDF of one slide per page.

A slide holds the first sentences of each paragraph, more of them where it has nothing else; the
whole prose is in its notes (key N). A narrow matrix or table that has no room below what it belongs
to stands beside it, and one that goes to the next slide takes its formula along. A question has
the matrices that it is answered from. A step that does not fit is continued on further slides; a
drawing that would be small below its sentences stands beside them or alone, and key Z doubles what
is too small to read. The file needs nothing else: it works without a network, and printing it gives
a page per slide. Chromium prints the PDF where it is installed.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import accumulate, dropwhile, groupby, takewhile
from pathlib import Path

from glassformer.documents import parts as p
from glassformer.documents.html import Html, own_file
from glassformer.documents.renderer import write_file
from glassformer.errors import TraceError
from glassformer.language import columns_of

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
             "msedge", "chromium-headless-shell", "chrome-headless-shell")  # fmt: skip
_PRINT_SECONDS = 120
_HEIGHT, _WIDTH = 900.0, 1744.0
"""What a slide holds below its title, in pixels of 1920 × 1080; a little more is shrunk to fit."""
_SQUEEZED = 1.1 * _HEIGHT
"""What sentences, formulas and what comes after them may take together, shrunk."""
_ASKED = 1.2 * _HEIGHT
"""What a question may take with the matrices that it is answered from, shrunk."""
_STRETCHED = 1.15 * _HEIGHT
"""What a slide may take, shrunk, rather than leave a sentence or remark alone on the next."""
_LINE = 54.0
_ACROSS = 92
"""Half-width characters in a line."""
_GAP = 80.0
"""Between what stands side by side."""
_NARROWEST, _NARROWEST_DRAWING = 0.4, 0.28
"""The share of the width that sentences and formulas keep beside a matrix or table, and that
sentences keep beside a drawing (as in slides.js)."""
_NUMBER = 19.0
"""The width of a character of a formula in numbers."""
_ROWS, _COLUMNS, _CODE_LINES = 14, 14, 20
_LARGE = 1.5
"""How many times its own size a drawing needs to be read from the back."""
_CLOSING = "[)”’\"'）」』]*"
_NAMED = "”（[a-z-]+）"
_SENTENCE = re.compile(
    rf".+?(?:[.!?]{_CLOSING}(?=\s|$)(?!\s+\(?[a-z])|[。！？](?!{_NAMED}){_CLOSING}|$)", re.DOTALL
)
"""A sentence with the brackets and quotation marks that close behind it; the question mark of a
title, with the name of its lesson or a small letter behind it, ends none."""
_LONGEST, _LONGEST_ALONE, _MORE_LINES = 190, 600, 2
"""Half-width characters of a paragraph that a slide shows, beside other things and with nothing
but prose, and lines that it shows more of where there is room; the notes have all of it."""


_BESIDE = (p.HeatMap, p.Table, p.Figure)
"""What may stand beside sentences and formulas."""
_Block = list[p.Part]
"""Parts that stay together."""


@dataclass
class _Slide:
    """Blocks of parts that make one slide; `notes` are paragraphs."""

    title: p.Inline
    number: int | None
    part: int = 1
    blocks: list[_Block] = field(default_factory=list)
    beside: _Block = field(default_factory=list)
    """Matrices, tables or a drawing to the right of sentences and formulas."""
    notes: list[p.Inline] = field(default_factory=list)
    begins_again: bool = False
    """Whether it begins with the formula of the slide before."""

    @property
    def parts(self) -> list[p.Part]:
        return [part for block in self.blocks for part in block]

    def shown(self) -> list[p.Part]:
        """The parts as the slide shows them: of each paragraph, the first sentences."""
        longest = _LONGEST
        if self.is_prose and self.blocks:
            most = int(_LONGEST_ALONE * max(self.share, _NARROWEST))
            longest = max(longest, most // len(self.blocks))
        elif not self.is_drawing:
            told = sum(isinstance(part, p.Paragraph) for part in self.parts)
            spare = max(0, int((_HEIGHT - self.used) / _LINE)) // max(1, told)
            longest += min(_MORE_LINES, spare) * int(_ACROSS * self.share)
        return [_lead(part, longest) for part in self.parts]

    @property
    def share(self) -> float:
        """What the blocks left of a matrix or table have of the width."""
        return _share_beside(self.beside) if self.beside else 1.0

    @property
    def columns(self) -> tuple[list[_Block], list[_Block], list[_Block]]:
        """The blocks above what stands side by side, those on its left, and those below: sentences
        before a formula are above, and what is no sentence or formula is below."""
        blocks = [*self.blocks]
        first = next((at for at, [part, *_] in enumerate(blocks) if isinstance(part, p.Formula)), 0)
        last = len(list(takewhile(_is_told, blocks)))
        return blocks[:first], blocks[first:last], blocks[last:]

    @property
    def used(self) -> float:
        """The estimated height of the slide."""
        if not self.beside:
            return sum(map(_height, self.blocks))
        above, left, below = self.columns
        told = sum(_height(block, self.share) for block in left)
        return sum(map(_height, [*above, *below])) + max(_height_beside(self.beside), told)

    @property
    def is_drawing(self) -> bool:
        return self.drawing is not None

    @property
    def drawing(self) -> p.Figure | None:
        drawings = (part for part in [*self.parts, *self.beside] if isinstance(part, p.Figure))
        return next(drawings, None)

    @property
    def is_prose(self) -> bool:
        """Whether there are only sentences."""
        return all(isinstance(part, p.Paragraph) for part in self.parts)

    @property
    def is_told(self) -> bool:
        """Whether there are only sentences and formulas."""
        return all(map(_is_told, self.blocks))

    @property
    def is_stray(self) -> bool:
        """Whether this continues a step with no more than a short paragraph."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return (
            self.part > 1
            and isinstance(only, p.Paragraph)
            and columns_of(p.plain(only.text)) <= _LONGEST
        )

    def missing(self, part: p.Part) -> list[_Block]:
        """The matrices that a question is answered from, if the slide shows none."""
        if not (isinstance(part, p.Question) and part.given):
            return []
        if self.beside or not all(map(_is_about_numbers, self.blocks)):
            return []
        rows: list[_Block] = list(_rows_of_numbers(part.given))
        used = _height([part]) + sum(map(_height, rows))
        return rows if used <= _ASKED else []

    def takes(self, block: Sequence[p.Part]) -> bool:
        """Whether a block may follow; a drawing stands alone, or stays large below sentences."""
        part = block[0]
        if not isinstance(part, p.Figure):
            if self.is_drawing or (self.beside and isinstance(part, p.HeatMap | p.Table)):
                return False
            more = sum(map(_height, self.missing(part))) + _height(block, self.share)
            return self.used + more <= self.room_for(part)
        return not self.parts or (
            self.is_prose and not self.beside and _stays_large(part, self.used)
        )

    def room_for(self, part: p.Part) -> float:
        """What the slide may take with another part; more if this would be alone on the next."""
        if self.begins_again and isinstance(part, p.Remark):
            return _STRETCHED
        tight = (self.is_told or isinstance(part, p.HeatMap)) and not self.beside
        return _SQUEEZED if tight else _HEIGHT

    def stands_beside(self, block: _Block, *below: _Block) -> bool:
        """Put matrices, tables or a drawing to the right of sentences and formulas, if these keep
        enough of the width and there is room for what comes below."""
        if self.beside or not self.is_told or not isinstance(block[0], _BESIDE):
            return False
        tried = replace(self, beside=block, blocks=[*self.blocks, *below])
        formulas = [part for part in self.parts if isinstance(part, p.Formula)]
        least = _NARROWEST_DRAWING if tried.is_drawing and not formulas else _NARROWEST
        fits = (
            tried.share >= least
            and all(_longest_number(part) <= tried.share * _WIDTH for part in formulas)
            and tried.used <= _SQUEEZED
        )
        self.beside = block if fits else []
        return fits

    def moves_beside(self, below: Sequence[_Block]) -> bool:
        """Put the last matrices to the right, if that leaves room for remarks about them."""
        remarks = list(takewhile(lambda block: isinstance(block[0], p.Remark), below))
        if not remarks or len(self.blocks) < 2:
            return False
        last = self.blocks.pop()
        if not self.stands_beside(last, *remarks):
            self.blocks.append(last)
        return bool(self.beside)

    def bears(self, more: float) -> bool:
        """Whether a short paragraph that would be alone may be added."""
        if self.drawing is None:
            return self.used + more <= _STRETCHED
        said = sum(_height(block) for block in self.blocks if _is_told(block))
        return not self.beside and _stays_large(self.drawing, said + more)

    def formula_again(self, blocks: Sequence[_Block]) -> p.Formula | None:
        """The formula of the matrices that have no room on this slide: whole if it fits above
        all of them, or without its code, or without what its symbols stand for."""
        before = list(dropwhile(lambda part: isinstance(part, p.HeatMap), reversed(self.parts)))
        matrices = list(takewhile(lambda block: isinstance(block[0], p.HeatMap), blocks))
        rest = blocks[len(matrices) :]
        remarks = list(takewhile(lambda block: isinstance(block[0], p.Remark), rest))
        formula = before[0] if before else None
        if not matrices or not isinstance(formula, p.Formula):
            return None
        if all(_is_elsewhere(part, formula) for part in matrices[0]):
            return None
        bare = replace(formula, code="")
        forms = (formula, bare, replace(bare, is_defined_above=True))
        told = [*matrices, *remarks]
        limits = [(told, _SQUEEZED), (matrices, _SQUEEZED), (blocks[:1], _SQUEEZED)]
        limits[1:1] = [(told, _STRETCHED)] if remarks else []
        for below, limit in limits:
            for form in forms:
                if sum(map(_height, below)) + _part_height(form) <= limit:
                    return form
        return None

    def following(self, blocks: Sequence[_Block] = ()) -> _Slide:
        """The next slide; a remark that would stand alone takes what it is about along, and
        matrices take their formula."""
        after = _Slide(self.title, self.number, self.part + 1)
        about = [block[0] for block in takewhile(_is_about_numbers, blocks)]
        takes_along = (
            len(about) == 1
            and isinstance(about[0], p.Remark)
            and not self.is_drawing
            and not self.beside
            and len(self.blocks) > 1 + self.begins_again
        )
        along = [self.blocks.pop()] if takes_along else []
        if formula := self.formula_again([*along, *blocks]):
            after.blocks.append([formula])
            after.begins_again = True
        after.blocks += along
        return after


class Slides(Html):
    """A deck; saved to a file that ends in .pdf, it is printed."""

    def render(self) -> str:
        deck = "\n".join([self._opening(), *map(self._slide, self._slides())])
        notes = escape(self.words["speaker notes"])
        return self.page(
            f'<main id="stage">\n{deck}\n</main>\n<div id="foot"><div id="bar"></div></div>\n'
            '<div id="count" aria-live="polite"></div>\n'
            f'<div id="notes" role="note" aria-label="{notes}" hidden></div>\n'
            f"<script>\n{own_file('slides.js')}</script>\n",
            style=own_file("slides.css"),
            attributes=' class="no-script"',
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, or print it."""
        if Path(path).suffix.lower() != ".pdf":
            return super().save(path)
        return write_file(path, printed(self.render()))

    # --- from parts to slides ---

    def _slides(self) -> Iterator[_Slide]:
        sections = [part for part in self.document.parts if isinstance(part, p.Section)]
        for section in sections:
            yield from _without_strays(self._deal(section))

    def _opening(self) -> str:
        """The title, and what stands before the first section; its small print is in the notes."""
        before = [part for part in self.document.parts if not isinstance(part, p.Section)]
        said = [part for part in before if isinstance(part, p.Paragraph)]
        shown = [part for part in said if part.look != "quiet"][:1]
        body = "".join(map(self.paragraph, shown))
        rest = [part for part in before if part not in said]
        body += "".join(self.write_all(rest))
        notes = "".join(map(self.paragraph, said))
        keys = escape(self.words["slide keys"])
        heading = f"<h1>{escape(self.document.title or self.words['title'])}</h1>"
        inside = f'<div class="body">{heading}{body}<p class="keys">{keys}</p></div>'
        return (
            f'<section class="slide title"><div class="room">{inside}</div>'
            f"<aside>{notes}</aside></section>"
        )

    def _deal(self, section: p.Section) -> Iterator[_Slide]:
        """A section over as many slides as it needs."""
        slide = _Slide(section.title, section.number)
        blocks = list(_blocks(section.parts))
        for at, block in enumerate(blocks):
            first = block[0]
            if isinstance(first, p.Section) and first.folded:
                continue
            if isinstance(first, p.Section):
                if slide.blocks or slide.notes:
                    yield slide
                yield from self._deal(replace(first, number=section.number))
                slide = slide.following()
                continue
            told = [first] if isinstance(first, p.Paragraph) else []
            is_shown = all(part.look != "quiet" for part in told)  # not the small print
            if is_shown and slide.blocks and not slide.takes(block):
                if slide.stands_beside(block):
                    continue
                if not slide.moves_beside(blocks[at:]):
                    after = slide.following(blocks[at:])
                    yield slide
                    slide = after
            slide.blocks += slide.missing(first)
            if is_shown:
                slide.blocks.append(block)
            slide.notes += [part.text for part in told]
        if slide.blocks or slide.notes:
            yield slide

    def _slide(self, slide: _Slide) -> str:
        number = f'<span class="number">{slide.number}</span>' if slide.number is not None else ""
        first = slide.parts[0] if slide.parts else None
        alone = first.caption if isinstance(first, p.Figure) else None
        again = slide.part > 1 and alone is None
        more = f' <span class="more">({slide.part})</span>' if again else ""
        said = escape(p.plain(slide.title) if alone is None else alone)
        body = self._body(slide)
        notes = "".join(self.paragraph(p.Paragraph(text)) for text in slide.notes)
        kind = "slide drawing" if slide.is_drawing else "slide"
        kind += " told" if slide.is_drawing and alone is None else ""
        return (
            f'<section class="{kind}"><h2>{number}{said}{more}</h2>\n'
            f'<div class="room"><div class="body">{body}</div></div>'
            f"<aside>{notes}</aside></section>"
        )

    def _body(self, slide: _Slide) -> str:
        shown = slide.shown()
        if not slide.beside:
            return "\n".join(self.write_all(shown))
        above, left, _below = (sum(map(len, blocks)) for blocks in slide.columns)
        told, right = self.write_all(shown[above : above + left]), self.write_all(slide.beside)
        if slide.drawing is not None:
            told.append(f'<p class="quiet">{escape(slide.drawing.caption)}</p>')
        row = f'<div class="beside"><div>{"".join(told)}</div>{"".join(right)}</div>'
        return "\n".join(
            [*self.write_all(shown[:above]), row, *self.write_all(shown[above + left :])]
        )

    def heatmap(self, part: p.HeatMap) -> str:
        """As on a page, but only as many rows and columns as a slide holds."""
        return self.heat_table(part, _ROWS, _columns_that_fit(part))


def _stays_large(figure: p.Figure, used: float) -> bool:
    """Whether a drawing is as large as it needs to be, or can be, beside so much text."""
    width, height = figure.drawing.width, figure.drawing.height
    alone, below = (
        min(_WIDTH / width, room / height) for room in (_HEIGHT, _HEIGHT - used - _LINE)
    )
    return below >= min(_LARGE, alone)


def _is_told(block: _Block) -> bool:
    return isinstance(block[0], p.Paragraph | p.Formula)


def _is_about_numbers(block: _Block) -> bool:
    return isinstance(block[0], p.Remark | p.Question)


def _is_elsewhere(part: p.Part, formula: p.Formula) -> bool:
    """Whether a matrix is of the same step as the cell of a formula, but of another head."""
    if not isinstance(part, p.HeatMap) or part.step is not formula.cell.step:
        return False
    lead = part.matrix.lead
    return formula.cell.index[: len(lead)] != tuple(lead)


def _without_strays(slides: Iterable[_Slide]) -> list[_Slide]:
    """The slides of a section; a short paragraph alone on one joins those before it."""
    made: list[_Slide] = []
    joined = 0
    for slide in slides:
        slide.part -= joined
        before = made[-1] if made else slide
        if slide.is_stray and before.bears(slide.used):
            before.blocks += slide.blocks
            before.notes += slide.notes
            joined += 1
        else:
            made.append(slide)
    return made


def _blocks(parts: Sequence[p.Part]) -> Iterator[list[p.Part]]:
    """Parts that stay together: matrices and tables of numbers side by side; long tables and code
    in pieces."""
    for beside, group in groupby(parts, _is_beside):
        if beside:
            yield from _rows_of_numbers(list(group))
            continue
        for part in group:
            if isinstance(part, p.Table):
                for piece in _pieces(part):
                    yield [piece]
            elif isinstance(part, p.Code):
                lines = part.text.splitlines()
                for at in range(0, len(lines), _CODE_LINES):
                    yield [replace(part, text="\n".join(lines[at : at + _CODE_LINES]))]
            else:
                yield [part]


def _is_beside(part: p.Part) -> bool:
    """Whether a part may stand beside others; tables with prose or in pieces may not."""
    if isinstance(part, p.Table):
        return not any(part.widths()) and not part.shares and len(list(_pieces(part))) == 1
    return isinstance(part, p.HeatMap)


def _rows_of_numbers(parts: Sequence[p.Part]) -> Iterator[list[p.Part]]:
    """As many matrices and tables as fit side by side."""
    row: list[p.Part] = []
    used = 0.0
    for part in parts:
        width = _width(part)
        if row and used + width > _WIDTH:
            yield row
            row, used = [], 0.0
        row.append(part)
        used += width + _GAP
    yield row


def _pieces(table: p.Table) -> Iterator[p.Table]:
    """A table in pieces of about one length that fit a slide, each with the heads."""
    heights = [_row_height(table, row) for row in table.rows]
    room = _HEIGHT - _LINE
    room = sum(heights) / max(1, math.ceil(sum(heights) / room))
    rows: list[tuple[p.Inline, ...]] = []
    first, used = 0, 0.0
    for at, (row, height) in enumerate(zip(table.rows, heights, strict=True)):
        if rows and used + height > room + 1:
            yield replace(table, rows=tuple(rows), shares=table.shares[first:at])
            rows, first, used = [], at, 0.0
        rows.append(row)
        used += height
    yield replace(table, rows=tuple(rows), shares=table.shares[first:])


def _row_height(table: p.Table, row: tuple[p.Inline, ...]) -> float:
    """Prose columns share what short ones leave of a line."""
    widths = table.widths()
    short = sum(size + 2 for size, width in zip(table.sizes(), widths, strict=True) if not width)
    room = max(24.0, 1.1 * _ACROSS - short) / max(1, sum(widths))
    lines = [
        -(-columns_of(p.plain(item)) // max(8, int(room * width))) if width else 1
        for item, width in zip(row, widths, strict=True)
    ]
    return 46.0 * max([1, *lines]) + 22


def _width(part: p.Part) -> float:
    """The estimated width with the caption on one line."""
    return max(_own_width(part), _caption_width(part))


def _own_width(part: p.Part) -> float:
    if isinstance(part, p.Figure):
        return part.drawing.width * _HEIGHT / part.drawing.height
    if isinstance(part, p.Table):
        return sum(19.8 * size + 39 for size in part.sizes())
    assert isinstance(part, p.HeatMap)
    return _label_width(part) + sum(_column_widths(part)[: _columns_that_fit(part)])


def _caption_width(part: p.Part) -> float:
    return 16.0 * columns_of(part.caption) if isinstance(part, p.HeatMap | p.Table) else 0.0


def _label_width(part: p.HeatMap) -> float:
    return 15.5 * max(map(columns_of, part.matrix.rows), default=0) + 36


def _column_widths(part: p.HeatMap) -> list[float]:
    """Digits are wider than the letters of a label."""
    lines = part.cells(_ROWS, _COLUMNS)
    numbers = [
        max((columns_of(line[at].text) for line in lines), default=0)
        for at in range(len(part.matrix.columns[:_COLUMNS]))
    ]
    return [
        36 + max(60.0, 15.5 * columns_of(name), 19.5 * digits)
        for name, digits in zip(part.matrix.columns, numbers, strict=False)
    ]


def _columns_that_fit(part: p.HeatMap) -> int:
    """At least one; a little too wide is shrunk."""
    room = 1.1 * _WIDTH - _label_width(part)
    return max(1, sum(width <= room for width in accumulate(_column_widths(part))))


def _share_beside(block: Sequence[p.Part]) -> float:
    """What matrices and tables leave of the width to what stands left of them."""
    return 1 - sum(_own_width(part) + _GAP for part in block) / _WIDTH


def _height_beside(block: Sequence[p.Part]) -> float:
    """The estimated height of what stands beside sentences: its captions are no wider than it."""
    lines = [max(1, math.ceil(_caption_width(part) / _own_width(part))) for part in block]
    return max(
        _part_height(part) + 46 * (count - 1) for part, count in zip(block, lines, strict=True)
    )


def _height(block: Sequence[p.Part], share: float = 1.0) -> float:
    """The estimated height of a block in pixels, in a share of the width."""
    return max((_part_height(part, share) for part in block), default=0.0)


def _part_height(part: p.Part, share: float = 1.0) -> float:
    across = int(_ACROSS * share)
    if isinstance(part, p.HeatMap):
        return 110 + 58.0 * (1 + min(_ROWS, len(part.matrix.rows)))
    if isinstance(part, p.Table):
        return 60 + _LINE + sum(_row_height(part, row) for row in part.rows)
    if isinstance(part, p.Formula):
        return _formula_height(part, share * _WIDTH - 90)
    if isinstance(part, p.Figure):
        return _HEIGHT
    part = _lead(part, _LONGEST)
    if isinstance(part, p.Paragraph | p.Remark):
        return 30 + _LINE * -(-columns_of(p.plain(part.text)) // across)
    if isinstance(part, p.Code):
        return 40 + 36.0 * len(part.text.splitlines())
    if isinstance(part, p.Question):
        return 340 + _LINE * -(-columns_of(part.text) // across)
    if isinstance(part, p.Facts):
        return 64.0 * len(part.items)
    return 36.0 * sum(1 for _ in part.lines()) if isinstance(part, p.Tree) else 0.0


def _formula_height(part: p.Formula, width: float) -> float:
    """A line of symbols and the lines of numbers of each equation, and the code."""
    numbers = _numbers_of(part)
    lines = [max(1, math.ceil(_NUMBER * len(one) / width)) for one in numbers]
    fractions = sum("/" in one for one in numbers)
    code = math.ceil(16.5 * (len(part.code) + 12) / width) if part.code else 0
    return 70 + 100.0 * len(lines) + 74.0 * sum(lines) + 40.0 * fractions + 58.0 * code


def _numbers_of(part: p.Formula) -> list[str]:
    """Of each equation, its numbers as text."""
    card = part.card
    where = [] if part.is_defined_above else [item.numbers for item in card.definitions]
    return [card.numbers, *where]


def _longest_number(part: p.Formula) -> float:
    """The width of the longest formula in numbers that is no sum: a browser does not break it."""
    from glassformer.tracing.formula import summands

    lengths = [
        len(numbers)
        for numbers, equation in zip(_numbers_of(part), part.equations, strict=True)
        if len(list(summands(equation.numbers))) == 1
    ]
    return _NUMBER * max(lengths, default=0)


def _lead(part: p.Part, longest: int) -> p.Part:
    """A paragraph cut to its first sentences, as many as a slide shows; at least one."""
    if not isinstance(part, p.Paragraph) or columns_of(p.plain(part.text)) <= longest:
        return part
    kept = ""
    for sentence in _SENTENCE.findall(p.plain(part.text)):
        if kept and columns_of(kept + sentence) > longest:
            break
        kept += sentence
    return replace(part, text=kept.strip())


def printed(page: str) -> bytes:
    """A page as PDF, printed by Chromium; one clear line where there is none."""
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        raise TraceError(
            "a PDF is printed by Chromium or Chrome, and neither is installed: "
            "write slides.html and print it from a browser"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "slides.html", Path(folder) / "slides.pdf"
        source.write_text(page, encoding="utf-8")
        # As root, Chromium refuses to start inside its sandbox; the page is our own.
        as_root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        command = [
            program, "--headless", "--disable-gpu", *as_root, f"--user-data-dir={folder}/profile",
            "--no-pdf-header-footer", f"--print-to-pdf={target}", source.as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(  # noqa: S603  a browser found on the path, our own page
                command, check=True, capture_output=True, timeout=_PRINT_SECONDS
            )
            return target.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise TraceError("{program} did not print the slides", program=program) from error
