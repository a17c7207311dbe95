"""What rounding does to a cell: the difference it may make, and the cell at several precisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import torch

from glassformer.trace.evaluate import Rounding, evaluate
from glassformer.trace.expressions import Scalar
from glassformer.trace.notebooks import ShownAsText

if TYPE_CHECKING:
    from glassformer.trace.cells import Cell

__all__ = ["Precisions", "Relation", "at_precisions", "relation", "tolerance"]

Relation = Literal["=", "≠"]

# A correct result differs from its float64 recomputation by a little over the dtype's rounding.
_TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
_TOLERANCE = 1e-6


def tolerance(dtype: torch.dtype) -> float:
    """The relative difference up to which a rule reproduces a stored number of this dtype."""
    return _TOLERANCES.get(dtype, _TOLERANCE)


def relation(difference: float, dtype: torch.dtype) -> Relation:
    """The sign between a rule's arithmetic and the stored number, given how much they differ.

    Every renderer writes this sign and no other: where a rule does not reproduce the number, none
    of them may print "=".
    """
    return "=" if difference <= tolerance(dtype) else "≠"


@dataclass(frozen=True, slots=True)
class Precisions(ShownAsText):
    """The cell as stored, and recomputed from operands at each precision, the result rounded too.

    `rounded` is what a reader gets who works with the digits that an article prints.
    """

    stored: Scalar
    float64: float
    float32: float
    bfloat16: float
    rounded: float
    decimals: int

    def __str__(self) -> str:
        return (
            f"stored {self.stored!r}, float64 {self.float64!r}, float32 {self.float32!r}, "
            f"bfloat16 {self.bfloat16!r}, {self.decimals} decimals {self.rounded!r}"
        )


def at_precisions(cell: Cell, decimals: int) -> Precisions:
    """The cell's arithmetic, with its operands and its result rounded to each precision."""
    return Precisions(
        stored=cell.value,
        float64=cell.recomputed,
        float32=_at(cell, _to(torch.float32)),
        bfloat16=_at(cell, _to(torch.bfloat16)),
        rounded=_at(cell, _to_decimals(decimals)),
        decimals=decimals,
    )


def _at(cell: Cell, rounding: Rounding) -> float:
    expression = cell.expression
    value = float(cell.value) if expression is None else evaluate(expression, rounding)
    return float(rounding(np.asarray(value)))


def _to(dtype: torch.dtype) -> Rounding:
    def rounding(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        rounded: npt.NDArray[np.float64] = torch.as_tensor(values).to(dtype).double().numpy()
        return rounded

    return rounding


def _to_decimals(decimals: int) -> Rounding:
    def rounding(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.round(values, decimals)

    return rounding
