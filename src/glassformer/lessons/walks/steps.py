"""From a cell of a trace to a step of a lesson: prose of its role, formula, matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.lessons.walks.lesson import HeatMap, LessonStep, Paragraph, Part, formula
from glassformer.lessons.walks.phrases import Speaker
from glassformer.lessons.walks.textbook import is_turned, number, place_labels, step_title
from glassformer.trace import Cell, Step
from glassformer.trace.cells import Terms
from glassformer.trace.expressions import Operation
from glassformer.trace.render.matrices import Matrix, matrix, shape_text

__all__ = ["Facts", "caption", "heat_map", "percent", "role_step"]

Facts = dict[str, object]


def percent(share: float) -> str:
    """A share as a percentage with one decimal; what would round to 0 says that it is not."""
    return "< 0.1 %" if 0 < share < 5e-4 else f"{100 * share:.1f} %"


def caption(step: Step, say: Speaker, head: int | None = None) -> str:
    """`scores, 6×6`, with the head where there are several."""
    shape = [size for size in step.shape if size != 1]
    plain = f"{step_title(step)}, {shape_text(shape[::-1] if is_turned(step) else shape)}"
    if head is None:
        return plain
    of_one = f"{step_title(step)}, {shape_text(step.shape[-2:])}"
    return say("in head", caption=of_one, head=head + 1)


def heat_map(
    step: Step,
    say: Speaker,
    cell: Cell | None = None,
    *,
    head: int | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str | None = None,
) -> HeatMap:
    """A step (or one head of it), with the chosen cell framed if it stands in it."""
    at = None
    if cell is not None and cell.step is step:
        at = cell.index[:-2]
    elif head is not None:
        at = (*(0,) * (len(step.shape) - 3), head)
    marked = None
    if cell is not None and cell.step is step:
        row, column = (0, *cell.index)[-2:]
        marked = (column, row) if is_turned(step) else (row, column)
    several = head if head is not None and step.shape[-3] > 1 else None
    found, turned = matrix(step, at), is_turned(step)
    labels = [place_labels(step, axis) for axis in ((-1, -2) if turned else (-2, -1))]
    shown = Matrix(
        step,
        found.lead,
        found.values.T if turned else found.values,
        tuple(rows) if rows is not None else labels[0],
        tuple(columns) if columns is not None else labels[1],
    )
    return HeatMap(title or caption(step, say, several), shown, marked, turned, decimals=3)


def role_step(
    role: str,
    cell: Cell,
    say: Speaker,
    *,
    beside: Sequence[Part] = (),
    after: Sequence[Part] = (),
    before: Sequence[Part] = (),
    phrase: str | None = None,
    title: str | None = None,
    labels: tuple[str, str] | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    facts: Facts | None = None,
) -> LessonStep:
    """A step about one cell: prose of its role, formula, the matrix it stands in.

    `beside` are matrices that it is computed from; `labels` name the cell's row and column where
    the trace has no names for them; `facts` are what the template asks beyond the usual.
    """
    known = cell_facts(cell, say, labels) | (facts or {})
    head = cell.index[-3] if len(cell.index) > 3 else None
    shown = heat_map(cell.step, say, cell, head=head, rows=rows, columns=columns)
    parts: list[Part] = [Paragraph(say(phrase or role, **known)), *before]
    if cell.expression is not None:
        parts.append(formula(cell))
    parts += [*beside, shown, *after]
    return LessonStep(role, title or say.title(role), tuple(parts))


def cell_facts(cell: Cell, say: Speaker, labels: tuple[str, str] | None = None) -> Facts:
    """What the templates may ask of any cell."""
    names = labels or cell_labels(cell)
    row, column = (say.quoted(name) for name in names)
    terms = cell.terms
    facts: Facts = {
        "row": row,
        "column": column,
        "value": number(cell.value),
        "summands": _summands(terms, say),
        "percent": percent(float(cell.value)),
        "width": cell.step.shape[-1] if cell.step.shape else 1,
        "unit": say("word"),
    }
    if len(cell.index) > 1:
        scores = matrix(cell.step, cell.index[:-2]).values[cell.index[-2]]
        columns = place_labels(cell.step, -1)
        best = [say.quoted(columns[place]) for place in np.flatnonzero(scores == scores.max())]
        facts["best"] = say.listed(best)
    if len(terms) > 1:
        largest = max(range(len(terms)), key=lambda place: abs(terms[place].value))
        facts["main"] = say.quoted(_source_label(terms[largest].cells[-1]))
    return facts


def _summands(terms: Terms, say: Speaker) -> str:
    """What is added up: products of two numbers, and perhaps a bias, which is no product."""
    products = sum(isinstance(term.expression, Operation) for term in terms)
    key = "products" if products == len(terms) else "products and bias"
    return say(key, count=products)


def cell_labels(cell: Cell) -> tuple[str, str]:
    """What a cell's row and column are called."""
    row, column = (0, 0, *cell.index)[-2:]
    return place_labels(cell.step, -2)[row], place_labels(cell.step, -1)[column]


def _source_label(cell: Cell) -> str:
    return cell_labels(cell)[0]
