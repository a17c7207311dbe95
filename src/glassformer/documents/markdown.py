"""Markdown: pipe tables, and formulas as `$$…$$`, which GitHub and notebooks render."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from glassformer.documents import parts as p
from glassformer.documents.renderer import Renderer, tex_lines, text_lines, write_figures

_ROWS, _COLUMNS = 16, 16
_AROUND = {"strong": "**", "inserted": "**", "emphasis": "*", "deleted": "~~"}
_SPECIAL = re.compile(r"[\\`*\[\]|$]|(?<!\w)_|_(?!\w)|~(?=~)|^[#>+-](?=\s)|^\d+(?=\.\s)")


class Markdown(Renderer[str]):
    """`tex=False` writes formulas as plain text; `figures` is the folder with the drawings, which
    `embedded` puts into the text itself, for notebooks."""

    def __init__(
        self, document: p.Document, *, tex: bool = True, figures: str | None = None,
        embedded: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(document)
        self._tex = tex
        self._figures = figures
        self._embedded = embedded

    def render(self) -> str:
        title = [f"# {_escaped(self.document.title)}"] if self.document.title else []
        return "\n\n".join([*title, *self.write_all(self.document.parts)]) + "\n"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file, and its drawings to a folder next to it."""
        if self.document.figures():
            folder = Path(path).with_name(f"{Path(path).stem}-figures")
            write_figures(self.document, folder)
            self._figures = folder.name
        return super().save(path)

    def paragraph(self, part: p.Paragraph) -> str:
        look: p.Look = "emphasis" if part.look == "quiet" else part.look
        return _inline(p.Span(part.text, look) if isinstance(part.text, str) else part.text)

    def remark(self, part: p.Remark) -> str:
        return f"> **{_escaped(self.lead(part).strip())}** {_escaped(part.text)}"

    def formula(self, part: p.Formula) -> str:
        """TeX between dollars, or plain text."""
        if not self._tex:
            return self.code(p.Code("\n".join(text_lines(part, self.words))))
        lines = [f"$$\n{line}\n$$" for line in tex_lines(part, self.words)]
        code = [f"```python\n{part.code}\n```"] if part.code else []
        return "\n\n".join([*lines, *code])

    def heatmap(self, part: p.HeatMap) -> str:
        """A table; the marked number is in brackets."""
        heads = ["", *map(_escaped, part.matrix.columns[:_COLUMNS])]
        more = ["…"] if len(part.matrix.columns) > _COLUMNS else []
        rows = [
            [_inline(p.Span(label, "strong")) if label else ""]
            + [f"**[{cell.text}]**" if cell.is_marked else cell.text for cell in line]
            + more
            for label, line in part.lines(_ROWS, _COLUMNS, coloured=False)
        ]
        table = _pipes(heads + more, rows, [False] + [True] * (len(heads) + len(more) - 1))
        note = part.notes(self.words, _ROWS, _COLUMNS)
        return _captioned(part.caption, table) + (f"\n\n*{_escaped(note)}*" if note else "")

    def table(self, part: p.Table) -> str:
        """A table, numbers right-aligned."""
        rows = [[_inline(item) for item in row] for row in part.rows]
        return _captioned(
            part.caption, _pipes([_inline(head) for head in part.heads], rows, part.is_numeric())
        )

    def facts(self, part: p.Facts) -> str:
        lines = (f"{_escaped(label)}{self.colon}{_inline(said)}" if label else _inline(said)
                 for label, said in part.items)  # fmt: skip
        return "\n".join(f"- {line}" for line in lines)

    def question(self, part: p.Question) -> str:
        blanks = _pipes([*map(_escaped, part.labels)], [["" for _ in part.labels]],
                        [True] * len(part.labels))  # fmt: skip
        return f"**{_escaped(self.task(part))}**\n\n{blanks}"

    def code(self, part: p.Code) -> str:
        fence = "`" * max(3, _longest_run(part.text) + 1)
        return f"{fence}text\n{part.text}\n{fence}"

    def figure(self, part: p.Figure) -> str | None:
        """A link into the folder of the drawings, the drawing itself, or its numbers."""
        if self._figures is not None:
            where = f"{self._figures}/{part.name}.svg"
        elif self._embedded:
            drawn = b64encode(part.drawing.svg().encode()).decode()
            where = f"data:image/svg+xml;base64,{drawn}"
        else:
            return super().figure(part)
        return f"![{_escaped(part.caption)}]({where})"

    def section(self, part: p.Section) -> str:
        """A heading, one level below the enclosing section."""
        number = "" if part.number is None else f"{part.number}. "
        heading = f"{'#' * (self.depth + 2)} {number}{_inline(part.title)}"
        return "\n\n".join([heading, *self.inside(part)])


def _captioned(caption: str, table: str) -> str:
    return f"*{_escaped(caption)}*\n\n{table}" if caption else table


def _escaped(said: str) -> str:
    """Escape text for Markdown, tables included."""
    marked = _SPECIAL.sub(lambda found: "\\" + found[0], " ".join(said.splitlines()))
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _longest_run(said: str) -> int:
    return max((len(run) for run in re.findall(r"`+", said)), default=0)


def _inline(inline: p.Inline) -> str:
    return "".join(map(_span, p.spans(inline)))


def _span(span: p.Span) -> str:
    if not span.text.strip():
        return span.text
    if span.look == "code":
        longest = _longest_run(span.text)
        fence, pad = "`" * (longest + 1), " " if longest else ""
        code = " ".join(span.text.splitlines()).replace("|", r"\|")
        return f"{fence}{pad}{code}{pad}{fence}"
    around = _AROUND.get(span.look, "")
    return f"{around}{_escaped(span.text)}{around}"


def _pipes(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    rule = ["---:" if numeric else "---" for numeric in right]
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, rule, *rows])
