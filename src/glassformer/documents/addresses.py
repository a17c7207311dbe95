"""Which step wrote the numbers that an operator reads, and at which place of that step.

A cell's place is its position when the step is read row by row. Views need no treatment of their
own: an operand is a window on a storage, and each element of a storage has one writer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.tracing.arithmetic.expressions import Axis, Entry
from glassformer.tracing.capture.memory import Flat, Index, Version, View, lattice
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace


def all_steps(trace: Trace) -> list[Step]:
    """Return every step of a trace once, ordered by number: sources, steps, views."""
    return list(dict.fromkeys(trace[name] for name in trace.names))


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells that an entry reads, for each value of its running letters."""

    letters: tuple[str, ...]
    sizes: Index
    step: int | None
    """The number of the one step that wrote them all; None if they have no regular layout."""
    base: int = 0
    """The flat position of the first cell."""
    strides: Index = ()
    """The stride of each letter."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Without a regular layout: step and flat position of each, the last letter varying fastest."""


class Addresses:
    """Finds who wrote an operand. A storage's table of writers is built on first use."""

    def __init__(self) -> None:
        self._sole: dict[int, Step | None] = {}
        self._tables: dict[tuple[int, int], tuple[Flat, Flat]] = {}

    def of(self, entry: Entry) -> Cells:
        """The cells that an entry reads."""
        view, start = entry.view, entry.view.offset
        letters: list[str] = []
        sizes: list[int] = []
        strides: list[int] = []
        for part, stride in zip(entry.index, view.strides, strict=True):
            if isinstance(part, Axis):
                letters.append(part.letter)
                sizes.append(part.size)
                strides.append(stride * part.step)
                start += stride * part.start
            else:
                start += stride * part
        owner = self._sole_owner(view.version)
        if owner is not None:  # then an address is a place, up to where the owner begins
            base = start - owner.view.offset
            return Cells(tuple(letters), tuple(sizes), owner.number, base, tuple(strides))
        return self._looked_up(view, start, tuple(letters), tuple(sizes), strides)

    def along(self, view: View, index: tuple[int | None, ...]) -> Cells:
        """The cells of a view with some axes left open (None): all that a lookup may reach."""
        parts: list[int | Axis] = []
        for axis, (place, size) in enumerate(zip(index, view.shape, strict=True)):
            parts.append(Axis(f"axis {axis}", size) if place is None else place)
        return self.of(Entry(view, tuple(parts)))

    def writers(self, view: View) -> list[int]:
        """The numbers of the steps that wrote a view's cells, in order."""
        sole = self._sole_owner(view.version)
        if sole is not None or view.numel == 0:
            return [sole.number] if sole is not None and view.numel else []
        cells = self.along(view, (None,) * view.ndim)
        return [cells.step] if cells.step is not None else sorted({n for n, _ in cells.pairs})

    def read_by(self, step: Step) -> list[int]:
        """The numbers of the steps that a step reads, or that a view shows."""
        views = [step.view] if step.is_view else [operand.view for operand in step.operands]
        return sorted({number for view in views for number in self.writers(view)})

    def _sole_owner(self, version: Version) -> Step | None:
        if id(version) not in self._sole:
            self._sole[id(version)] = _sole_owner(version)
        return self._sole[id(version)]

    def _looked_up(
        self, view: View, start: int, letters: tuple[str, ...], sizes: Index, strides: list[int]
    ) -> Cells:
        """Cells of a storage with several writers, or one that wrote out of row-major order."""
        key = (id(view.version), view.dtype.itemsize)
        if key not in self._tables:
            self._tables[key] = _table(view.version, view.dtype.itemsize)
        address = lattice(start, sizes, strides)
        steps, places = (table[address] for table in self._tables[key])
        first = int(steps.flat[0]) if steps.size else -1
        regular = _strides(places) if bool((steps == first).all()) else None
        if regular is not None:
            return Cells(letters, sizes, first, int(places.flat[0]), regular)
        pairs = zip(steps.reshape(-1).tolist(), places.reshape(-1).tolist(), strict=True)
        return Cells(letters, sizes, None, pairs=tuple(pairs))


def _strides(places: Flat) -> Index | None:
    """The stride of each axis; None if the positions are not affine in the indices."""
    if not places.size:
        return None
    first = int(places.flat[0])
    strides: list[int] = []
    for axis, size in enumerate(places.shape):
        second = tuple(int(other == axis) for other in range(places.ndim))
        strides.append(int(places[second]) - first if size > 1 else 0)
    regular = (lattice(first, places.shape, strides) == places).all()
    return tuple(strides) if regular else None


def _sole_owner(version: Version) -> Step | None:
    """The step that wrote the whole storage in row-major order, so that addresses are positions."""
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


def _table(version: Version, itemsize: int) -> tuple[Flat, Flat]:
    """For each element of a storage, the number of its last writer and the position there."""
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
        # A broadcast axis (stride 0) holds one number under many indices: the first one counts.
        first = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in view.strides)
        address = lattice(view.offset, view.shape, view.strides)
        steps[address[first]] = step.number
        places[address[first]] = own[first]
    return steps, places
