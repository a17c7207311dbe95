"""Where a number lives: storages, their versions, and tensors as windows on them.

A cell's address is a position in a storage. Tensors that share a storage (a view and its base)
therefore share cells, and operators that only make views need no rule. A storage that is written in
place gets a new version; the old version keeps a copy of the old numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.errors import Fragment, TraceError, TraceTooLargeError, shown

if TYPE_CHECKING:
    from glassformer.tracing.capture.dropped_numbers import Shelf
    from glassformer.tracing.capture.operator_calls import Call
    from glassformer.tracing.steps import Step


Index = tuple[int, ...]
Made = tuple["Call", int]
"""A call and the number of one of its outputs."""
Array = npt.NDArray[np.generic]
_NUMPY_FLOATS = (torch.float32, torch.float64, torch.float16)


def as_floats(values: Array | np.generic) -> npt.NDArray[np.float64]:
    """Any numbers as float64, without numpy's warning about signalling NaNs.

    Memory that was never written may contain them.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(values, dtype=np.float64)


def as_real(tensor: Tensor) -> Tensor:
    """A tensor as a `View` shows it: complex numbers as pairs of real numbers."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def gaps(one: Tensor, other: Tensor) -> Tensor:
    """|one − other| in float64; 0 if both are NaN or the same infinity, ∞ if only one is."""
    gap = (one.double() - other.double()).abs_().nan_to_num_(nan=torch.inf)
    return gap.masked_fill_((one == other) | (one.isnan() & other.isnan()), 0.0)


class Version:
    """The contents of a storage between two writes.

    `owners` are the steps that wrote (parts of) it; everything else comes from `base`, the previous
    version. Numbers that were dropped are computed again when they are looked at, as what `made`
    says: an output of a call.
    """

    __slots__ = ("_host", "_shelf", "_size", "_storage", "base", "made", "owners", "stamp")

    def __init__(self, storage: torch.UntypedStorage, base: Version | None = None) -> None:
        self._storage: torch.UntypedStorage | None = storage
        self._size = 0
        self._shelf: Shelf | None = None
        self.made: Made | None = None
        self.base = base
        self.owners: list[Step] = []
        # A user's tensor with its version counter: it may be trained after the trace.
        self.stamp: tuple[Tensor, int] | None = None
        self._host: tuple[int, torch.UntypedStorage] | None = None

    @property
    def storage(self) -> torch.UntypedStorage:
        if self._storage is not None:
            return self._storage
        assert self._shelf is not None and self.made is not None
        return self._shelf.storage(self.made)

    @storage.setter
    def storage(self, storage: torch.UntypedStorage) -> None:
        self._storage = storage

    @property
    def first(self) -> Version:
        """The contents before the first write."""
        return self if self.base is None else self.base.first

    @property
    def is_kept(self) -> bool:
        """Whether the numbers are held, and need not be computed again."""
        return self._storage is not None

    def drop(self, shelf: Shelf, made: Made) -> None:
        """Let go of the numbers, which the shelf computes again."""
        self._size, self._storage, self._host = self.nbytes, None, None
        self._shelf, self.made = shelf, made

    def like(self, base: Version | None = None) -> Version:
        """A version with the same numbers: the storage is shared, or the way to compute it."""
        new = Version.__new__(Version)
        new._storage, new._size, new._shelf = self._storage, self._size, self._shelf
        new.made, new.base, new.stamp = self.made, base, self.stamp
        new.owners, new._host = [], None
        return new

    def shares_numbers(self, other: Version) -> bool:
        """Whether both have one storage, or one call that computes it."""
        if self._storage is None or other._storage is None:
            return self._storage is other._storage and self.made == other.made
        return bool(self._storage._cdata == other._storage._cdata)

    @property
    def on_cpu(self) -> torch.UntypedStorage:
        """The storage itself; of one on another device a copy, made when it is first looked at."""
        storage = self.storage
        if storage.device.type == "cpu":
            return storage
        if not self.is_kept:
            copied: torch.UntypedStorage = storage.cpu()
            return copied
        if self._host is None or self._host[0] != storage._cdata:
            self._host = (storage._cdata, storage.cpu())
        return self._host[1]

    @property
    def nbytes(self) -> int:
        return self._size if self._storage is None else self._storage.nbytes()

    def freeze(self) -> None:
        """Copy the numbers, before the storage is overwritten."""
        self.storage = self.storage.clone()
        self.stamp = None

    def memory(self, dtype: torch.dtype) -> Tensor:
        """All of it as a flat tensor that shares the recorded storage: do not write to it."""
        self.check()
        empty = torch.empty(0, dtype=dtype, device=self.storage.device)
        return empty.set_(self.storage, 0, (self.nbytes // dtype.itemsize,), (1,))

    def lineage(self) -> Iterator[Version]:
        """This version and those before it, the latest first."""
        version: Version | None = self
        while version is not None:
            yield version
            version = version.base

    def check(self) -> None:
        """Raise an error if the numbers were changed after the trace was made."""
        if self.stamp is not None and self.stamp[0]._version != self.stamp[1]:
            name = self.owners[0].name if self.owners else "a tensor"
            raise TraceError(
                "{name} was changed in place after the trace was made (perhaps by training), so "
                "its numbers in this trace are lost: trace again",
                name=name,
            )


def as_array(tensor: Tensor) -> Array:
    """A tensor on the CPU for numpy; bfloat16 and float8, which numpy lacks, as float32."""
    if tensor.dtype.is_floating_point and tensor.dtype not in _NUMPY_FLOATS:
        tensor = tensor.float()
    array: Array = tensor.numpy()
    return array


class View:
    """A tensor as a window (shape, strides, offset, dtype) on one version of a storage.

    A complex tensor (`pairs`) is shown with an extra last axis for real and imaginary parts: a cell
    is always one real number.
    """

    __slots__ = (
        "_array",
        "_digits",
        "dtype",
        "needs_gradient",
        "offset",
        "pairs",
        "shape",
        "strides",
        "version",
    )

    def __init__(
        self,
        version: Version,
        shape: Index,
        strides: Index,
        offset: int,
        dtype: torch.dtype,
        pairs: bool = False,
        needs_gradient: bool = False,
    ) -> None:
        self.pairs = pairs
        self.needs_gradient = needs_gradient
        """Whether the tensor requires gradients: torch chooses kernels by it."""
        self.version = version
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.dtype = dtype
        self._array: Array | None = None
        self._digits: list[tuple[int, int, int]] | None = None

    @classmethod
    def of(cls, tensor: Tensor, version: Version) -> View:
        """The window through which `tensor` sees its storage."""
        shape, strides, dtype = tuple(tensor.shape), tensor.stride(), tensor.dtype
        place, pairs = int(tensor.storage_offset()), dtype.is_complex
        if pairs:
            shape, strides = (*shape, 2), (*(2 * stride for stride in strides), 1)
            place, dtype = 2 * place, dtype.to_real()
        return cls(version, shape, strides, place, dtype, pairs, tensor.requires_grad)

    def on(self, version: Version) -> View:
        """The same window on another version."""
        return View(version, *self.window, self.pairs, self.needs_gradient)

    @property
    def window(self) -> tuple[Index, Index, int, torch.dtype]:
        """What it shows of its storage: views with equal windows show the same cells."""
        return self.shape, self.strides, self.offset, self.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    def tensor(self) -> Tensor:
        """The numbers, as a tensor that shares the recorded storage: do not write to it."""
        self.version.check()
        return self._window(self.version.storage)

    def tensor_on_cpu(self) -> Tensor:
        """The same on the CPU: shared where it lies there, else copied over once."""
        self.version.check()
        return self._window(self.version.on_cpu)

    def _window(self, storage: torch.UntypedStorage) -> Tensor:
        empty = torch.empty(0, dtype=self.dtype, device=storage.device)
        return empty.set_(storage, self.offset, self.shape, self.strides)

    def given(self, tensor: Tensor | None = None) -> Tensor:
        """The numbers (or those of `tensor`) as an operator takes them: pairs as complex."""
        real = self.tensor() if tensor is None else tensor
        return torch.view_as_complex(real) if self.pairs else real

    @property
    def array(self) -> Array:
        """The numbers, as `as_array` gives them."""
        if self._array is not None:
            if self.version.stamp is not None:
                self.version.check()
            return self._array
        array = as_array(self.tensor_on_cpu())
        if self.version.is_kept:  # else it would keep what was to be dropped
            self._array = array
        return array

    def address(self, index: Index) -> int:
        """The byte at which the cell begins."""
        place: int = self.offset + sum(map(operator.mul, index, self.strides))
        return place * self.dtype.itemsize

    def find(self, address: int) -> Index | None:
        """The index of the cell that contains the byte, or None if this window does not hold it."""
        rest = address // self.dtype.itemsize - self.offset
        if rest < 0:
            return None
        index = [0] * len(self.shape)
        for axis, stride, size in self._digits or self._find_digits():
            index[axis] = min(rest // stride, size - 1)
            rest -= index[axis] * stride  # in overlapping windows, the last that shows the cell
        if rest and self.overlaps:  # perhaps with fewer of the largest strides
            found = np.argwhere(self.shows(address))
            return tuple(map(int, found[-1])) if len(found) else None
        return None if rest else tuple(index)

    def shows(self, address: int) -> npt.NDArray[np.bool_]:
        """Where it shows the cell that contains the byte: in several places if windows overlap."""
        sizes = zip(self.shape, self.strides, strict=True)
        reach = sum((size - 1) * stride for size, stride in sizes)
        strides = [np.intp(0).itemsize * stride for stride in self.strides]
        places = np.arange(reach + 1, dtype=np.intp)
        shown = np.lib.stride_tricks.as_strided(places, self.shape, strides)
        return np.asarray(shown == address // self.dtype.itemsize - self.offset)

    def _find_digits(self) -> list[tuple[int, int, int]]:
        """The axes as the digits of a number, most significant first: axis, stride, size."""
        walked = [axis for axis, size in enumerate(self.shape) if size > 1]
        walked = [axis for axis in walked if self.strides[axis] > 0]
        walked.sort(key=lambda axis: -self.strides[axis])
        self._digits = [(axis, self.strides[axis], self.shape[axis]) for axis in walked]
        if 0 in self.shape:
            self._digits = [(0, 1, 0)]  # a digit that no number has: nothing is found
        return self._digits

    @property
    def overlaps(self) -> bool:
        """Whether several positions may show one cell: windows that slide, but no expanded axes."""
        reach = 0
        for _, stride, size in reversed(self._digits or self._find_digits()):
            if stride <= reach:
                return True
            reach += stride * (size - 1)
        return False

    def owners(self) -> Iterator[Step]:
        """Every step that wrote to its storage, perhaps to other cells than these."""
        for version in self.version.lineage():
            yield from version.owners

    def owner(self, index: Index) -> tuple[Step, Index]:
        """The step that wrote the cell, and the cell's index there."""
        address = self.address(index)
        for version in self.version.lineage():
            for step in reversed(version.owners):
                found = step.view.find(address)
                if found is not None:
                    return step, found
        raise TraceError(
            "no recorded step wrote cell {index} of a tensor {shape}",
            index=list(index),
            shape=self.shape,
        )


