"""A cell, a step or several of them as LaTeX, as a fragment or a document for xelatex."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from glassformer.trace.cells import Cell
from glassformer.trace.explanation import Card
from glassformer.trace.formula import (
    MOST_TERMS,
    escaped,
    number_to_tex,
    symbol_to_tex,
    to_tex,
)
from glassformer.trace.render.files import source_place
from glassformer.trace.render.matrices import Matrix, matrices, shape_text
from glassformer.trace.render.words import Words, meaning, phrases_in, words_in
from glassformer.trace.steps import Step
from glassformer.trace.trace import Trace

__all__ = ["latex_text"]

MOST_ROWS, MOST_COLUMNS, MOST_SLICES = 12, 10, 8

# Chinese text is set only where there is some, so that others need no Chinese fonts.
_PREAMBLE = r"""\documentclass[a4paper]{article}
\usepackage{amsmath}
\usepackage{fontspec}
\usepackage[margin=2cm]{geometry}
\setcounter{MaxMatrixCols}{64}
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.6em}
\sloppy
"""
_CHINESE = r"""\usepackage{xeCJK}
\IfFontExistsTF{Noto Serif CJK SC}{\setCJKmainfont{Noto Serif CJK SC}}{}
\IfFontExistsTF{Noto Sans CJK SC}{\setCJKsansfont{Noto Sans CJK SC}}{}
\IfFontExistsTF{Noto Sans Mono CJK SC}{\setCJKmonofont{Noto Sans Mono CJK SC}}{}
"""


def latex_text(
    things: Trace | Step | Cell | Sequence[Step | Cell],
    *,
    lang: str = "en",
    digits: int = 4,
    terms: int = MOST_TERMS,
    document: bool = True,
) -> str:
    """LaTeX of a cell, a step, a list of them, or every step of a trace.

    `document` False leaves the preamble out, for use inside another document (it needs amsmath).
    """
    words = words_in(lang)
    if isinstance(things, Trace):
        chosen: Sequence[Step | Cell] = [*things.inputs.values(), *things.steps]
    else:
        chosen = [things] if isinstance(things, Step | Cell) else things
    body = "\n".join(
        _step(thing, words, digits, terms)
        if isinstance(thing, Step)
        else _cell(thing, words, digits, terms)
        for thing in chosen
    )
    if not document:
        return body
    wide = any(ord(mark) >= 0x2E80 for mark in body)
    return f"{_PREAMBLE}{_CHINESE if wide else ''}\\begin{{document}}\n{body}\\end{{document}}\n"


def _cell(cell: Cell, words: Words, digits: int, terms: int) -> str:
    """Name, symbols, numbers, value; the named parts; both precisions; the source line."""
    phrases = phrases_in(words)
    shown = Card(cell, terms, digits, phrases)
    value = number_to_tex(cell.value, digits)
    lines = [rf"\subsubsection*{{{escaped(cell.name)} $= {value}$}}"]
    if shown.expression is None:
        why = words["given"] if shown.is_given else words["no rule"].format(op=cell.step.op)
        lines.append(f"{escaped(words[cell.role])}. {escaped(why)}")
        return "\n\n".join(lines) + "\n"
    sign = {"≠": r"\neq"}.get(shown.relation, "=")
    for place, equation in enumerate(shown.equations):
        left, symbols, numbers, last = (to_tex(x, digits, phrases) for x in equation)
        lines.append(_line(rf"{left} {sign} {symbols}"))
        if place or not shown.is_copy:
            lines.append(_line(rf"\phantom{{x}} {sign} {numbers} {sign} {last}"))
        sign = "="
    dtype = str(cell.step.dtype).removeprefix("torch.")
    stored = escaped(words["stored"].format(dtype=dtype))
    facts = [
        f"{stored}: ${number_to_tex(cell.value, 9)}$",
        f"{escaped(words['recomputed'])}: ${number_to_tex(shown.recomputed, 12)}$",
        f"{escaped(words['difference'])}: ${number_to_tex(float(f'{shown.difference:.1e}'), 2)}$",
    ]
    if shown.relation == "≠":
        facts.append(escaped(words["not reproduced"]))
    lines.append(r"{\small " + "; ".join(facts) + "}")
    if shown.line:
        lines.append(_source(shown.place, shown.line))
    return "\n\n".join(lines) + "\n"


def _line(mathematics: str) -> str:
    """Mathematics that TeX may break over lines."""
    return rf"$\displaystyle {mathematics}$"


def _source(place: str, line: str) -> str:
    shown = re.sub(r"([/.,(=])", r"\1\\allowbreak{}", f"{escaped(place)}: {escaped(line)}")
    return rf"{{\small\ttfamily {shown}}}"


def _step(step: Step, words: Words, digits: int, terms: int) -> str:
    """Heading, source line, every slice, and the arithmetic of its first cell."""
    said = meaning(words, step.name)
    what = f"{said + ', ' if said else ''}{shape_text(step.shape)}, {step.op}"
    lines = [rf"\subsection*{{{escaped(step.name)} \normalfont\small ({escaped(what)})}}"]
    if step.line is not None and step.line.text:
        lines.append(_source(source_place(step.line), step.line.text))
    if 0 in step.shape:
        return "\n\n".join([*lines, escaped(words["empty"])]) + "\n"
    slices = math.prod(step.shape[:-2])
    for number, shown in enumerate(matrices(step)):
        if number == MOST_SLICES:
            left = words["more slices"].format(count=slices - MOST_SLICES)
            lines.append(rf"\textit{{{escaped(left)}}}")
            break
        lines.append(_matrix(shown, words, digits))
    if step.role == "activation":
        lines.append(_cell(step[(0,) * len(step.shape)], words, digits, terms))
    return "\n\n".join(lines) + "\n"


def _matrix(shown: Matrix, words: Words, digits: int) -> str:
    """With labels a table, without them a matrix in brackets; what is left out is said."""
    labelled = any(labels is not None for labels in shown.step.labels[-2:])
    body = _table(shown, digits) if labelled else _brackets(shown, digits)
    rows, columns = len(shown.rows) - MOST_ROWS, len(shown.columns) - MOST_COLUMNS
    notes = [words["more rows"].format(count=rows)] if rows > 0 else []
    notes += [words["more columns"].format(count=columns)] if columns > 0 else []
    note = rf" {{\small {escaped('; '.join(notes))}}}" if notes else ""
    return body + note


def _numbers(shown: Matrix, row: int, digits: int) -> list[str]:
    numbers = [number_to_tex(float(x), digits) for x in shown.values[row, :MOST_COLUMNS]]
    return numbers + ([r"\cdots"] if len(shown.columns) > MOST_COLUMNS else [])


def _brackets(shown: Matrix, digits: int) -> str:
    rows = [" & ".join(_numbers(shown, row, digits)) for row in range(len(shown.rows))[:MOST_ROWS]]
    if len(shown.rows) > MOST_ROWS:
        rows.append(" & ".join([r"\vdots"] * len(_numbers(shown, 0, digits))))
    inside = " \\\\\n".join(rows)
    body = _line(f"{_symbol(shown)} = \\begin{{pmatrix}}\n{inside}\n\\end{{pmatrix}}")
    wide = len(shown.columns) > 6
    return rf"{{\footnotesize\setlength{{\arraycolsep}}{{2pt}}{body}}}" if wide else body


def _symbol(shown: Matrix) -> str:
    """What the matrix is called in formulas, with the places of its slice."""
    names, axes = shown.step.trace.naming, shown.step.trace.naming.axes(shown.step)
    at = [str(shown.lead[axis] + first) for axis, first in axes if axis < len(shown.lead)]
    return symbol_to_tex(names.symbol(shown.step), ",".join(at))


def _table(shown: Matrix, digits: int) -> str:
    heads = [escaped(label) for label in shown.columns[:MOST_COLUMNS]]
    heads += [r"$\cdots$"] if len(shown.columns) > MOST_COLUMNS else []
    rows = [
        " & ".join([escaped(shown.rows[row]), *(f"${x}$" for x in _numbers(shown, row, digits))])
        for row in range(len(shown.rows))[:MOST_ROWS]
    ]
    if len(shown.rows) > MOST_ROWS:
        rows.append(" & ".join([r"$\vdots$"] * (len(heads) + 1)))
    inside = " \\\\\n".join([" & ".join(["", *heads]), *rows])
    title = _line(_symbol(shown))
    body = f"\\begin{{tabular}}{{l{'r' * len(heads)}}}\n{inside}\n\\end{{tabular}}"
    return f"{title}\\quad {body}"
