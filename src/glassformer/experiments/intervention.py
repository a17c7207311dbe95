"""Parts switched off, or taken from another run; everything after them is computed anew.

A part is named as a reader would: a step or a stage of the trace (`layers.3.resid_mid`), or a
module (`transformer.h.3.attn`), narrowed down by `head`, `position` or `neuron`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing import Step, Trace
from glassformer.tracing.cell_block import CellBlock

_PER_HEAD = ("queries", "keys", "values", "scores", "scaled", "masked", "weights", "context")


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a step: all of it, or one head, one position, one neuron."""

    name: str
    head: int | None = None
    position: int | str | None = None
    neuron: int | None = None

    def find(self, trace: Trace) -> list[CellBlock]:
        """These cells, in this trace; of a whole block, what it adds to the residual stream."""
        return [
            self._of(step) for step in _steps_of(trace, self.name, per_head=self.head is not None)
        ]

    def _of(self, step: Step) -> CellBlock:
        index: list[Any] = [slice(None)] * len(step.shape)
        if self.head is not None:
            index[_head_axis(step)] = _checked(step, _head_axis(step), self.head, "head")
        if self.position is not None:
            axis = _position_axis(step)
            index[axis] = _checked(step, axis, _place(step, axis, self.position), "position")
        if self.neuron is not None:
            index[-1] = _checked(step, len(step.shape) - 1, self.neuron, "neuron")
        found = step[tuple(index)] if any(isinstance(i, int) for i in index) else step[...]
        assert isinstance(found, CellBlock)
        return found


def ablate(
    trace: Trace,
    name: str,
    *,
    head: int | None = None,
    position: int | str | None = None,
    neuron: int | None = None,
    to: str | float | Tensor = "zero",
    over: Sequence[Trace] = (),
) -> Trace:
    """The run without a part. `to="zero"`, or a number or tensor to put in its place;

    `to="mean"`: its mean over the runs `over`, and over their positions where none is named;
    `to="resample"`: what the first of `over` has there, a run of the same length.
    """
    part = Part(name, head, position, neuron)
    if to == "resample":
        if not over:
            raise TraceError('to="resample" takes the part from another run: over=[trace]')
        return patch(trace, over[0], name, head=head, position=position, neuron=neuron)
    return trace.edit({block: _instead(block, part, to, over) for block in part.find(trace)})


def patch(
    trace: Trace,
    other: Trace,
    name: str,
    *,
    head: int | None = None,
    position: int | str | None = None,
    neuron: int | None = None,
) -> Trace:
    """The run with a part of another run of the same model in the place of its own."""
    part = Part(name, head, position, neuron)
    here, there = part.find(trace), part.find(other)
    for mine, theirs in zip(here, there, strict=True):
        if mine.shape != theirs.shape:
            raise TraceError(
                f"{mine.step.name} is {tuple(mine.shape)} in one run and {tuple(theirs.shape)} in "
                "the other: patch one position, or take texts of the same number of tokens"
            )
    return trace.edit({mine: theirs.value for mine, theirs in zip(here, there, strict=True)})


def _instead(block: CellBlock, part: Part, to: str | float | Tensor, over: Sequence[Trace]) -> Any:
    if to == "zero":
        return 0.0
    if to == "mean":
        if not over:
            raise TraceError('to="mean" is a mean over runs: over=[trace, …]')
        return _mean(block, part, over)
    if isinstance(to, str):
        raise TraceError(f'to is "zero", "mean", "resample", a number or a tensor, got {to!r}')
    return to


def _mean(block: CellBlock, part: Part, over: Sequence[Trace]) -> Tensor:
    """Over runs, and over positions where the part has them all: lengths may then differ."""
    own = block.step
    axis = None if part.position is not None else _position_axis(own)
    values = []
    for run in over:
        step = run[own.name]
        value = step.value if axis is None else step.value.mean(axis, keepdim=True)
        values.append(value)
    try:
        mean = torch.stack(values).mean(0).expand(own.shape)
    except RuntimeError:
        raise TraceError(
            f"{own.name} has other shapes in these runs, and no mean: name a step whose last axis "
            "does not grow with the text"
        ) from None
    flat: Tensor = mean.reshape(-1)[torch.from_numpy(block.places)]
    return flat


def _steps_of(trace: Trace, name: str, *, per_head: bool) -> list[Step]:
    """The steps that a name means."""
    inside = {known: step for known, step in trace.stages.items() if known.startswith(f"{name}.")}
    if name in trace.names or name in trace.stages:
        return [trace[name]]
    if per_head:
        contexts = [step for known, step in inside.items() if known.endswith(".context")]
        if len(contexts) == 1:
            return contexts
        if contexts:
            paths = ", ".join(known[:-8] for known in inside if known.endswith(".context"))
            raise TraceError(f"{name} holds several attentions: name one of {paths}")
    added = [
        inside[f"{name}.{out}"]
        for out in ("attn_out", "cross_out", "mlp_out")
        if f"{name}.{out}" in inside
    ]
    if added:
        return added
    running = [(step, step.call.origin.module) for step in trace.steps if step.call is not None]
    own = [step for step, module in running if f"{module}.".startswith(f"{name}.")]
    if not own:
        modules = {module for _, module in running if module}
        raise UnknownNameError("step or module", name, [*trace.stages, *modules, *trace.names])
    return [own[-1]]


def _head_axis(step: Step) -> int:
    """Heads stand before positions: (batch, head, query, key), (batch, head, position, width)."""
    stage = step.stage or step.name.rpartition(".")[2]
    if len(step.shape) < 3 or stage not in _PER_HEAD:
        raise TraceError(f"{step.name} {tuple(step.shape)} has no axis of heads; its context has")
    return len(step.shape) - 3


def _position_axis(step: Step) -> int:
    """The axis whose labels are tokens, else the last but one."""
    named = [axis for axis, labels in enumerate(step.labels) if labels is not None]
    tokens = [axis for axis in named if axis != len(step.shape) - 1 or len(named) == 1]
    if tokens:
        return tokens[-1]
    if len(step.shape) < 2:
        raise TraceError(f"{step.name} {tuple(step.shape)} has no axis of positions")
    return len(step.shape) - 2


def _place(step: Step, axis: int, position: int | str) -> int:
    """A position by its number or by its token."""
    if isinstance(position, int):
        return position
    labels = step.labels[axis] or ()
    found = [place for place, label in enumerate(labels) if label == position]
    if len(found) != 1:
        known = ", ".join(labels) or "none"
        how_often = "several times" if found else "not"
        raise TraceError(f"the token {position!r} is {how_often} among the labels: {known}")
    return found[0]


def _checked(step: Step, axis: int, place: int, what: str) -> int:
    size = step.shape[axis]
    if not -size <= place < size:
        raise TraceError(
            f"{step.name} has {size} {what}s, counted from 0: there is no {what} {place}"
        )
    return place % size
