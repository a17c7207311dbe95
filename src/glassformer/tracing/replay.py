"""Edits: recompute a trace with some cells changed.

The recorded operators downstream of an edit run again, in order, on the changed numbers. A number
that was returned to Python (`if tensor.sum() > 0`) is a guard: if it changes, or a shape does, the
recorded operators are no longer what the model would run, so the model itself is rerun.
"""

from __future__ import annotations

import inspect
import math
import reprlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import (
    GlassformerError,
    TraceError,
    is_out_of_memory,
    shown,
    stop_if_cancelled,
)
from glassformer.tracing.arithmetic import rules
from glassformer.tracing.arithmetic.expressions import Scalar
from glassformer.tracing.capture.dropped_numbers import can_wait, run_again
from glassformer.tracing.capture.memory import Flat, Version, View, as_real
from glassformer.tracing.capture.operator_calls import Call, as_list
from glassformer.tracing.capture.recorder import (
    FoundTensor,
    Recorder,
    Recording,
    Source,
    collection_paused,
)
from glassformer.tracing.cell_block import CellBlock, Places, select, set_at, values_at
from glassformer.tracing.cells import Cell
from glassformer.tracing.notes import Note

if TYPE_CHECKING:
    from glassformer.tracing.steps import Step
    from glassformer.tracing.trace import Trace


@dataclass(frozen=True, eq=False, slots=True)
class _Edit:
    """Cells of one step, and the numbers they are set to."""

    step: Step
    places: Flat
    values: Tensor

    def without(self, others: list[_Edit]) -> _Edit | None:
        """The part whose cells are not set by `others`; None if nothing remains."""
        kept = np.ones(len(self.places), dtype=bool)
        for other in others:
            if other.step is self.step:
                kept &= ~np.isin(self.places, other.places)
        if not kept.any():
            return None
        return _Edit(self.step, self.places[kept], self.values[torch.from_numpy(kept)])

    def write(self, version: Version) -> None:
        """Set the cells in a version of the step's memory."""
        set_at(self.step.view.on(version).tensor(), self.places, self.values)


class _ControlFlowChangedError(Exception):
    """The model would no longer run the recorded operators."""

    def __init__(self, note: Note) -> None:
        super().__init__("{place}: {before} → {after}".format(**note.values))
        self.note = note


def edit(trace: Trace, edits: Mapping[Any, Any]) -> Trace:
    """A new trace with these cells changed and everything downstream recomputed."""
    from glassformer.tracing.trace import Trace

    with collection_paused():
        return Trace(_edited(trace, edits))


def _edited(trace: Trace, edits: Mapping[Any, Any]) -> Recording:
    if not isinstance(edits, Mapping):
        raise TraceError(
            "edit takes a mapping of cells to values, {{cell: 0.5}}, got {value}",
            value=shown(edits),
        )
    wanted = [
        item
        for where, value in edits.items()
        for block, new in _blocks(trace, where, value)
        for item in _resolved(block, new)
    ]
    pins = [kept for pin in _pins(trace) if (kept := pin.without(wanted)) is not None]
    try:
        recording, recomputed = _Replay(trace.recording, wanted, pins).run()
        notes = [Note("edited", count=recomputed, all=len(recording.calls))]
    except _ControlFlowChangedError as change:
        if not trace.recording.program.reruns:
            raise TraceError(
                "the edit changes the model's control flow ({change}), and a training step cannot "
                "be rerun: edit the model and trace another step",
                change=str(change),
            ) from None
        recording = _rerun(trace, [*pins, *wanted])
        notes = [change.note]
    recording.notes = [*trace.recording.notes, *notes]
    for item in (*pins, *wanted):
        if item.step.call is not None:
            key = (item.step.call.number, item.step.output)
            places = Places(item.step.shape, item.places)
            recording.pins[key] = (
                recording.pins[key].also(places) if key in recording.pins else places
            )
    return recording


def _pins(trace: Trace) -> list[_Edit]:
    """The cells set by earlier edits, with their values."""
    return [
        _Edit(step, step.pinned.flat, values_at(step.view.tensor_on_cpu(), step.pinned.flat))
        for step in trace.steps
        if isinstance(step.pinned, Places)
    ]


