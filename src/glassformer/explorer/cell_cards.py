"""Everything about a cell, as the card on the screen shows it."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from functools import partial
from itertools import islice

import numpy as np

from glassformer.documents.parts import UNWRITTEN
from glassformer.documents.step_meaning import meaning
from glassformer.errors import InputError
from glassformer.explorer import schemas
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.panels import operand_of
from glassformer.language import Language
from glassformer.tracing import Cell, Line, Step
from glassformer.tracing.arithmetic.float64_values import at_precisions
from glassformer.tracing.capture.memory import Index
from glassformer.tracing.capture.source_lines import from_package
from glassformer.tracing.cells import blocks_of, blocks_of_mask, count_operands, distinct, leaves
from glassformer.tracing.explanation import Card, Summand
from glassformer.tracing.formula import (
    Formula,
    Sight,
    exact_number,
    leaf_of,
    to_pieces,
    to_tex,
)
from glassformer.tracing.formula.notation import Infix
from glassformer.tracing.influence import Readers, path

MOST_CELLS = 8
"""Operands listed per term; a product has two."""
MOST_OPERANDS = 64
MOST_DEPENDENTS = 24
"""Dependent cells listed per step."""
_DECIMALS = 2
_SOURCE_AROUND = 3


def find_cell(opened: OpenTrace, step: int, index: tuple[int, ...], operand: int | None) -> Cell:
    """A cell of a step, or of its k-th operand, in the operand's own shape."""
    found = opened.step(step)
    if operand is None:
        return found[index]
    view = operand_of(found, operand).view
    fits = len(index) == len(view.shape) and all(
        place < size for place, size in zip(index, view.shape, strict=True)
    )
    if not fits:
        raise InputError(
            "that operand has no cell {index}: its shape is {shape}",
            index=list(index),
            shape=list(view.shape),
        )
    return Cell(*view.owner(index))


Link = Callable[[Cell], schemas.CellRef]
"""Makes the link to a cell: `cell_ref`, or a cached version of it."""


def card_info(
    opened: OpenTrace, cell: Cell, language: Language = "en", link: Link | None = None
) -> schemas.CardInfo:
    """The card of a cell; words inside formulas are in `language`."""
    card = Card(cell, language=language)
    link = link or partial(cell_ref, sight=card.sight)
    expression = card.expression
    operands = [] if expression is None else islice(distinct(leaves(expression)), MOST_OPERANDS)
    whole = (
        card.name_tree if expression is None else Infix(card.relation, card.name_tree, card.tree)
    )
    formula, numbers = card.sides
    is_real = expression is not None and cell.step.dtype.is_floating_point
    return schemas.CardInfo.copy_of(
        card,
        cell=link(cell),
        exact=UNWRITTEN if card.is_unwritten else exact_number(cell.value),
        tex=to_tex(whole, language=language),
        formula=formula,
        numbers=numbers,
        pieces=[] if expression is None else _pieces(card, card.number_tree, link),
        definitions=[
            schemas.DefinitionInfo.copy_of(part, pieces=_pieces(card, part.number_tree, link))
            for part in card.definitions
        ],
        sum=_sum(card, link) if card.parts else None,
        reproduced=card.relation == "=",
        precisions=at_precisions(expression, cell.value, _DECIMALS) if is_real else None,
        operands=[link(operand) for operand in operands],
        n_operands=0 if expression is None else count_operands(expression),
        regions=[] if expression is None else blocks_of(expression, cell.step),
        source=source_info(cell.step.line, _SOURCE_AROUND),
        is_edited=any(
            edit.step == cell.step.name and tuple(edit.index) == cell.index for edit in opened.edits
        ),
        before=_before(opened, cell),
    )


def _pieces(card: Card, formula: Formula, link: Link) -> list[schemas.Piece]:
    """Arithmetic in numbers, its operands as links."""
    return [
        schemas.Piece(text=text, cell=None if operand is None else link(next(leaves(operand))))
        for text, operand in to_pieces(formula, language=card.language, within="equation")
    ]


