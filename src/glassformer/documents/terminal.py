"""The terminal: prose, formulas, and heat maps that also show the numbers.

Without colour support, or with `NO_COLOR` set, there are no colours. rich breaks lines only at
spaces, which Chinese text lacks; `Prose` handles that.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table as Grid
from rich.text import Text
from rich.tree import Tree as Branches

from glassformer.colours import BLUE, ORANGE, hex_colour, ink_on
from glassformer.documents import parts as p
from glassformer.documents.renderer import Renderer
from glassformer.language import Prose

_STYLES: dict[p.Look, str] = {
    "plain": "", "strong": "bold", "emphasis": "italic", "quiet": "dim", "code": "cyan",
    "deleted": "red strike", "inserted": "bold green",
    "good": "green", "bad": "bold red", "caution": "yellow",
}  # fmt: skip
_ROWS = 32
_BAR = 16
_FILE_WIDTH = 100
_GAP = 2
_PROSE_ROOM = 30  # columns that each prose column of a table needs beside the others


class Terminal(Renderer[RenderableType]):
    """`width` and `colour` default to those of the terminal."""

    def __init__(
        self, document: p.Document, *, width: int | None = None, colour: bool | None = None
    ) -> None:
        super().__init__(document)
        self._console = _console(width, colour)
        self._is_free = width is None and colour is None
        self.width = self._console.width

    def render(self) -> str:
        """The text, with ANSI colour codes."""
        with self._console.capture() as captured:
            self._console.print(self.renderable(), highlight=False)
        lines = [line.rstrip() for line in captured.get().splitlines()]
        return "\n".join(lines).strip("\n") + "\n"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a file without colours, at a fixed width."""
        if self._is_free:
            return Terminal(self.document, width=_FILE_WIDTH, colour=False).save(path)
        return super().save(path)

    def renderable(self) -> Group:
        """The document as a rich renderable."""
        title = [Prose(self.document.title, "bold")] if self.document.title else []
        return _spaced([*title, *self.write_all(self.document.parts)])

    def paragraph(self, part: p.Paragraph) -> RenderableType:
        return _inline(part.text, _STYLES[part.look])

    def formula(self, part: p.Formula) -> RenderableType:
        from glassformer.documents.renderer import text_lines  # with torch

        lines = Text("\n".join(text_lines(part, self.words)), "cyan")
        if part.code:
            lines.append(f"\n{self.words['in code']}{part.code}", "dim")
        return Padding(lines, (0, 0, 0, 2))

    def heatmap(self, part: p.HeatMap) -> RenderableType:
        """Numbers on a coloured background, as many columns as fit."""
        fitting = self._fitting(part)
        grid = Grid(box=None, padding=(0, 0), show_header=True, header_style="dim")
        grid.add_column("", no_wrap=True, style="dim")
        for label in part.matrix.columns[:fitting]:
            grid.add_column(Text(f" {label} "), justify="right", no_wrap=True)
        for label, line in part.lines(_ROWS, fitting):
            grid.add_row(Text(f"  {label} "), *map(_heat_cell, line))
        caption = [Text(f"  {part.caption}", "italic")] if part.caption else []
        note = part.notes(self.words, _ROWS, fitting)
        return Group(*caption, grid, *([Text(f"  {note}", "dim")] if note else []))

    def _fitting(self, part: p.HeatMap) -> int:
        """How many columns fit; each takes at least three characters."""
        cells = part.cells(_ROWS, self.width // 3, coloured=False)
        left = self.width - 4 - max(cell_len(label) for label in part.matrix.rows)
        for column, label in enumerate(part.matrix.columns[: self.width // 3]):
            left -= 2 + max(cell_len(label), *(len(line[column].text) for line in cells))
            if left < 0 and column:
                return column
        return min(len(part.matrix.columns), self.width // 3)

    def table(self, part: p.Table) -> RenderableType:
        """Prose in a frame, or below its row; numbers in plain columns, transposed if too wide."""
        widths = part.widths()
        if any(widths) and not part.shares and self._is_cramped(part, widths):
            return self._with_prose_below(part, widths)
        if not any(widths) and self._is_too_wide(part):
            heads, *rows = zip(part.heads, *part.rows, strict=True)
            part = replace(part, heads=heads, rows=tuple(rows))
            widths = part.widths()
        grid = Grid(
            box=box.HEAVY_HEAD if any(widths) else None,
            padding=(0, 1) if any(widths) or part.shares else (0, 2),
            show_header=part.has_heads,
            header_style="dim",
            expand=any(widths) and not part.shares,
        )
        for head, width, numeric in zip(part.heads, widths, part.is_numeric(), strict=True):
            justify: Literal["right", "left"] = "right" if numeric else "left"
            grid.add_column(_inline(head), ratio=width or None, justify=justify, overflow="fold")
            if part.shares and len(grid.columns) == 1:
                grid.add_column("", no_wrap=True, width=_BAR)
        for place, (first, *others) in enumerate(part.rows):
            bar = [_bar(part.shares[place])] if part.shares else []
            grid.add_row(_inline(first), *bar, *map(_inline, others))
        # Not rich's title, which is broken at the width of the table.
        return Group(Prose(part.caption, "italic"), grid) if part.caption else grid

    def _is_too_wide(self, part: p.Table) -> bool:
        """Whether a table that is wider than it is long exceeds the width."""
        needed = sum(4 + size for size in part.sizes())
        return needed > self.width and len(part.rows) + 1 < len(part.heads)

    def _is_cramped(self, part: p.Table, widths: Sequence[int]) -> bool:
        """Whether prose columns would be too narrow to read beside the others."""
        short = sum(_GAP + size for size in _sizes(part, widths))
        return short < self.width < short + _PROSE_ROOM * sum(map(bool, widths))

    def _with_prose_below(self, part: p.Table, widths: Sequence[int]) -> Group:
        """Rows whose prose is on lines of its own, unless the first of it fits on theirs."""
        sizes = _sizes(part, widths)
        left = self.width - sum(_GAP + size for size in sizes)
        lines: list[RenderableType] = [Text(part.caption, "italic")] if part.caption else []
        for row in (part.heads, *part.rows):
            style = "dim" if row is part.heads else ""
            split = list(zip(row, widths, strict=True))
            beside = [item for item, width in split if not width]
            below = [item for item, width in split if width and p.plain(item)]
            grid = Grid.grid(padding=(0, _GAP, 0, 0))
            for size in sizes:
                grid.add_column(width=size, no_wrap=True)
            if below and cell_len(p.plain(below[0])) <= left:
                beside.append(below.pop(0))
                grid.add_column()
            grid.add_row(*(_inline(item, style) for item in beside))
            lines.append(grid)
            lines += [Padding(_inline(item, style), (0, 0, 0, 4)) for item in below]
        return Group(*lines)

    def facts(self, part: p.Facts) -> RenderableType:
        grid = Grid.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for label, said in part.items:
            grid.add_row(Text(f"  {label}"), _inline(said))
        return grid

    def code(self, part: p.Code) -> RenderableType:
        return Padding(Text(part.text), (0, 0, 0, 2))

    def figure(self, part: p.Figure) -> RenderableType:
        """How to see it, and its numbers if no other part holds them."""
        elsewhere = Prose(self.words["figure elsewhere"].format(caption=part.caption), "dim")
        if part.numbers is None:
            return elsewhere
        return _spaced([elsewhere, self.table(part.numbers)])

    def question(self, part: p.Question) -> RenderableType:
        blanks = "   ".join(f"{label} ____" for label in part.labels)
        return Group(Prose(self.task(part), "bold"), Padding(Prose(blanks), (0, 0, 0, 2)))

    def tree(self, part: p.Tree) -> RenderableType:
        return _grown(Branches(_text(part.text)), part)

    def section(self, part: p.Section) -> RenderableType:
        """A rule with the title; in nested sections the title alone."""
        title = _text(part.heading, "bold")
        ruled = self.depth == 0 and title.cell_len + 4 <= self.width
        heading = Rule(title, align="left", style="dim") if ruled else title
        return _spaced([heading, *self.inside(part)])


def _sizes(part: p.Table, widths: Sequence[int]) -> list[int]:
    """The columns that hold no prose, as wide as their text."""
    return [
        max(cell_len(head), *(cell_len(line) for item in column for line in item.split("\n")))
        for head, column, width in zip(
            map(p.plain, part.heads), part.columns(), widths, strict=True
        )
        if not width
    ]


def _console(width: int | None, colour: bool | None) -> Console:
    if colour is None:
        return Console(width=width)
    if not colour:
        return Console(file=io.StringIO(), width=width, no_color=True, color_system=None)
    return Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor",
        no_color=False,
    )  # fmt: skip


def _spaced(blocks: list[RenderableType]) -> Group:
    """Join blocks with empty lines."""
    return Group(*[line for block in blocks for line in ("", block)][1:])


def _heat_cell(cell: p.HeatCell) -> Text:
    # The frame of a page, in a terminal: brackets, which stand without colours, too.
    framed = f"[{cell.text}]" if cell.is_marked else f" {cell.text} "
    if cell.colour is not None:
        weight = "bold " if cell.is_marked else ""
        ground = hex_colour(cell.colour)
        return Text(framed, f"{weight}{hex_colour(ink_on(cell.colour))} on {ground}")
    if math.isnan(cell.value) and not cell.is_unwritten:
        return Text(framed, "bold black on magenta")
    return Text(framed, "dim" if not math.isfinite(cell.value) else "")


def _bar(share: float) -> Text:
    length = max(1 if share else 0, round(_BAR * abs(share)))
    return Text("█" * length, hex_colour(ORANGE if share >= 0 else BLUE))


def _grown(branches: Branches, part: p.Tree) -> Branches:
    for below in part.branches:
        _grown(branches.add(_text(below.text)), below)
    return branches


def _inline(inline: p.Inline, style: str = "") -> RenderableType:
    """Literal text (a token such as `[b]` is not markup); code inside a sentence gets backticks."""
    found = [span for span in p.spans(inline) if span.text]
    if len(found) == 1:
        return Prose(found[0].text, style or _STYLES[found[0].look])
    if all(span.look in ("plain", "code") for span in found):
        said = (f"`{span.text}`" if span.look == "code" else span.text for span in found)
        return Prose("".join(said), style)
    return _text(inline)


def _text(inline: p.Inline, style: str = "") -> Text:
    """Styled spans; without colours, an arrow joins deleted and inserted text."""
    pieces = (
        (f"{span.text} →" if span.look == "deleted" else span.text, _STYLES[span.look])
        for span in p.spans(inline)
    )
    return Text.assemble(*pieces, style=style)