def replay(trace: Trace) -> Trace:
    """The same trace with every operator run again: bitwise equal."""
    from glassformer.tracing.trace import Trace

    return Trace(_Replay(trace.recording, [], _pins(trace), everything=True).run()[0])


def _blocks(trace: Trace, where: object, value: object) -> Iterator[tuple[CellBlock, object]]:
    """The cells of this trace that an item of an edit sets, and their new value."""
    if isinstance(where, str) and isinstance(value, Mapping):
        for index, new in value.items():
            yield from _blocks(trace, (where, index), new)
        return
    if isinstance(where, Cell | CellBlock):
        if where.step.trace.recording.program is not trace.recording.program:
            name = where.name if isinstance(where, Cell) else repr(where)
            raise TraceError(
                "{name} belongs to another trace: take it from the one you edit", name=name
            )
        step = where.step if where.step.trace is trace else trace[where.step.name]
        block = select(step, where.index) if isinstance(where, Cell) else step.block(where.places)
    elif isinstance(where, str):
        block = select(trace[where], Ellipsis)
    elif isinstance(where, tuple) and len(where) == 2 and isinstance(where[0], str):
        block = select(trace[where[0]], where[1], prefix=True)
    else:
        raise TraceError(
            "an edit sets a cell, a part t[name][0, :], a step by name, or (name, index), got "
            "{value}",
            value=shown(where),
        )
    yield block, value


def _resolved(block: CellBlock, value: object) -> Iterator[_Edit]:
    """The edits that set a block to new numbers, one per step that wrote its cells."""
    step = block.step
    new = _called(value, block.value) if callable(value) else value
    if isinstance(new, np.ndarray | list | np.generic):
        with suppress(RuntimeError, TypeError, ValueError):  # no numbers: refused below
            new = torch.as_tensor(new)
    if isinstance(new, bool | Real):
        new = torch.tensor(_fitting(step, new), dtype=step.dtype)
    if not isinstance(new, Tensor):
        raise TraceError(
            "a new value is a number, a tensor or a function, got {value}", value=shown(new)
        )
    cast = _cast(step, new)
    try:
        values = cast.broadcast_to(block.shape).reshape(-1).clone()
    except RuntimeError:
        raise TraceError(
            "a part of shape {shape} of {name} cannot be set to numbers of shape {given}",
            shape=tuple(block.shape),
            name=step.name,
            given=tuple(new.shape),
        ) from None
    done = 0
    for owner, places in block.owners():
        yield _Edit(owner, places, values[done : done + len(places)])
        done += len(places)


def _called(function: Callable[[Tensor], object], numbers: Tensor) -> object:
    """What a function makes of the numbers; what it raises itself is the caller's to see."""
    with suppress(ValueError):  # a builtin without a signature
        try:
            inspect.signature(function).bind(numbers)
        except TypeError as error:
            raise TraceError(
                "a function in an edit takes one argument, the numbers as a tensor, and returns "
                "the new ones: {reason}",
                reason=str(error),
            ) from None
    return function(numbers)


def _fitting(step: Step, value: Any) -> Scalar:
    """A number that the step's dtype can represent; raises an error otherwise."""
    if step.dtype.is_floating_point:
        return float(value)  # torch does not accept integers beyond 64 bits
    if value != value or value in (math.inf, -math.inf) or value != int(value):
        raise TraceError(
            "{name} is {dtype}: {value} is not an integer",
            name=step.name,
            dtype=step.dtype,
            value=value,
        )
    if not torch.iinfo(torch.int64).min <= value <= torch.iinfo(torch.int64).max:
        raise TraceError(
            "{name} is {dtype}, which cannot hold {value:.4g}",
            name=step.name,
            dtype=step.dtype,
            value=float(value),
        )
    return int(value)


