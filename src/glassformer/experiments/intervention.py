"""Parts switched off, or taken from another run; everything after them is computed anew.

A part is named as a reader would: a step or a stage of the trace (`layers.3.resid_mid`), or a
module (`transformer.h.3.attn`), narrowed down by `head`, `position` or `neuron`.
"""

from __future__ import annotations

import random
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
class StepPart:
    """Some of a step: all of it, or one head, one position, one neuron."""

    name: str
    head: int | None = None
    position: int | str | None = None
    neuron: int | None = None

    def find(self, trace: Trace) -> list[CellBlock]:
        """These cells, in this trace; of a whole block, what it adds to the residual stream."""
        return [
            self._of(step) for step in steps_named(trace, self.name, per_head=self.head is not None)
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


Edits = dict[CellBlock, "Tensor | float"]
"""Parts of a trace, each with the numbers to put in its place."""


def ablate(
    trace: Trace,
    name: str,
    *,
    head: int | None = None,
    position: int | str | None = None,
    neuron: int | None = None,
    direction: Tensor | None = None,
    to: str | float | Tensor = "zero",
    over: Sequence[Trace] = (),
    seed: int = 0,
) -> Trace:
    """The run without a part. `to="zero"`, or a number or tensor to put in its place;

    `to="mean"`: its mean over the runs `over`, and over their positions where none is named;
    `to="resample"`: what it is in one of the runs `over`, drawn by `seed` among those that have it
    in the same shape. With `direction`, a vector as wide as the step, only what the numbers have
    along that direction is replaced, and `to` is about that coefficient.
    """
    part = StepPart(name, head, position, neuron)
    return trace.edit(ablation(trace, part, to=to, over=over, seed=seed, direction=direction))


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
    return trace.edit(patching(trace, other, StepPart(name, head, position, neuron)))


def ablation(
    trace: Trace,
    part: StepPart,
    *,
    to: str | float | Tensor = "zero",
    over: Sequence[Trace] = (),
    seed: int = 0,
    direction: Tensor | None = None,
) -> Edits:
    """What `ablate` edits."""
    if isinstance(to, str) and to not in ("zero", "mean", "resample"):
        raise TraceError(
            'to is "zero", "mean", "resample", a number or a tensor, got {to!r}', to=to
        )
    if to in ("mean", "resample") and not over:
        raise TraceError('to="{to}" takes the part from runs of a data set: over=[trace, …]', to=to)
    if direction is None:
        return {block: _instead(block, part, to, over, seed) for block in part.find(trace)}
    return {
        block: _without_direction(block, part, direction, to, over, seed)
        for block in part.find(trace)
    }


def patching(trace: Trace, other: Trace, part: StepPart) -> Edits:
    """What `patch` edits."""
    here, there = part.find(trace), part.find(other)
    for mine, theirs in zip(here, there, strict=True):
        if mine.shape != theirs.shape:
            raise TraceError(
                "{name} is {mine} in one run and {theirs} in the other: patch one position, or "
                "take texts of the same number of tokens",
                name=mine.step.name,
                mine=tuple(mine.shape),
                theirs=tuple(theirs.shape),
            )
    return {mine: theirs.value for mine, theirs in zip(here, there, strict=True)}


def _instead(
    block: CellBlock, part: StepPart, to: str | float | Tensor, over: Sequence[Trace], seed: int
) -> Tensor | float:
    if to == "mean":
        return _mean(block, part, over)
    if to == "resample":
        return _drawn(block, part, over, seed).value
    return 0.0 if isinstance(to, str) else to


def _drawn(block: CellBlock, part: StepPart, over: Sequence[Trace], seed: int) -> CellBlock:
    """The same part in one of the runs that have it in this shape."""
    found = [
        other
        for run in over
        for other in part.find(run)
        if other.step.name == block.step.name and other.shape == block.shape
    ]
    if not found:
        raise TraceError(
            "no run of over has {name} in the shape {shape}: resample one position, or give runs "
            "of the same number of tokens",
            name=block.step.name,
            shape=tuple(block.shape),
        )
    return random.Random(seed).choice(found)  # noqa: S311 - a sample, not a secret


def _without_direction(
    block: CellBlock,
    part: StepPart,
    direction: Tensor,
    to: str | float | Tensor,
    over: Sequence[Trace],
    seed: int,
) -> Tensor:
    """The numbers with another coefficient along a direction; what is across it stays."""
    own = block.value
    unit = direction.detach().to(own.dtype)
    if unit.ndim != 1 or own.ndim == 0 or unit.shape[0] != own.shape[-1] or not unit.any():
        raise TraceError(
            "the direction of {name} is a vector of {width} numbers, not all of them 0; got {got}",
            name=block.step.name,
            width=own.shape[-1] if own.ndim else 1,
            got=tuple(direction.shape),
        )
    unit = unit / unit.norm()
    wanted: Tensor | float
    if to == "mean":
        alike = [other for run in over for other in part.find(run)]
        wanted = torch.cat([(other.value @ unit).reshape(-1) for other in alike]).mean()
    elif to == "resample":
        wanted = (_drawn(block, part, over, seed).value @ unit)[..., None]
    else:
        wanted = 0.0 if isinstance(to, str) else to
    changed: Tensor = own + (wanted - (own @ unit)[..., None]) * unit
    return changed


def _mean(block: CellBlock, part: StepPart, over: Sequence[Trace]) -> Tensor:
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
            "{name} has other shapes in these runs, and no mean: name a step whose last axis does "
            "not grow with the text",
            name=own.name,
        ) from None
    flat: Tensor = mean.reshape(-1)[torch.from_numpy(block.places)]
    return flat


def steps_named(trace: Trace, name: str, *, per_head: bool) -> list[Step]:
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
            raise TraceError(
                "{name} holds several attentions: name one of {paths}", name=name, paths=paths
            )
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
        raise TraceError(
            "{name} {shape} has no axis of heads; the context of its attention has",
            name=step.name,
            shape=tuple(step.shape),
        )
    return len(step.shape) - 3


def _position_axis(step: Step) -> int:
    """The axis whose labels are tokens, else the last but one."""
    named = [axis for axis, labels in enumerate(step.labels) if labels is not None]
    tokens = [axis for axis in named if axis != len(step.shape) - 1 or len(named) == 1]
    if tokens:
        return tokens[-1]
    if len(step.shape) < 2:
        raise TraceError(
            "{name} {shape} has no axis of positions", name=step.name, shape=tuple(step.shape)
        )
    return len(step.shape) - 2


def _place(step: Step, axis: int, position: int | str) -> int:
    """A position by its number or by its token."""
    if isinstance(position, int):
        return position
    labels = step.labels[axis] or ()
    found = [place for place, label in enumerate(labels) if label == position]
    if len(found) != 1:
        raise TraceError(
            "the token {token!r} stands {count} times among the labels ({labels}): give its "
            "position by number",
            token=position,
            count=len(found),
            labels=", ".join(labels) or "–",
        )
    return found[0]


_MISSING = {
    "head": "{name} has {size} heads, counted from 0: there is no head {place}",
    "position": "{name} has {size} positions, counted from 0: there is no position {place}",
    "neuron": "{name} has {size} neurons, counted from 0: there is no neuron {place}",
}


def _checked(step: Step, axis: int, place: int, what: str) -> int:
    size = step.shape[axis]
    if not -size <= place < size:
        raise TraceError(_MISSING[what], name=step.name, size=size, place=place)
    return place % size