def _sum(card: Card, link: Link) -> schemas.SumInfo:
    values = card.terms.values
    factors, products = card.factors()
    with np.errstate(invalid="ignore"):
        positive, negative = float(values[values > 0].sum()), float(values[values < 0].sum())
    return schemas.SumInfo.copy_of(
        card,
        n_terms=len(values),
        shown=[_term(card, part, link) for part in card.parts],
        positive=positive,
        negative=negative,
        share=min(1.0, sum(part.share for part in card.parts)),
        factors=[row.tolist() for row in factors],
        products=products.tolist(),
    )


def _term(card: Card, part: Summand, link: Link) -> schemas.TermInfo:
    return schemas.TermInfo.copy_of(
        part,
        pieces=_pieces(card, part.number_tree, link),
        share=part.share if math.isfinite(part.value) else 1.0,
        cells=[link(c) for c in islice(distinct(leaves(part.expression)), MOST_CELLS)],
    )


def term_page(
    cell: Cell, offset: int, limit: int, by_size: bool, language: Language
) -> schemas.TermPage:
    """Some of the summands, in their own order or the largest first."""
    card = Card(cell, language=language)
    link = partial(cell_ref, sight=card.sight)
    values = card.terms.values
    order = np.argsort(-np.abs(np.nan_to_num(values, nan=np.inf)), kind="stable")
    places = order if by_size else np.arange(len(values))
    return schemas.TermPage(
        total=len(values),
        offset=offset,
        terms=[
            _term(card, card.part(int(place)), link) for place in places[offset : offset + limit]
        ],
    )


def _before(opened: OpenTrace, cell: Cell) -> float | None:
    """The value before any edit, if it was different."""
    if opened.first is None or cell.step.name not in opened.first.trace:
        return None
    step = opened.first.trace[cell.step.name]
    if step.shape != cell.step.shape:
        return None
    old, new = float(step.view.array[cell.index]), float(cell.value)
    same = old == new or (math.isnan(old) and math.isnan(new))
    return None if same else old


def meaning_info(
    what: Step | Cell, language: Language, lead: Index | None = None
) -> schemas.MeaningInfo:
    """What a step (of which a slice is shown) or a number is for."""
    return schemas.MeaningInfo.copy_of(meaning(what, language, lead))


# --- following ---
# Forwards and backwards from a cell: what was computed from it, and its largest contributions.


def dependents_of(
    cell: Cell, readers: Readers | None = None, link: Link | None = None
) -> list[schemas.DependentInfo]:
    """The steps that depend on this cell directly; `readers` of its step, if many are asked for."""
    link = link or cell_ref
    return [
        schemas.DependentInfo(
            step=found.step.number,
            name=found.step.trace.naming.short(found.step),
            count=found.count,
            cells=[link(below) for below in islice(found.cells(), MOST_DEPENDENTS)],
            regions=blocks_of_mask(found.step, found.mask.numpy()),
        )
        for found in (readers or Readers(cell.step)).dependents(cell.index)
    ]


def path_of(
    cell: Cell, known: dict[Cell, Cell | None] | None = None, link: Link | None = None
) -> list[schemas.CellRef]:
    """The cell, its largest contribution, and so on back to a parameter or an input."""
    return [(link or cell_ref)(below) for below in path(cell, known)]


# --- links ---
# Cells and source lines as links.


def cell_ref(cell: Cell, sight: Sight | None = None) -> schemas.CellRef:
    """A link to a cell with its value; `sight` names it as in a formula."""
    step = cell.step
    return schemas.CellRef.copy_of(
        cell,
        step=step.number,
        name=str(leaf_of(cell, sight or step.trace.naming.sight(step))),
        labels=[
            None if labels is None else labels[place]
            for labels, place in zip(step.labels, cell.index, strict=True)
        ],
    )


def source_info(line: Line | None, around: int = 0) -> schemas.SourceInfo | None:
    """A source line, its path relative to the package root, with `around` lines of context."""
    if line is None:
        return None

    lines = linecache.getlines(line.file) if around else []
    at = line.number - 1
    return schemas.SourceInfo(
        file=from_package(line.file),
        line=line.number,
        text=line.text,
        before=[text.rstrip("\n") for text in lines[max(0, at - around) : at]],
        after=[text.rstrip("\n") for text in lines[at + 1 : at + 1 + around]],
    )
