"""Parts of a step: `t["scores"][0, 1, :, :]`, their positions and their cells."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.tracing.capture.memory import (
    Array,
    Flat,
    Index,
    View,
    as_array,
    flat_place,
    index_of,
)

if TYPE_CHECKING:
    from glassformer.tracing.cells import Cell
    from glassformer.tracing.steps import AxisLabels, Step


class Places(AbstractSet[Index]):
    """A set of positions in a tensor, stored as a sorted array: a million take 8 MB."""

    __slots__ = ("flat", "shape")

    def __init__(self, shape: Index, flat: Flat) -> None:
        self.shape = shape
        self.flat: Flat = np.unique(flat)

    def __contains__(self, index: object) -> bool:
        place = flat_place(index, self.shape)  # type: ignore[arg-type]
        at = int(np.searchsorted(self.flat, place))
        return at < len(self.flat) and bool(self.flat[at] == place)

    def __iter__(self) -> Iterator[Index]:
        return (index_of(int(place), self.shape) for place in self.flat)

    def __len__(self) -> int:
        return len(self.flat)

    def also(self, other: Places) -> Places:
        """The union of both."""
        return Places(self.shape, np.concatenate([self.flat, other.flat]))


def _places_of(shape: Index, index: tuple[Any, ...]) -> Flat:
    """The flat positions selected by an index as in torch, in the shape of the selection."""
    if all(isinstance(part, int) for part in index) and len(index) == len(shape):
        inside = [range(size)[part] for part, size in zip(index, shape, strict=True)]
        return np.asarray(flat_place(inside, shape), dtype=np.int64)
    numel = int(np.prod(shape, dtype=np.int64))
    found: Flat = torch.arange(numel).view(shape)[index].numpy()
    return found


def select(step: Step, index: object, *, prefix: bool = False) -> CellBlock:
    """The part of a step selected by an index: slices, `...`, lists of positions, masks.

    `prefix`: a short index refers to the first axes and selects the others whole.
    """
    given = list(index) if isinstance(index, tuple) else [index]
    given = [part if isinstance(part, slice | Tensor) else _plain(part) for part in given]
    n_masked = sum(
        part.ndim - 1 for part in given if isinstance(part, Tensor) and part.dtype == torch.bool
    )
    missing = len(step.shape) - len(given) - n_masked
    if Ellipsis in [part for part in given if not isinstance(part, Tensor)]:
        missing = 0
    elif missing > 0 and all(size == 1 for size in step.shape[:missing]):
        given, missing = [0] * missing + given, 0
    elif missing > 0 and prefix:
        given, missing = [*given, Ellipsis], 0
    try:
        if missing or any(part is None or isinstance(part, bool) for part in given):
            raise IndexError
        places = _places_of(step.shape, tuple(given))
    except (IndexError, TypeError, ValueError, RuntimeError):
        raise TraceError(
            "{name} has no part [{asked}]: its shape is {shape}; give a number, a slice or a list "
            "for every axis, or ... for all axes in between",
            name=step.name,
            asked=_said(index),
            shape=tuple(step.shape),
        ) from None
    return CellBlock(step, places, _kept_axes(step, given, places))


def _plain(part: object) -> Any:
    if part is Ellipsis or part is None or isinstance(part, bool):
        return part
    try:
        if isinstance(part, list | tuple | np.ndarray):
            return torch.as_tensor(part)
        return operator.index(part)  # type: ignore[arg-type]
    except (RuntimeError, TypeError, ValueError):  # no positions: `select` refuses the index
        return part


def _said(index: object) -> str:
    parts = index if isinstance(index, tuple) else (index,)
    return ", ".join(_slice_said(p) if isinstance(p, slice) else str(p) for p in parts)


def _slice_said(part: slice) -> str:
    ends = ["" if end is None else str(end) for end in (part.start, part.stop)]
    return ":".join(ends if part.step is None else [*ends, str(part.step)])


def _kept_axes(step: Step, given: list[Any], places: Flat) -> tuple[tuple[int, slice] | None, ...]:
    """For each axis of the part: the corresponding axis of the step, and the slice of it."""
    if any(isinstance(part, Tensor) or part is None or isinstance(part, bool) for part in given):
        return (None,) * places.ndim
    if Ellipsis in given:
        at = given.index(Ellipsis)
        given = [*given[:at], *[slice(None)] * (len(step.shape) - len(given) + 1), *given[at + 1 :]]
    return tuple((axis, part) for axis, part in enumerate(given) if isinstance(part, slice))


class Numbers(ABC):
    """Numbers that numpy and torch take as an array: `np.asarray(step)`, `torch.as_tensor(step)`.

    Always a copy, so that writing to it does not change the trace.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def value(self) -> Tensor:
        """A copy of the numbers on the CPU."""

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("the numbers of a trace are given as a copy, not without one")
        return np.asarray(as_array(self.value), dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self.value.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.value.__dlpack_device__()


class CellBlock(Numbers):
    """A part of a step. `block[i, j]` is a cell; iterating yields cells."""

    __slots__ = ("_axes", "places", "step")

    def __init__(
        self, step: Step, places: Flat, axes: tuple[tuple[int, slice] | None, ...]
    ) -> None:
        self.step = step
        self.places = places
        """The flat positions of these cells in the step."""
        self._axes = axes

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.shape)) or "one number"
        return f"<part of {self.step.name}: {shape}>"

    @property
    def shape(self) -> Index:
        return self.places.shape

    @property
    def value(self) -> Tensor:
        return values_at(self.step.view.tensor_on_cpu(), self.places)

    @property
    def labels(self) -> AxisLabels:
        found = self.step.labels
        labels = (None if kept is None else (found[kept[0]], kept[1]) for kept in self._axes)
        return tuple(
            None if kept is None or kept[0] is None else kept[0][kept[1]] for kept in labels
        )

    @overload
    def __getitem__(self, index: int | tuple[int, ...]) -> Cell: ...

    @overload
    def __getitem__(self, index: Any) -> Cell | CellBlock: ...

    def __getitem__(self, index: Any) -> Cell | CellBlock:
        try:
            found = self.places[index]
        except (IndexError, TypeError, ValueError):
            raise TraceError(
                "{part} has nothing at [{asked}]", part=repr(self), asked=_said(index)
            ) from None
        if found.ndim == 0:
            return self.step[index_of(int(found), self.step.shape)]
        return CellBlock(self.step, found, (None,) * found.ndim)

    def __len__(self) -> int:
        return self.places.size

    def __iter__(self) -> Iterator[Cell]:
        shape = self.step.shape
        return (self.step[index_of(int(place), shape)] for place in self.places.reshape(-1))

    def owners(self) -> Iterable[tuple[Step, Flat]]:
        """The steps that wrote these cells, with their positions there, in our own order.

        A step owns its cells; the cells of a view belong to the steps underneath.
        """
        if not self.step.is_view:
            return [(self.step, self.places.reshape(-1))]
        view, flat = self.step.view, self.places.reshape(-1)
        first, _ = view.owner(index_of(int(flat[0]), view.shape)) if flat.size else (None, None)
        if first is not None and first.view.version is view.version:
            found = _shown(first.view, view, flat)
            if (found >= 0).all():
                return [(first, found)]
        cells = [view.owner(index_of(int(place), view.shape)) for place in flat]
        return [
            (step, np.array([flat_place(index, step.shape)], dtype=np.int64))
            for step, index in cells
        ]


def values_at(tensor: Tensor, places: Flat) -> Tensor:
    """The numbers at flat positions of a tensor, in the shape of `places`."""
    if tensor.ndim == 0:
        return tensor.expand(places.shape).clone()
    where = tuple(map(torch.as_tensor, np.unravel_index(places, tensor.shape)))
    return tensor[where]


def set_at(tensor: Tensor, places: Flat, values: Tensor) -> None:
    """Write numbers at flat positions of a tensor."""
    if tensor.ndim == 0:
        tensor.copy_(values.reshape(()))
        return
    values = values.to(tensor.device)
    where = tuple(map(torch.as_tensor, np.unravel_index(places, tensor.shape)))
    tensor[where] = values


def _shown(owner: View, view: View, flat: Flat) -> Flat:
    """The owner's positions of a view's cells at `flat`; -1 for cells of other owners."""
    size = view.version.nbytes // view.dtype.itemsize
    marks = torch.full((size,), -1, dtype=torch.int64)
    numel = owner.numel
    marks.as_strided(owner.shape, owner.strides, owner.offset).copy_(
        torch.arange(numel).view(owner.shape)
    )
    window = marks.as_strided(view.shape, view.strides, view.offset)
    found: Flat = values_at(window, flat).numpy()
    return found
