"""Everything about a cell, as the card on the screen shows it."""

from __future__ import annotations

import linecache
import math
from itertools import islice

import numpy as np

from glassformer.documents.parts import UNWRITTEN
from glassformer.documents.step_meaning import meaning
from glassformer.errors import InputError
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.panels import operand_of
from glassformer.explorer.schemas import (
    CardInfo,
    CellRef,
    DefinitionInfo,
    DependentInfo,
    LessonLink,
    MeaningInfo,
    PaperLink,
    Piece,
    PrecisionInfo,
    SourceInfo,
    SumInfo,
    TermInfo,
    TermPage,
)
from glassformer.language import Language
from glassformer.tracing import Cell, Line, Step
from glassformer.tracing.arithmetic.float64_values import at_precisions
from glassformer.tracing.capture.memory import Index
from glassformer.tracing.capture.source_lines import from_package
from glassformer.tracing.cells import leaves
from glassformer.tracing.explanation import Card, Summand
from glassformer.tracing.formula import (
    Formula,
    Sight,
    leaf_of,
    number,
    to_pieces,
    to_tex,
)
from glassformer.tracing.formula.notation import Infix
from glassformer.tracing.operands import (
    blocks_of,
    blocks_of_mask,
    count_operands,
    first_operands,
)

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
        raise InputError(f"that operand has no cell {list(index)}: its shape is {list(view.shape)}")
    return Cell(*view.owner(index))


def card_info(opened: OpenTrace, cell: Cell, language: Language = "en") -> CardInfo:
    """The card of a cell; words inside formulas are in `language`."""
    card = Card(cell, language=language)
    expression = card.expression
    operands = [] if expression is None else first_operands(expression, MOST_OPERANDS)
    whole = (
        card.name_tree if expression is None else Infix(card.relation, card.name_tree, card.tree)
    )
    return CardInfo(
        cell=cell_ref(cell, card.sight),
        exact=UNWRITTEN if card.is_unwritten else number(cell.value, 9),
        formula=card.formula,
        tex=to_tex(whole, language=language),
        numbers=card.numbers,
        pieces=[] if expression is None else _pieces(card, card.number_tree),
        definitions=[
            DefinitionInfo(
                symbol=part.symbol,
                symbols=part.symbols,
                numbers=part.numbers,
                pieces=_pieces(card, part.number_tree),
                value=part.value,
            )
            for part in card.definitions
        ],
        sum=_sum(card) if card.parts else None,
        recomputed=card.recomputed,
        difference=card.difference,
        reproduced=card.relation == "=",
        precisions=_precisions(card),
        operands=[cell_ref(operand, card.sight) for operand in operands],
        n_operands=0 if expression is None else count_operands(expression),
        regions=blocks_of(cell),
        source=source_info(cell.step.line, _SOURCE_AROUND),
        is_given=card.is_given,
        is_unwritten=card.is_unwritten,
        is_edited=is_edited(opened, cell),
        before=_before(opened, cell),
    )


def _pieces(card: Card, formula: Formula) -> list[Piece]:
    """Arithmetic in numbers, its operands as links."""
    return [
        Piece(
            text=text, cell=None if operand is None else cell_ref(next(leaves(operand)), card.sight)
        )
        for text, operand in to_pieces(formula, language=card.language)
    ]


def _sum(card: Card) -> SumInfo:
    values = card.terms.values
    factors, products = card.factors()
    with np.errstate(invalid="ignore"):
        positive, negative = float(values[values > 0].sum()), float(values[values < 0].sum())
    return SumInfo(
        n_terms=len(values),
        shown=[_term(card, part) for part in card.parts],
        others=card.others,
        rest=card.rest,
        positive=positive,
        negative=negative,
        share=min(1.0, sum(part.share for part in card.parts)),
        factors=[row.tolist() for row in factors],
        products=products.tolist(),
    )


