"""Which step wrote the numbers that an operator reads, and at which place of that step.

A cell's place is its position when the step is read row by row. Views need no treatment of their
own: an operand is a window on a storage, and each element of a storage has one writer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glassformer.trace.expressions import Axis, Entry
from glassformer.trace.memory import Index, Version, View
from glassformer.trace.steps import Step
from glassformer.trace.trace import Trace

__all__ = ["Addresses", "Cells", "all_steps", "flat_place", "index_of"]

Whole = npt.NDArray[np.int64]


def all_steps(trace: Trace) -> list[Step]:
    """Every step of a trace once, in the order of their numbers: sources, steps, views."""
    return list(dict.fromkeys(trace[name] for name in trace.names))


def flat_place(shape: Index, index: Index) -> int:
    """The position of a cell when its tensor is read row by row."""
    place = 0
    for size, position in zip(shape, index, strict=True):
        place = place * size + position
    return place


def index_of(shape: Index, place: int) -> Index:
    """The index of the cell at a position: the inverse of `flat_place`."""
    index = []
    for size in reversed(shape):
        place, position = divmod(place, size)
        index.append(position)
    return tuple(reversed(index))


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells that an entry reads, an array axis for each of its running axes."""

    steps: Whole
    """The numbers of the steps that wrote them."""
    places: Whole
    letters: tuple[str, ...]

    @property
    def step(self) -> int | None:
        """The number of the one step that wrote them all, None where several did."""
        first = int(self.steps.flat[0])
        return first if bool((self.steps == first).all()) else None


class Addresses:
    """Finds the writers of operands. Tables of a storage's writers are made when first needed."""

    def __init__(self) -> None:
        self._tables: dict[tuple[int, int], tuple[Whole, Whole]] = {}

    def of(self, entry: Entry) -> Cells:
        """The cells that an entry reads."""
        running = [part for part in entry.index if isinstance(part, Axis)]
        address = np.asarray(entry.view.offset, dtype=np.int64)
        for part, stride in zip(entry.index, entry.view.strides, strict=True):
            if isinstance(part, Axis):
                steps = part.start + part.step * np.arange(part.size, dtype=np.int64)
                address = address[..., None] + stride * steps
            else:
                address = address + stride * part
        steps, places = self._look_up(entry.view, address)
        return Cells(steps, places, tuple(axis.letter for axis in running))

    def along(self, view: View, index: tuple[int | None, ...]) -> Cells:
        """The cells of a view with some axes left open (None): those that a lookup may reach."""
        parts: list[int | Axis] = []
        for axis, (place, size) in enumerate(zip(index, view.shape, strict=True)):
            parts.append(Axis(f"axis {axis}", size) if place is None else place)
        return self.of(Entry(view, tuple(parts)))

    def writers(self, view: View) -> list[int]:
        """The numbers of the steps that wrote what a view shows, in order."""
        sole = _sole_owner(view.version)
        if sole is not None or view.numel == 0:
            return [sole.number] if sole is not None and view.numel else []
        return [int(step) for step in np.unique(self.along(view, (None,) * view.ndim).steps)]

    def read_by(self, step: Step) -> list[int]:
        """The numbers of the steps that a step reads; of a view, those that it shows."""
        views = [step.view] if step.is_view else [operand.view for operand in step.operands]
        return sorted({number for view in views for number in self.writers(view)})

    def _look_up(self, view: View, address: Whole) -> tuple[Whole, Whole]:
        key = (id(view.version), view.dtype.itemsize)
        if key not in self._tables:
            sole = _sole_owner(view.version)
            if sole is not None:
                return np.full_like(address, sole.number), address - sole.view.offset
            self._tables[key] = _table(view.version, view.dtype.itemsize)
        steps, places = self._tables[key]
        return steps[address], places[address]


def _sole_owner(version: Version) -> Step | None:
    """The step that wrote the whole storage row by row, so that an address is a place."""
    if version.base is not None or len(version.owners) != 1:
        return None
    view = version.owners[0].view
    wanted, stride = [], 1
    for size in reversed(view.shape):
        wanted.append(stride)
        stride *= size
    plain = all(
        size == 1 or have == want
        for size, have, want in zip(view.shape, view.strides, reversed(wanted), strict=True)
    )
    return version.owners[0] if plain else None


def _table(version: Version, itemsize: int) -> tuple[Whole, Whole]:
    """For every element of a storage the number of its last writer, and the place there."""
    size = version.nbytes // itemsize
    if version.base is not None:
        steps, places = (table.copy() for table in _table(version.base, itemsize))
    else:
        steps, places = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for step in version.owners:
        view = step.view
        if view.dtype.itemsize != itemsize or view.numel == 0:
            continue
        own = np.arange(view.numel, dtype=np.int64).reshape(view.shape)
        # A broadcast axis (stride 0) holds one number under many indices: the first counts.
        first = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in view.strides)
        address = np.asarray(view.offset, dtype=np.int64)
        for length, stride in zip(view.shape, view.strides, strict=True):
            address = address[..., None] + stride * np.arange(length, dtype=np.int64)
        steps[address[first]] = step.number
        places[address[first]] = own[first]
    return steps, places
