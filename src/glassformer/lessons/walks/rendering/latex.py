"""A lesson as a LaTeX document for xelatex: heat maps are tables with coloured cells."""

from __future__ import annotations

import math

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
from glassformer.lessons.walks.rendering.cells import cell_text, formula_tex
from glassformer.trace.formula import escaped
from glassformer.trace.render.colours import hex_colour, ink_on

__all__ = ["to_latex"]

# Chinese fonts are asked for only where there is Chinese to set.
_PREAMBLE = r"""\documentclass[a4paper,11pt]{article}
\usepackage{amsmath}
\usepackage{fontspec}
\usepackage[table]{xcolor}
\usepackage[margin=2.2cm]{geometry}
\usepackage{adjustbox}
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.6em}
\sloppy
"""
_CHINESE = r"""\usepackage{xeCJK}
\IfFontExistsTF{Noto Serif CJK SC}{\setCJKmainfont{Noto Serif CJK SC}}{}
\IfFontExistsTF{Noto Sans CJK SC}{\setCJKsansfont{Noto Sans CJK SC}}{}
\IfFontExistsTF{Noto Sans Mono CJK SC}{\setCJKmonofont{Noto Sans Mono CJK SC}}{}
"""
_REMARK_COLOURS = {"agrees": "1A7F37", "wrong": "B42318", "follows": "915C00"}
# In this order: −∞ before its minus.
_SIGNS = {"−∞": r"$-\infty$", "−": "$-$", "∂": r"$\partial$", "→": r"$\to$", "×": r"$\times$"}


def to_latex(lesson: Lesson) -> str:
    """The whole document."""
    say = Speaker(lesson.language)
    lines = [
        rf"\title{{{escaped(lesson.title)}}}\date{{}}\author{{}}\maketitle",
        escaped(lesson.summary),
        rf"{{\small {escaped(say('how to read'))}}}",
    ]
    for step in lesson.steps:
        lines.append(rf"\section{{{escaped(step.title)}}}")
        lines += [_part(part, say) for part in step.plain_parts]
    body = "\n\n".join(lines)
    chinese = _CHINESE if lesson.language == "zh" else ""
    return f"{_PREAMBLE}{chinese}\\begin{{document}}\n{body}\n\\end{{document}}\n"


def _part(part: PlainPart, say: Speaker) -> str:
    match part:
        case Paragraph(text=said):
            return _prose(said)
        case Remark(verdict=verdict, text=said):
            colour = _REMARK_COLOURS.get(verdict, "555555")
            lead = rf"\textbf{{\textcolor[HTML]{{{colour}}}{{{escaped(say('in the text'))}}}}}"
            return rf"\begin{{quote}}\small {lead}\quad {_prose(said)}\end{{quote}}"
        case Formula():
            return "\n\n".join(map(_formula_line, formula_tex(part, say.language)))
        case HeatMap():
            return _heat_map(part)
        case Table():
            return _table(part)


def _formula_line(line: str) -> str:
    """Mathematics that TeX may break; what continues a formula stands further in."""
    indent = r"\hspace*{1.5em}" if line.startswith("=") else ""
    return rf"{indent}$\displaystyle {line}$"


def _prose(said: str) -> str:
    """Text; the signs that text fonts lack are set as mathematics."""
    shown = escaped(said)
    for sign, command in _SIGNS.items():
        shown = shown.replace(sign, command)
    return shown


def _fitted(caption: str, columns: str, lines: list[str]) -> str:
    """A table no wider than the page, under its caption."""
    inside = " \\\\\n".join(lines)
    title = rf"{{\small\itshape {_prose(caption)}}}\\[2pt]" if caption else ""
    table = f"\\begin{{tabular}}{{{columns}}}\n{inside}\n\\end{{tabular}}"
    return (
        rf"\begin{{minipage}}{{\linewidth}}{title}"
        rf"\begin{{adjustbox}}{{max width=\linewidth}}\small {table}\end{{adjustbox}}"
        r"\end{minipage}"
    )


def _heat_map(part: HeatMap) -> str:
    found = part.matrix
    heads = " & ".join(["", *(escaped(label) for label in found.columns)])
    rows = [
        " & ".join([escaped(label), *(_cell(part, row, j) for j in range(len(found.columns)))])
        for row, label in enumerate(found.rows)
    ]
    return _fitted(part.caption, "r" * (len(found.columns) + 1), [heads, *rows])


def _cell(part: HeatMap, row: int, column: int) -> str:
    number = float(part.matrix.values[row, column])
    shown = cell_text(part, number)
    words = {"✓": r"$\times$", "·": r"$\cdot$", "∞": r"$\infty$", "−∞": r"$-\infty$"}
    inside = words.get(shown) or f"${shown.replace('−', '-')}$"
    mantissa, _, power = shown.partition("e")
    if power and shown not in words:
        exponent = int(power.replace("−", "-"))
        inside = rf"${mantissa.replace('−', '-')} \cdot 10^{{{exponent}}}$"
    if part.marked == (row, column):
        inside = rf"\fbox{{{inside}}}"
    colour = part.scale.colour(number) if part.scale is not None else None
    if colour is None or not math.isfinite(number):
        return inside
    ink = hex_colour(ink_on(colour))[1:]
    return rf"\cellcolor[HTML]{{{hex_colour(colour)[1:]}}}\textcolor[HTML]{{{ink}}}{{{inside}}}"


def _table(part: Table) -> str:
    heads = " & ".join(rf"\textbf{{{escaped(head)}}}" for head in part.heads)
    rows = [" & ".join(_prose(item) for item in row) for row in part.rows]
    first, *others = rows
    lines = [heads, rf"\hline {first}", *others]
    return _fitted(part.caption, "l" * len(part.heads), lines)
