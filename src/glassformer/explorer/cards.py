"""Everything about a cell, as the card on the screen shows it."""

from __future__ import annotations

import math

from glassformer.errors import InputError
from glassformer.explorer.editing import is_edited
from glassformer.explorer.formulas import formula_tex
from glassformer.explorer.numbers import plain
from glassformer.explorer.opened import OpenTrace
from glassformer.explorer.operands import count_operands, first_operands
from glassformer.explorer.panels import operand_of
from glassformer.explorer.references import cell_ref, source_info
from glassformer.explorer.regions import regions_of
from glassformer.explorer.schemas import CardInfo, DefinitionInfo, Language, Number, PrecisionInfo
from glassformer.explorer.sums import pieces_of, sum_info
from glassformer.trace import Cell, text
from glassformer.trace.render.cards import card
from glassformer.trace.render.words import phrases_in, words_in

__all__ = ["card_info", "find_cell"]

MOST_OPERANDS = 64
_DECIMALS = 2
_SOURCE_AROUND = 3


def find_cell(opened: OpenTrace, step: int, index: tuple[int, ...], operand: int | None) -> Cell:
    """A cell of a step, or the one that its k-th operand has in a place."""
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
    """The card of a cell; the words inside its formulas are the language's."""
    phrases = phrases_in(words_in(language))
    shown = card(cell, phrases=phrases)
    expression = shown.expression
    operands = [] if expression is None else first_operands(expression, MOST_OPERANDS)
    return CardInfo(
        cell=cell_ref(cell),
        exact=text.number(cell.value, 9),
        formula=shown.formula,
        tex=formula_tex(cell, language),
        numbers=shown.numbers,
        pieces=[] if expression is None else pieces_of(expression, phrases),
        definitions=[
            DefinitionInfo(
                symbol=part.symbol,
                symbols=part.symbols,
                numbers=part.numbers,
                pieces=pieces_of(part.expression, phrases),
                value=plain(part.value),
            )
            for part in shown.definitions
        ],
        sum=sum_info(cell, shown, phrases),
        recomputed=plain(shown.recomputed),
        difference=plain(shown.difference),
        reproduced=shown.relation == "=",
        precisions=_precisions(cell),
        operands=[cell_ref(operand) for operand in operands],
        n_operands=0 if expression is None else count_operands(expression),
        regions=regions_of(cell),
        source=source_info(cell.source, _SOURCE_AROUND),
        is_given=shown.is_given,
        is_edited=is_edited(opened, cell),
        before=_before(opened, cell),
    )


def _before(opened: OpenTrace, cell: Cell) -> Number | None:
    """The value in the trace before any edit, where it is another one."""
    if opened.first is None or cell.step.name not in opened.first.trace:
        return None
    step = opened.first.trace[cell.step.name]
    if step.shape != cell.step.shape:
        return None
    old, new = float(step.view.array[cell.index]), float(cell.value)
    same = old == new or (math.isnan(old) and math.isnan(new))
    return None if same else plain(old)


def _precisions(cell: Cell) -> PrecisionInfo | None:
    if cell.expression is None or not cell.step.dtype.is_floating_point:
        return None
    found = cell.at_precisions(_DECIMALS)
    return PrecisionInfo(
        float64=plain(found.float64),
        float32=plain(found.float32),
        bfloat16=plain(found.bfloat16),
        rounded=plain(found.rounded),
        decimals=found.decimals,
    )
