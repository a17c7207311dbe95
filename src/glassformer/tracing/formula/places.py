"""Positions of an operand's cells on the axes of the step that wrote them.

An operator that reads `x.flatten(1)[0, k]` reads x[0, k÷4, k mod 4]: the letters of a sum run over
the operator's own view, and are mapped from there to the axes of the writer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.capture.memory import Flat, Index, View, lattice

if TYPE_CHECKING:
    from glassformer.tracing.steps import Step

Find = Callable[[View, Index], tuple["Step", Index]]


@dataclass(frozen=True, slots=True)
class Place:
    """A position on an axis: `2`, `k`, `3+2k`; or a digit of a letter, `k÷64 mod 12`."""

    start: int
    letters: tuple[tuple[str, int], ...] = ()
    """Each letter with its stride."""
    repeats: int = 1
    size: int = 0
    """The letter is divided by `repeats`, then taken modulo `size` if there is one."""

    @property
    def is_digit(self) -> bool:
        """Whether a letter runs over several axes and this is its index on one of them."""
        return self.repeats > 1 or self.size > 0

    def counted_from(self, first: int) -> Place:
        """The same place with positions and letters counted from `first`."""
        steps = sum(factor for _, factor in self.letters)
        return Place(self.start + first - first * steps, self.letters) if first else self

    def lettered(self, letters: dict[str, str]) -> Place:
        """The same place with other letters."""
        renamed = tuple((letters.get(letter, letter), factor) for letter, factor in self.letters)
        return replace(self, letters=renamed)

    def __str__(self) -> str:
        if not self.letters:
            return str(self.start)
        if self.is_digit:
            letter = self.letters[0][0]
            whole = f"{letter}÷{self.repeats}" if self.repeats > 1 else letter
            digit = f"{whole} mod {self.size}" if self.size else whole
            return f"{self.start}+{digit}" if self.start else digit
        text = str(self.start) if self.start > 0 else ""
        for letter, factor in self.letters:
            if factor:
                sign = "−" if factor < 0 else "+" if text else ""
                size = str(abs(factor)) if abs(factor) > 1 else ""
                text = f"{text or ('0' if factor < 0 else '')}{sign}{size}{letter}"
        return (text or "0") + (f"−{-self.start}" if self.start < 0 else "")


def place_of(part: int | e.Axis) -> Place:
    """One part of an index as a place."""
    if isinstance(part, int) or part.size == 1:
        return Place(part if isinstance(part, int) else part.start)
    return Place(part.start, ((part.letter, part.step),))


def written_places(entry: e.Entry, find: Find) -> tuple[Step, tuple[Place, ...] | None]:
    """The step that wrote an operand's cells, and their places; None if these are not affine.

    `find` gives the step and the index of one cell of a view.
    """
    running = [part for part in entry.index if isinstance(part, e.Axis) and part.size > 1]
    owner, base = find(entry.view, entry.at({}))
    if entry.view.dtype is not owner.dtype:  # the bits of one type, read as another
        return owner, None
    places = _one_axis_each(entry, running, owner, base, find)
    return owner, places if places is not None else _several_axes(entry, running, owner)


Part = int | e.Axis | e.Expression


def looked_up_parts(lookup: e.Lookup) -> tuple[Step, tuple[Part, ...] | None]:
    """The step that wrote what a lookup reads, and the lookup's index on that step's axes.

    None if the operator read it in another shape. A transposed view has its axes in another order,
    a slice does not begin at 0, and a computed position on joined axes (the tokens of all rows) is
    a position on each of them: i ÷ 7, i mod 7.
    """
    view = lookup.view
    owner, base = view.owner((0,) * view.ndim)
    own = owner.view
    if view.dtype is not own.dtype:
        return owner, None
    parts: list[Part] = list(base)
    free = {axis for axis, size in enumerate(own.shape) if size > 1}
    for part, size, stride in zip(lookup.index, view.shape, view.strides, strict=True):
        if size == 1 or stride == 0:
            continue
        axis = next((axis for axis in free if own.strides[axis] == stride), None)
        if axis is None:
            return owner, None
        if own.shape[axis] < base[axis] + size:
            joined = _joined(own, axis, size, free)
            if not joined or any(base[at] for at in joined) or isinstance(part, int | e.Axis):
                return owner, None
            for at in joined:  # from the innermost outwards, each a digit of the position
                free.remove(at)
                inner = e.Number(own.shape[at])
                parts[at] = part if at == joined[-1] else e.Operation("%", part, inner)
                part = e.Operation("//", part, inner)
            continue
        free.remove(axis)
        start = base[axis]
        if isinstance(part, int):
            parts[axis] = start + part
        elif isinstance(part, e.Axis):
            parts[axis] = replace(part, start=start + part.start)
        elif start == 0:
            parts[axis] = part
        else:
            parts[axis] = e.Number(start) + part
    return owner, tuple(parts)


def _joined(own: View, axis: int, size: int, free: set[int]) -> list[int]:
    """The axes that a view has joined into one of this size, the innermost first; or none."""
    joined, cells = [axis], own.shape[axis]
    while cells < size:
        stride = own.strides[axis] * cells
        outer = next((at for at in free if own.strides[at] == stride), None)
        if outer is None:
            return []
        joined.append(outer)
        cells *= own.shape[outer]
    return joined if cells == size else []


def _one_axis_each(
    entry: e.Entry, running: list[e.Axis], owner: Step, base: Index, find: Find
) -> tuple[Place, ...] | None:
    """The usual case: each letter runs with a fixed stride along an axis of its own."""
    parts = [Place(place) for place in base]
    taken: set[int] = set()
    for axis in running:
        other, moved = find(entry.view, entry.at({axis.letter: 1}))
        far, end = find(entry.view, entry.at({axis.letter: axis.size - 1}))
        changed = [a for a, (x, y) in enumerate(zip(base, moved, strict=False)) if x != y]
        if other is not owner or far is not owner or len(changed) != 1 or changed[0] in taken:
            return None
        at = changed[0]
        step = moved[at] - base[at]
        if end[at] - base[at] != (axis.size - 1) * step:
            return None
        taken.add(at)
        parts[at] = Place(base[at], ((axis.letter, step),))
    return tuple(parts)


def _several_axes(entry: e.Entry, running: list[e.Axis], owner: Step) -> tuple[Place, ...] | None:
    """Letters that run over several axes of the writer, or share one."""
    version = entry.view.version
    if version.base is not None or len(version.owners) != 1:
        return None
    positions = _positions(entry, running, owner)
    if positions is None:
        return None
    parts = [_place(along, [axis.letter for axis in running]) for along in positions]
    return None if None in parts else tuple(part for part in parts if part is not None)


def _positions(entry: e.Entry, running: list[e.Axis], owner: Step) -> list[Flat] | None:
    """For each axis of the writer, the positions read, as an array with one axis per letter."""
    view, own = entry.view, owner.view
    if view.dtype.itemsize != own.dtype.itemsize:
        return None
    strides = {p.letter: s * p.step for p, s in zip(entry.index, view.strides, strict=True)
               if isinstance(p, e.Axis)}  # fmt: skip
    first = sum(p * s for p, s in zip(entry.at({}), view.strides, strict=True))
    steps = [strides[axis.letter] for axis in running]
    rest = lattice(first + view.offset - own.offset, [axis.size for axis in running], steps)
    if rest.size and rest.min() < 0:
        return None
    places = [np.zeros_like(rest) for _ in own.shape]
    for axis_number in sorted(range(own.ndim), key=lambda a: -own.strides[a]):
        if own.shape[axis_number] > 1 and own.strides[axis_number] > 0:
            places[axis_number], rest = np.divmod(rest, own.strides[axis_number])
            if (places[axis_number] >= own.shape[axis_number]).any():
                return None
    return None if rest.any() else places


def _place(positions: Flat, letters: list[str]) -> Place | None:
    """The positions along one axis as a function of the letters, if it is a simple one."""
    start = int(positions.flat[0])
    steps: list[int] = []
    for axis in range(len(letters)):
        second = tuple(int(other == axis) for other in range(len(letters)))
        steps.append(int(positions[second]) - start)
    if (lattice(start, positions.shape, steps) == positions).all():
        return Place(start, tuple(pair for pair in zip(letters, steps, strict=True) if pair[1]))
    moving = [a for a in range(len(letters)) if (positions != positions.take([0], a)).any()]
    if len(moving) != 1:
        return None
    along = np.moveaxis(positions, moving[0], -1).reshape(-1, positions.shape[moving[0]])[0]
    return _digit(along, letters[moving[0]])


def _digit(positions: Flat, letter: str) -> Place | None:
    """`k÷64`, `k mod 64` or `k÷64 mod 12`: a letter that runs over more than one axis."""
    repeats = int(np.flatnonzero(positions != positions[0])[0])
    slow = np.arange(len(positions)) // repeats
    if (positions == positions[0] + slow).all():
        return Place(int(positions[0]), ((letter, 1),), repeats)
    size = int(positions.max()) + 1
    return Place(0, ((letter, 1),), repeats, size) if (positions == slow % size).all() else None
