"""Slides: one HTML file, one slide per step, with speaker's notes; or a PDF of one slide per page.

A slide holds the first sentences of each paragraph, more of them where it has nothing else; the
whole prose is in its notes (key N). A narrow matrix or table that has no room below what it belongs
to stands beside it. A step that does not fit is continued on further slides, and a drawing has one
of its own. The file needs
nothing else: it works without a network, and printing it gives a page per slide. Chromium prints
the PDF where it is installed.
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
from itertools import accumulate, groupby
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
"""What sentences and the matrix or table after them may take together, shrunk."""
_STRETCHED = 1.15 * _HEIGHT
"""What a slide may take, shrunk, rather than leave a sentence alone on the next."""
_LINE = 54.0
_ACROSS = 92
"""Half-width characters in a line."""
_GAP = 80.0
"""Between what stands side by side."""
_NARROWEST, _NARROWEST_FORMULA = 0.4, 0.55
"""The share of the width that sentences and formulas keep beside a matrix or table."""
_ROWS, _COLUMNS, _CODE_LINES = 14, 14, 20
_LARGE = 1.5
"""How many times its own size a drawing needs to be read from the back."""
_CLOSING = "[)”’\"'）」』]*"
_SENTENCE = re.compile(rf".+?(?:[.!?]{_CLOSING}(?=\s|$)|[。！？]{_CLOSING}|$)", re.DOTALL)
"""A sentence with the brackets and quotation marks that close behind it."""
_LONGEST, _LONGEST_ALONE = 190, 600
"""Half-width characters of a paragraph that a slide shows, beside other things and with nothing
but prose; the notes have all of it."""


@dataclass
class _Slide:
    """Blocks of parts that make one slide; `notes` are paragraphs."""

    title: p.Inline
    number: int | None
    part: int = 1
    blocks: list[list[p.Part]] = field(default_factory=list)
    beside: list[p.Part] = field(default_factory=list)
    """Matrices and tables to the right of the blocks."""
    notes: list[p.Inline] = field(default_factory=list)

    @property
    def parts(self) -> list[p.Part]:
        return [part for block in self.blocks for part in block]

    def shown(self) -> list[p.Part]:
        """The parts as the slide shows them: of each paragraph, the first sentences."""
        prose = [part for part in self.parts if isinstance(part, p.Paragraph)]
        is_prose = len(prose) == len(self.parts)
        most = int(_LONGEST_ALONE * self.share)
        longest = max(_LONGEST, most // len(prose)) if is_prose and prose else _LONGEST
        return [_lead(part, longest) for part in self.parts]

    @property
    def share(self) -> float:
        """What the blocks have of the width."""
        return _share_beside(self.beside) if self.beside else 1.0

    @property
    def used(self) -> float:
        """The estimated height of the blocks."""
        return self.height(self.share)

    def height(self, share: float) -> float:
        return sum(_height(block, share) for block in self.blocks)

    @property
    def is_drawing(self) -> bool:
        return any(isinstance(part, p.Figure) for part in self.parts)

    @property
    def is_stray(self) -> bool:
        """Whether this continues a step with no more than a short paragraph."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return (
            self.part > 1
            and isinstance(only, p.Paragraph)
            and columns_of(p.plain(only.text)) <= _LONGEST
        )

    def takes(self, block: Sequence[p.Part]) -> bool:
        """Whether a block may follow; a drawing stands alone, or stays large below sentences."""
        part = block[0]
        told = all(isinstance(before, p.Paragraph) for before in self.parts)
        if not isinstance(part, p.Figure):
            if self.beside and isinstance(part, p.HeatMap | p.Table):
                return False
            room = _SQUEEZED if told and not self.beside else _HEIGHT
            return not self.is_drawing and self.used + _height(block, self.share) <= room
        if self.beside:
            return False
        width, height = part.drawing.width, part.drawing.height
        alone, below = (
            min(_WIDTH / width, (_HEIGHT - used) / height) for used in (0.0, self.used + _LINE)
        )
        return not self.parts or (told and below >= min(_LARGE, alone))

    def takes_beside(self, block: Sequence[p.Part]) -> bool:
        """Whether matrices and tables may stand to the right of sentences and formulas."""
        if self.beside or not all(isinstance(part, p.HeatMap | p.Table) for part in block):
            return False
        if not all(isinstance(part, p.Paragraph | p.Formula) for part in self.parts):
            return False
        share = _share_beside(block)
        is_prose = all(isinstance(part, p.Paragraph) for part in self.parts)
        return (
            share >= (_NARROWEST if is_prose else _NARROWEST_FORMULA)
            and _height(block) <= _SQUEEZED
            and self.height(share) <= _HEIGHT
        )

    def following(self, block: Sequence[p.Part] = ()) -> _Slide:
        """The next slide; a remark takes what it is about along, so as not to stand alone."""
        after = _Slide(self.title, self.number, self.part + 1)
        is_remark = bool(block) and isinstance(block[0], p.Remark)
        if is_remark and len(self.blocks) > 1 and not self.is_drawing and not self.beside:
            after.blocks.append(self.blocks.pop())
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
        for block in _blocks(section.parts):
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
                if slide.takes_beside(block):
                    slide.beside = block
                    continue
                after = slide.following(block)
                yield slide
                slide = after
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
        body = "\n".join(self.write_all(slide.shown()))
        if slide.beside:
            right = "".join(self.write_all(slide.beside))
            body = f'<div class="beside"><div>{body}</div>{right}</div>'
        notes = "".join(self.paragraph(p.Paragraph(text)) for text in slide.notes)
        kind = "slide drawing" if slide.is_drawing else "slide"
        kind += " told" if slide.is_drawing and alone is None else ""
        return (
            f'<section class="{kind}"><h2>{number}{said}{more}</h2>\n'
            f'<div class="room"><div class="body">{body}</div></div>'
            f"<aside>{notes}</aside></section>"
        )

    def heatmap(self, part: p.HeatMap) -> str:
        """As on a page, but only as many rows and columns as a slide holds."""
        return self.heat_table(part, _ROWS, _columns_that_fit(part))


