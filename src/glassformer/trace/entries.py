"""An operand's cells by the name and the axes of the step that wrote them.

An operator that reads `x.flatten(1)[0, k]` reads x[0, k÷4, k mod 4]: the letters of a sum run over
the operator's own window, and are followed from there to the axes of the writer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from glassformer.trace.expressions import Axis, Entry
from glassformer.trace.memory import Index

if TYPE_CHECKING:
    from glassformer.trace.steps import Step

__all__ = ["axis_text", "entry_name"]

_Places = npt.NDArray[np.int64]


def entry_name(entry: Entry, rename: Callable[[str], str]) -> str:
    """The operand's cell (or row) by the name and the axes of the step that wrote it."""
    running = [part for part in entry.index if isinstance(part, Axis) and part.size > 1]
    owner, base = entry.view.owner(_at(entry, {}))
    parts = _one_axis_each(entry, running, owner, base)
    if parts is None:
        parts = _several_axes(entry, running, owner)
    if parts is not None:
        return f"{rename(owner.name)}[{', '.join(parts)}]" if parts else rename(owner.name)
    window = [axis_text(part) if isinstance(part, Axis) else str(part) for part in entry.index]
    return f"view({rename(owner.name)})[{', '.join(window)}]"


def axis_text(axis: Axis) -> str:
    """The positions of a running axis: `k`, `3+2k`, `4−k`."""
    return _sum_text(axis.start, [(axis.letter, axis.step)])


def _sum_text(start: int, letters: Sequence[tuple[str, int]]) -> str:
    """`1+3k+l`; a start of 0 and factors of 1 are left out."""
    text = str(start) if start else ""
    for letter, factor in letters:
        if factor:
            sign = "−" if factor < 0 else "+" if text else ""
            size = str(abs(factor)) if abs(factor) > 1 else ""
            text = f"{text or ('0' if factor < 0 else '')}{sign}{size}{letter}"
    return text or "0"


def _at(entry: Entry, places: dict[str, int]) -> Index:
    return tuple(
        part.at(places.get(part.letter, 0)) if isinstance(part, Axis) else part
        for part in entry.index
    )


def _one_axis_each(entry: Entry, running: list[Axis], owner: Step, base: Index) -> list[str] | None:
    """The writer's index where each letter runs evenly along an axis of its own: the usual case."""
    parts = [str(place) for place in base]
    taken: set[int] = set()
    for axis in running:
        other, moved = entry.view.owner(_at(entry, {axis.letter: 1}))
        far, end = entry.view.owner(_at(entry, {axis.letter: axis.size - 1}))
        changed = [a for a, (x, y) in enumerate(zip(base, moved, strict=False)) if x != y]
        if other is not owner or far is not owner or len(changed) != 1 or changed[0] in taken:
            return None
        at = changed[0]
        step = moved[at] - base[at]
        if end[at] - base[at] != (axis.size - 1) * step:
            return None
        taken.add(at)
        parts[at] = axis_text(Axis(axis.letter, axis.size, base[at], step))
    return parts


def _several_axes(entry: Entry, running: list[Axis], owner: Step) -> list[str] | None:
    """The writer's index where letters run over several axes, or several letters over one."""
    version = entry.view.version
    if version.base is not None or version.owners != [owner]:
        return None
    places = _places(entry, running, owner)
    if places is None:
        return None
    parts = [_position(along, [axis.letter for axis in running]) for along in places]
    return None if None in parts else [part for part in parts if part is not None]


def _places(entry: Entry, running: list[Axis], owner: Step) -> list[_Places] | None:
    """For each axis of the writer the positions read, with an axis for each letter."""
    view, own = entry.view, owner.view
    if view.dtype.itemsize != own.dtype.itemsize:
        return None
    strides = {p.letter: s * p.step for p, s in zip(entry.index, view.strides, strict=True)
               if isinstance(p, Axis)}  # fmt: skip
    first = sum(p * s for p, s in zip(_at(entry, {}), view.strides, strict=True))
    rest = np.asarray(first + view.offset - own.offset, dtype=np.int64)
    for axis in running:
        rest = rest[..., None] + strides[axis.letter] * np.arange(axis.size, dtype=np.int64)
    places = [np.zeros_like(rest) for _ in own.shape]
    for axis_number in sorted(range(own.ndim), key=lambda a: -own.strides[a]):
        if own.shape[axis_number] > 1 and own.strides[axis_number] > 0:
            places[axis_number], rest = np.divmod(rest, own.strides[axis_number])
            if (places[axis_number] >= own.shape[axis_number]).any():
                return None
    return None if rest.any() else places


def _position(places: _Places, letters: list[str]) -> str | None:
    """The positions along one axis as a formula of the letters, if there is a short one."""
    start = int(places.flat[0])
    steps: list[tuple[str, int]] = []
    even = np.asarray(start)
    for axis, letter in enumerate(letters):
        second = tuple(int(other == axis) for other in range(len(letters)))
        steps.append((letter, int(places[second]) - start))
        even = even[..., None] + steps[-1][1] * np.arange(places.shape[axis])
    if (even == places).all():
        return _sum_text(start, steps)
    moving = [a for a in range(len(letters)) if (places != places.take([0], a)).any()]
    if len(moving) != 1:
        return None
    return _digit(np.moveaxis(places, moving[0], -1).reshape(-1, places.shape[moving[0]])[0],
                  letters[moving[0]])  # fmt: skip


def _digit(places: _Places, letter: str) -> str | None:
    """`k÷64`, `k mod 64` or `k÷64 mod 12`: a letter that runs over more than one axis."""
    counted = np.arange(len(places))
    repeats = int(np.flatnonzero(places != places[0])[0])
    slow = counted // repeats
    whole = f"{letter}÷{repeats}" if repeats > 1 else letter
    if (places == places[0] + slow).all():
        return f"{places[0]}+{whole}" if places[0] else whole
    size = int(places.max()) + 1
    return f"{whole} mod {size}" if (places == slow % size).all() else None