def _cast(step: Step, new: Tensor) -> Tensor:
    """A tensor in the step's dtype; raises an error rather than truncating."""
    if new.is_complex():
        new = torch.view_as_real(new)
    cast = new.detach().cpu().to(step.dtype)
    if not step.dtype.is_floating_point and not torch.equal(cast.to(new.dtype), new.detach().cpu()):
        raise TraceError(
            "{name} is {dtype}: it cannot hold these numbers exactly",
            name=step.name,
            dtype=step.dtype,
        )
    return cast


class _Replay:
    """One pass over the recorded calls."""

    def __init__(
        self,
        recording: Recording,
        edits: list[_Edit],
        pins: list[_Edit],
        everything: bool = False,
    ) -> None:
        self._recording = recording
        self._everything = everything
        self._versions: dict[int, Version] = {}
        self._dirty: set[int] = set()
        self._recomputed = 0
        self._edits: dict[int, list[_Edit]] = defaultdict(list)
        for item in edits:
            self._edits[id(item.step.view.version)].append(item)
        # Cells set earlier matter only if their step is recomputed.
        self._pins: dict[int, list[_Edit]] = defaultdict(list)
        for item in pins:
            self._pins[id(item.step.view.version)].append(item)

    def run(self) -> tuple[Recording, int]:
        """The new recording, and the number of calls that were rerun."""
        old = self._recording
        for source in old.sources:
            self._version(source.view.version)
        for found in old.found:
            self._version(found.view.version)
        with torch.no_grad():
            calls = [self._call(call) for call in old.calls]
        new = Recording(
            program=old.program,
            sources=[Source(s.name, self._view(s.view), s.role) for s in old.sources],
            found=[FoundTensor(self._view(f.view), f.origin, f.literal) for f in old.found],
            calls=calls,
            views=[self._mapped(call) for call in old.views],
            outputs={name: self._view(view) for name, view in old.outputs.items()},
            labels=old.labels,
        )
        return new, self._recomputed

    def _version(self, old: Version) -> Version:
        """The new version for an old one: the same numbers, except for edits."""
        if id(old) not in self._versions:
            base = self._version(old.base) if old.base is not None else None
            self._install(old, old.like(base))
        return self._versions[id(old)]

    def _install(self, old: Version, new: Version) -> None:
        """Add a version to the new trace, with its edits applied."""
        self._versions[id(old)] = new
        edits = self._edits.get(id(old), [])
        if edits:
            old_storage = new.storage
            new.check()
            new.storage, new.stamp = old_storage.clone(), None
            for item in edits:
                item.write(new)
            self._dirty.add(id(old))

    def _view(self, view: View) -> View:
        return view.on(self._version(view.version))

    def _mapped(self, call: Call) -> Call:
        """The call with every view on the new versions."""
        args, kwargs = call.mapped(lambda _, view: self._view(view))
        return replace(
            call,
            args=args,
            kwargs=kwargs,
            outputs=tuple([view and self._view(view) for view in call.outputs]),
            writes=tuple((self._version(old), self._version(new)) for old, new in call.writes),
            steps=(),
        )

    def _call(self, call: Call) -> Call:
        stop_if_cancelled()
        stale = any(id(view.version) in self._dirty for view in call.inputs())
        if rules.is_given(call.operator):
            if stale:
                self._write_given(call)
        elif stale and self._can_wait(call):
            return self._postponed(call)
        elif stale or self._everything:
            self._rerun(call)
        return self._mapped(call)

    def _can_wait(self, call: Call) -> bool:
        """Whether the results were dropped by the recording, and no edit writes to them."""
        versions = [view.version for view in call.outputs if view is not None]
        touched = (id(version) in self._edits or id(version) in self._pins for version in versions)
        kept = any(version.is_kept for version in versions)
        return can_wait(call) and not kept and not any(touched) and not self._everything

    def _postponed(self, call: Call) -> Call:
        """The call on the new numbers, to be run when its results are looked at."""
        self._recomputed += 1
        for view in call.outputs:
            if view is not None:
                self._renew(view.version, view.version.like())
        mapped = self._mapped(call)
        for output, view in enumerate(mapped.outputs):
            if view is not None:
                view.version.made = mapped, output
        return mapped

    def _write_given(self, call: Call) -> None:
        """Keep random numbers as they were, in a storage whose other cells may have changed."""
        for old, new in call.writes:
            version = Version(self._version(old).storage.clone(), self._version(old))
            for view in call.outputs:
                if view is not None and view.version is new:
                    view.on(version).tensor().copy_(view.tensor())
            self._renew(new, version)

    def _rerun(self, call: Call) -> None:
        """Run the operator on the new numbers and store its results."""
        self._recomputed += 1
        targets = {id(old): (new, self._version(old).storage.clone()) for old, new in call.writes}

        def now(view: View) -> View:
            target = targets.get(id(view.version))
            return self._view(view) if target is None else view.on(Version(target[1]))

        try:
            result = run_again(call, now)
        except (RuntimeError, IndexError) as error:  # such as an id beyond the table
            if isinstance(error, GlassformerError) or is_out_of_memory(error):
                raise
            raise TraceError(
                "{name} cannot be computed from the edited numbers: {reason}",
                name=call.operator.name,
                reason=str(error),
            ) from error
        if call.result is not None:
            _check_guard(call, result)
            return
        for old, (new, storage) in targets.items():
            self._renew(new, Version(storage, self._versions[old]))
        for view, made in zip(call.outputs, as_list(result), strict=False):
            if view is not None and id(view.version) not in self._versions:
                _check_layout(call, view, made)
                self._renew(view.version, Version(made.untyped_storage()))

    def _renew(self, old: Version, new: Version) -> None:
        self._dirty.add(id(old))
        for item in self._pins.get(id(old), []):
            item.write(new)
        self._install(old, new)


