"""An audit laid out for readers: the rows of its table and the cells of each wrong step.

The terminal, Markdown and HTML reports write the same content; this file decides what that is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glassformer.lessons.auditing.verdicts import Audit, Cells, StepResult, Verdict
from glassformer.lessons.example import Digits, Language
from glassformer.lessons.formulas.bounds import Numbers, Words
from glassformer.lessons.wording import VERDICT_NAMES, WORDS

__all__ = ["Cell", "Grid", "Row", "counted", "grids", "rows"]


@dataclass(frozen=True)
class Row:
    """One step in the table of verdicts."""

    id: str
    title: str
    formula: str
    verdict: Verdict
    verdict_name: str
    finding: str


@dataclass(frozen=True)
class Cell:
    """A printed number or word, and the right one where it is wrong."""

    printed: str
    right: str | None = None


@dataclass(frozen=True)
class Grid:
    """A wrong step, cell by cell; `quoted` where a cell is a line of a formula or of code."""

    row: Row
    columns: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Cell, ...]], ...]
    quoted: bool = False

    @property
    def heading(self) -> str:
        """The step and its formula, if it has one."""
        return f"{self.row.id} = {self.row.formula}" if self.row.formula else self.row.id


def rows(audit: Audit, language: Language) -> list[Row]:
    """The table of verdicts, in the order of the example."""
    return [_row(result, language) for result in audit.results]


def counted(audit: Audit, language: Language) -> str:
    """How many steps got each verdict: `9 agrees · 13 wrong · …`."""
    parts = [
        f"{count} {VERDICT_NAMES[verdict].say(language)}"
        for verdict, count in audit.counts.items()
        if count
    ]
    return " · ".join(parts)


def grids(audit: Audit, language: Language) -> Iterator[Grid]:
    """Every wrong step with its printed and its right numbers."""
    for result in audit.results:
        if result.verdict == "wrong":
            yield _grid(result, _row(result, language), language)


def _row(result: StepResult, language: Language) -> Row:
    step = result.step
    name = VERDICT_NAMES[result.verdict].say(language)
    finding = _finding(result, language)
    title = step.title.say(language)
    return Row(step.id, title, step.formula or "", result.verdict, name, finding)


def _finding(result: StepResult, language: Language) -> str:
    if result.reason is not None and result.verdict == "unchecked":
        return result.reason.say(language)
    parts = [_slip(result, language), result.note.say(language) if result.note else None]
    if result.causes:
        parts.append(WORDS["because"].say(language).format(causes=", ".join(result.causes)))
    found = result.comparison
    if result.verdict == "wrong" and found is not None:
        if not found.same_shape:
            parts.append(WORDS["shape"].say(language))
        elif isinstance(result.step.printed, Digits):
            shown = int(result.step.printed.shown.sum())
            wrong = int(found.wrong.sum())
            if wrong:
                parts.append(WORDS["cells"].say(language).format(wrong=wrong, shown=shown))
            off = np.max(result.off) if result.off is not None else np.nan
            if np.isfinite(off) and off > 0:
                parts.append(WORDS["off"].say(language).format(off=f"{off:.3g}"))
    if result.verdict in ("agrees", "follows"):
        parts.append(_approximated(result, language))
    if found is not None and found.open.any():
        parts.append(WORDS["open"].say(language).format(open=int(found.open.sum())))
    stop = "；" if language == "zh" else "; "
    return stop.join(part for part in parts if part)


def _slip(result: StepResult, language: Language) -> str | None:
    """The likely slip, and beside it why a printed formula or code cannot be right."""
    reason = result.reason
    if result.step.quoted is None or reason is None:
        return result.slip(language)
    said = reason.say(language)
    if not result.explanations:
        return said
    return f"{said}{'；' if language == 'zh' else '; '}{result.slip(language)}"


def _approximated(result: StepResult, language: Language) -> str | None:
    """Numbers that the article calls approximate, and that are not the nearest ones."""
    digits, value = result.step.printed, result.from_print
    if not isinstance(digits, Digits) or not digits.approximate or not isinstance(value, Numbers):
        return None
    off = np.abs(digits.values - value.mid) * 10.0**digits.decimals > 0.5 + 1e-6
    said = WORDS["approximate"].say(language)
    return said.format(off=int(off.sum()), shown=int(digits.shown.sum()))


def _grid(result: StepResult, row: Row, language: Language) -> Grid:
    step, value = result.step, result.from_print
    printed_word, right_word = WORDS["printed"].say(language), WORDS["right"].say(language)
    found = result.comparison
    if step.quoted is not None:
        text = step.quoted.text.replace("\t", "⇥   ").splitlines()  # a tab is what may be wrong
        shown = [(printed_word if at == 0 else "", line) for at, line in enumerate(text)]
        if step.formula is not None:
            shown.append((right_word, step.formula))
        return Grid(row, (), tuple((label, (Cell(line),)) for label, line in shown), quoted=True)
    assert found is not None
    if isinstance(step.printed, Digits) and isinstance(value, Numbers) and found.same_shape:
        cells = _cells(step.printed, value, found.wrong)
        lines = tuple(
            (step.rows[i] if step.rows else (str(i) if len(cells) > 1 else ""), line)
            for i, line in enumerate(cells)
        )
        return _shown_columns(Grid(row, step.columns, lines))
    printed = _listed(step.printed)
    right = _listed(value if isinstance(value, Numbers | Words) else None)
    both = ((printed_word, (Cell(printed),)), (right_word, (Cell(right),)))
    return Grid(row, (), both)


def _shown_columns(grid: Grid) -> Grid:
    """Without the columns in which nothing is printed."""
    width = max(len(cells) for _, cells in grid.lines)
    kept = [j for j in range(width) if any(cells[j].printed != "…" for _, cells in grid.lines)]
    columns = tuple(grid.columns[j] for j in kept) if grid.columns else ()
    lines = tuple((label, tuple(cells[j] for j in kept)) for label, cells in grid.lines)
    return Grid(grid.row, columns, lines)


def _cells(digits: Digits, value: Numbers, wrong: Cells) -> list[tuple[Cell, ...]]:
    width = digits.values.shape[-1] if digits.values.ndim else 1
    flat: list[Cell] = []
    for at in np.ndindex(digits.values.shape):
        places = int(digits.decimals[at])
        printed = _number(float(digits.values[at]), places)
        right = _right(value, at, places) if wrong[at] else None
        flat.append(Cell(printed, right))
    return [tuple(flat[i : i + width]) for i in range(0, len(flat), width)]


def _right(value: Numbers, at: tuple[int, ...], places: int) -> str:
    """The right number to the printed decimals; what is known of it where it is not known."""
    if np.isnan(value.mid[at]):
        low, high = float(value.low[at]), float(value.high[at])
        if np.isinf(low) and np.isinf(high):
            return "?"
        return f"{_number(low, places)} … {_number(high, places)}"
    return _number(float(value.mid[at]), places)


def _number(number: float, places: int) -> str:
    if np.isnan(number):
        return "…"
    if np.isinf(number):
        return "∞" if number > 0 else "−∞"
    text = f"{number + 0.0:.{max(min(places, 12), 0)}f}"
    if places >= 12 and "." in text:
        text = f"{number:.4g}"  # a printed formula: all digits would say less
    return text.replace("-", "−")


def _listed(value: Digits | Numbers | Words | None) -> str:
    match value:
        case Words(items=items):
            return " ".join(item or "…" for item in items)
        case Digits(values=numbers) | Numbers(mid=numbers):
            return "  ".join(f"{number:.6g}" for number in np.ravel(numbers))
        case None:
            return ""
