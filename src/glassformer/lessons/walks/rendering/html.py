"""A lesson as one page that needs nothing else: no script, no fonts, no network."""

from __future__ import annotations

import math
from html import escape
from importlib.resources import files

from glassformer.lessons.walks.figures import STYLE
from glassformer.lessons.walks.lesson import (
    Figure,
    Formula,
    HeatMap,
    Lesson,
    LessonStep,
    Paragraph,
    Part,
    Remark,
    Table,
)
from glassformer.lessons.walks.phrases import Speaker
from glassformer.lessons.walks.rendering.cells import cell_text, formula_mathml
from glassformer.lessons.wording import MARKS
from glassformer.trace.formula import text
from glassformer.trace.render.colours import hex_colour, ink_on

__all__ = ["to_html"]


def to_html(lesson: Lesson) -> str:
    """The whole page."""
    say = Speaker(lesson.language)
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    title = escape(lesson.title)
    contents = "".join(
        f'<li><a href="#step-{number}">{escape(step.title)}</a></li>'
        for number, step in enumerate(lesson.steps, start=1)
    )
    body = "\n".join(_step(number, step, say) for number, step in enumerate(lesson.steps, start=1))
    return (
        f'<!doctype html>\n<html lang="{"zh-CN" if lesson.language == "zh" else "en"}">\n<head>'
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title>\n<style>\n{style}{STYLE}</style></head>\n<body>\n"
        f'<nav aria-label="{escape(say("contents"))}"><ol>{contents}</ol></nav>\n<main>\n'
        f'<header><h1>{title}</h1><p class="summary">{escape(lesson.summary)}</p>'
        f'<p class="quiet">{escape(say("how to read"))}</p></header>\n{body}\n</main>\n'
        "</body>\n</html>\n"
    )


def _step(number: int, step: LessonStep, say: Speaker) -> str:
    """Matrices that follow one another stand side by side where there is room."""
    blocks: list[str] = []
    row: list[str] = []
    for part in step.parts:
        if isinstance(part, HeatMap | Table):
            row.append(_part(part, say))
            continue
        if row:
            blocks.append(f'<div class="row">{"".join(row)}</div>')
            row = []
        blocks.append(_part(part, say))
    if row:
        blocks.append(f'<div class="row">{"".join(row)}</div>')
    heading = f'<h2><span class="number">{number}</span>{escape(step.title)}</h2>'
    inside = "\n".join(blocks)
    return f'<section id="step-{number}">{heading}\n{inside}\n</section>'


def _part(part: Part, say: Speaker) -> str:
    match part:
        case Paragraph(text=said):
            return f"<p>{escape(said)}</p>"
        case Remark(verdict=verdict, text=said):
            mark = MARKS[verdict]
            lead = f"<b>{mark} {escape(say('in the text'))}</b>"
            return f'<p class="remark {verdict}">{lead} {escape(said)}</p>'
        case Formula():
            return f'<div class="formula">{formula_mathml(part, say)}</div>'
        case HeatMap():
            return _heat_map(part)
        case Table():
            return _table(part)
        case Figure(drawing=drawing):
            caption = f"<figcaption>{escape(part.caption)}</figcaption>"
            return f'<figure class="drawn">{caption}{drawing.svg(alone=False)}</figure>'


def _heat_map(part: HeatMap) -> str:
    found = part.matrix
    heads = "".join(f'<th scope="col">{escape(label)}</th>' for label in found.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(_cell(part, row, column) for column in range(len(found.columns)))
        + "</tr>"
        for row, label in enumerate(found.rows)
    )
    return (
        f"<figure><figcaption>{escape(part.caption)}</figcaption>"
        f'<div class="wide"><table class="heat"><tr><td></td>{heads}</tr>{rows}</table></div>'
        "</figure>"
    )


def _cell(part: HeatMap, row: int, column: int) -> str:
    number = float(part.matrix.values[row, column])
    marked = ' class="marked"' if part.marked == (row, column) else ""
    colour = part.scale.colour(number) if part.scale is not None else None
    look = ""
    if colour is not None and math.isfinite(number):
        look = f' style="background:{hex_colour(colour)};color:{hex_colour(ink_on(colour))}"'
    whole = escape(text.number(number, 9))
    return f'<td{marked}{look} title="{whole}">{escape(cell_text(part, number))}</td>'


def _table(part: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in part.heads)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(item)}</td>" for item in row) + "</tr>" for row in part.rows
    )
    caption = f"<figcaption>{escape(part.caption)}</figcaption>" if part.caption else ""
    return (
        f"<figure>{caption}"
        f'<div class="wide"><table class="words"><tr>{heads}</tr>{rows}</table></div></figure>'
    )
