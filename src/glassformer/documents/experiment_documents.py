"""Results of experiments as documents: what was asked, what it assumes, a picture and a table.

render(experiment_document(sweep(one, other, measure=…)), path="sweep.html")
"""

from __future__ import annotations

import math
from typing import Any

from glassformer.documents import parts as p
from glassformer.experiments import Result
from glassformer.experiments.measure import signed_cells
from glassformer.experiments.result import heading
from glassformer.language import as_language, words
from glassformer.tracing.explanation import Card
from glassformer.tracing.formula import number

say = words(__name__)
_MOST_ROWS = 400
"""Rows of a document's table; the data (`to_dict`, the JSON format) has them all."""
_SHARES = ("score", "effect", "mean", "value", "size", "share")
"""The columns that get bars, the first that a table has."""


def experiment_document(result: Result, language: str = "en") -> p.Document:
    """Any result, in one language; the formulas are those of the number asked about."""
    lang = as_language(language)
    rows = result.rows()
    parts: list[p.Part] = [
        p.Paragraph(result.note(lang), "emphasis"),
        p.Figure(result.kind.replace(" ", "-"), result.plot(lang)),
        _table(rows, lang),
    ]
    if len(rows) > _MOST_ROWS:
        left = say["more rows"].say(lang, count=len(rows) - _MOST_ROWS)
        parts.append(p.Paragraph(left, "emphasis"))
    if result.measured is not None:
        cells = [cell for _, cell in signed_cells(result.measured)]
        formulas = tuple(p.Formula(Card(cell)) for cell in cells if cell.expression is not None)
        if formulas:
            parts.append(p.Section(say["arithmetic"].say(lang), formulas))
    title, label = result.title(lang), say["experiment"].say(lang)
    return p.Document(title, tuple(parts), lang, label, result.to_dict)


def _table(rows: list[dict[str, Any]], lang: Any) -> p.Table:
    shown = rows[:_MOST_ROWS]
    heads = list(rows[0]) if rows else []
    weighed = next((head for head in _SHARES if head in heads), None)
    shares: tuple[float, ...] = ()
    if weighed is not None:
        sizes = [float(row[weighed]) for row in shown]
        limit = max((abs(size) for size in sizes if math.isfinite(size)), default=0.0) or 1.0
        shares = tuple(max(-1.0, min(1.0, size / limit)) for size in sizes)
    lines = tuple(tuple(_said(row[head]) for head in heads) for row in shown)
    return p.Table("", tuple(heading(head, lang) for head in heads), lines, shares)


def _said(value: object) -> p.Inline:
    return number(value, 4) if isinstance(value, int | float) else str(value)
