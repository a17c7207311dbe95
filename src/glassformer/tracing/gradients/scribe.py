"""Names for what the trace itself computes: gradients and updates.

No source line assigns these numbers, so their names are given: a tensor is claimed under a name,
and at the end every operator run since the forward pass gets its names and its place in the tree.
A claimed tensor that is only a view of another (a gradient that passes through an addition) gets
its name as a view. The recorder of a training step is here as well: what it has recorded is used
again, by the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from glassformer.tracing.capture.memory import View
from glassformer.tracing.capture.module_stack import join
from glassformer.tracing.capture.operator_calls import Call, operator_of
from glassformer.tracing.capture.recorder import Recorder
from glassformer.tracing.capture.source_lines import Line, Origin


class TrainingRecorder(Recorder):
    """Records the forward pass as `trace` does; then lends its tensors to the backward pass."""

    def tensor_of(self, view: View) -> Tensor:
        """A recorded tensor again, for an operator that the trace itself runs."""
        with _disable_current_modes():
            tensor = view.given()
        self._versions.setdefault(int(tensor.untyped_storage()._cdata), view.version)
        return tensor


@dataclass(frozen=True, slots=True)
class _Place:
    """A name, and the branch of the tree that it belongs to: a prefix of the name."""

    name: str
    owner: str


class Scribe:
    """Remembers what the operators run from now on are to be called."""

    def __init__(self, recorder: TrainingRecorder) -> None:
        self._recorder = recorder
        self._start = len(recorder.calls)
        self._names: dict[tuple[int, int], _Place] = {}
        self._hints: dict[tuple[int, int], _Place] = {}
        self._aliases: list[tuple[_Place, View]] = []
        self._about: dict[int, tuple[_Place, Line | None]] = {}
        self._made_by: dict[int, tuple[Call, int]] = {}
        self._seen = self._start

    @contextmanager
    def about(self, name: str, owner: str, line: Line | None) -> Iterator[None]:
        """What the block computes belongs to this name, unless claimed under one of its own."""
        start = len(self._recorder.calls)
        yield
        for call in self._recorder.calls[start:]:
            self._about.setdefault(call.number, (_Place(name, owner), line))

    def claim(self, tensor: Tensor, name: str, owner: str) -> Tensor:
        """Call this tensor by that name; returns the tensor."""
        place = _Place(name, owner)
        view = self._recorder.view_of(tensor)
        made = self._maker(view)
        if made is None:
            self._aliases.append((place, view))
            return tensor
        call, output = made
        key, own = (call.number, output), call.outputs[output]
        assert own is not None
        if _window(own) == _window(view) and key not in self._names:
            self._names[key] = place
        else:
            self._hints.setdefault(key, _Place(join(name, _word(call)), owner))
            self._aliases.append((place, view))
        return tensor

    def finish(self) -> None:
        """Write the names onto the recorded operators."""
        for call in self._recorder.calls[self._start :]:
            default, line = self._about.get(call.number, (_Place("gradients", "gradients"), None))
            fallback = _Place(join(default.name, _word(call)), default.owner)
            places = [
                self._names.get(key) or self._hints.get(key) or fallback
                for key in ((call.number, output) for output in range(len(call.outputs)))
            ]
            call.origin = _origin(places or [fallback], line, call.number)
        for place, view in self._aliases:
            origin = _origin([place], None, -1)
            alias = operator_of(torch.ops.aten.alias.default)
            self._recorder.views.append(Call(-1, alias, (view,), {}, origin, outputs=(view,)))

    def _maker(self, view: View) -> tuple[Call, int] | None:
        """The operator since the start that made a tensor, and which of its outputs it is."""
        for call in self._recorder.calls[self._seen :]:
            for output, made in enumerate(call.outputs):
                if made is not None:
                    self._made_by[id(made.version)] = (call, output)
        self._seen = len(self._recorder.calls)
        return self._made_by.get(id(view.version))


def _word(call: Call) -> str:
    return call.operator.name.strip("_")


def _window(view: View) -> tuple[object, ...]:
    return view.shape, view.strides, view.offset, view.dtype


def _origin(places: list[_Place], line: Line | None, number: int) -> Origin:
    """An origin that makes the trace give these names, in a branch that they share."""
    owner = places[0].owner
    while owner and not all(place.name.startswith(f"{owner}.") for place in places):
        owner = owner.rpartition(".")[0]
    targets = tuple(place.name.removeprefix(f"{owner}.") for place in places)
    # A visit of its own (the forward pass counts up from 1): each operator is a line's result.
    return Origin(line, targets, owner, owner, visit=-2 - number)
