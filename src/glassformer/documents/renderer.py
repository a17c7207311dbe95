"""What a format is, a class that writes each kind of part; the formats there are, and their words.

A format must write paragraphs, formulas, heat maps, tables, code and sections. The other parts are
made of those unless it has something better: a remark is a paragraph, facts and a question are
tables, a tree is indented code, and a figure is left out, since the matrices beside it hold the
same numbers, or is the table that it carries.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from glassformer.documents import parts as p
from glassformer.errors import TraceError, UnknownNameError
from glassformer.files import as_path, os_errors_as, write_whole
from glassformer.language import Sentences, as_language, words

if TYPE_CHECKING:  # audits are documents too, and need no torch
    from glassformer.tracing.explanation import Card

Made = TypeVar("Made")

FORMATS = {
    "terminal": "glassformer.documents.terminal:Terminal",
    "md": "glassformer.documents.markdown:Markdown",
    "tex": "glassformer.documents.latex:Latex",
    "html": "glassformer.documents.html:Html",
    "json": "glassformer.documents.renderer:Json",
    "xlsx": "glassformer.documents.spreadsheet:Spreadsheet",
    "slides": "glassformer.documents.slides:Slides",
    "worksheet": "glassformer.documents.worksheet:Worksheet",
}
"""The class of each format; its module is imported on first use."""

SUFFIXES = {
    ".txt": "terminal", ".md": "md", ".tex": "tex", ".html": "html", ".json": "json",
    ".xlsx": "xlsx", ".pdf": "slides",
}  # fmt: skip
"""Formats by file extension."""


@cache
def words_in(lang: str) -> Sentences:
    """The words of a language."""
    return Sentences(as_language(lang), words(__name__))


def meaning_of(said: Sentences, name: str) -> str:
    """What a common name of a step or operator means; empty for other names."""
    parts = [part for part in name.split(".") if not part.isdigit()]
    bare = parts[-1].lstrip("_") if parts else ""
    term = said.get(f"term: {bare}", "")
    return "" if term == bare else term


class DocumentWriter(ABC):
    """One document in one format."""

    def __init__(self, document: p.Document) -> None:
        self.document = document

    @abstractmethod
    def render(self) -> str | bytes: ...

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file atomically."""
        return write_file(path, self.render())


class Json(DocumentWriter):
    """The document as data: the schema of its kind, or its parts."""

    def render(self) -> str:
        """One line of JSON."""
        return json.dumps(self.document.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"


class Renderer(DocumentWriter, Generic[Made]):
    """A format that writes part by part; `Made` is what a part becomes."""

    def __init__(self, document: p.Document) -> None:
        super().__init__(document)
        self.words = words_in(document.language)
        self.depth = 0
        """The nesting depth of sections around the current part."""

    def write_all(self, parts: Sequence[p.Part]) -> list[Made]:
        """Write parts in order, skipping those that the format leaves out."""
        return [made for part in parts if (made := self.write(part)) is not None]

    def inside(self, section: p.Section) -> list[Made]:
        """The parts of a section."""
        self.depth += 1
        made = self.write_all(section.parts)
        self.depth -= 1
        return made

    def write(self, part: p.Part) -> Made | None:
        """Write one part with the method named after its class."""
        made: Made | None = getattr(self, type(part).__name__.lower())(part)
        return made

    @abstractmethod
    def paragraph(self, part: p.Paragraph) -> Made: ...

    @abstractmethod
    def formula(self, part: p.Formula) -> Made: ...

    @abstractmethod
    def heatmap(self, part: p.HeatMap) -> Made: ...

    @abstractmethod
    def table(self, part: p.Table) -> Made: ...

    @abstractmethod
    def code(self, part: p.Code) -> Made: ...

    @abstractmethod
    def section(self, part: p.Section) -> Made:
        """A heading, followed by `inside(part)`."""

    def remark(self, part: p.Remark) -> Made:
        """By default a paragraph."""
        return self.paragraph(p.Paragraph(f"{self.lead(part)}{part.text}", part.look))

    def lead(self, part: p.Remark) -> str:
        """What stands before the text of a remark."""
        return f"{part.lead}{self.colon}"

    @property
    def colon(self) -> str:
        """What stands between a name and what is said of it."""
        return "：" if self.document.language == "zh" else ": "

    def facts(self, part: p.Facts) -> Made:
        """By default a table without heads."""
        return self.table(p.Table("", ("", ""), part.items))

    def tree(self, part: p.Tree) -> Made:
        """By default indented lines."""
        return self.code(p.Code("\n".join(part.lines())))

    def question(self, part: p.Question) -> Made:
        """By default a table of blanks below the task."""
        return self.table(p.Table(self.task(part), part.labels, (("____",) * len(part.labels),)))

    def task(self, part: p.Question) -> str:
        """The sentence of a question with its number."""
        return self.words["question"].format(number=part.number, text=part.text)

    def figure(self, part: p.Figure) -> Made | None:
        """By default its numbers, if no other part holds them."""
        if part.numbers is None:
            return None
        return self.table(replace(part.numbers, caption=part.numbers.caption or part.caption))


def format_of(path: str | os.PathLike[str]) -> str:
    """The format for a file extension."""
    ending = Path(path).suffix.lower()
    if ending not in SUFFIXES:
        raise UnknownNameError("file ending", ending, SUFFIXES)
    return SUFFIXES[ending]


def writer(document: p.Document, to: str, **options: Any) -> DocumentWriter:
    """The writer of a document in a format; `options` go to its class."""
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS)
    module, _, name = FORMATS[to].partition(":")
    made: DocumentWriter = getattr(import_module(module), name)(document, **options)
    return made


