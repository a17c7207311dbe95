"""A cell, a step or several of them as LaTeX, as a fragment or a document for xelatex."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from glassformer.trace import text
from glassformer.trace.cells import Cell
from glassformer.trace.render.cards import card, short_names
from glassformer.trace.render.files import source_place
from glassformer.trace.render.latex_math import (
    MathWriter,
    NumbersWriter,
    escaped,
    math_name,
    math_number,
    math_relation,
    math_symbol,
)
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
    terms: int = text.MOST_TERMS,
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
    shown = card(cell, terms, digits, phrases_in(words))
    inside = short_names(cell)
    name = math_name(cell.name.removeprefix(inside))
    value = math_number(cell.value, digits)
    lines = [rf"\subsubsection*{{{escaped(cell.name)} $= {value}$}}"]
    if shown.expression is None:
        why = words["given"] if shown.is_given else words["no rule"].format(op=cell.step.op)
        lines.append(f"{escaped(words[cell.role])}. {escaped(why)}")
        return "\n\n".join(lines) + "\n"
    symbols = MathWriter(lambda full: full.removeprefix(inside), words)
    numbers = NumbersWriter(words, digits, terms)
    sign = math_relation(shown.relation)
    lines.append(_line(rf"{name} {sign} {symbols.write(shown.expression)}"))
    if not shown.is_copy:
        lines.append(
            _line(rf"\phantom{{x}} {sign} {numbers.write(shown.expression)} {sign} {value}")
        )
    for part in shown.definitions:
        symbol = math_symbol(part.symbol)
        last = math_number(part.value, digits)
        lines.append(_line(rf"{symbol} = {symbols.write(part.expression)}"))
        lines.append(_line(rf"\phantom{{x}} = {numbers.write(part.expression)} = {last}"))
    dtype = str(cell.step.dtype).removeprefix("torch.")
    stored = escaped(words["stored"].format(dtype=dtype))
    facts = [
        f"{stored}: ${math_number(cell.value, 9)}$",
        f"{escaped(words['recomputed'])}: ${math_number(shown.recomputed, 12)}$",
        f"{escaped(words['difference'])}: ${math_number(float(f'{shown.difference:.1e}'), 2)}$",
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
    numbers = [math_number(float(x), digits) for x in shown.values[row, :MOST_COLUMNS]]
    return numbers + ([r"\cdots"] if len(shown.columns) > MOST_COLUMNS else [])


def _brackets(shown: Matrix, digits: int) -> str:
    rows = [" & ".join(_numbers(shown, row, digits)) for row in range(len(shown.rows))[:MOST_ROWS]]
    if len(shown.rows) > MOST_ROWS:
        rows.append(" & ".join([r"\vdots"] * len(_numbers(shown, 0, digits))))
    inside = " \\\\\n".join(rows)
    body = _line(
        f"{math_name(_whole_name(shown))} = \\begin{{pmatrix}}\n{inside}\n\\end{{pmatrix}}"
    )
    wide = len(shown.columns) > 6
    return rf"{{\footnotesize\setlength{{\arraycolsep}}{{2pt}}{body}}}" if wide else body


def _whole_name(shown: Matrix) -> str:
    module = f"{shown.step.module}." if shown.step.module else ""
    return shown.name.removeprefix(module)


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
    title = _line(math_name(_whole_name(shown)))
    body = f"\\begin{{tabular}}{{l{'r' * len(heads)}}}\n{inside}\n\\end{{tabular}}"
    return f"{title}\\quad {body}"