def _term(card: Card, part: Summand) -> TermInfo:
    return TermInfo(
        value=part.value,
        symbols=part.symbols,
        numbers=part.numbers,
        pieces=_pieces(card, part.number_tree),
        share=part.share if math.isfinite(part.value) else 1.0,
        cells=[cell_ref(c, card.sight) for c in first_operands(part.expression, MOST_CELLS)],
    )


def term_page(cell: Cell, offset: int, limit: int, by_size: bool, language: Language) -> TermPage:
    """Some of the summands, in their own order or the largest first."""
    card = Card(cell, language=language)
    values = card.terms.values
    order = np.argsort(-np.abs(np.nan_to_num(values, nan=np.inf)), kind="stable")
    places = order if by_size else np.arange(len(values))
    return TermPage(
        total=len(values),
        offset=offset,
        terms=[_term(card, card.part(int(place))) for place in places[offset : offset + limit]],
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


def _precisions(card: Card) -> PrecisionInfo | None:
    if card.expression is None or not card.cell.step.dtype.is_floating_point:
        return None
    found = at_precisions(card.expression, card.cell.value, _DECIMALS)
    return PrecisionInfo(
        float64=found.float64,
        float32=found.float32,
        bfloat16=found.bfloat16,
        rounded=found.rounded,
        decimals=found.decimals,
    )


def is_edited(opened: OpenTrace, cell: Cell) -> bool:
    """Whether an edit set this number itself."""
    return any(
        edit.step == cell.step.name and tuple(edit.index) == cell.index for edit in opened.edits
    )


def meaning_info(what: Step | Cell, language: Language, lead: Index | None = None) -> MeaningInfo:
    """What a step (of which a slice is shown) or a number is for."""
    found = meaning(what, language, lead)
    lesson = paper = None
    if found.lesson is not None:
        lesson = LessonLink(lesson=found.lesson[0], step=found.lesson[1])
    if found.paper is not None:
        paper = PaperLink(section=found.paper.section, address=found.paper.address)
    return MeaningInfo(text=found.text, lesson=lesson, paper=paper)


# --- following ---
# Forwards and backwards from a cell: what was computed from it, and its largest contributions.


def dependents_of(cell: Cell) -> list[DependentInfo]:
    """The steps that depend on this cell directly."""
    return [
        DependentInfo(
            step=found.step.number,
            name=found.step.trace.naming.short(found.step),
            count=found.count,
            cells=[cell_ref(below) for below in islice(found.cells(), MOST_DEPENDENTS)],
            regions=blocks_of_mask(found.step, found.mask.numpy()),
        )
        for found in cell.dependents()
    ]


def path_of(cell: Cell) -> list[CellRef]:
    """The cell, its largest contribution, and so on back to a parameter or an input."""
    return [cell_ref(step) for step in cell.path()]


# --- links ---
# Cells and source lines as links.


def cell_ref(cell: Cell, sight: Sight | None = None) -> CellRef:
    """A link to a cell with its value; `sight` names it as in a formula."""
    step = cell.step
    return CellRef(
        step=step.number,
        index=list(cell.index),
        name=str(leaf_of(cell, sight or step.trace.naming.sight(step))),
        role=step.role,
        value=cell.value,
        labels=[
            None if labels is None else labels[place]
            for labels, place in zip(step.labels, cell.index, strict=True)
        ],
    )


def source_info(line: Line | None, around: int = 0) -> SourceInfo | None:
    """A source line, its path relative to the package root, with `around` lines of context."""
    if line is None:
        return None

    def text(number: int) -> str:
        return linecache.getline(line.file, number).rstrip("\n")

    n_lines = len(linecache.getlines(line.file)) if around else 0
    before = range(max(1, line.number - around), line.number)
    after = range(line.number + 1, min(n_lines, line.number + around) + 1)
    return SourceInfo(
        file=from_package(line.file),
        line=line.number,
        text=line.text,
        before=[text(number) for number in before],
        after=[text(number) for number in after],
    )