# --- positions ---
# A cell of a tensor by its flat (row-major) position.

Flat = npt.NDArray[np.int64]
"""Flat positions."""


def flat_place(index: Sequence[int], shape: Sequence[int]) -> int:
    """The flat position of a cell."""
    place = 0
    for position, size in zip(index, shape, strict=True):
        place = place * size + position
    return place


def index_of(place: int, shape: Sequence[int]) -> Index:
    """The index of a flat position."""
    index = []
    for size in reversed(shape):
        place, position = divmod(place, size)
        index.append(position)
    return tuple(reversed(index))


def lattice(start: int, sizes: Iterable[int], strides: Iterable[int]) -> Flat:
    """start + i·stride + j·stride + …, with one axis for each size."""
    places = np.asarray(start, dtype=np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        places = places[..., None] + stride * np.arange(size, dtype=np.int64)
    return places


# --- budget ---
# A trace that needs too much memory is refused as early as possible: before it is made if the model
# can run on the meta device (`record.forecast`); else after the first of a stack of equal
# blocks, whose size gives that of the whole stack.


DEFAULT_BYTES = 2 * 1024**3
_ABOUT = Fragment.of("about")


class Budget:
    """The bytes that a trace has used, and the limit."""

    def __init__(self, most: int) -> None:
        if not isinstance(most, int) or most < 0:
            raise TraceError("max_bytes must be a number of bytes, got {value}", value=shown(most))
        self.most = most
        self.spent = 0
        self.peak = 0

    def spend(self, count: int) -> None:
        """Count bytes kept by the trace."""
        self.spent += count
        self.peak = max(self.peak, self.spent)
        self.expect(self.spent, Fragment.of("already"))

    def give_back(self, count: int) -> None:
        """Count bytes that the trace no longer keeps."""
        self.spent -= count

    def expect(self, needed: int, how: Fragment = _ABOUT) -> None:
        """Refuse a trace that needs more than the limit."""
        if needed > self.most:
            raise TraceTooLargeError(
                "the trace needs {how} {needed}, more than the limit of {most}: use a shorter "
                "text, fewer layers or a smaller batch, keep the numbers of some modules alone "
                "with only=, or raise the limit with max_bytes=",
                how=how,
                needed=mebibytes(needed),
                most=mebibytes(self.most),
            )


def mebibytes(count: int) -> str:
    return f"{count / 1024**2:,.0f} MiB"
