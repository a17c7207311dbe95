"""For the terminal: matrices as heat maps with values, a cell's card, the tree of steps.

Everything is built with rich, which is imported here and nowhere at import time. Colours are left
out where the terminal has none or `NO_COLOR` is set; the numbers stand there all the same.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from glassformer.trace.cells import Cell
from glassformer.trace.explanation import Card
from glassformer.trace.formula import MOST_TERMS, text
from glassformer.trace.render.colours import (
    BLUE,
    ORANGE,
    Colour,
    Scale,
    hex_colour,
    ink_on,
    scale_of,
)
from glassformer.trace.render.matrices import Matrix, matrix, shape_text
from glassformer.trace.render.words import Words, meaning, note_in, phrases_in, words_in
from glassformer.trace.steps import Step
from glassformer.trace.trace import Branch, Trace

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text
    from rich.tree import Tree

__all__ = ["cell_card", "heat_map", "step_tree", "terminal_text"]

MOST_ROWS = 32
_NAN_STYLE = "bold black on magenta"
_INFINITY_STYLE = "dim italic"
_BAR = 16


def terminal_text(
    thing: Trace | Step | Cell,
    *,
    lang: str = "en",
    width: int | None = None,
    colour: bool | None = None,
    at: Sequence[int] | None = None,
    digits: int = 4,
    terms: int = MOST_TERMS,
) -> str:
    """A trace as its tree, a step as a heat map (of the slice `at`), a cell as its card.

    `colour` None lets the terminal and `NO_COLOR` decide.
    """
    from rich.console import Console

    words = words_in(lang)
    console = Console(width=width) if colour is None else _console(width, colour)
    shown: RenderableType
    if isinstance(thing, Trace):
        shown = step_tree(thing, words)
    elif isinstance(thing, Step):
        shown = heat_map(thing, words, at=at, width=console.width, digits=digits)
    else:
        shown = cell_card(thing, words, digits=digits, terms=terms)
    with console.capture() as captured:
        console.print(shown, highlight=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _console(width: int | None, colour: bool) -> Console:
    from rich.console import Console

    if colour:
        return Console(
            file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor",
            no_color=False,
        )  # fmt: skip
    return Console(file=io.StringIO(), width=width, no_color=True, color_system=None)


# --- matrices ---


def heat_map(
    step: Step,
    words: Words,
    *,
    at: Sequence[int] | None = None,
    width: int = 100,
    digits: int = 4,
) -> RenderableType:
    """A slice of a step as a table with coloured cells; what does not fit is counted."""
    from rich.console import Group

    lines: list[RenderableType] = [_title(step, words)]
    if 0 in step.shape:
        return Group(*lines, _plain(f"  {words['empty']}"))
    shown = matrix(step, at)
    count = math.prod(step.shape[:-2])
    if count > 1:
        place = f"[{', '.join(map(str, shown.lead))}]"
        lines.append(_plain(f"  {words['slices'].format(at=place, count=count)}", "dim"))
    lines.append(_grid(shown, words, width, digits))
    hidden = len(shown.rows) - MOST_ROWS
    if hidden > 0:
        lines.append(_plain(f"  {words['more rows'].format(count=hidden)}", "dim"))
    return Group(*lines)


def _grid(shown: Matrix, words: Words, width: int, digits: int) -> RenderableType:
    from rich.table import Table

    scale = scale_of(shown.step)
    rows = range(min(len(shown.rows), MOST_ROWS))
    numbers = [[_number(shown, row, j, digits) for j in range(len(shown.columns))] for row in rows]
    fitting = _columns_that_fit(shown, numbers, width)
    table = Table(box=None, padding=(0, 0), show_header=True, header_style="dim")
    table.add_column("", no_wrap=True, style="dim")
    for label in shown.columns[:fitting]:
        table.add_column(_plain(f" {label} "), justify="right", no_wrap=True)
    hidden = len(shown.columns) - fitting
    if hidden:
        table.add_column(_plain(" " + words["more columns"].format(count=hidden)), no_wrap=True)
    for row in rows:
        cells = [
            _coloured(numbers[row][column], float(shown.values[row, column]), scale)
            for column in range(fitting)
        ]
        table.add_row(_plain(f"  {shown.rows[row]} "), *cells, *([_plain(" …")] if hidden else []))
    return table


def _columns_that_fit(shown: Matrix, numbers: list[list[str]], width: int) -> int:
    """How many columns stand side by side, with room for the note on the others."""
    from rich.cells import cell_len

    used = 3 + max(cell_len(label) for label in shown.rows)
    note = 24
    for column, label in enumerate(shown.columns):
        widest = max(cell_len(label), *(len(row[column]) for row in numbers)) + 2
        last = column == len(shown.columns) - 1
        if column and used + widest + (0 if last else note) > width:
            return column
        used += widest
    return len(shown.columns)


def _number(shown: Matrix, row: int, column: int, digits: int) -> str:
    number = float(shown.values[row, column])
    if str(shown.step.dtype) == "torch.bool":
        return "✓" if number else "·"
    return text.number(number, digits)


def _coloured(shown: str, number: float, scale: Scale | None) -> Text:
    if math.isnan(number):
        return _plain(f" {shown} ", _NAN_STYLE)
    if math.isinf(number):
        return _plain(f" {shown} ", _INFINITY_STYLE)
    colour = scale.colour(number) if scale is not None else None
    return _plain(f" {shown} ", _style(colour) if colour is not None else "")


def _style(colour: Colour) -> str:
    return f"{hex_colour(ink_on(colour))} on {hex_colour(colour)}"


def _plain(shown: str, style: str = "") -> Text:
    """Text as it is: a token such as `[b]` is no markup."""
    from rich.text import Text

    return Text(shown, style=style)


def _title(step: Step, words: Words) -> Text:
    title = _plain("")
    title.append(step.name, "bold")
    title.append(f"  {meaning(words, step.name)}".rstrip(), "italic")
    title.append(f"  {shape_text(step.shape)}  {step.op}", "dim")
    if step.role != step.op:
        title.append(f" · {words[step.role]}", "dim")
    return title


# --- a cell ---


def cell_card(
    cell: Cell, words: Words, *, digits: int = 4, terms: int = MOST_TERMS
) -> RenderableType:
    """Formula in symbols and numbers, the largest terms, both precisions, the source line."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table

    shown = Card(cell, terms, digits, phrases_in(words))
    title = _plain(f"{cell.name} = {text.number(cell.value, digits)}", "bold")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, line in _card_lines(shown, words, digits):
        grid.add_row(label, line)
    inside: list[RenderableType] = [grid]
    if shown.parts:
        inside.append(_terms(shown, words, digits))
    return Panel(Group(*inside), title=title, title_align="left", subtitle=shown.place or None)


