"""Parts switched off, or taken from another run; everything after them is recomputed.

A part is named as a reader would: a step or a stage of the trace (`layers.3.resid_mid`), or a
module (`transformer.h.3.attn`), narrowed down by `head`, `position` or `neuron`.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import TraceError, UnknownNameError, expect, shown
from glassformer.tracing import Step, Trace
from glassformer.tracing.cell_block import CellBlock, select
from glassformer.tracing.stages import stage_called

A_TRACE = "a trace, trace(model, …)"
_PER_HEAD = ("queries", "keys", "values", "scores", "scaled", "masked", "weights", "context")
_SPLIT = ("scores", "scaled", "masked", "weights", "context")
"""Of these, the ones that are never anything but split into heads."""


Which = int | str | Sequence[int | str] | None
"""A head, a position or a neuron by its number, a position also by its token; or several."""


@dataclass(frozen=True, slots=True)
class StepPart:
    """Some of a step: all of it, or some heads, positions, neurons."""

    name: str
    head: Which = None
    position: Which = None
    neuron: Which = None

    def find(self, trace: Trace) -> list[CellBlock]:
        """These cells, in this trace; of a whole block, what it adds to the residual stream."""
        return [self._of(step) for step in self.steps(trace)]

    def steps(self, trace: Trace) -> list[Step]:
        return steps_named(trace, self.name, per_head=self.head is not None)

    def beside(self, block: CellBlock, other: Step) -> CellBlock:
        """The same part of another run, whose text need not have the tokens that name positions.

        A token that stands there once is taken where it stands; else its number counts.
        """
        if self.position is None:
            return self._of(other)
        named = [self.position] if isinstance(self.position, int | str) else list(self.position)
        own, labels = (step.token_labels(position_axis(step)) or () for step in (block.step, other))
        places = [
            place_of(one, own) if isinstance(one, str) and labels.count(one) != 1 else one
            for one in named
        ]
        alone = isinstance(self.position, int | str)
        return replace(self, position=places[0] if alone else places)._of(other)

    def _of(self, step: Step) -> CellBlock:
        index: list[Any] = [slice(None)] * len(step.shape)
        width = step.shape[-1] if step.shape else 1
        starts = [0]
        if self.head is not None:
            axis, heads = heads_of(step)
            chosen = _chosen(step, heads, self.head, "head")
            if axis < len(step.shape) - 1:
                index[axis] = chosen
            else:  # not split yet: a head is some columns
                width //= heads
                starts = [head * width for head in np.atleast_1d(chosen)]
                index[axis] = [start + column for start in starts for column in range(width)]
        if self.position is not None:
            axis = position_axis(step)
            index[axis] = _chosen(step, step.shape[axis], self.position, "position", axis)
        if self.neuron is not None:
            within = _chosen(step, width, self.neuron, "neuron")
            columns = [start + column for start in starts for column in np.atleast_1d(within)]
            index[-1] = columns
        return select(step, _outer(index))


Edits = dict[CellBlock, "Tensor | float"]
"""Parts of a trace, each with the numbers to put in its place."""


def ablate(
    trace: Trace,
    name: str,
    *,
    head: Which = None,
    position: Which = None,
    neuron: Which = None,
    direction: Tensor | None = None,
    to: str | float | Tensor = "zero",
    over: Sequence[Trace] = (),
    seed: int = 0,
) -> Trace:
    """The run without a part. `to="zero"`, or a number or tensor to put in its place;

    `to="mean"`: its mean over the runs `over`, and over their positions where none is named;
    `to="resample"`: what it is in one of the runs `over`, drawn by `seed` among those that have it
    in the same shape. With `direction`, a vector as wide as the step, only what the numbers have
    along that direction is replaced, and `to` is about that coefficient: one number, or a tensor of
    one for each vector.
    """
    part = StepPart(name, head, position, neuron)
    edits = ablation(trace, part, to=to, over=over, seed=seed, direction=direction)
    return trace.edit(edits)


def patch(
    trace: Trace,
    other: Trace,
    name: str,
    *,
    head: Which = None,
    position: Which = None,
    neuron: Which = None,
) -> Trace:
    """The run with a part of another run of the same model in the place of its own."""
    edits = patching(trace, other, StepPart(name, head, position, neuron))
    return trace.edit(edits)


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
    expect(over, (list, tuple), "a list of traces", TraceError)
    if isinstance(to, str) and to != "zero" and not over:
        raise TraceError('to="{to}" takes the part from runs of a data set: over=[trace, …]', to=to)
    if direction is None:
        return {block: _instead(block, part, to, over, seed) for block in part.find(trace)}
    return {
        block: _without_direction(block, part, direction, to, over, seed)
        for block in part.find(trace)
    }


def patching(trace: Trace, other: Trace, part: StepPart) -> Edits:
    """What `patch` edits."""
    mine = part.find(trace)
    theirs = [part.beside(one, step) for one, step in zip(mine, part.steps(other), strict=True)]
    return {one: numbers_of(given, one) for one, given in zip(mine, theirs, strict=True)}


def numbers_of(theirs: CellBlock, mine: CellBlock) -> Tensor:
    """A part of another run, to be put in the place of the same part of this one."""
    if mine.shape != theirs.shape:
        raise TraceError(
            "{name} is {mine} in one run and {theirs} in the other: patch one position, or "
            "take texts of the same number of tokens",
            name=mine.step.name,
            mine=tuple(mine.shape),
            theirs=tuple(theirs.shape),
        )
    return theirs.value


def mean_over_positions(block: CellBlock, over: Sequence[Trace]) -> Tensor:
    """The mean of a part over the positions of some runs, for every position alike."""
    return _mean(block, over, position_axis(block.step))


def _instead(
    block: CellBlock, part: StepPart, to: str | float | Tensor, over: Sequence[Trace], seed: int
) -> Tensor | float:
    if to == "mean":
        return _mean(block, over, None if part.position is not None else _positions(block.step))
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
    expect(direction, Tensor, "a tensor as direction", TraceError)
    unit = direction.detach().to(own.dtype)
    if unit.ndim != 1 or own.ndim == 0 or unit.shape[0] != own.shape[-1] or not unit.any():
        raise TraceError(
            "the direction of {name} is a vector of {width} numbers, not all of them 0; got {got}",
            name=block.step.name,
            width=own.shape[-1] if own.ndim else 1,
            got=tuple(direction.shape),
        )
    unit = unit / unit.norm()
    coefficients = own @ unit
    if isinstance(to, str) and to == "mean":
        alike = [
            other for run in over for other in part.find(run) if other.step.name == block.step.name
        ]
        wanted = torch.cat([(other.value @ unit).reshape(-1) for other in alike]).mean()
    elif isinstance(to, str) and to == "resample":
        wanted = _drawn(block, part, over, seed).value @ unit
    else:
        wanted = _coefficients(block, to, coefficients)
    changed: Tensor = own + (wanted - coefficients)[..., None] * unit
    return changed


def _coefficients(block: CellBlock, to: str | float | Tensor, own: Tensor) -> Tensor:
    """What a caller wants along a direction, as many numbers as there are now."""
    try:
        given = torch.as_tensor(0.0 if isinstance(to, str) else to, dtype=own.dtype)
        return given.broadcast_to(own.shape)
    except (RuntimeError, TypeError, ValueError):
        raise TraceError(
            "along a direction, {name} has one number for each place of {shape}: to is a number, "
            "or a tensor that broadcasts to that shape; got {got}",
            name=block.step.name,
            shape=tuple(own.shape),
            got=tuple(to.shape) if isinstance(to, Tensor) else shown(to),
        ) from None


def _mean(block: CellBlock, over: Sequence[Trace], axis: int | None) -> Tensor:
    """Over runs, and over an axis of positions if there is one: lengths may then differ."""
    own = block.step
    values, count = [], 0
    for run in over:
        step = run[own.name]
        values.append(step.value if axis is None else step.value.sum(axis, keepdim=True))
        count += 1 if axis is None else step.shape[axis]
    try:
        mean = (torch.stack(values).sum(0) / count).expand(own.shape)
    except RuntimeError:
        raise TraceError(
            "{name} has other shapes in these runs, and no mean: name a step whose last axis does "
            "not grow with the text",
            name=own.name,
        ) from None
    flat: Tensor = mean.reshape(-1)[torch.from_numpy(block.places)]
    return flat


def steps_named(trace: Trace, name: str, *, per_head: bool) -> list[Step]:
    """The steps that a name means: of a module that runs more than once, those of every call."""
    expect(trace, Trace, A_TRACE, TraceError)
    expect(name, str, "the name of a step or module", TraceError)
    inside = {known: step for known, step in trace.stages.items() if known.startswith(f"{name}.")}
    if name in trace.names or name in trace.stages:
        return [trace[name]]
    if per_head:
        contexts = [known for known in inside if stage_called(known)[1] == "context"]
        paths = dict.fromkeys(stage_called(known)[0] for known in contexts)
        if len(paths) > 1:
            raise TraceError(
                "{name} holds several attentions: name one of {paths}",
                name=name,
                paths=", ".join(paths),
            )
        if contexts:
            return [inside[known] for known in contexts]
    added = [
        step
        for known, step in inside.items()
        if stage_called(known)[:2] in {(name, out) for out in ("attn_out", "cross_out", "mlp_out")}
    ]
    if added:
        return added
    running = [(step, step.call.origin.module) for step in trace.steps if step.call is not None]
    own = [step for step, module in running if f"{module}.".startswith(f"{name}.")]
    if not own:
        modules = {module for _, module in running if module}
        raise UnknownNameError("step or module", name, {*trace.stages, *modules, *trace.names})
    return [own[-1]]


def heads_of(step: Step) -> tuple[int, int]:
    """The axis of the heads, and how many there are.

    Heads stand before positions: (batch, head, query, key), (batch, head, position, width). Where
    queries, keys and values have not been split yet, (batch, position, heads * width), it is the
    last axis.
    """
    stage = step.stage or step.name.rpartition(".")[2]
    rank = len(step.shape)
    if rank >= 3 and stage in _PER_HEAD:
        split = _split(step)
        if split is None or stage in _SPLIT:
            return rank - 3, step.shape[-3]
        (*lead, heads, queries, keys), width = split
        if rank == len(lead) + 3 and heads % step.shape[-3] == 0:
            return rank - 3, step.shape[-3]
        own, left = divmod(step.shape[-1], width)
        if (
            rank == len(lead) + 2
            and [*step.shape[:-2]] == lead
            and step.shape[-2] == (queries if stage == "queries" else keys)
            and left == 0 < own
            and heads % own == 0
        ):
            return rank - 1, own
    raise TraceError(
        "{name} {shape} has no axis of heads; the context of its attention has",
        name=step.name,
        shape=tuple(step.shape),
    )


def _split(step: Step) -> tuple[tuple[int, ...], int] | None:
    """The shape of the weights of a step's own attention, and the width of one head."""
    stages = step.trace.stages
    for known, other in stages.items():
        if other.name != step.name:
            continue
        module = known.rpartition(".")[0]
        weights, context = (stages.get(f"{module}.{stage}") for stage in ("weights", "context"))
        if weights is not None and context is not None and len(weights.shape) >= 3:
            return tuple(weights.shape), context.shape[-1]
    return None