def write_file(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file atomically."""
    target = as_path(path, TraceError)
    with os_errors_as(TraceError, "cannot write {target}: {reason}", target=target):
        return write_whole(target, content)


def write_figures(
    document: p.Document, folder: str | os.PathLike[str], *, prefix: str = ""
) -> list[Path]:
    """Write every figure of a document as a self-contained SVG file."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TraceError(
            "cannot make the folder {folder}: {reason}", folder=folder, reason=error.strerror
        ) from None
    return [
        write_file(Path(folder) / f"{prefix}{figure.name}.svg", figure.drawing.svg())
        for figure in document.figures()
    ]


# --- formulas ---
# A card's arithmetic line by line: symbols, numbers, value, then what the symbols stand for.

_LONGEST_LINE = 88


def text_lines(part: p.Formula, words: Sentences) -> list[str]:
    """Plain text."""
    from glassformer.tracing.formula import to_text

    card = part.card
    write = partial(
        to_text, digits=card.digits, language=words.language, within="equation", minus=True
    )
    lines: list[str] = []
    sign: str = card.relation
    for place, equation in enumerate(part.equations):
        left, symbols, numbers, value = map(write, equation)
        lead = f"{words['where']} " if place == 1 else ""
        lines.append(f"{lead}{left} {sign} {symbols}")
        whole = f"  {sign} {numbers} {sign} {value}"
        if numbers == value:
            lines.append(f"  {sign} {value}")
        elif len(whole) <= _LONGEST_LINE:
            lines.append(whole)
        else:
            lines += [f"  {sign} {numbers}", f"  {sign} {value}"]
        sign = "="
    return lines or [f"{card.name} = {write(card.value_tree)}"]


def legend_text(card: Card, words: Sentences) -> str:
    """`with Q: projected_queries, K: projected_keys`; empty where the symbols are the names."""
    entries = ", ".join(f"{symbol}: {name}" for symbol, name in card.legend.items())
    return words["legend"].format(legend=entries) if entries else ""


def tex_lines(part: p.Formula, words: Sentences) -> list[str]:
    """TeX math; a continuation line begins with its sign."""
    from glassformer.tracing.formula import to_tex

    write = partial(to_tex, digits=part.card.digits, language=words.language, within="equation")
    lines: list[str] = []
    sign = r"\neq" if part.card.relation == "≠" else "="
    for place, equation in enumerate(part.equations):
        left, symbols, numbers, value = map(write, equation)
        lead = rf"\text{{{words['where']}}}\ " if place == 1 else ""
        lines.append(f"{lead}{left} {sign} {symbols}")
        lines.append(f"{'' if numbers == value else f'{sign} {numbers} '}{sign} {value}")
        sign = "="
    return lines or [f"{write(part.card.name_tree)} = {write(part.card.value_tree)}"]


def mathml_lines(part: p.Formula, words: Sentences) -> list[str]:
    """MathML, each line in a `<div>`."""
    from glassformer.tracing.formula import summands, to_mathml

    write = partial(to_mathml, digits=part.card.digits, language=words.language, within="equation")
    lines: list[str] = []
    sign: str = part.card.relation
    for place, equation in enumerate(part.equations):
        left, symbols, value = map(write, (equation.left, equation.symbols, equation.value))
        lead = f'<span class="where">{escape(words["where"])}</span>' if place == 1 else ""
        lines.append(f"<div>{lead}{_math(f'{left}<mo>{sign}</mo>{symbols}')}</div>")
        summed = list(summands(equation.numbers))
        terms = [write(term, within="sum" if len(summed) > 1 else "equation") for term in summed]
        # Each term is a <math> of its own, since browsers break lines only between them. The
        # sign that begins it is marked as infix to keep its spacing.
        signs = [sign, *("+" for _ in terms[1:])]
        shown = [] if terms == [value] else list(zip(signs, terms, strict=True))
        pieces = (_math(f'<mo form="infix">{s}</mo>{x}') for s, x in [*shown, (sign, value)])
        lines.append(f'<div class="numbers">{" ".join(pieces)}</div>')
        sign = "="
    given = f"{write(part.card.name_tree)}<mo>=</mo>{write(part.card.value_tree)}"
    return lines or [f"<div>{_math(given)}</div>"]


def _math(inside: str) -> str:
    return f'<math display="inline" displaystyle="true"><mrow>{inside}</mrow></math>'
