"""Forwards and backwards from a cell: what was made from it, and what it mostly came from."""

from __future__ import annotations

from itertools import islice

from glassformer.explorer.references import cell_ref
from glassformer.explorer.schemas import CellRef, DependentInfo, Region
from glassformer.trace import Cell
from glassformer.trace.operands import blocks_of_mask

__all__ = ["dependents_of", "path_of"]

MOST_CELLS = 24


def dependents_of(cell: Cell) -> list[DependentInfo]:
    """The steps that another number in this place would change directly."""
    return [
        DependentInfo(
            step=found.step.number,
            name=found.step.trace.naming.short(found.step),
            count=found.count,
            cells=[cell_ref(below) for below in islice(found.cells(), MOST_CELLS)],
            regions=[
                Region(**block._asdict())
                for block in blocks_of_mask(found.step, found.mask.numpy())
            ],
        )
        for found in cell.dependents()
    ]


def path_of(cell: Cell) -> list[CellRef]:
    """The cell, its largest contribution, that one's, … down to a parameter or an input."""
    return [cell_ref(step) for step in cell.path()]