def position_axis(step: Step) -> int:
    found = _positions(step)
    if found is None:
        raise TraceError(
            "{name} {shape} has no axis of positions", name=step.name, shape=tuple(step.shape)
        )
    return found


def _positions(step: Step) -> int | None:
    """The axis that carries the input's tokens: that with their labels, else the last but one.

    The last axis holds features, classes or the vocabulary, unless its labels are the tokens.
    """
    rank = len(step.shape)
    if rank >= 3 and (step.stage or step.name.rpartition(".")[2]) in _PER_HEAD:
        return rank - 2
    ids = [
        known
        for known in step.trace.inputs.values()
        if not known.dtype.is_floating_point and known.shape
    ]
    if any(known.name == step.name for known in ids):
        return rank - 1
    texts = {known.labels[-1] for known in ids} - {None}
    named = [axis for axis, labels in enumerate(step.labels) if labels in texts]
    before_last = [axis for axis in named if axis < rank - 1]
    if before_last:
        return before_last[-1]
    lengths = {known.shape[-1] for known in ids}
    if rank >= 3 and (step.shape[-2] in lengths or not named):
        turned = step.shape[-2] not in lengths and step.shape[-1] in lengths
        return None if turned else rank - 2
    if named:
        return named[0]
    flattened = rank == 2 and step.shape[0] in {known.view.numel for known in ids}
    alone = all(known.view.numel == known.shape[-1] for known in ids)
    return 0 if flattened and alone else None


