"""A whole trace as JSON: names, shapes, lines, edges, and every number bit for bit.

    {
      "schema": "glassformer-trace/1",
      "notes": ["…"],
      "outputs": {"output": "logits"},              names of results, and the tensors they are
      "tensors": [                                  sources first, then steps in order, then views
        {
          "name": "scores", "aliases": [],          other names of the same tensor (tied weights)
          "role": "activation",                     parameter | input | constant | activation
          "op": "matmul", "module": "", "stage": "scores" | null,
          "view": false, "expanded": false, "opaque": false,
          "shape": [1, 3, 3], "dtype": "float32",
          "labels": [null, ["I", "am"], null],      for each axis its texts, or null
          "source": {"file": "package/model.py", "line": 12, "text": "scores = q @ k"} | null,
          "unwritten": [3, 4],                      places of memory that nothing has written to
          "values": {"encoding": "list", "data": [0.5, …]}                  up to 64 finite numbers
                  | {"encoding": "base64", "data": "…"}                     raw, little-endian
        }
      ],
      "edges": [{"from": "queries", "to": "scores", "argument": "self"}],
      "cells": [ … ]                                asked for: what `Cell.to_dict()` gives
    }

Values stand row by row. In base64 they are the bytes of the dtype named (bfloat16: two bytes,
bool: one). A reader must refuse a schema whose number after the slash it does not know; new keys
may appear without a new number.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from glassformer.documents.heat_maps import unwritten_places
from glassformer.errors import TraceError, stop_if_cancelled
from glassformer.language import Sentences
from glassformer.tracing.arithmetic.expressions import Axis, Entry
from glassformer.tracing.capture.memory import Flat, Index, Version, View, lattice
from glassformer.tracing.capture.source_lines import source_parts
from glassformer.tracing.cells import Cell
from glassformer.tracing.notes import NOTES, Note
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace

SCHEMA = "glassformer-trace/1"
_LISTED = 64
MOST_BYTES = 1 << 30


def trace_data(
    trace: Trace,
    *,
    steps: Sequence[str] | None = None,
    cells: Iterable[Cell] = (),
    depth: int = 1,
    max_bytes: int = MOST_BYTES,
) -> dict[str, Any]:
    """A trace as plain data; `cells` are explained too, `depth` levels of operands down.

    With `steps`, the tensors are these and what they read.
    """
    addresses = Addresses()
    known = all_steps(trace)
    kept = _chosen(trace, steps, addresses)
    tensors = [step for step in known if step.number in kept]
    size = sum(step.view.numel * step.dtype.itemsize for step in tensors)
    if size > max_bytes:
        raise TraceError(
            "the trace holds {size:,} bytes of numbers, more than max_bytes = "
            "{max_bytes:,}; trace a shorter input, or raise max_bytes",
            size=size,
            max_bytes=max_bytes,
        )
    names: dict[int, list[str]] = {}
    for name in trace.names:
        names.setdefault(trace[name].number, []).append(name)
    return {
        "schema": SCHEMA,
        "notes": list(trace.notes),
        "outputs": {n: step.name for n, step in trace.outputs.items() if step.number in kept},
        "tensors": [_tensor(step, names[step.number]) for step in tensors],
        "edges": [
            {"from": known[writer].name, "to": step.name, "argument": operand.argument}
            for step in tensors
            for operand in step.operands
            for writer in addresses.writers(operand.view)
            if writer in kept
        ],
        "cells": [cell.to_dict(depth) for cell in cells],
    }


def note_in(words: Sentences, note: str) -> str:
    """A trace's note in a language; a free-form note is returned unchanged."""
    if not isinstance(note, Note):
        return note
    return NOTES[note.kind].say(words.language).format(**note.values)


def json_text(data: dict[str, Any], indent: int | None = None) -> str:
    """Strict JSON: NaN and infinities as strings."""
    return json.dumps(_strict(data), ensure_ascii=False, allow_nan=False, indent=indent)


NotFinite = Literal["NaN", "Infinity", "-Infinity"]


def json_number(number: float) -> float | NotFinite:
    """A number; the three that JSON lacks as strings."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, dict):
        return {key: _strict(part) for key, part in value.items()}
    return [_strict(part) for part in value] if isinstance(value, list | tuple) else value


def _chosen(trace: Trace, names: Sequence[str] | None, addresses: Addresses) -> set[int]:
    """The numbers of the steps to keep: those named and those they read."""
    if names is None:
        return {step.number for step in all_steps(trace)}
    steps = [trace[name] for name in names]
    kept = {step.number for step in steps}
    return kept.union(*(addresses.read_by(step) for step in steps))


def _tensor(step: Step, names: Sequence[str]) -> dict[str, Any]:
    stop_if_cancelled()
    return {
        "name": step.name,
        "aliases": [name for name in names if name != step.name],
        "role": step.role,
        "op": step.op,
        "module": step.module,
        "view": step.is_view,
        "stage": step.stage,
        "expanded": step.expanded,
        "opaque": step.is_opaque,
        "shape": list(step.shape),
        "dtype": str(step.dtype).removeprefix("torch."),
        "labels": [None if labels is None else list(labels) for labels in step.labels],
        "source": source_parts(step.line),
        "unwritten": unwritten_places(step),
        "values": encode(step.value),
    }


def encode(tensor: Tensor) -> dict[str, Any]:
    """Encode a tensor: a short finite one as a list, others as base64 of their bytes."""
    flat = tensor.detach().contiguous().reshape(-1)
    plain = flat.dtype in (torch.float32, torch.float64) or not flat.dtype.is_floating_point
    if plain and flat.numel() <= _LISTED and bool(flat.isfinite().all()):
        return {"encoding": "list", "data": flat.tolist()}
    return {"encoding": "base64", "data": base64.b64encode(little_endian(flat)).decode("ascii")}


def little_endian(flat: Tensor) -> bytes:
    """The little-endian bytes of a one-dimensional tensor."""
    if not flat.numel():
        return b""
    return _swapped(flat.contiguous().view(torch.uint8), flat.dtype.itemsize).numpy().tobytes()


def _swapped(raw: Tensor, itemsize: int) -> Tensor:
    """Convert between native and little-endian byte order; a no-op on most machines."""
    return raw.reshape(-1, itemsize).flip(1).reshape(-1) if sys.byteorder == "big" else raw


# --- addresses ---
# Which step wrote the numbers that an operator reads, and at which place of that step.
#
# A cell's place is its position when the step is read row by row. Views need no treatment of their
# own: an operand is a window on a storage, and each element of a storage has one writer.


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
