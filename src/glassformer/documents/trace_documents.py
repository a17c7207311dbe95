"""Traces, steps and cells as documents: the tree of a model, a step's matrices, a cell's card."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from glassformer.documents import parts as p
from glassformer.documents.heat_maps import matrices, matrix, shape_text
from glassformer.documents.renderer import legend_text, meaning_of, words_in
from glassformer.documents.trace_data import json_text, note_in, trace_data
from glassformer.documents.workbook import workbook_bytes
from glassformer.errors import TraceError
from glassformer.experiments import Result
from glassformer.experiments.measure import signed_cells
from glassformer.experiments.result import heading
from glassformer.language import Sentences, as_language
from glassformer.tracing import Cell, Step, Trace
from glassformer.tracing.explanation import Card
from glassformer.tracing.formula import MOST_TERMS, exact_number, number
from glassformer.tracing.formula.notation import say as inside
from glassformer.tracing.trace import Branch

Traced: TypeAlias = Trace | Step | Cell | Sequence[Step | Cell]

_MOST_SLICES = 8
_MOST_STEPS = 60


@dataclass(frozen=True, slots=True)
class TraceDocuments:
    """Makes documents of traces in one language; `digits` and `terms` limit numbers and sums."""

    language: str = "en"
    digits: int = 4
    terms: int = MOST_TERMS

    @property
    def _words(self) -> Sentences:
        return words_in(self.language)

    def document(self, thing: Traced) -> p.Document:
        """A trace as its index and all its steps; or the given steps and cells in order."""
        parts: list[p.Part] = []
        chosen = _listed(thing)
        if isinstance(thing, Trace):
            parts = self._index(thing)
            chosen = [*thing.inputs.values(), *thing.steps]
        title = self._words["title"] if isinstance(thing, Trace) else ""
        parts += [self.step(one) if isinstance(one, Step) else self.card(one) for one in chosen]
        return p.Document(title, tuple(parts), self.language)

    def overview(self, thing: Traced, at: Sequence[int] | None = None) -> p.Document:
        """What fits a screen: a trace's tree, one slice of a step, a card."""
        parts: list[p.Part] = [self.tree(thing)] if isinstance(thing, Trace) else []
        for one in _listed(thing):
            parts.append(self.slice(one, at) if isinstance(one, Step) else self.card(one))
        return p.Document("", tuple(parts), self.language)

    def index(self, trace: Trace, most: int | None = _MOST_STEPS) -> p.Document:
        """The notes of a trace and a table of its first steps, without their numbers."""
        return p.Document(self._words["title"], tuple(self._index(trace, most)), self.language)

    def _index(self, trace: Trace, most: int | None = None) -> list[p.Part]:
        words = self._words
        rows: tuple[tuple[p.Inline, ...], ...] = tuple(
            (
                p.Span(step.name, "code"),
                shape_text(step.shape),
                p.Span(step.op, "code"),
                "" if step.line is None else step.line.place,
            )
            for step in trace.steps[:most]
        )
        heads = tuple(words[key] for key in ("step", "shape", "operator", "source"))
        parts: list[p.Part] = [
            p.Paragraph(note_in(words, note), "emphasis") for note in trace.notes
        ]
        parts.append(p.Table("", heads, rows))
        left = len(trace.steps) - len(rows)
        if left:
            parts.append(p.Paragraph(words["more rows"].format(count=left), "emphasis"))
        return parts

    def tree(self, trace: Trace) -> p.Tree:
        """The modules with their steps, shapes and operators."""
        words = self._words
        branches = [
            p.Tree(
                p.Span(f"{words[title]} · {len(table)}", "strong"),
                tuple(_leaf(name, step) for name, step in table.items()),
            )
            for title, table in (("inputs", trace.inputs), ("parameters", trace.parameters))
            if table
        ]
        outputs = ", ".join(step.name for step in trace.outputs.values())
        branches += [*_below(trace.tree()), p.Tree(f"{words['output']}: {outputs}")]
        branches += [p.Tree(p.Span(note_in(words, note), "emphasis")) for note in trace.notes]
        title = f"{words['model']} · {words['steps'].format(count=len(trace.steps))}"
        return p.Tree(p.Span(title, "strong"), tuple(branches))

    def step(self, step: Step) -> p.Section:
        """Source line, every slice, and the card of the first cell."""
        words = self._words
        parts: list[p.Part] = []
        if step.line is not None and step.line.text:
            parts.append(p.Facts(((step.line.place, p.Span(step.line.text, "code")),)))
        if 0 in step.shape:
            return self._section(step, [*parts, p.Paragraph(words["empty"])])
        slices = math.prod(step.shape[:-2])
        for shown in islice(matrices(step), _MOST_SLICES):
            parts.append(p.HeatMap(shown.name if slices > 1 else "", shown, digits=self.digits))
        if slices > _MOST_SLICES:
            left = words["more slices"].format(count=slices - _MOST_SLICES)
            parts.append(p.Paragraph(left, "emphasis"))
        if step.role == "activation":
            parts.append(self.card(step[(0,) * len(step.shape)]))
        return self._section(step, parts)

    def slice(self, step: Step, at: Sequence[int] | None = None) -> p.Section:
        """One slice of a step."""
        if 0 in step.shape:
            return self._section(step, [p.Paragraph(self._words["empty"])])
        shown, count = matrix(step, at), math.prod(step.shape[:-2])
        place = f"[{', '.join(map(str, shown.lead))}]"
        caption = self._words["slices"].format(at=place, count=count) if count > 1 else ""
        return self._section(step, [p.HeatMap(caption, shown, digits=self.digits)])

    def _section(self, step: Step, parts: Sequence[p.Part]) -> p.Section:
        said = meaning_of(self._words, step.name)
        title: p.Inline = (p.Span(step.name, "code"), f"  {said}" if said else "")
        operator = () if step.op == step.role else (" · ", p.Span(step.op, "code"))
        facts: p.Inline = (shape_text(step.shape), *operator, f" · {self._words[step.role]}")
        return p.Section(title, (p.Paragraph(facts, "quiet"), *parts))

    def card(self, cell: Cell) -> p.Section:
        """Formula in symbols and numbers, largest terms, both precisions, source line."""
        words = self._words
        if cell.is_unwritten:
            said = f"{words['unwritten']} ({cell.step.op})"
            return p.Section(p.Span(cell.name, "code"), (p.Paragraph(said, "strong"),))
        shown = Card(cell, self.terms, self.digits, words.language)
        title: p.Inline = (p.Span(cell.name, "code"), f" = {number(cell.value, self.digits)}")
        parts: list[p.Part] = []
        if cell.step.expanded:
            parts.append(p.Paragraph(words["expanded"], "emphasis"))
        if shown.expression is None:
            why = words["given"] if shown.is_given else words["no rule"].format(op=cell.step.op)
            parts.append(p.Paragraph(f"{words[cell.role]}. {why}"))
        else:
            parts.append(p.Formula(shown))
            if legend := legend_text(shown, words):
                parts.append(p.Paragraph(legend, "quiet"))
            if shown.relation == "≠":
                parts.append(p.Paragraph(p.Span(words["not reproduced"], "bad")))
        parts += [self._terms(shown)] if shown.parts else []
        return p.Section(title, (*parts, p.Facts(tuple(self._facts(shown)))))

    def _facts(self, shown: Card) -> list[tuple[str, p.Inline]]:
        words, cell = self._words, shown.cell
        facts: list[tuple[str, p.Inline]] = [(words["role"], words[cell.role])]
        if not shown.is_given:
            facts = [(words["operator"], p.Span(cell.step.op, "code"))]
        dtype = str(cell.step.dtype).removeprefix("torch.")
        facts.append((words["stored"].format(dtype=dtype), exact_number(cell.value)))
        if shown.expression is not None:
            facts.append((words["recomputed"], number(shown.recomputed, 17)))
            facts.append((words["difference"], f"{shown.difference:.1e}"))
        if shown.line:
            facts.append((shown.place, p.Span(shown.line, "code")))
        return facts

    def _terms(self, shown: Card) -> p.Table:
        words, largest = self._words, max(part.share for part in shown.parts) or 1.0
        rows: list[tuple[p.Inline, ...]] = [
            (number(part.value, self.digits), p.Span(part.symbols, "code"), part.numbers)
            for part in shown.parts
        ]
        if shown.others:
            others = inside["others"].say(words.language, count=shown.others)
            rows.append((number(shown.rest, self.digits), p.Span(others, "emphasis"), ""))
        shares = [math.copysign(part.share / largest, part.value) for part in shown.parts]
        shares += [0.0] if shown.others else []
        title = words["largest terms"] if shown.others else words["terms"]
        return p.Table("", (title, "", ""), tuple(rows), tuple(shares))


