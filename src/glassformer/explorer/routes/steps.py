"""One step: its equation, and its numbers as bytes."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Query, Response

from glassformer.explorer.describing import describe
from glassformer.explorer.editing import changed_cells
from glassformer.explorer.equations import equation
from glassformer.explorer.numbers import parse_index
from glassformer.explorer.panels import fitting_lead, operand_of, window
from glassformer.explorer.schemas import Equation
from glassformer.explorer.state import Opened

__all__ = ["router"]

router = APIRouter(prefix="/traces/{id}/steps/{number}", tags=["steps"])

Lead = Annotated[
    str, Query(max_length=100, description="places of the axes before the last two: `0,1`")
]
Span = Annotated[str | None, Query(max_length=40, description="a range: `0:64`; all if left out")]
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The cells row by row, little-endian; `X-Shape: rows,columns`, `X-Dtype`.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def bytes_answer(values: npt.NDArray[np.generic], dtype: str) -> Response:
    """An array as it is."""
    head = {"X-Shape": f"{values.shape[0]},{values.shape[1]}", "X-Dtype": dtype}
    return Response(values.tobytes(), headers=head, media_type="application/octet-stream")


@router.get("/equation")
def read_equation(opened: Opened, number: int, lead: Lead = "") -> Equation:
    """The step as an equation of matrices."""
    return equation(describe(opened), opened.step(number), parse_index(lead))


@router.get("/values", response_class=Response, responses=_BYTES)
def read_values(
    opened: Opened,
    number: int,
    lead: Lead = "",
    operand: int | None = None,
    rows: Span = None,
    columns: Span = None,
) -> Response:
    """The numbers of a slice, or of a window of it."""
    step = opened.step(number)
    view = step.view if operand is None else operand_of(step, operand).view
    found = window(view, fitting_lead(view.shape, parse_index(lead), step.name), rows, columns)
    return bytes_answer(found, "float32" if found.dtype.itemsize == 4 else "float64")


@router.get("/changed", response_class=Response, responses=_BYTES)
def read_changed(
    opened: Opened,
    number: int,
    lead: Lead = "",
    operand: int | None = None,
    rows: Span = None,
    columns: Span = None,
) -> Response:
    """Which numbers of a slice differ from the trace before the edits: 1 where they do."""
    name, places = opened.step(number).name, parse_index(lead)
    found = changed_cells(
        opened,
        number,
        operand,
        lambda view: window(view, fitting_lead(view.shape, places, name), rows, columns),
    )
    return bytes_answer(found, "uint8")
