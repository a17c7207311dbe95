"""One HTML page that needs nothing else: no script, no fonts, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import groupby

from glassformer.colours import hex_colour, ink_on
from glassformer.documents import parts as p
from glassformer.documents.renderer import Renderer, mathml_lines
from glassformer.picture import STYLE
from glassformer.tracing.formula import exact_number

_TAGS = {"strong": "b", "emphasis": "i", "code": "code", "deleted": "del", "inserted": "ins"}
_LINE_OF_CODE = 28
"""Characters of code in a sentence that a phone has room for: it is not broken at its hyphens."""
_MOST = 256
"""Rows and columns of a matrix; a page with more is slow to open."""


class Html(Renderer[str]):
    """A page with a table of contents where sections are numbered."""

    def __init__(self, document: p.Document) -> None:
        super().__init__(document)
        self._moving = 0
        """How many moving figures have been written: their buttons need names of their own."""

    def render(self) -> str:
        title = self.document.title
        body = "\n".join(self.write_all(self.document.parts))
        heading = f"<header><h1>{escape(title)}</h1></header>\n" if title else ""
        return self.page(f"{self._contents()}<main>\n{heading}{body}\n</main>\n")

    def page(self, body: str, style: str = "", attributes: str = "") -> str:
        """A whole page around its body; `style` goes after that of all pages."""
        title = escape(self.document.title or self.words["title"])
        lang = "zh-CN" if self.document.language == "zh" else "en"
        style = own_file("page.css") + style + (STYLE if self.document.figures() else "")
        return (
            f'<!doctype html>\n<html lang="{lang}"{attributes}>\n<head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width">'
            f"<title>{title}</title>\n<style>\n{style}</style></head>\n<body>\n"
            f"{body}</body>\n</html>\n"
        )

    def _contents(self) -> str:
        items = "".join(
            f'<li><a href="#step-{part.number}">{_inline(part.title)}</a></li>'
            for part in self.document.parts
            if isinstance(part, p.Section) and part.number is not None
        )
        label = escape(self.words["contents"])
        return f'<nav aria-label="{label}"><ol>{items}</ol></nav>\n' if items else ""

    def _steps(self, part: p.Figure) -> str:
        """Buttons of a moving figure: play, pause, and each of its beats, to stop or go back to.

        They are radio buttons, so the arrow keys step; the figure's own style does the rest.
        """
        if not part.drawing.beats:
            return ""
        self._moving += 1
        values = ["play", "pause", *map(str, range(1, part.drawing.beats + 1))]
        said = {name: escape(self.words[name]) for name in ("play", "pause", "picture")}
        shown = {"play": "▶", "pause": "‖"}
        buttons = "".join(
            f'<label title="{said.get(value) or said["picture"].format(number=value)}">'
            f'<input type="radio" name="steps-{self._moving}" value="{value}"'
            f"{' checked' if value == 'play' else ''}>"
            f"<span>{shown.get(value, value)}</span></label>"
            for value in values
        )
        label = escape(self.words["animation"])
        return f'<div class="gf-steps" role="radiogroup" aria-label="{label}">{buttons}</div>'

    def write_all(self, parts: Sequence[p.Part]) -> list[str]:
        """Consecutive small matrices and tables are placed side by side."""
        blocks: list[str] = []
        for beside, group in groupby(parts, lambda part: isinstance(part, p.HeatMap | p.Table)):
            made = super().write_all(list(group))
            blocks += [f'<div class="row">{"".join(made)}</div>'] if beside else made
        return blocks

    def paragraph(self, part: p.Paragraph) -> str:
        look = "" if part.look == "plain" else f' class="{part.look}"'
        return f"<p{look}>{_inline(part.text)}</p>"

    def remark(self, part: p.Remark) -> str:
        """A paragraph with a coloured edge."""
        lead = f"<b>{escape(self.lead(part))}</b>"
        return f'<p class="remark {part.look}">{lead}{escape(part.text)}</p>'

    def formula(self, part: p.Formula) -> str:
        """MathML, which browsers render without scripts."""
        lines = "".join(mathml_lines(part, self.words))
        if part.code:
            lead = f'<span class="where">{escape(self.words["in code"])}</span>'
            lines += f'<div class="source">{lead}<code>{escape(part.code)}</code></div>'
        return f'<div class="formula">{lines}</div>'

    def heatmap(self, part: p.HeatMap) -> str:
        """A table with coloured cells; hovering over a number shows all its digits."""
        return self.heat_table(part, _MOST, _MOST)

    def heat_table(self, part: p.HeatMap, n_rows: int, n_columns: int) -> str:
        """The first rows and columns, and a note on what is left out."""
        columns = part.matrix.columns[:n_columns]
        heads = "".join(f'<th scope="col">{escape(x)}</th>' for x in columns)
        rows = "".join(
            f'<tr><th scope="row">{escape(label)}</th>{"".join(map(self._cell, line))}</tr>'
            for label, line in part.lines(n_rows, n_columns)
        )
        note = escape(part.notes(self.words, n_rows, n_columns))
        return _figure(
            part.caption,
            f'<table class="heat"><tr><td></td>{heads}</tr>{rows}</table>'
            + (f'<p class="quiet">{note}</p>' if note else ""),
        )

    def _cell(self, cell: p.HeatCell) -> str:
        marked = ' class="marked"' if cell.is_marked else ""
        look = ""
        if cell.colour is not None:
            ground, ink = hex_colour(cell.colour), hex_colour(ink_on(cell.colour))
            look = f' style="background:{ground};color:{ink}"'
        if cell.is_blank:
            return f'<td class="blank" aria-label="{escape(self.words["blank"])}"></td>'
        if cell.text == p.ASKED:  # nothing on hovering, either
            return f"<td{marked}{look}>{cell.text}</td>"
        whole = self.words["unwritten"] if cell.is_unwritten else exact_number(cell.value)
        return f'<td{marked}{look} title="{escape(whole)}">{escape(cell.text)}</td>'

    def table(self, part: p.Table) -> str:
        """A table; a column without a heading holds the row labels."""
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
        if part.shares:  # bars go right of the first column
            heads.insert(1, "<th></th>")
            for row, share in zip(rows, part.shares, strict=True):
                row.insert(1, _bar(share))
        shown = [heads, *rows] if part.has_heads else rows
        lines = "".join(f"<tr>{''.join(line)}</tr>" for line in shown)
        return _figure(part.caption, f'<table class="words">{lines}</table>')

    def question(self, part: p.Question) -> str:
        """The task with blanks; the answer unfolds without a script."""
        heads = "".join(f'<th scope="col">{escape(label)}</th>' for label in part.labels)
        blanks = '<td class="blank"></td>' * len(part.labels)
        table = f'<table class="words"><tr>{heads}</tr><tr>{blanks}</tr></table>'
        answers = escape(", ".join(part.answers))
        label = escape(self.words["answer"])
        return (
            f'<div class="question"><p><b>{escape(self.task(part))}</b></p>'
            f'<div class="wide">{table}</div>'
            f"<details><summary>{label}</summary><p>{answers}</p></details></div>"
        )

    def code(self, part: p.Code) -> str:
        return f'<div class="wide"><pre>{escape(part.text)}</pre></div>'

    def figure(self, part: p.Figure) -> str:
        """The SVG, inline."""
        caption = f"<figcaption>{escape(part.caption)}</figcaption>"
        drawn = f"{self._steps(part)}{part.drawing.svg(alone=False)}"
        return f'<figure class="drawn">{caption}{drawn}</figure>'

    def section(self, part: p.Section) -> str:
        """A heading; numbered sections have anchors."""
        level = self.depth + 2
        number = "" if part.number is None else f'<span class="number">{part.number}</span>'
        name = "" if part.number is None else f' id="step-{part.number}"'
        inside = "\n".join(self.inside(part))
        heading = f"<h{level}>{number}{_inline(part.title)}</h{level}>"
        if part.folded:
            return f"<details><summary>{_inline(part.title)}</summary>\n{inside}\n</details>"
        name += ' class="new-page"' if part.new_page else ""
        return f"<section{name}>{heading}\n{inside}\n</section>"


def own_file(name: str) -> str:
    """A style sheet or script beside this module."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _figure(caption: str, table: str) -> str:
    said = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure>{said}<div class="wide">{table}</div></figure>'


def _bar(share: float) -> str:
    side = "above" if share >= 0 else "below"
    return f'<td><span class="bar {side}" style="width:{abs(share) * 8:.2f}rem"></span></td>'


def _inline(inline: p.Inline) -> str:
    return "".join(map(_span, p.spans(inline)))


def _span(span: p.Span) -> str:
    if span.look == "plain":
        return escape(span.text)
    tag = _TAGS.get(span.look)
    if tag is None:
        return f'<span class="{span.look}">{escape(span.text)}</span>'
    whole = ' class="whole"' if tag == "code" and len(span.text) <= _LINE_OF_CODE else ""
    return f"<{tag}{whole}>{escape(span.text)}</{tag}>"
