"""A lesson as Markdown: prose, tables, formulas as `$$…$$`, which GitHub and notebooks set."""

from __future__ import annotations

import re
from collections.abc import Sequence

from glassformer.lessons.walks.lesson import (
    Figure,
    Formula,
    HeatMap,
    Lesson,
    Paragraph,
    PlainPart,
    Remark,
    Table,
)
from glassformer.lessons.walks.phrases import Speaker
from glassformer.lessons.walks.rendering.cells import cell_text, formula_tex
from glassformer.lessons.wording import MARKS

__all__ = ["to_markdown"]


def to_markdown(lesson: Lesson, figures: str | None = None) -> str:
    """The whole lesson; `figures` is the folder beside it that holds its drawings, if any."""
    say = Speaker(lesson.language)
    lines = [f"# {_plain(lesson.title)}", _plain(lesson.summary), f"*{_plain(say('how to read'))}*"]
    for number, step in enumerate(lesson.steps, start=1):
        lines.append(f"## {number}. {_plain(step.title)}")
        for part in step.parts:
            if not isinstance(part, Figure):
                lines.append(_part(part, say))
            elif figures is not None:
                lines.append(f"![{_plain(part.caption)}]({figures}/{part.name}.svg)")
    return "\n\n".join(lines) + "\n"


def _plain(said: str) -> str:
    """Text that Markdown shows as it is."""
    marked = re.sub(r"([\\`*_{}\[\]#|~$])", r"\\\1", said)
    return marked.replace("<", "&lt;").replace(">", "&gt;")


def _part(part: PlainPart, say: Speaker) -> str:
    match part:
        case Paragraph(text=said):
            return _plain(said)
        case Remark(verdict=verdict, text=said):
            return f"> **{MARKS[verdict]} {_plain(say('in the text'))}** {_plain(said)}"
        case Formula():
            lines = formula_tex(part, say.language)
            return "\n\n".join(f"$$\n{line}\n$$" for line in lines)
        case HeatMap():
            return _heat_map(part)
        case Table(caption=caption, heads=heads, rows=rows):
            table = _pipes(heads, rows)
            return f"*{_plain(caption)}*\n\n{table}" if caption else table


def _heat_map(part: HeatMap) -> str:
    found = part.matrix
    rows = [
        [f"**{_plain(label)}**" if label else "", *_numbers(part, row)]
        for row, label in enumerate(found.rows)
    ]
    heads = ["", *(_plain(label) for label in found.columns)]
    lines = [heads, ["---", *("---:" for _ in found.columns)], *rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"*{_plain(part.caption)}*\n\n{table}"


def _numbers(part: HeatMap, row: int) -> list[str]:
    shown = [cell_text(part, float(x)) for x in part.matrix.values[row]]
    if part.marked is not None and part.marked[0] == row:
        column = part.marked[1]
        shown[column] = f"**[{shown[column]}]**"
    return shown


def _pipes(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    whole = [[item if item == "---" else _plain(item) for item in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in whole)
