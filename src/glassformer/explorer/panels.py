"""Matrices on the screen: two axes of a step, or of an operand as its operator saw it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from glassformer.errors import InputError
from glassformer.explorer.numbers import parse_range
from glassformer.trace import Operand, Step
from glassformer.trace.memory import Index, View

__all__ = ["MOST_CELLS", "fitting_lead", "lossless", "operand_of", "sides", "slice_of", "window"]

MOST_CELLS = 1 << 22
"""The most cells that one answer holds: 2,048 × 2,048."""


def operand_of(step: Step, place: int) -> Operand:
    """The step's operand by its place."""
    operands = step.operands
    if not 0 <= place < len(operands):
        raise InputError(f"{step.name} has no operand {place}: it was made from {len(operands)}")
    return operands[place]


def sides(shape: Index) -> tuple[int, int]:
    """Rows and columns; a vector is one row, a single number 1×1."""
    return (shape[-2] if len(shape) > 1 else 1), (shape[-1] if shape else 1)


def fitting_lead(shape: Index, lead: Index, name: str) -> Index:
    """The places of the axes before the last two; left out, the first of each."""
    sizes = shape[:-2]
    whole = lead or (0,) * len(sizes)
    fits = len(whole) == len(sizes) and all(
        0 <= place < size for place, size in zip(whole, sizes, strict=True)
    )
    if not fits:
        raise InputError(
            f"{name} has no slice at {list(lead)}: its shape is {list(shape)}, so give "
            f"{len(sizes)} places within {list(sizes)}"
        )
    return whole


def slice_of(view: View, lead: Index) -> npt.NDArray[np.generic]:
    """The two-dimensional slice."""
    values: npt.NDArray[np.generic] = view.array[lead]
    return values.reshape(sides(view.shape))


def window(
    view: View, lead: Index, rows: str | None, columns: str | None
) -> npt.NDArray[np.generic]:
    """A part of a slice as float32, or float64 where that would lose something."""
    n_rows, n_columns = sides(view.shape)
    down, across = parse_range(rows, n_rows, "rows"), parse_range(columns, n_columns, "columns")
    count = (down.stop - down.start) * (across.stop - across.start)
    if count > MOST_CELLS:
        raise InputError(f"{count:,} cells are too many at once: ask for at most {MOST_CELLS:,}")
    part = slice_of(view, lead)[down, across]
    with np.errstate(invalid="ignore"):  # a float16 never written may be a signalling NaN
        return np.ascontiguousarray(part, dtype=lossless(part))


def lossless(part: npt.NDArray[np.generic]) -> str:
    """Little-endian float32 where it holds every number exactly."""
    if part.dtype.kind == "f":
        return "<f4" if part.dtype.itemsize <= 4 else "<f8"
    if part.dtype.kind in "iu" and part.size and np.abs(part.astype(np.float64)).max() > 2**24:
        return "<f8"
    return "<f4"
