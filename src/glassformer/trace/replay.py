"""What if: recompute a trace with some cells changed.

Recorded operators are run again on the changed numbers, in order, and only those downstream of an
edit. A number that left for Python (`if tensor.sum() > 0`) is a guard: when it changes, or a shape
does, the recorded operators are no longer what the model would do, and the model itself is rerun.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.cancelling import stop_if_cancelled
from glassformer.errors import TraceError
from glassformer.trace import rules
from glassformer.trace.calls import Call
from glassformer.trace.cells import Cell
from glassformer.trace.expressions import Scalar
from glassformer.trace.memory import Index, Version, View, as_real
from glassformer.trace.notes import Note
from glassformer.trace.recorder import Found, Recorder
from glassformer.trace.recording import Recording, Source
from glassformer.trace.switches import collection_paused, without_onednn

if TYPE_CHECKING:
    from glassformer.trace.steps import Step
    from glassformer.trace.trace import Trace

__all__ = ["edit", "replay"]

Where = TypeVar("Where", bound=Cell | tuple[str, int | tuple[int, ...]])


@dataclass(frozen=True, slots=True)
class _Edit:
    step: Step
    index: Index
    value: Scalar

    def is_at(self, other: _Edit) -> bool:
        """Whether both set the same cell."""
        return self.step is other.step and self.index == other.index


class _ControlFlowChangedError(Exception):
    """The recorded operators are not what the model would now do."""

    def __init__(self, note: Note) -> None:
        super().__init__("{place}: {before} → {after}".format(**note.values))
        self.note = note


def edit(trace: Trace, edits: Mapping[Where, Scalar]) -> Trace:
    """A new trace with these cells changed and everything downstream recomputed."""
    from glassformer.trace.trace import Trace

    with collection_paused():
        return Trace(_edited(trace, edits))


def _edited(trace: Trace, edits: Mapping[Where, Scalar]) -> Recording:
    """The recording of the edited run."""
    if not isinstance(edits, Mapping):
        raise TraceError(f"edit takes new values by cell, as in {{cell: 0.5}}, got {edits!r}")
    wanted = [_resolve(trace, where, value) for where, value in edits.items()]
    pins = [pin for pin in _pins(trace) if not any(pin.is_at(item) for item in wanted)]
    try:
        recording, recomputed = _Replay(trace.recording, wanted, pins).run()
        notes = [Note("edited", count=recomputed, all=len(recording.calls))]
    except _ControlFlowChangedError as change:
        if not trace.recording.program.reruns:
            raise TraceError(
                f"the edit changes the model's own control flow ({change}), and a training step "
                "is not run again: edit the model and trace another step"
            ) from None
        recording = _rerun(trace, [*pins, *wanted])
        notes = [change.note]
    recording.notes = [*trace.recording.notes, *notes]
    for item in (*pins, *wanted):
        if item.step.call is not None:
            key = (item.step.call.number, item.step.output)
            recording.pins.setdefault(key, set()).add(item.index)
    return recording


def _pins(trace: Trace) -> list[_Edit]:
    """The cells that earlier edits set, with the values they hold."""
    return [
        _Edit(step, index, step.view.array[index].item())
        for step in trace.steps
        for index in step.pinned
    ]


def replay(trace: Trace) -> Trace:
    """The same trace, every operator run again: equal bit for bit."""
    from glassformer.trace.trace import Trace

    return Trace(_Replay(trace.recording, [], _pins(trace), everything=True).run()[0])


def _resolve(trace: Trace, where: Cell | tuple[str, int | tuple[int, ...]], value: Scalar) -> _Edit:
    """The step that wrote the cell, in this trace."""
    _check_edit(where, value)
    if isinstance(where, Cell):
        if where.step.trace.recording.program is not trace.recording.program:
            raise TraceError(
                f"{where.name} is a cell of another trace: take it from the one edited"
            )
        cell = where if where.step.trace is trace else trace[where.step.name][where.index]
    else:
        name, index = where
        cell = trace[name][index]
    if not cell.step.dtype.is_floating_point and value != int(value):
        raise TraceError(f"{cell.name} is {cell.step.dtype}: {value} is no whole number")
    if cell.step.dtype.is_floating_point:
        value = float(value)  # torch takes no whole number beyond 64 bits
    elif not torch.iinfo(torch.int64).min <= value <= torch.iinfo(torch.int64).max:
        raise TraceError(f"{cell.name} is {cell.step.dtype}, which cannot hold {value:.4g}")
    return _Edit(cell.step, cell.index, value)


def _check_edit(where: object, value: object) -> None:
    if not isinstance(where, Cell) and not (isinstance(where, tuple) and len(where) == 2):
        raise TraceError(f"expected a cell, or (name of a step, index), to be set, got {where!r}")
    if not isinstance(value, Real | np.bool_ | Tensor):
        raise TraceError(f"a cell is set to a number, got {value!r}")


class _AsRecorded(TorchDispatchMode):
    """Operators inside a dispatch mode, as the recorder runs them: torch chooses kernels by it.

    (`linear` folds the axes of its input in another way outside.)
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as for the recorder

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


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
        # Cells set earlier need care only where their step is computed anew.
        self._pins: dict[int, list[_Edit]] = defaultdict(list)
        for item in pins:
            self._pins[id(item.step.view.version)].append(item)

    def run(self) -> tuple[Recording, int]:
        """The new recording, and how many calls were run again."""
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
            found=[Found(self._view(f.view), f.origin, f.literal) for f in old.found],
            calls=calls,
            views=[self._mapped(call) for call in old.views],
            outputs={name: self._view(view) for name, view in old.outputs.items()},
            labels=old.labels,
        )
        return new, self._recomputed

    def _version(self, old: Version) -> Version:
        """The new version for an old one: the same numbers, unless an edit is due."""
        if id(old) not in self._versions:
            new = Version(old.storage, self._version(old.base) if old.base is not None else None)
            new.stamp = old.stamp
            self._install(old, new)
        return self._versions[id(old)]

    def _install(self, old: Version, new: Version) -> None:
        """Take a version into the new trace, with the edits that belong to it."""
        self._versions[id(old)] = new
        edits = self._edits.get(id(old), [])
        if edits:
            old_storage = new.storage
            new.check()
            new.storage, new.stamp = old_storage.clone(), None
            for item in edits:
                item.step.view.on(new).tensor()[item.index] = item.value
            self._dirty.add(id(old))

    def _view(self, view: View) -> View:
        return view.on(self._version(view.version))

    def _map(self, value: Any, on: Callable[[View], Any]) -> Any:
        if isinstance(value, View):
            return on(value)
        if isinstance(value, list | tuple):
            return type(value)(self._map(part, on) for part in value)
        return value

    def _mapped(self, call: Call) -> Call:
        """The call with every view on the new versions."""
        return replace(
            call,
            args=self._map(call.args, self._view),
            kwargs={key: self._map(part, self._view) for key, part in call.kwargs.items()},
            outputs=self._map(call.outputs, self._view),
            writes=tuple((self._version(old), self._version(new)) for old, new in call.writes),
            steps=(),
            _bound=None,
        )

    def _call(self, call: Call) -> Call:
        stop_if_cancelled()
        stale = any(id(view.version) in self._dirty for view in call.inputs())
        if rules.is_given(call.operator):
            if stale:
                self._write_given(call)
        elif stale or self._everything:
            self._rerun(call)
        return self._mapped(call)

    def _write_given(self, call: Call) -> None:
        """Random numbers stay what they were, in whatever the edits made of their surroundings."""
        for old, new in call.writes:
            version = Version(self._version(old).storage.clone(), self._version(old))
            for view in call.outputs:
                if view is not None and view.version is new:
                    view.on(version).tensor().copy_(view.tensor())
            self._renew(new, version)

    def _rerun(self, call: Call) -> None:
        """Run the operator on the new numbers and take in what it makes."""
        self._recomputed += 1
        targets = {id(old): (new, self._version(old).storage.clone()) for old, new in call.writes}

        def tensor(view: View) -> Tensor:
            version = targets.get(id(view.version))
            new = self._view(view) if version is None else view.on(Version(version[1]))
            # `matmul` folds its axes in another way where an operand is to be trained.
            trained = view.needs_gradient and call.operator.name == "matmul"
            return new.given().requires_grad_(trained)

        args = self._map(call.args, tensor)
        kwargs = {key: self._map(part, tensor) for key, part in call.kwargs.items()}
        below = torch._C._AutoDispatchBelowAutograd()
        with without_onednn(call.without_onednn), below, _AsRecorded():  # type: ignore[no-untyped-call]
            result = call.operator.run(args, kwargs)
        if call.result is not None:
            _check_guard(call, result)
            return
        for old, (new, storage) in targets.items():
            self._renew(new, Version(storage, self._versions[old]))
        results = result if isinstance(result, list | tuple) else (result,)
        for view, made in zip(call.outputs, results, strict=False):
            if view is not None and id(view.version) not in self._versions:
                _check_layout(call, view, made)
                self._renew(view.version, Version(made.untyped_storage()))

    def _renew(self, old: Version, new: Version) -> None:
        self._dirty.add(id(old))
        for item in self._pins.get(id(old), []):
            item.step.view.on(new).tensor()[item.index] = item.value
        self._install(old, new)


