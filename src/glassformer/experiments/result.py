"""What every experiment gives: data, a table, a picture, and cells behind its numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from glassformer.experiments.measure import Measured, labelled_name
from glassformer.language import Language, as_language, columns_of, padded, words
from glassformer.picture import Picture
from glassformer.tracing.notes import ShownAsText

_MOST_LINES, _MOST_COLUMNS = 40, 100

say = words(__name__)


class Result(ShownAsText, ABC):
    """The outcome of an experiment."""

    __slots__ = ()

    kind: ClassVar[str]
    """Which experiment it is of: the key of its sentences."""
    measured: Measured | None
    """The number that the experiment asked about, where it asked about one."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each number, all with the same keys: what `pandas.DataFrame` takes."""

    @abstractmethod
    def plot(self, language: str = "en") -> Picture:
        """The picture: `.svg()` is its text, `.save(path)` writes it, a notebook shows it."""

    def facts(self) -> dict[str, Any]:
        """What holds for all rows."""
        if self.measured is None:
            return {}
        return {"cell": self.measured.name, "value": float(self.measured.value)}

    def title(self, language: str = "en") -> str:
        lang = as_language(language)
        facts = {name: name_in(lang, fact) for name, fact in self.facts().items()}
        if self.measured is not None:
            facts["cell"] = labelled_name(self.measured)
        return say[f"title {self.kind}"].say(lang, **facts)

    def note(self, language: str = "en") -> str:
        """What the experiment assumes, and how its numbers are to be read."""
        return say[f"note {self.kind}"].say(as_language(language))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.facts(), "note": self.note(), "rows": self.rows()}

    def text(self, language: str = "en", width: int | None = None) -> str:
        """Title and table as text, if possible at most `width` columns wide."""
        lang = as_language(language)
        rows = self.rows()
        if not rows:
            return f"{self.title(lang)}\n\n{say['nothing'].say(lang)}"
        heads = list(rows[0])
        lines = [[_said(row[head]) for head in heads] for row in rows[:_MOST_LINES]]
        left = len(rows) - _MOST_LINES
        more = [say["more lines"].say(lang, count=left)] if left > 0 else []
        table = aligned([[heading(head, lang) for head in heads], *lines], width)
        return "\n".join([self.title(lang), "", *table, *more])

    def __str__(self) -> str:
        return self.text()

    def _grid(
        self,
        rows: Sequence[str],
        columns: Sequence[str],
        cells: Tensor,
        language: str,
        width: int | None,
    ) -> str:
        """A table of two directions; one that is too wide goes on below."""
        said = [
            ["" if math.isnan(cell) else f"{cell:.3g}" for cell in row] for row in cells.tolist()
        ]
        return grid_text(self.title(language), rows, columns, said, width)


def name_in(language: Language, fact: Any) -> Any:
    """What a method, a score or an axis is called in a language; anything else as it is."""
    key = f"name {fact}"
    return say[key].say(language) if key in say else fact


def heading(key: str, language: Language) -> str:
    """The name of a column; "answer 2" is a name and a number."""
    name, _, place = key.partition(" ")
    said = say[f"column {name}"].say(language)
    return f"{said} {place}" if place else said


def grid_text(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    width: int | None = None,
) -> str:
    """Texts in two directions under a title, in parts of at most `width` columns of a terminal."""
    room = (width or _MOST_COLUMNS) - max(map(columns_of, rows), default=0)
    parts, start = [], 0
    while start < len(columns):
        end, used = start, 0
        while end < len(columns):
            used += 2 + max(columns_of(line[end]) for line in (columns, *cells))
            if used > room and end > start:
                break
            end += 1
        lines = [["", *columns[start:end]]]
        lines += [[row, *line[start:end]] for row, line in zip(rows, cells, strict=True)]
        parts.append("\n".join(aligned(lines)))
        start = end
    return "\n\n".join([title, *parts])


def aligned(lines: Sequence[Sequence[str]], most: int | None = None) -> list[str]:
    """A table; if it is wider than `most` columns, the first cell of a row stands above the row."""
    widths = [max(map(columns_of, column)) for column in zip(*lines, strict=True)]
    if most is not None and sum(widths) + 2 * (len(widths) - 1) > most:
        below = aligned([line[1:] for line in lines])
        return [
            part for line, rest in zip(lines, below, strict=True) for part in (line[0], f"  {rest}")
        ]
    return [
        "  ".join(padded(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _said(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
