"""A lesson in the terminal: prose, formulas, and heat maps in which the numbers stand, too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from glassformer.language import Prose
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
from glassformer.lessons.walks.rendering.cells import cell_text, formula_lines
from glassformer.lessons.wording import MARKS
from glassformer.trace.render.colours import hex_colour, ink_on

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

__all__ = ["to_terminal"]

_REMARK_STYLES = {"agrees": "green", "wrong": "bold red", "follows": "yellow"}


def to_terminal(lesson: Lesson, width: int = 100) -> RenderableType:
    """For rich's console, `width` characters wide."""
    from rich.console import Group
    from rich.rule import Rule
    from rich.text import Text

    say = Speaker(lesson.language)
    shown: list[RenderableType] = [
        Prose(f"{lesson.title}\n", "bold"),
        Prose(f"{lesson.summary}\n"),
        Prose(say("how to read"), "dim"),
    ]
    for number, step in enumerate(lesson.steps, start=1):
        shown += ["", Rule(Text(f"{number}. {step.title}", "bold"), align="left", style="dim"), ""]
        shown += [_part(part, say, width) for part in step.plain_parts]
    return Group(*shown)


def _part(part: PlainPart, say: Speaker, width: int) -> RenderableType:
    from rich.text import Text

    match part:
        case Paragraph(text=said):
            return Prose(f"{said}\n")
        case Remark(verdict=verdict, text=said):
            mark = MARKS[verdict]
            style = _REMARK_STYLES.get(verdict, "dim")
            return Prose(f"{mark} {say('in the text:')}{said}\n", style)
        case Formula():
            return Text("\n".join(f"  {line}" for line in formula_lines(part, say)) + "\n", "cyan")
        case HeatMap():
            return _heat_map(part, say, width)
        case Table():
            return _table(_standing(part) if _too_wide(part, width) else part)


def _heat_map(part: HeatMap, say: Speaker, width: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table as Grid
    from rich.text import Text

    found = part.matrix
    columns = found.columns[: _fitting(part, width)]
    grid = Grid(box=None, padding=(0, 0), show_header=True, header_style="dim")
    grid.add_column("", no_wrap=True, style="dim")
    for label in columns:
        grid.add_column(Text(f" {label} "), justify="right", no_wrap=True)
    for row, label in enumerate(found.rows):
        cells = [_cell(part, row, column) for column in range(len(columns))]
        grid.add_row(Text(f"  {label} "), *cells)
    more = len(found.columns) - len(columns)
    note = f"  {say('more columns', count=more)}" if more else ""
    return Group(Text(f"  {part.caption}{note}", "italic"), grid, "")


def _fitting(part: HeatMap, width: int) -> int:
    """How many columns stand side by side."""
    from rich.cells import cell_len

    found = part.matrix
    left = width - 4 - max(cell_len(label) for label in found.rows)
    for column, label in enumerate(found.columns):
        numbers = (cell_text(part, float(x)) for x in found.values[:, column])
        left -= 2 + max(cell_len(label), *map(len, numbers))
        if left < 0 and column:
            return column
    return len(found.columns)


def _cell(part: HeatMap, row: int, column: int) -> Text:
    from rich.text import Text

    number = float(part.matrix.values[row, column])
    shown = cell_text(part, number)
    # The frame of a page, in a terminal: brackets, which stand without colours, too.
    framed = f"[{shown}]" if part.marked == (row, column) else f" {shown} "
    colour = part.scale.colour(number) if part.scale is not None else None
    if colour is None or not math.isfinite(number):
        return Text(framed, "dim")
    weight = "bold " if part.marked == (row, column) else ""
    return Text(framed, f"{weight}{hex_colour(ink_on(colour))} on {hex_colour(colour)}")


def _too_wide(part: Table, width: int) -> bool:
    """Whether a table that is wider than long does not fit between the margins."""
    from rich.cells import cell_len

    columns = zip(part.heads, *part.rows, strict=True)
    needed = sum(4 + max(map(cell_len, column)) for column in columns)
    return needed > width and len(part.rows) + 1 < len(part.heads)


def _standing(part: Table) -> Table:
    """The same table with its columns one below another."""
    heads, *rows = zip(part.heads, *part.rows, strict=True)
    return Table(part.caption, heads, tuple(rows))


def _table(part: Table) -> RenderableType:
    from rich.console import Group
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(
        box=None,
        padding=(0, 2),
        title=Text(part.caption, "italic") if part.caption else None,
        header_style="dim",
    )
    grid.title_justify = "left"
    for place, head in enumerate(part.heads):
        grid.add_column(Text(head), justify="right" if place else "left", overflow="fold")
    for row in part.rows:
        grid.add_row(*(Text(item) for item in row))
    return Group(grid, "")
