"""Steps as matrices: two-dimensional slices with labels, and how much of them fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from glassformer.cancelling import stop_if_cancelled
from glassformer.errors import TraceError
from glassformer.trace.cells import Cell
from glassformer.trace.memory import Index, as_floats
from glassformer.trace.render.words import Words, label_in, words_in
from glassformer.trace.steps import Step

__all__ = [
    "Matrix",
    "axis_labels",
    "is_unwritten",
    "matrices",
    "matrix",
    "row_labels",
    "shape_text",
]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A two-dimensional slice of a step; a vector is one row, a single number 1×1."""

    step: Step
    lead: Index
    """The positions on the axes before the last two."""
    values: npt.NDArray[np.float64]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """`scores[0, 1, :, :]`, or the plain name where there is one slice."""
        if all(size == 1 for size in self.step.shape[:-2]):
            return self.step.name
        places = [str(place) for place in self.lead]
        return f"{self.step.name}[{', '.join([*places, ':', ':'])}]"


def shape_text(shape: Sequence[int]) -> str:
    """`3×4`; a single number is `1`."""
    return "×".join(map(str, shape)) or "1"


def axis_labels(step: Step, axis: int) -> tuple[str, ...]:
    """The labels of an axis, its numbers where it has none."""
    return step.labels[axis] or tuple(str(place) for place in range(step.shape[axis]))


def matrix(step: Step, at: Sequence[int] | None = None) -> Matrix:
    """One slice of a step: `at` gives the positions on the axes before the last two.

    Leading positions on axes of size 1 may be left out; without `at` it is the first slice.
    """
    lead_shape = step.shape[:-2]
    given = tuple(at) if at is not None else (0,) * len(lead_shape)
    missing = len(lead_shape) - len(given)
    if missing > 0 and all(size == 1 for size in lead_shape[:missing]):
        given = (0,) * missing + given
    fits = len(given) == len(lead_shape) and all(
        0 <= place < size for place, size in zip(given, lead_shape, strict=True)
    )
    if not fits:
        raise TraceError(
            f"{step.name} has no slice at {tuple(at or ())}: its shape is {tuple(step.shape)}, "
            f"so give {len(lead_shape)} positions within {tuple(lead_shape)}"
        )
    values = as_floats(step.view.array[given])
    shape = step.shape
    rows = axis_labels(step, len(shape) - 2) if len(shape) > 1 else ("",)
    columns = axis_labels(step, len(shape) - 1) if shape else ("",)
    return Matrix(step, given, values.reshape(len(rows), len(columns)), rows, columns)


def matrices(step: Step) -> Iterator[Matrix]:
    """Every slice of a step, in order."""
    for lead in product(*(range(size) for size in step.shape[:-2])):
        stop_if_cancelled()
        yield matrix(step, lead)


def is_unwritten(step: Step, index: Index) -> bool:
    """Whether nothing was written to a cell yet, so that its number means nothing."""
    return step.trace.has_unwritten_memory and Cell(step, index).is_unwritten


def row_labels(step: Step, words: Words | None = None) -> list[str]:
    """A label for each row when all slices stand one below another; heads in the language."""
    said = words_in("en") if words is None else words
    axes = range(max(0, len(step.shape) - 1))
    telling = [axis for axis in axes if step.shape[axis] > 1]
    labels = [axis_labels(step, axis) for axis in telling]
    rows = [" · ".join(label_in(said, part) for part in parts) for parts in product(*labels)]
    return rows if 0 not in step.shape else []