def _listed(thing: Traced) -> list[Step | Cell]:
    if isinstance(thing, Trace):
        return []
    return [thing] if isinstance(thing, Step | Cell) else list(thing)


def _below(branch: Branch) -> list[p.Tree]:
    """Steps and submodules, in order of execution."""
    return [
        _leaf(branch.inner_name(part), part)
        if isinstance(part, Step)
        else p.Tree(p.Span(part.name, "strong"), tuple(_below(part)))
        for part in branch.parts
    ]


def _leaf(name: str, step: Step) -> p.Tree:
    what = "" if step.op == step.role else f"  {step.op}"
    return p.Tree((name, p.Span(f"  {shape_text(step.shape)}{what}", "quiet")))


def page_text(trace: Trace, **options: Any) -> str:
    """A trace as one read-only page: the explorer in a file, every cell a card.

    Options: `steps` (only these and what they read), `lang`, `title`, `max_bytes`, `max_cells`. The
    page is the explorer's, looked up when asked for: this package imports nothing above itself.
    """
    from glassformer.explorer.saved_page import page_text as saved

    return saved(trace, **options)


def trace_file(thing: Traced, to: str, language: str, options: dict[str, Any]) -> str | bytes:
    """The formats that hold a whole trace: the page, the data file, the live workbook.

    Of steps and cells they hold the steps and what these read.
    """
    parts = _listed(thing)
    if isinstance(thing, Trace):
        trace, names = thing, None
    elif parts:
        steps = [part if isinstance(part, Step) else part.step for part in parts]
        trace, names = steps[0].trace, list(dict.fromkeys(step.name for step in steps))
    else:
        raise TraceError("there is nothing to render: no step and no cell was given")
    options = {"steps": names, **options}
    if to == "html":
        return page_text(trace, **{"lang": language, **options})
    if to == "json":
        cells = [part for part in parts if isinstance(part, Cell)]
        return json_text(trace_data(trace, **{"cells": cells, **options}))
    chosen = options["steps"]
    live = None if chosen is None else [trace[name] for name in chosen]
    return workbook_bytes(trace, live, words_in(language))