def _card_lines(shown: Card, words: Words, digits: int) -> list[tuple[str, Text]]:
    cell = shown.cell
    lines = [(words["role"], _plain(words[cell.role]))]
    if not shown.is_given:
        lines = [(words["operator"], _plain(cell.step.op))]
    if cell.step.expanded:
        lines.append(("", _plain(words["expanded"], "italic")))
    if shown.expression is None:
        reason = words["given"] if shown.is_given else words["no rule"].format(op=cell.step.op)
        lines.append(("", _plain(reason, "italic")))
    else:
        lines.append(
            (words["in symbols"], _plain(f"{shown.name} {shown.relation} {shown.formula}"))
        )
        lines.append((words["in numbers"], _plain(f"{shown.numbers}")))
        for part in shown.definitions:
            number = text.number(part.value, digits)
            lines.append((words["where"], _plain(f"{part.symbol} = {part.symbols}")))
            lines.append(("", _plain(f"  = {part.numbers} = {number}")))
    dtype = str(cell.step.dtype).removeprefix("torch.")
    lines.append((words["stored"].format(dtype=dtype), _plain(text.number(cell.value, 9))))
    if shown.expression is not None:
        lines.append((words["recomputed"], _plain(text.number(shown.recomputed, 17))))
        lines.append((words["difference"], _plain(f"{shown.difference:.1e}")))
        if shown.relation == "≠":
            lines.append(("", _plain(words["not reproduced"], "bold red")))
    if shown.line:
        lines.append((words["source"], _plain(shown.line, "cyan")))
    return lines


def _terms(shown: Card, words: Words, digits: int) -> RenderableType:
    from rich.table import Table

    largest = max(part.share for part in shown.parts) or 1.0
    table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim")
    table.add_column(words["largest terms"] if shown.others else words["terms"], justify="right")
    table.add_column("", no_wrap=True, width=_BAR)
    table.add_column("", overflow="fold")
    for part in shown.parts:
        bar = "█" * max(1 if part.value else 0, round(_BAR * part.share / largest))
        colour = hex_colour(ORANGE if part.value >= 0 else BLUE)
        formula = (
            part.symbols if part.symbols == part.numbers else f"{part.symbols} = {part.numbers}"
        )
        table.add_row(text.number(part.value, digits), _plain(bar, colour), _plain(formula))
    if shown.others:
        note = words["others"].format(count=shown.others)
        table.add_row(text.number(shown.rest, digits), "", _plain(note, "italic"))
    return table


# --- the whole trace ---


def step_tree(trace: Trace, words: Words) -> RenderableType:
    """The modules with their steps, shapes and operators."""
    from rich.tree import Tree

    root = Tree(
        _plain(f"{words['model']} · {words['steps'].format(count=len(trace.steps))}", "bold")
    )
    for title, table in (("inputs", trace.inputs), ("parameters", trace.parameters)):
        if table:
            branch = root.add(_plain(f"{words[title]} · {len(table)}", "bold"))
            for name, step in table.items():
                branch.add(_leaf(name, step))
    _grow(root, trace.tree())
    outputs = ", ".join(step.name for step in trace.outputs.values())
    root.add(_plain(f"{words['output']}: {outputs}"))
    for note in trace.notes:
        root.add(_plain(note_in(words, note), "italic"))
    return root


def _grow(tree: Tree, branch: Branch) -> None:
    """Steps and inner modules, in the order in which they began."""
    begun: list[tuple[int, Step | Branch]] = [(step.number, step) for step in branch.steps]
    begun += [(_first(inner), inner) for inner in branch.branches]
    for _, item in sorted(begun, key=lambda pair: pair[0]):
        if isinstance(item, Step):
            tree.add(_leaf(item.name.removeprefix(f"{branch.path}." if branch.path else ""), item))
        else:
            _grow(tree.add(_plain(item.name, "bold")), item)


def _first(branch: Branch) -> int:
    numbers = [step.number for step in branch.steps] + [_first(inner) for inner in branch.branches]
    return min(numbers, default=0)


def _leaf(name: str, step: Step) -> Text:
    leaf = _plain(name)
    what = "" if step.op == step.role else f"  {step.op}"
    leaf.append(f"  {shape_text(step.shape)}{what}", "dim")
    return leaf