def _check_guard(call: Call, result: Any) -> None:
    if result != call.result and repr(result) != repr(call.result):  # NaN is NaN
        before, after = reprlib.repr(call.result), reprlib.repr(result)
        said = {"place": _place(call), "before": before, "after": after}
        raise _ControlFlowChangedError(Note("another number", **said))


def _check_layout(call: Call, view: View, made: Tensor) -> None:
    now = View.of(made, view.version)
    if now.window != view.window:
        said = {"place": _place(call), "before": view.shape, "after": now.shape}
        raise _ControlFlowChangedError(Note("another shape", **said))


def _place(call: Call) -> str:
    line = call.origin.line
    return line.text if line is not None and line.text else call.operator.name


def _rerun(trace: Trace, edits: list[_Edit]) -> Recording:
    """Rerun the model itself with the edits applied; its own tensors are not changed."""
    from glassformer.tracing.capture.record import run

    old = trace.recording
    applied: list[_Edit] = []

    def prepare(recorder: Recorder, sources: list[Source]) -> None:
        for before, source in zip(old.sources, sources, strict=True):
            here = [e for e in edits if e.step.view.version is before.view.version]
            version = source.view.version
            # If the version has its own copy, the run overwrote the storage: start from the copy.
            if here or before.view.version.storage._cdata != version.storage._cdata:
                if recorder.is_replaced(source.view):
                    continue
                before.view.version.check()
                recorder.replace(source.view, before.view.version.storage.clone())
                for item in here:
                    item.write(version)
                    applied.append(item)

    overrides: dict[int, Callable[[str, list[Tensor]], None]] = {}
    for item in edits:
        if item.step.call is not None:
            overrides[item.step.call.number] = _override(
                [e for e in edits if e.step.call is item.step.call], applied
            )
    recording = run(old.program, old.labels, overrides, prepare)
    missing = [item.step.name for item in edits if not any(item is done for done in applied)]
    if missing:
        raise TraceError(
            "the edits change the model's control flow: it no longer computes {names}",
            names=", ".join(missing),
        )
    return recording


def _override(edits: list[_Edit], applied: list[_Edit]) -> Callable[[str, list[Tensor]], None]:
    """Write edited values into an operator's outputs as soon as they are computed."""

    def apply(operator: str, outputs: list[Tensor]) -> None:
        for item in edits:
            if item.step.output >= len(outputs):  # written to but not returned
                continue
            output = as_real(outputs[item.step.output])
            if operator == item.step.op and tuple(output.shape) == item.step.shape:
                set_at(output, item.places, item.values)
                applied.append(item)

    return apply
