"""A long sum: its largest terms, what the others add up to, and its terms page by page."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from glassformer.explorer.numbers import plain
from glassformer.explorer.operands import first_operands
from glassformer.explorer.references import cell_ref
from glassformer.explorer.schemas import CellRef, Piece, SumInfo, TermInfo, TermPage
from glassformer.trace import Cell, text
from glassformer.trace.cells import leaves
from glassformer.trace.evaluate import gathered
from glassformer.trace.expressions import Expression, Operation, Reduce
from glassformer.trace.render.cards import Card, short_names

__all__ = ["pieces_of", "sum_info", "term_page"]

MOST_CELLS = 8
"""Operands of one term that are named: of a product, two."""
MOST_FACTORS = 4_096
Floats = npt.NDArray[np.float64]


def sum_info(cell: Cell, shown: Card, phrases: text.Phrases) -> SumInfo | None:
    """The sum at a glance; None where the cell is none."""
    expression = shown.expression
    if expression is None or not shown.parts:
        return None
    values = cell.terms.values
    factors, products = _factors(expression)
    with np.errstate(invalid="ignore"):
        positive, negative = float(values[values > 0].sum()), float(values[values < 0].sum())
    return SumInfo(
        n_terms=len(values),
        shown=[
            TermInfo(
                value=plain(part.value),
                symbols=part.symbols,
                numbers=part.numbers,
                pieces=pieces_of(part.expression, phrases),
                share=part.share,
                cells=_cells(part.expression),
            )
            for part in shown.parts
        ],
        others=shown.others,
        rest=plain(shown.rest),
        positive=plain(positive),
        negative=plain(negative),
        share=min(1.0, sum(part.share for part in shown.parts)),
        factors=[[plain(number) for number in row.tolist()] for row in factors],
        products=[plain(number) for number in products.tolist()],
    )


def term_page(
    cell: Cell, offset: int, limit: int, by_size: bool, phrases: text.Phrases
) -> TermPage:
    """Some of the summands, in their own order or the largest first."""
    terms, inside = cell.terms, short_names(cell)
    values = terms.values
    order = np.argsort(-np.abs(np.nan_to_num(values, nan=np.inf)), kind="stable")
    places = order if by_size else np.arange(len(values))
    whole = float(np.abs(values[np.isfinite(values)]).sum()) or 1.0

    def rename(name: str) -> str:
        return name.removeprefix(inside)

    def told(place: int) -> TermInfo:
        term = terms[place]
        finite = math.isfinite(term.value)
        return TermInfo(
            value=plain(term.value),
            symbols=text.symbols(term.expression, rename, phrases),
            numbers=text.numbers(term.expression, phrases=phrases),
            pieces=pieces_of(term.expression, phrases),
            share=min(1.0, abs(term.value) / whole) if finite else 1.0,
            cells=_cells(term.expression),
        )

    return TermPage(
        total=len(values),
        offset=offset,
        terms=[told(int(place)) for place in places[offset : offset + limit]],
    )


def pieces_of(expression: Expression, phrases: text.Phrases) -> list[Piece]:
    """Arithmetic in numbers, its operands as links."""
    return [
        Piece(text=number, cell=None if operand is None else cell_ref(next(leaves(operand))))
        for number, operand in text.linked_numbers(expression, phrases=phrases)
    ]


def _cells(expression: Expression) -> list[CellRef]:
    return [cell_ref(cell) for cell in first_operands(expression, MOST_CELLS)]


def _factors(expression: Expression) -> tuple[list[Floats], Floats]:
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
