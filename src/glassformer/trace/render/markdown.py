"""A cell, a step or several of them as Markdown: tables, and formulas as plain text or as TeX."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from glassformer.trace.cells import Cell
from glassformer.trace.explanation import Card
from glassformer.trace.formula import MOST_TERMS, text, to_tex
from glassformer.trace.render.files import source_place
from glassformer.trace.render.matrices import Matrix, matrices, shape_text
from glassformer.trace.render.words import Words, meaning, note_in, phrases_in, words_in
from glassformer.trace.steps import Step
from glassformer.trace.trace import Trace

__all__ = ["index_text", "markdown_text"]

MOST_STEPS = 60
MOST_ROWS, MOST_COLUMNS, MOST_SLICES = 16, 12, 8


def markdown_text(
    things: Trace | Step | Cell | Sequence[Step | Cell],
    *,
    lang: str = "en",
    digits: int = 4,
    terms: int = MOST_TERMS,
    tex: bool = False,
) -> str:
    """Markdown of a cell, a step, a list of them, or every step of a trace.

    `tex` writes formulas as `$…$` for readers that set them; otherwise they are plain text.
    """
    words = words_in(lang)
    writer = _Writer(words, digits, terms, tex)
    if isinstance(things, Trace):
        parts = [writer.index(things)]
        chosen: Sequence[Step | Cell] = [*things.inputs.values(), *things.steps]
    else:
        parts = []
        chosen = [things] if isinstance(things, Step | Cell) else things
    for thing in chosen:
        parts.append(writer.step(thing) if isinstance(thing, Step) else writer.cell(thing))
    return "\n\n".join(parts) + "\n"


def index_text(trace: Trace, *, lang: str = "en", most: int = MOST_STEPS) -> str:
    """The notes of a trace and a table of its first steps, without their numbers."""
    words = words_in(lang)
    return _Writer(words, 4, MOST_TERMS, tex=False).index(trace, most) + "\n"


def _escaped(plain: str) -> str:
    """Text that Markdown shows as it is, in tables too."""
    marked = re.sub(r"([\\`*_{}\[\]#|~$])", r"\\\1", " ".join(plain.split("\n")))
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(plain: str) -> str:
    """A span of code, fenced by more backticks than it holds."""
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {plain} {fence}" if longest else f"`{plain}`"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    lines = [heads, [{"l": "---", "r": "---:"}[side] for side in align], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class _Writer:
    def __init__(self, words: Words, digits: int, terms: int, tex: bool) -> None:
        self._words = words
        self._digits = digits
        self._terms = terms
        self._tex = tex

    def index(self, trace: Trace, most: int | None = None) -> str:
        """The table of steps, or of the first so many."""
        words = self._words
        heads = [words[key] for key in ("step", "shape", "operator", "source")]
        rows = [
            [
                _code(step.name),
                shape_text(step.shape),
                _code(step.op),
                _escaped(source_place(step.line)),
            ]
            for step in trace.steps[:most]
        ]
        left = len(trace.steps) - len(rows)
        more = f"\n\n*{_escaped(words['more rows'].format(count=left))}*" if left else ""
        notes = "".join(f"\n\n> {_escaped(note_in(words, note))}" for note in trace.notes)
        return f"# {_escaped(words['title'])}{notes}\n\n{_table(heads, rows, 'llll')}{more}"

    def step(self, step: Step) -> str:
        """Heading, source line, every slice, and the arithmetic of the first cell."""
        words = self._words
        parts = [
            f"## {_code(step.name)} {meaning(words, step.name)}".rstrip(),
            f"{shape_text(step.shape)} · {_code(step.op)} · {words[step.role]}",
        ]
        if step.line is not None and step.line.text:
            parts.append(f"{_escaped(source_place(step.line))}: {_code(step.line.text)}")
        if 0 in step.shape:
            return "\n\n".join([*parts, words["empty"]])
        slices = math.prod(step.shape[:-2])
        for number, shown in enumerate(matrices(step)):
            if number == MOST_SLICES:
                left = words["more slices"].format(count=slices - MOST_SLICES)
                parts.append(f"*{_escaped(left)}*")
                break
            parts.append(self._matrix(shown))
        if step.role == "activation":
            parts.append(self.cell(step[(0,) * len(step.shape)]))
        return "\n\n".join(parts)

    def _matrix(self, shown: Matrix) -> str:
        words = self._words
        columns, rows = len(shown.columns) - MOST_COLUMNS, len(shown.rows) - MOST_ROWS
        heads = [_escaped(shown.name), *map(_escaped, shown.columns[:MOST_COLUMNS])]
        heads += [_escaped(words["more columns"].format(count=columns))] if columns > 0 else []
        body = [
            [
                f"**{_escaped(label)}**" if label else "",
                *(text.number(float(x), self._digits) for x in shown.values[row, :MOST_COLUMNS]),
                *(["…"] if columns > 0 else []),
            ]
            for row, label in enumerate(shown.rows[:MOST_ROWS])
        ]
        table = _table(heads, body, "l" + "r" * (len(heads) - 1))
        note = f"\n\n*{_escaped(words['more rows'].format(count=rows))}*" if rows > 0 else ""
        return table + note

    def cell(self, cell: Cell) -> str:
        """Formula in symbols and numbers, largest terms, both precisions, source line."""
        words = self._words
        shown = Card(cell, self._terms, self._digits, phrases_in(words))
        value = text.number(cell.value, self._digits)
        parts = [f"### {_code(cell.name)} = {value}"]
        if shown.expression is None:
            why = words["given"] if shown.is_given else words["no rule"].format(op=cell.step.op)
            return "\n\n".join([*parts, f"{words[cell.role]}. {_escaped(why)}"])
        parts.append(self._formulas(shown, value))
        if shown.parts:
            parts.append(self._parts(shown))
        dtype = str(cell.step.dtype).removeprefix("torch.")
        stored = words["stored"].format(dtype=dtype)
        facts = [
            f"- {_escaped(stored)}: {text.number(cell.value, 9)}",
            f"- {_escaped(words['recomputed'])}: {text.number(shown.recomputed, 17)}",
            f"- {_escaped(words['difference'])}: {shown.difference:.1e}",
        ]
        if shown.relation == "≠":
            facts.append(f"- **{_escaped(words['not reproduced'])}**")
        if shown.line:
            facts.append(f"- {_escaped(shown.place)}: {_code(shown.line)}")
        return "\n\n".join([*parts, "\n".join(facts)])

    def _formulas(self, shown: Card, value: str) -> str:
        if self._tex:
            return self._tex_formulas(shown, value)
        name = shown.name
        sign = shown.relation
        lines = [f"{name} {sign} {shown.formula}"]
        lines += [] if shown.is_copy else [f"  = {shown.numbers}", f"  {sign} {value}"]
        for part in shown.definitions:
            number = text.number(part.value, self._digits)
            lines.append(f"{part.symbol} = {part.symbols}\n  = {part.numbers} = {number}")
        return "```text\n" + "\n".join(lines) + "\n```"

    def _tex_formulas(self, shown: Card, value: str) -> str:
        phrases, sign = phrases_in(self._words), {"≠": r"\neq"}.get(shown.relation, "=")
        lines: list[str] = []
        for equation in shown.equations:
            left, symbols, numbers, _ = (to_tex(x, self._digits, phrases) for x in equation)
            end = f" {sign} {value}" if not lines else ""
            lines += [f"{left} {sign} {symbols}", f"{left} {sign} {numbers}{end}"]
            sign = "="
        return "\n\n".join(f"$$\n{line}\n$$" for line in lines)

    def _parts(self, shown: Card) -> str:
        words = self._words
        heads = [words["largest terms"] if shown.others else words["terms"], "", ""]
        rows = [
            [text.number(part.value, self._digits), _code(part.symbols), _escaped(part.numbers)]
            for part in shown.parts
        ]
        if shown.others:
            note = words["others"].format(count=shown.others)
            rows.append([text.number(shown.rest, self._digits), _escaped(note), ""])
        return _table(heads, rows, "rll")
