"""Steps as matrices: two-dimensional slices with labels and colour scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import torch

from glassformer.colours import Scale
from glassformer.documents.renderer import words_in
from glassformer.errors import TraceError, stop_if_cancelled
from glassformer.language import Sentences
from glassformer.tracing.capture.memory import Index, View, as_floats, index_of
from glassformer.tracing.capture.operator_calls import (
    ACTIVATIONS,
    LINEAR_MAPS,
    NORMS,
    PRODUCTS,
    SOFTMAXES,
)
from glassformer.tracing.steps import Head, Step

_COMPUTED = {*ACTIVATIONS, *LINEAR_MAPS, *NORMS, *PRODUCTS, *SOFTMAXES, "add", "sub", "mul", "div"}
"""Operators that copy no number."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A two-dimensional slice of a step; a vector is one row, a single number 1×1."""

    step: Step
    lead: Index
    """The indices on the axes before the last two."""
    values: npt.NDArray[np.float64]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """`scores[0, 1, :, :]`, or the plain name if there is only one slice."""
        if all(size == 1 for size in self.step.shape[:-2]):
            return self.step.name
        places = [str(place) for place in self.lead]
        return f"{self.step.name}[{', '.join([*places, ':', ':'])}]"


def shape_text(shape: Sequence[int]) -> str:
    """`3×4`; a single number is `1`."""
    return "×".join(map(str, shape)) or "1"


def axis_labels(step: Step, axis: int, first: int = 0) -> tuple[str, ...]:
    """The labels of an axis; numbers, beginning with `first`, if it has none."""
    return step.labels[axis] or tuple(str(place + first) for place in range(step.shape[axis]))


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
            "{name} has no slice at {at}: its shape is {shape}, so give {count} "
            "positions within {sizes}",
            name=step.name,
            at=tuple(at or ()),
            shape=tuple(step.shape),
            count=len(lead_shape),
            sizes=tuple(lead_shape),
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


def may_have_holes(view: View) -> bool:
    """Whether cells of a view may be memory that nothing has written to, or copies of it."""
    waiting, seen = [view.version], set()
    while waiting:
        version = waiting.pop()
        seen.add(id(version))
        above = [] if version.base is None else [version.base]
        for owner in version.owners:
            if owner.is_unwritten:
                return True
            if owner.call is not None and owner.op not in _COMPUTED:
                above += [read.version for read in owner.call.inputs()]
        waiting += [one for one in above if id(one) not in seen]
    return False


def unwritten_places(step: Step) -> list[int]:
    """The flat places of the cells that have not been written yet: their numbers mean nothing."""
    if not may_have_holes(step.view):
        return []
    cells = (step[index_of(place, step.shape)] for place in range(step.view.numel))
    return [place for place, cell in enumerate(cells) if cell.is_unwritten]


def row_labels(
    step: Step, words: Sentences | None = None, first: Mapping[int, int] | None = None
) -> list[str]:
    """A label for each row when all slices are stacked; heads are named in `words`.

    `first` are the numbers of the first position by axis, usually 0.
    """
    said = words_in("en") if words is None else words
    axes = range(max(0, len(step.shape) - 1))
    telling = [axis for axis in axes if step.shape[axis] > 1]
    numbers = [(first or {}).get(axis, 0) for axis in telling]
    labels = [
        [label_in(said, label, number) for label in axis_labels(step, axis, number)]
        for axis, number in zip(telling, numbers, strict=True)
    ]
    rows = [" · ".join(parts) for parts in product(*labels)]
    return rows if 0 not in step.shape else []


def label_in(words: Sentences, label: str, first: int = 0) -> str:
    """The label of a position: heads are translated and counted from `first`, tokens are not."""
    return words["head"].format(number=label.number + first) if isinstance(label, Head) else label


# --- scales ---


_ROW_SUM = 1e-3
"""How far a row's sum may be from 1 (or from 0, if all is masked) to count as probabilities."""
_EXACT = 1 << 12
"""Up to this many numbers the limit is exact; beyond, it comes from a sample of about that size."""


def scale_of(step: Step) -> Scale | None:
    """The scale of a whole step; None for ids and other integers.

    In a mask “true” has a colour and “false” has none: as a share, 0 would look hidden.
    The limit of a large step, such as an embedding table, comes from a sample of its numbers.
    """
    view = step.view
    if not step.dtype.is_floating_point or view.numel == 0:
        is_truth = step.dtype == torch.bool and view.numel > 0
        return Scale("signed", 1.0) if is_truth else None
    is_large = view.numel > _EXACT
    values = as_floats(view.array.flat[:: _stride(view.numel)] if is_large else view.array)
    finite = np.abs(values[np.isfinite(values)])
    if step.op in SOFTMAXES:
        # Also where an edit keeps the rows from adding up to 1.
        is_share = is_large or bool(((values >= 0) & (values <= 1)).all())
    else:  # rows of parameters that happen to add up to 1 are not probabilities
        is_share = not is_large and step.role != "parameter" and _are_probabilities(values)
    return Scale("probability") if is_share else Scale("signed", limit_of(finite))


def slice_scale(whole: Scale | None, view: View, lead: Index) -> Scale | None:
    """The scale of a slice shown by itself: a signed one ends where its own numbers do."""
    values = view.array[lead]
    if whole is None or whole.kind != "signed" or values.size == view.numel:
        return whole
    sizes = np.abs(as_floats(values.flat[:: _stride(values.size)]))
    return Scale("signed", limit_of(sizes[np.isfinite(sizes)]))


def _stride(count: int) -> int:
    """Odd, so that the sample does not hit the same few columns of each row."""
    return max(1, count // _EXACT) | 1


def limit_of(sizes: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Where a signed scale ends: at the largest magnitude, but never at 0.

    If a few are more than twice as large as the 99th percentile (numpy's, without its overhead), it
    ends there: one outlier would leave the other numbers without colour.
    """
    if not sizes.size:
        return 1.0
    most = float(sizes.max())
    place = 0.99 * (sizes.size - 1)
    below = int(place)
    if np.count_nonzero(2 * sizes >= most) >= sizes.size - below:
        return most or 1.0  # the percentile is one of these: usual, and found without sorting
    above = min(below + 1, sizes.size - 1)
    low, high = np.partition(sizes.reshape(-1), (below, above))[[below, above]]
    part = place - below  # counted from the nearer of the two, as numpy does
    limit = low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)
    return (most if most <= 2 * limit else float(limit)) or most or 1.0


def _are_probabilities(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    if values.ndim == 0 or values.shape[-1] < 2 or not values.min() >= 0:
        return False
    sums = values.sum(-1)
    return bool(((np.abs(sums - 1) < _ROW_SUM) | (sums == 0)).all() and (sums > 0).any())
