"""One HTML page that needs nothing else: no script, no fonts, no network."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from itertools import groupby

from glassformer.documents.parts import (
    Code,
    Facts,
    Figure,
    Formula,
    HeatCell,
    HeatMap,
    Inline,
    Paragraph,
    Part,
    Remark,
    Section,
    Span,
    Table,
    Tree,
    spans,
)
from glassformer.documents.renderer import Renderer
from glassformer.trace import text
from glassformer.trace.render.colours import hex_colour, ink_on

_TAGS = {"strong": "b", "emphasis": "i", "code": "code", "deleted": "del", "inserted": "ins"}
_MOST = 256
"""Rows and columns of a matrix; a page with more is slow to open."""


class Html(Renderer[str]):
    """A page with a table of contents where sections are numbered."""

    def render(self) -> str:
        """The whole page."""
        document = self.document
        title = escape(document.title or self.words["title"])
        style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
        style += "".join(dict.fromkeys(figure.drawing.style for figure in document.figures()))
        heading = f"<header><h1>{title}</h1></header>\n" if document.title else ""
        return (
            f'<!doctype html>\n<html lang="{"zh-CN" if document.language == "zh" else "en"}">\n'
            '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{title}</title>\n<style>\n{style}</style></head>\n<body>\n"
            f"{self._contents()}<main>\n{heading}{self._rows(document.parts)}\n</main>\n"
            "</body>\n</html>\n"
        )

    def _contents(self) -> str:
        items = "".join(
            f'<li><a href="#step-{part.number}">{_inline(part.title)}</a></li>'
            for part in self.document.parts
            if isinstance(part, Section) and part.number is not None
        )
        label = escape(self.words["contents"])
        return f'<nav aria-label="{label}"><ol>{items}</ol></nav>\n' if items else ""

    def _rows(self, parts: Iterable[Part]) -> str:
        """Small matrices and tables that follow one another stand side by side."""
        blocks: list[str] = []
        for beside, group in groupby(parts, lambda part: isinstance(part, HeatMap | Table)):
            made = self.write_all(list(group))
            blocks += [f'<div class="row">{"".join(made)}</div>'] if beside else made
        return "\n".join(blocks)

    def paragraph(self, part: Paragraph) -> str:
        """A paragraph."""
        look = "" if part.look == "plain" else f' class="{part.look}"'
        return f"<p{look}>{_inline(part.text)}</p>"

    def remark(self, part: Remark) -> str:
        """A paragraph with a coloured edge."""
        lead = f"<b>{escape(part.lead)}</b>"
        return f'<p class="remark {part.look}">{lead} {escape(part.text)}</p>'

    def formula(self, part: Formula) -> str:
        """MathML, which browsers set without any script."""
        return f'<div class="formula">{part.notation.mathml(part.cell, self.words)}</div>'

    def heat_map(self, part: HeatMap) -> str:
        """A table with coloured cells; all digits of a number appear under the pointer."""
        heads = "".join(f'<th scope="col">{escape(x)}</th>' for x in part.matrix.columns[:_MOST])
        rows = "".join(
            f'<tr><th scope="row">{escape(label)}</th>{"".join(map(self._cell, line))}</tr>'
            for label, line in zip(part.matrix.rows, part.cells(_MOST, _MOST), strict=False)
        )
        note = escape(part.notes(self.words, _MOST, _MOST))
        return _figure(
            part.caption,
            f'<table class="heat"><tr><td></td>{heads}</tr>{rows}</table>'
            + (f'<p class="quiet">{note}</p>' if note else ""),
        )

    def _cell(self, cell: HeatCell) -> str:
        marked = ' class="marked"' if cell.is_marked else ""
        look = ""
        if cell.colour is not None:
            ground, ink = hex_colour(cell.colour), hex_colour(ink_on(cell.colour))
            look = f' style="background:{ground};color:{ink}"'
        whole = self.words["unwritten"] if cell.is_unwritten else text.number(cell.value, 9)
        return f'<td{marked}{look} title="{escape(whole)}">{escape(cell.text)}</td>'

    def table(self, part: Table) -> str:
        """A table; a column without a head holds the labels of its rows."""
        right = [
            ' class="right"' if numeric else "" if width else ' class="short"'
            for numeric, width in zip(part.is_numeric(), part.widths(), strict=True)
        ]
        heads = [
            f'<th scope="col"{look}>{_inline(head)}</th>'
            for look, head in zip(right, part.heads, strict=True)
        ]
        rows = [
            [f"<td{look}>{_inline(item)}</td>" for look, item in zip(right, row, strict=True)]
            for row in part.rows
        ]
        if part.shares:  # bars stand right of the first column
            heads.insert(1, "<th></th>")
            for row, share in zip(rows, part.shares, strict=True):
                row.insert(1, _bar(share))
        lines = "".join(f"<tr>{''.join(line)}</tr>" for line in [heads, *rows])
        return _figure(part.caption, f'<table class="words">{lines}</table>')

    def facts(self, part: Facts) -> str:
        """A table of labels."""
        rows = "".join(
            f'<tr><th scope="row">{escape(label)}</th><td>{_inline(said)}</td></tr>'
            for label, said in part.items
        )
        return _figure("", f'<table class="words">{rows}</table>')

    def code(self, part: Code) -> str:
        """Preformatted text."""
        return f'<div class="wide"><pre>{escape(part.text)}</pre></div>'

    def tree(self, part: Tree) -> str:
        """Nested lists."""
        return f"<ul>{self._branch(part)}</ul>"

    def _branch(self, part: Tree) -> str:
        below = "".join(map(self._branch, part.branches))
        return f"<li>{_inline(part.text)}{f'<ul>{below}</ul>' if below else ''}</li>"

    def figure(self, part: Figure) -> str:
        """The drawing itself."""
        caption = f"<figcaption>{escape(part.caption)}</figcaption>"
        return f'<figure class="drawn">{caption}{part.drawing.svg(alone=False)}</figure>'

    def section(self, part: Section) -> str:
        """A heading; numbered sections can be linked to."""
        level = self.depth + 2
        number = "" if part.number is None else f'<span class="number">{part.number}</span>'
        name = "" if part.number is None else f' id="step-{part.number}"'
        self.depth += 1
        inside = self._rows(part.parts)
        self.depth -= 1
        heading = f"<h{level}>{number}{_inline(part.title)}</h{level}>"
        return f"<section{name}>{heading}\n{inside}\n</section>"


def _figure(caption: str, table: str) -> str:
    said = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure>{said}<div class="wide">{table}</div></figure>'


def _bar(share: float) -> str:
    side = "above" if share >= 0 else "below"
    return f'<td><span class="bar {side}" style="width:{abs(share) * 8:.2f}rem"></span></td>'


def _inline(inline: Inline) -> str:
    return "".join(map(_span, spans(inline)))


def _span(span: Span) -> str:
    if span.look == "plain":
        return escape(span.text)
    tag = _TAGS.get(span.look)
    if tag is None:
        return f'<span class="{span.look}">{escape(span.text)}</span>'
    return f"<{tag}>{escape(span.text)}</{tag}>"
