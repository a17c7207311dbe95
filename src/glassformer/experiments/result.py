"""What every experiment gives: data, a table, a picture, and cells behind its numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from glassformer.experiments.charts import Picture, text_width
from glassformer.experiments.measure import Measured
from glassformer.language import as_language, words
from glassformer.tracing.notes import ShownAsText

_MOST_LINES = 40

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
        return say[f"title {self.kind}"].say(as_language(language), **self.facts())

    def note(self, language: str = "en") -> str:
        """What the experiment assumes, and how its numbers are to be read."""
        return say[f"note {self.kind}"].say(as_language(language))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.facts(), "note": self.note(), "rows": self.rows()}

    def __str__(self) -> str:
        rows = self.rows()
        heads = list(rows[0]) if rows else []
        lines = [heads, *([_said(row[head]) for head in heads] for row in rows[:_MOST_LINES])]
        widths = [max(text_width(line[at], 1) for line in lines) for at in range(len(heads))]
        said = [
            "  ".join(
                cell + " " * round((width - text_width(cell, 1)) / 0.6)
                for cell, width in zip(line, widths, strict=True)
            ).rstrip()
            for line in lines
        ]
        left = len(rows) - _MOST_LINES
        return "\n".join([self.title(), "", *said, *([f"… {left} more"] if left > 0 else [])])


def _said(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