def _check_guard(call: Call, result: Any) -> None:
    same = result == call.result or (result != result and call.result != call.result)
    if not same:
        said = {"place": _place(call), "before": call.result, "after": result}
        raise _ControlFlowChangedError(Note("another number", **said))


def _check_layout(call: Call, view: View, made: Tensor) -> None:
    now = View.of(made, view.version)
    if (now.shape, now.strides, now.offset, now.dtype) != (
        view.shape, view.strides, view.offset, view.dtype
    ):  # fmt: skip
        said = {"place": _place(call), "before": view.shape, "after": now.shape}
        raise _ControlFlowChangedError(Note("another shape", **said))


def _place(call: Call) -> str:
    line = call.origin.line
    return line.text if line is not None and line.text else call.operator.name


def _rerun(trace: Trace, edits: list[_Edit]) -> Recording:
    """Run the model itself again with the edits in place; its own tensors are not touched."""
    from glassformer.trace.record import run

    old = trace.recording
    applied: list[_Edit] = []

    def prepare(recorder: Recorder, sources: list[Source]) -> None:
        for before, source in zip(old.sources, sources, strict=True):
            here = [e for e in edits if e.step.view.version is before.view.version]
            version = source.view.version
            # A version with a copy of its own was overwritten during the run: start from the copy.
            if here or before.view.version.storage._cdata != version.storage._cdata:
                if recorder.is_replaced(source.view):
                    continue
                before.view.version.check()
                recorder.replace(source.view, before.view.version.storage.clone())
                for item in here:
                    item.step.view.on(version).tensor()[item.index] = item.value
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
            f"with the edits the model takes another way and no longer makes {', '.join(missing)}"
        )
    return recording


def _override(edits: list[_Edit], applied: list[_Edit]) -> Callable[[str, list[Tensor]], None]:
    """Put edited values into an operator's outputs as soon as they are made."""

    def apply(operator: str, outputs: list[Tensor]) -> None:
        for item in edits:
            if item.step.output >= len(outputs):  # written to, and not returned
                continue
            output = as_real(outputs[item.step.output])
            if operator == item.step.op and tuple(output.shape) == item.step.shape:
                output[item.index] = item.value
                applied.append(item)

    return apply