def _without_strays(slides: Iterable[_Slide]) -> list[_Slide]:
    """The slides of a section; a short paragraph alone on one joins those before it."""
    made: list[_Slide] = []
    joined = 0
    for slide in slides:
        slide.part -= joined
        before = made[-1] if made else slide
        if slide.is_stray and not before.is_drawing and before.used + slide.used <= _STRETCHED:
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
    if isinstance(part, p.Table):
        table = sum(17.0 * size + 46 for size in part.sizes())
        return max(table, 16.0 * columns_of(part.caption))
    assert isinstance(part, p.HeatMap)
    table = _label_width(part) + sum(_column_widths(part)[: _columns_that_fit(part)])
    return max(table, 16.0 * columns_of(part.caption))


def _label_width(part: p.HeatMap) -> float:
    return 17.0 * max(map(columns_of, part.matrix.rows), default=0)


def _column_widths(part: p.HeatMap) -> list[float]:
    lines = part.cells(_ROWS, _COLUMNS)
    return [
        17.0 * max(4, columns_of(name), *(columns_of(line[at].text) for line in lines)) + 46
        for at, name in enumerate(part.matrix.columns[:_COLUMNS])
    ]


def _columns_that_fit(part: p.HeatMap) -> int:
    """At least one; a little too wide is shrunk."""
    room = 1.1 * _WIDTH - _label_width(part)
    return max(1, sum(width <= room for width in accumulate(_column_widths(part))))


def _share_beside(block: Sequence[p.Part]) -> float:
    """What matrices and tables leave of the width to what stands left of them."""
    return 1 - sum(_width(part) + _GAP for part in block) / _WIDTH


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
        card = part.card
        symbols = 1 + len(card.numbers) // int(70 * share)
        where = sum(2 + len(item.numbers) // int(80 * share) for item in card.definitions)
        return 60 + 74.0 * (1 + symbols + where)
    if isinstance(part, p.Figure):
        return _HEIGHT
    part = _lead(part, _LONGEST)
    if isinstance(part, p.Paragraph | p.Remark):
        return 30 + _LINE * -(-columns_of(p.plain(part.text)) // across)
    if isinstance(part, p.Code):
        return 40 + 36.0 * len(part.text.splitlines())
    if isinstance(part, p.Question):
        return 280 + _LINE * -(-columns_of(part.text) // across)
    if isinstance(part, p.Facts):
        return 64.0 * len(part.items)
    return 36.0 * sum(1 for _ in part.lines()) if isinstance(part, p.Tree) else 0.0


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