def _chosen(
    step: Step, size: int, given: Which, what: str, axis: int | None = None
) -> int | list[int]:
    """Places, checked; one by itself stays one. With an axis, also by the tokens on it."""
    alone = isinstance(given, str) or not isinstance(given, Sequence | Tensor | np.ndarray)
    found = []
    for one in [given] if alone else given:  # type: ignore[union-attr]
        if isinstance(one, str) and axis is not None:
            one = place_of(one, step.token_labels(axis) or ())
        found.append(_checked(step, size, one, what))
    if not found:
        raise TraceError("{what} names no place: give at least one", what=what)
    return found[0] if alone else found


def _outer(index: list[Any]) -> tuple[Any, ...]:
    """An index whose lists select every combination, not one place for each pair."""
    lists = [axis for axis, part in enumerate(index) if isinstance(part, list)]
    shaped = dict.fromkeys(lists)
    for at, axis in enumerate(lists):
        shape = [1] * len(lists)
        shape[at] = -1
        shaped[axis] = torch.tensor(index[axis]).view(shape)
    return tuple(shaped.get(axis, part) for axis, part in enumerate(index)) or (...,)


def place_of(token: str, labels: Sequence[str]) -> int:
    """The position of a token; one that occurs twice has to be given by its number."""
    found = [place for place, label in enumerate(labels) if label == token]
    if len(found) != 1:
        raise TraceError(
            "the token {token!r} stands {count} times among the labels ({labels}): give its "
            "position by number",
            token=token,
            count=len(found),
            labels=", ".join(labels) or "–",
        )
    return found[0]


def _checked(step: Step, size: int, place: object, what: str) -> int:
    if isinstance(place, bool) or not hasattr(place, "__index__"):
        raise TraceError(
            "{what} is a whole number, counted from 0; got {got!r}", what=what, got=place
        )
    number = operator.index(place)
    if not -size <= number < size:
        raise TraceError(
            "{name} has no {what} {place}: it has {size}, counted from 0",
            name=step.name,
            what=what,
            place=number,
            size=size,
        )
    return number % size
