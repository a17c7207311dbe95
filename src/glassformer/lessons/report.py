"""An audit as a table in the terminal, as Markdown, and as a page of its own."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from glassformer.language import Prose
from glassformer.lessons.auditing.results import Audit, Verdict
from glassformer.lessons.example import Language
from glassformer.lessons.findings import Cell, Grid, counted, grids, rows
from glassformer.lessons.wording import MARKS, VERDICT_MEANINGS, VERDICT_NAMES, WORDS

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["to_html", "to_markdown", "to_terminal"]

_STYLES: dict[Verdict, str] = {
    "agrees": "green",
    "wrong": "bold red",
    "follows": "yellow",
    "unchecked": "dim",
    "given": "dim",
}
_COLUMNS = ("step", "title", "verdict", "finding")


def to_terminal(audit: Audit, language: Language) -> RenderableType:
    """For rich's console: the table of verdicts, then each wrong step."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(audit.example.title.say(language)), title_justify="left")
    for name in _COLUMNS:
        table.add_column(WORDS[name].say(language), overflow="fold")
    for row in rows(audit, language):
        verdict = Text(f"{MARKS[row.verdict]} {row.verdict_name}", _STYLES[row.verdict])
        table.add_row(Text(row.id), Prose(row.title), verdict, Prose(row.finding))
    parts: list[RenderableType] = [table, Prose(counted(audit, language), "bold")]
    for grid in grids(audit, language):
        parts.append(Text(f"\n{grid.heading}", "italic"))
        inner = Table(box=None)
        inner.add_column("")
        for label in _headings(grid):
            inner.add_column(Text(label), justify="left" if grid.quoted else "right")
        for label, cells in grid.lines:
            inner.add_row(Text(label, "dim"), *(_cell_text(cell) for cell in cells))
        parts.append(inner)
    return Group(*parts)


def _cell_text(cell: Cell) -> RenderableType:
    from rich.text import Text

    if cell.right is None:
        return Text(cell.printed)
    return Text.assemble((cell.printed, "red strike"), " ", (cell.right, "bold green"))


def _headings(grid: Grid) -> list[str]:
    width = max((len(cells) for _, cells in grid.lines), default=0)
    return list(grid.columns) if len(grid.columns) == width else [""] * width


def to_markdown(audit: Audit, language: Language) -> str:
    """For an article's own repository."""
    lines = [f"# {audit.example.title.say(language)}", "", counted(audit, language), ""]
    headings = [WORDS[name].say(language) for name in _COLUMNS]
    lines += [_pipes(headings), _pipes(["---"] * len(headings))]
    for row in rows(audit, language):
        verdict = f"{MARKS[row.verdict]} {row.verdict_name}"
        lines.append(_pipes([f"`{row.id}`", row.title, verdict, row.finding]))
    found = list(grids(audit, language))
    heading = WORDS["wrong_numbers" if found else "nothing_wrong"].say(language)
    lines += ["", f"## {heading}" if found else heading]
    for grid in found:
        formula = f" = `{grid.row.formula}`" if grid.row.formula else ""
        lines += ["", f"### `{grid.row.id}`{formula}", ""]
        if grid.quoted:
            lines += ["```", *(f"{label:>8}  {cells[0].printed}" for label, cells in grid.lines)]
            lines.append("```")
            continue
        lines.append(_pipes(["", *_headings(grid)]))
        lines.append(_pipes(["---", *("---:" for _ in _headings(grid))]))
        for label, cells in grid.lines:
            lines.append(_pipes([label, *(_cell_markdown(cell) for cell in cells)]))
    return "\n".join(lines) + "\n"


def _cell_markdown(cell: Cell) -> str:
    return cell.printed if cell.right is None else f"~~{cell.printed}~~ **{cell.right}**"


def _pipes(cells: list[str]) -> str:
    plain = (" ".join(cell.replace("|", "\\|").splitlines()) for cell in cells)
    return "| " + " | ".join(plain) + " |"


_STYLE = """
:root { color-scheme: light dark; --ok: #1a7f37; --bad: #c62828; --later: #9a6700; --quiet: #777; }
@media (prefers-color-scheme: dark) { :root { --ok: #56d364; --bad: #ff7b72; --later: #e3b341; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .75rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8884; }
th, td { vertical-align: top; text-align: left; }
.numbers td { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
.quoted td { font-family: ui-monospace, monospace; white-space: pre; }
.wide { overflow-x: auto; }
.agrees { color: var(--ok); } .wrong { color: var(--bad); font-weight: 600; }
.follows { color: var(--later); } .unchecked, .given { color: var(--quiet); }
del { color: var(--bad); } ins { color: var(--ok); font-weight: 600; text-decoration: none; }
"""


def to_html(audit: Audit, language: Language) -> str:
    """A page that needs nothing but itself."""
    title = escape(audit.example.title.say(language))
    headings = "".join(
        f'<th scope="col">{escape(WORDS[name].say(language))}</th>' for name in _COLUMNS
    )
    body = "\n".join(
        f'<tr><th scope="row"><code>{escape(row.id)}</code></th><td>{escape(row.title)}</td>'
        f'<td class="{row.verdict}">{MARKS[row.verdict]} {escape(row.verdict_name)}</td>'
        f"<td>{escape(row.finding)}</td></tr>"
        for row in rows(audit, language)
    )
    meanings = "".join(
        f'<li><span class="{verdict}">{MARKS[verdict]} '
        f"{escape(VERDICT_NAMES[verdict].say(language))}</span>: "
        f"{escape(meaning.say(language))}</li>"
        for verdict, meaning in VERDICT_MEANINGS.items()
    )
    found = [_grid_html(grid) for grid in grids(audit, language)]
    heading = escape(WORDS["wrong_numbers" if found else "nothing_wrong"].say(language))
    return (
        f'<!doctype html>\n<html lang="{"zh-CN" if language == "zh" else "en"}">\n<head>'
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        f"<p>{escape(counted(audit, language))}</p>\n<ul>{meanings}</ul>\n"
        f'<div class="wide"><table><thead><tr>{headings}</tr></thead>\n<tbody>\n{body}\n</tbody>'
        f"</table></div>\n<h2>{heading}</h2>\n" + "\n".join(found) + "\n</body>\n</html>\n"
    )


def _grid_html(grid: Grid) -> str:
    headings = "".join(f'<th scope="col">{escape(label)}</th>' for label in _headings(grid))
    lines = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(f"<td>{_cell_html(cell)}</td>" for cell in cells)
        + "</tr>"
        for label, cells in grid.lines
    )
    return (
        f"<h3><code>{escape(grid.heading)}</code></h3>"
        f"<p>{escape(grid.row.finding)}</p>"
        f'<div class="wide"><table class="{"quoted" if grid.quoted else "numbers"}">'
        f"<tr><td></td>{headings}</tr>{lines}</table></div>"
    )


def _cell_html(cell: Cell) -> str:
    if cell.right is None:
        return escape(cell.printed)
    return f"<del>{escape(cell.printed)}</del> <ins>{escape(cell.right)}</ins>"
