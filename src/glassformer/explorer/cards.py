"""Everything about a cell, as the card on the screen shows it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from glassformer.errors import InputError
from glassformer.explorer.editing import is_edited
from glassformer.explorer.numbers import plain
from glassformer.explorer.opened import OpenTrace
from glassformer.explorer.panels import operand_of
from glassformer.explorer.references import cell_ref, source_info
from glassformer.explorer.regions import regions_of
from glassformer.explorer.schemas import (
    CardInfo,
    DefinitionInfo,
    Number,
    Piece,
    PrecisionInfo,
    SumInfo,
    TermInfo,
    TermPage,
)
from glassformer.explorer.symbols import short_name, symbol_of
from glassformer.trace import Cell, Term, text
from glassformer.trace.cells import leaves, term_values
from glassformer.trace.evaluate import gathered
from glassformer.trace.expressions import Entry, Expression, Lookup, Named, Operation, Reduce
from glassformer.trace.render.cards import Card, Part, card, short_names
from glassformer.trace.render.latex_math import MathWriter, math_name
from glassformer.trace.render.words import words_in

__all__ = ["card_info", "find_cell", "term_page"]

MOST_OPERANDS = 64
MOST_FACTORS = 4_096
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


def card_info(opened: OpenTrace, cell: Cell) -> CardInfo:
    """The card of a cell."""
    shown = card(cell)
    operands = cell.operands
    before = _before(opened, cell)
    return CardInfo(
        cell=cell_ref(cell),
        exact=text.number(cell.value, 9),
        formula=shown.formula,
        tex=_tex(cell),
        numbers=shown.numbers,
        pieces=[] if shown.expression is None else _pieces(shown.expression),
        definitions=[
            DefinitionInfo(
                symbol=part.symbol,
                symbols=part.symbols,
                numbers=part.numbers,
                pieces=_pieces(part.expression),
                value=plain(part.value),
            )
            for part in shown.definitions
        ],
        sum=_sum(cell, shown),
        recomputed=plain(shown.recomputed),
        difference=plain(shown.difference),
        precisions=_precisions(cell),
        operands=[cell_ref(operand) for operand in operands[:MOST_OPERANDS]],
        n_operands=len(operands),
        regions=regions_of(cell),
        source=source_info(cell.source, _SOURCE_AROUND),
        is_given=shown.is_given,
        is_edited=is_edited(opened, cell),
        before=before,
    )


def _pieces(expression: Expression) -> list[Piece]:
    """Arithmetic in numbers, its operands as links."""
    return [
        Piece(text=number, cell=None if operand is None else cell_ref(next(leaves(operand))))
        for number, operand in text.linked_numbers(expression)
    ]


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


# --- sums ---


def _sum(cell: Cell, shown: Card) -> SumInfo | None:
    expression = cell.expression
    if expression is None or not shown.parts:
        return None
    values = np.array(term_values(expression))
    factors, products = _factors(expression)
    with np.errstate(invalid="ignore"):
        positive, negative = float(values[values > 0].sum()), float(values[values < 0].sum())
    return SumInfo(
        n_terms=len(values),
        shown=[_part_info(part) for part in shown.parts],
        others=shown.others,
        rest=plain(shown.rest),
        positive=plain(positive),
        negative=plain(negative),
        share=min(1.0, sum(part.share for part in shown.parts)),
        factors=[[plain(number) for number in row.tolist()] for row in factors],
        products=[plain(number) for number in products.tolist()],
    )


def _part_info(part: Part) -> TermInfo:
    return TermInfo(
        value=plain(part.value),
        symbols=part.symbols,
        numbers=part.numbers,
        pieces=_pieces(part.expression),
        share=part.share,
        cells=[cell_ref(cell) for cell in part.cells[:MOST_OPERANDS]],
    )


def _factors(
    expression: Expression,
) -> tuple[list[npt.NDArray[np.float64]], npt.NDArray[np.float64]]:
    """The two rows of a dot product and their products; nothing where it is none."""
    match expression:
        case Operation(operator="+", left=left, right=right):
            found = _factors(left)
            return found if found[0] else _factors(right)
        case Reduce(
            kind="sum", body=Operation(operator="*", left=left, right=right) as body, axes=axes
        ) if math.prod(axis.size for axis in axes) <= MOST_FACTORS:
            rows = [gathered(Reduce("sum", side, axes)) for side in (left, right)]
            return rows, gathered(Reduce("sum", body, axes))
    return [], np.empty(0)


def term_page(cell: Cell, offset: int, limit: int, by_size: bool) -> TermPage:
    """Some of the summands, in their own order or the largest first."""
    terms = cell.terms
    values = np.array([term.value for term in terms])
    order = np.argsort(-np.abs(np.nan_to_num(values, nan=np.inf)), kind="stable")
    places = order if by_size else np.arange(len(terms))
    whole = float(np.abs(values[np.isfinite(values)]).sum()) or 1.0
    return TermPage(
        total=len(terms),
        offset=offset,
        terms=[_term_info(cell, terms[at], whole) for at in places[offset : offset + limit]],
    )


def _term_info(cell: Cell, term: Term, whole: float) -> TermInfo:
    inside = short_names(cell)
    return TermInfo(
        value=plain(term.value),
        symbols=text.symbols(term.expression, lambda name: name.removeprefix(inside)),
        numbers=text.numbers(term.expression),
        pieces=_pieces(term.expression),
        share=min(1.0, abs(term.value) / whole) if math.isfinite(term.value) else 1.0,
        cells=[cell_ref(part) for part in term.cells[:MOST_OPERANDS]],
    )


# --- formulas ---


class _SymbolWriter(MathWriter):
    """Formulas with `Q` and `W_Q` for the steps that have a symbol."""

    def __init__(self, cell: Cell) -> None:
        inside = short_names(cell)
        super().__init__(lambda name: name.removeprefix(inside), words_in("en"))

    def leaf(self, expression: Entry | Lookup | Named) -> tuple[str, int]:
        written, strength = super().leaf(expression)
        if isinstance(expression, Entry) and expression.view.numel:
            owner, _ = expression.view.owner((0,) * expression.view.ndim)
            symbol = symbol_of(owner)
            name = text.entry_name(expression, lambda found: found)
            if symbol is not None and name.startswith(f"{owner.name}["):
                places = name.removeprefix(f"{owner.name}[").removesuffix("]").replace(" ", "")
                return f"{{{symbol}}}_{{{places}}}" if "_" not in symbol else _indexed(
                    symbol, places
                ), strength
        return written, strength


def _indexed(symbol: str, places: str) -> str:
    """`W_Q` at a place: brackets, since a second index below would read as one."""
    return f"{symbol}[{places}]"


def _tex(cell: Cell) -> str:
    symbol = symbol_of(cell.step)
    places = ",".join(map(str, cell.index))
    if symbol is None:
        name = math_name(f"{short_name(cell.step)}[{places}]" if places else short_name(cell.step))
    elif "_" in symbol:
        name = _indexed(symbol, places)
    else:
        name = f"{{{symbol}}}_{{{places}}}" if places else symbol
    expression = cell.expression
    return name if expression is None else f"{name} = {_SymbolWriter(cell).write(expression)}"
