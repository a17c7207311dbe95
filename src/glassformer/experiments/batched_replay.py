"""Many edits of one trace replayed together: what a sweep asks for, in a fraction of the time.

Each tensor that an edit changes gets one more axis in front, with a place for each of the edits,
and the recorded operators run on all of them at once (`torch.func.vmap`): the parameters are read
once for all edits. Only operators between the edits and the measured cells run, and of the last
linear map only the rows that these cells are. The numbers are those of `Trace.edit` but for the
rounding of other kernels; no trace is made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from glassformer.errors import CancelledError, stop_if_cancelled
from glassformer.experiments.intervention import Edits
from glassformer.experiments.measure import Measured, signed_cells, trace_of
from glassformer.tracing import Cell
from glassformer.tracing.arithmetic import rules
from glassformer.tracing.capture.memory import Version, View, as_real
from glassformer.tracing.capture.operator_calls import Call
from glassformer.tracing.cell_block import set_at

_MOST_BYTES = 256 * 1024**2
"""What the largest tensor may take for all edits of a batch together."""


class NotBatchedError(Exception):
    """These edits are not replayed together: a number leaves for Python, an operator refuses."""


def calls_before(calls: Sequence[Call], views: Iterable[View], stops: Iterable[View]) -> list[Call]:
    """The calls that lead to some views without passing through others, in order."""
    needed = {id(version) for view in views for version in view.version.lineage()}
    stopped = {id(view.version) for view in stops}
    found = []
    for call in reversed(calls):
        made = _made(call)
        if call.result is not None or any(id(version) in needed for version in made):
            found.append(call)
            if made and all(id(version) in stopped for version in made):
                continue
            needed |= {id(version) for view in call.inputs() for version in view.version.lineage()}
    return found[::-1]


def _made(call: Call) -> list[Version]:
    """The versions of memory that a call makes."""
    return [view.version for view in call.outputs if view is not None] + [
        new for _, new in call.writes
    ]


class BatchedReplay:
    """Replays of one trace for the sake of one number."""

    def __init__(self, measured: Measured) -> None:
        self._cells = signed_cells(measured)
        trace = trace_of(measured)
        if any(step.pinned for step in trace.steps):
            raise NotBatchedError("an edited trace keeps what was set")
        calls = trace.recording.calls
        self._calls = calls_before(calls, [cell.step.view for _, cell in self._cells], ())
        read = {id(view.version) for call in self._calls for view in call.inputs()}
        self._last = {
            id(cell.step.call)
            for _, cell in self._cells
            if _is_linear(cell) and id(cell.step.view.version) not in read
        }
        self._readers: dict[int, int] = {}
        """The last call that reads a version, by its identity."""
        for at, call in enumerate(self._calls):
            for view in call.inputs():
                self._readers[id(view.version)] = at
        for _, cell in self._cells:
            views = [cell.step.view]
            if _is_linear(cell) and cell.step.call is not None:
                views += cell.step.call.inputs()
            for view in views:
                self._readers[id(view.version)] = len(self._calls)
        largest = max((call_bytes(call) for call in self._calls), default=1)
        self.most = max(1, _MOST_BYTES // max(1, largest))
        """How many edits fit into one batch."""

    def values(self, edits: Sequence[Edits]) -> Tensor:
        """The number after each of the edits, in float64; they all change the same steps."""
        flat = self._start(edits)
        edited = set(flat)
        try:
            with torch.no_grad():
                for at, call in enumerate(self._calls):
                    stop_if_cancelled()
                    stale = any(id(view.version) in flat for view in call.inputs())
                    if stale and any(id(version) in edited for version in _made(call)):
                        raise NotBatchedError("one edited step follows from another")
                    if stale and id(call) not in self._last:
                        self._again(call, flat, len(edits))
                    for view in call.inputs():
                        if self._readers.get(id(view.version)) == at:
                            flat.pop(id(view.version), None)
                found = [sign * self._value(cell, flat, len(edits)) for sign, cell in self._cells]
        except CancelledError:
            raise
        except (RuntimeError, ValueError, NotImplementedError) as error:
            raise NotBatchedError(str(error)) from error
        return torch.stack(found).sum(0)

    def _start(self, edits: Sequence[Edits]) -> dict[int, Tensor]:
        """The memory of the edited steps, by the identity of its version: (edits, numbers)."""
        flat: dict[int, Tensor] = {}
        for at, edit in enumerate(edits):
            for block, value in edit.items():
                new = torch.as_tensor(value, dtype=block.step.dtype)
                values, done = new.broadcast_to(block.shape).reshape(-1), 0
                for owner, places in block.owners():
                    view = owner.view
                    if id(view.version) not in flat:
                        flat[id(view.version)] = _copies(view, len(edits))
                    window = _window(view, flat[id(view.version)])[at]
                    set_at(window, places, values[done : done + len(places)])
                    done += len(places)
        return flat

    def _again(self, call: Call, flat: dict[int, Tensor], count: int) -> None:
        """Run a call on all edits at once."""
        if call.result is not None or rules.is_given(call.operator):
            raise NotBatchedError(f"{call.operator.name} does not follow from its operands alone")
        written = {}
        for old, new in call.writes:
            view = next(view for view in call.inputs() if view.version is old)
            own = flat.get(id(old))
            written[id(old)] = (new, _copies(view, count) if own is None else own.clone())
        batched: list[Tensor] = []
        places: dict[int, int] = {}
        for view in call.inputs():
            memory = written[id(view.version)][1] if id(view.version) in written else None
            memory = flat.get(id(view.version)) if memory is None else memory
            if memory is not None and id(view) not in places:
                places[id(view)] = len(batched)
                batched.append(_window(view, memory))

        def once(*given: Tensor) -> tuple[Tensor, ...]:
            def tensor(_: str, view: View) -> Tensor:
                own = places.get(id(view))
                return view.given() if own is None else view.given(given[own])

            results = call.again(tensor)
            kept[:] = [at for at, one in enumerate(results) if one is not None]
            return tuple(as_real(one) for one in results if one is not None)

        kept: list[int] = []
        results = torch.func.vmap(once, randomness="error")(*batched)
        made = dict(zip(kept, results, strict=True))
        for new, memory in written.values():
            flat[id(new)] = memory
        for at, output in enumerate(call.outputs):
            if output is not None and id(output.version) not in flat:
                flat[id(output.version)] = _memory_of(output, made[at])

    def _value(self, cell: Cell, flat: dict[int, Tensor], count: int) -> Tensor:
        """The cell after each edit."""
        own = flat.get(id(cell.step.view.version))
        if own is None and id(cell.step.call) in self._last:  # else an edit has set it
            return self._row(cell, flat, count)
        if own is None:
            return torch.full((count,), float(cell.value), dtype=torch.float64)
        place: tuple[int | slice, ...] = (slice(None), *cell.index)
        return _window(cell.step.view, own)[place].cpu().double()

    def _row(self, cell: Cell, flat: dict[int, Tensor], count: int) -> Tensor:
        """One number of a linear map's result: a row of its input by a row of its matrix."""
        call = cell.step.call
        assert call is not None

        def tensor(view: View) -> Tensor:
            own = flat.get(id(view.version))
            return view.tensor()[None] if own is None else _window(view, own)

        column = cell.index[-1]
        lead: tuple[int | slice, ...] = (slice(None), *cell.index[:-1])
        row = tensor(call.view("input"))[lead].cpu()
        matrix = tensor(call.view("weight"))[:, column].cpu()
        total = (row.double() * matrix.double()).sum(-1)
        bias = call.maybe_view("bias")
        if bias is not None:
            total = total + tensor(bias)[:, column].cpu().double()
        return total.expand(count)


def call_bytes(call: Call) -> int:
    """What a call's results take."""
    return sum(view.version.nbytes for view in call.outputs if view is not None)


def _is_linear(cell: Cell) -> bool:
    call = cell.step.call
    return call is not None and call.operator.name == "linear" and not call.is_complex


def _copies(view: View, count: int) -> Tensor:
    """A version's memory, once for each edit."""
    return view.version.memory(view.dtype).repeat(count, 1)


def _window(view: View, memory: Tensor) -> Tensor:
    """A view of the memory of all edits: (edits, *shape)."""
    memory = memory.view(view.dtype)
    shape, strides = (len(memory), *view.shape), (memory.shape[1], *view.strides)
    return memory.as_strided(shape, strides, view.offset)


def _memory_of(view: View, made: Tensor) -> Tensor:
    """A result in the layout in which it was recorded; its own memory where it has that layout."""
    size = view.version.nbytes // view.dtype.itemsize
    if view.offset == 0 and view.numel == size and made.stride() == (size, *view.strides):
        return made.as_strided((len(made), size), (size, 1))
    memory = _copies(view, len(made))
    _window(view, memory).copy_(made)
    return memory
