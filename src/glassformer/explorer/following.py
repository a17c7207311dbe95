"""Forwards and backwards from a cell: what was made from it, and what it mostly came from."""

from __future__ import annotations

from itertools import islice

from glassformer.explorer.references import cell_ref
from glassformer.explorer.regions import regions_of_mask
from glassformer.explorer.schemas import CellRef, DependentInfo
from glassformer.explorer.symbols import short_name
from glassformer.trace import Cell

__all__ = ["dependents_of", "path_of"]

MOST_CELLS = 24


def dependents_of(cell: Cell) -> list[DependentInfo]:
    """The steps that another number in this place would change directly."""
    return [
        DependentInfo(
            step=found.step.number,
            name=short_name(found.step),
            count=found.count,
            cells=[cell_ref(below) for below in islice(found.cells(), MOST_CELLS)],
            regions=regions_of_mask(found.step, found.mask.numpy()),
        )
        for found in cell.dependents()
    ]


def path_of(cell: Cell) -> list[CellRef]:
    """The cell, its largest contribution, that one's, … down to a parameter or an input."""
    return [cell_ref(step) for step in cell.path()]