# --- experiments ---
# What was asked, what it assumes, a picture and a table:
#
#     render(experiment_document(sweep(one, other, measure=…)), path="sweep.html")


_MOST_ROWS = 400
"""Rows of a document's table; the data (`to_dict`, the JSON format) has them all."""
_SHARES = ("score", "effect", "mean", "value", "size", "share")
"""The columns that get bars, the first that a table has."""


def experiment_document(result: Result, language: str = "en") -> p.Document:
    """Any result, in one language; the formulas are those of the number asked about."""
    lang, said = as_language(language), words_in(language)
    rows = result.rows()
    parts: list[p.Part] = [
        p.Paragraph(result.note(lang), "emphasis"),
        p.Figure(result.kind.replace(" ", "-"), result.plot(lang)),
        _table(rows, lang),
    ]
    if len(rows) > _MOST_ROWS:
        left = said["rows in data"].format(count=len(rows) - _MOST_ROWS)
        parts.append(p.Paragraph(left, "emphasis"))
    if result.measured is not None:
        cells = [cell for _, cell in signed_cells(result.measured)]
        formulas = tuple(p.Formula(Card(cell)) for cell in cells if cell.expression is not None)
        if formulas:
            parts.append(p.Section(said["arithmetic"], formulas))
    title, label = result.title(lang), said["experiment"]
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
