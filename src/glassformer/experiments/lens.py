"""What each layer would answer (logit lens), and what each part adds to an answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.errors import TraceError, UnknownNameError, expect
from glassformer.experiments.charts import bars, heat_map
from glassformer.experiments.differentiation import linear_parts
from glassformer.experiments.intervention import A_TRACE, steps_named
from glassformer.experiments.measure import Measured, trace_of
from glassformer.experiments.result import Result, grid_text
from glassformer.picture import Picture
from glassformer.tracing import Cell, Step, Trace
from glassformer.tracing.cell_block import CellBlock
from glassformer.tracing.stages import attention_name, stage_called, stages_called

ONE_ROW = "{name} {shape} is of several texts at once: trace one text at a time"
_TOP = 3
"""How many of the likeliest answers a row names."""


@dataclass(frozen=True, slots=True, repr=False)
class LayerAnswers(Result):
    """The output that each layer would give if it were the last."""

    kind: ClassVar[str] = "lens"
    measured: None = field(default=None, init=False, repr=False)

    layers: tuple[str, ...]
    traces: tuple[Trace, ...] = field(repr=False)
    output: str

    @property
    def values(self) -> Tensor:
        """(layers, *shape of the output)."""
        return torch.stack([trace[self.output].value for trace in self.traces])

    def cell(self, layer: int, *index: int) -> Cell:
        """A number of a layer's answer."""
        return self.traces[layer][self.output][index]

    def rows(self) -> list[dict[str, Any]]:
        """For each layer and position, the likeliest answers with their logits."""
        tokens = self.positions
        found: list[dict[str, Any]] = []
        for layer, best in zip(self.layers, self._likeliest(), strict=True):
            for at, (token, answers) in enumerate(zip(tokens, best, strict=True)):
                row: dict[str, Any] = {"layer": layer}
                if len(tokens) > 1:  # a classifier has one answer for the whole text
                    row |= {"position": at, "token": token}
                for place, (answer, logit) in enumerate(answers):
                    row |= {f"answer {place + 1}": answer, f"logit {place + 1}": logit}
                found.append(row)
        return found

    def _likeliest(self) -> Iterator[list[list[tuple[str, float]]]]:
        """For each layer: for each position the likeliest answers with their logits."""
        for run in self.traces:
            step = run[self.output]
            words, size = step.labels[-1], step.shape[-1]
            best = step.value.reshape(-1, size).topk(min(_TOP, size))
            yield [
                [(str(id_) if words is None else words[id_], logit) for id_, logit in pairs]
                for pairs in map(zip, best.indices.tolist(), best.values.tolist())
            ]

    def text(self, language: str = "en", width: int | None = None) -> str:
        """The likeliest answer of each layer at each position."""
        if len(self.positions) == 1:  # of a classifier: its classes with their scores
            return Result.text(self, language, width)
        return grid_text(self.title(language), self.layers, self.positions, self._words(), width)

    def _words(self) -> list[list[str]]:
        return [[answers[0][0] for answers in best] for best in self._likeliest()]

    @property
    def positions(self) -> tuple[str, ...]:
        """The tokens that the answers stand at."""
        step = self.traces[0][self.output]
        if len(step.shape) < 3:
            return ("–",)
        return step.token_labels(-2) or tuple(map(str, range(step.shape[-2])))

    def facts(self) -> dict[str, Any]:
        return {"output": self.output}

    def plot(self, language: str = "en") -> Picture:
        """The likeliest answer of each layer, on the logit that it gives to the last one's."""
        tokens = self.positions
        values = self.values.reshape(len(self.layers), -1, len(tokens), self.values.shape[-1])[:, 0]
        final = values[-1].argmax(-1)
        shown = values.gather(-1, final[None, :, None].expand(len(values), -1, 1))[..., 0]
        return heat_map(self.title(language), self.layers, tokens, shown, self._words())


def logit_lens(trace: Trace, output: str | None = None) -> LayerAnswers:
    """The stream after each layer in the place of the last one's, and the rest recomputed.

    So the model's own last norm and output map read it, whatever they are.
    """
    expect(trace, Trace, A_TRACE, TraceError)
    stream = residual_stream(trace)
    name = output or next(iter(trace.outputs))
    if name not in trace:
        raise UnknownNameError("output", name, trace.outputs)
    shape = tuple(trace[name].shape)
    if math.prod(shape[:-2] if len(shape) > 2 else shape[:-1]) != 1:
        raise TraceError(ONE_ROW, name=name, shape=shape)
    last = stream[-1][1]
    runs = [trace.edit({last[...]: step.value.reshape(last.shape)}) for _, step in stream]
    return LayerAnswers(tuple(layer for layer, _ in stream), tuple(runs), trace[name].name)


def residual_stream(trace: Trace) -> list[tuple[str, Step]]:
    """The residual stream: before the first layer, and after each."""
    after = list(stages_called(trace, "resid_post").items())
    before = list(stages_called(trace, "resid_pre").items())
    if not after:
        raise TraceError("no residual stream was found in this trace, so it has no layers to read")
    side = tower_of(after[-1][0])  # of an encoder-decoder, the one that makes the answer
    after = [(name, step) for name, step in after if tower_of(name) == side]
    before = [(name, step) for name, step in before if tower_of(name) == side]
    return [before[0], *after]


def tower_of(name: str) -> str:
    """The path of the list of layers: `decoder.blocks` of `decoder.blocks.2.resid_post`."""
    parts = stage_called(name)[0].split(".")
    numbers = [at for at, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[-1]]) if numbers else ""


@dataclass(frozen=True, slots=True, repr=False)
class Contributions(Result):
    """What each part adds to a number; the parts add up to it."""

    kind: ClassVar[str] = "contributions"

    measured: Measured
    parts: tuple[str, ...]
    values: tuple[float, ...]
    sources: tuple[CellBlock | None, ...] = field(default=(), repr=False, compare=False)
    """The cells that each part is; None for the biases."""

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return float(sum(self.values))

    def cell(self, part: int | str | None = None) -> Measured | CellBlock:
        """The number itself, or the cells of one of its parts."""
        if part is None:
            return self.measured
        if isinstance(part, str):
            if part not in self.parts:
                raise UnknownNameError("part", part, self.parts)
            part = self.parts.index(part)
        found = self.sources[part]
        if found is None:
            raise TraceError("the biases are what is left of the number without any part")
        return found

    def rows(self) -> list[dict[str, Any]]:
        return [{"part": p, "value": v} for p, v in zip(self.parts, self.values, strict=True)]

    def plot(self, language: str = "en") -> Picture:
        return bars(self.title(language), self.parts, self.values)


def contributions(
    cell: Measured, *, heads: bool = False, neurons: str | None = None
) -> Contributions:
    """Direct logit attribution: what the embedding, each attention and each feed-forward add.

    The last norm is held at the scale that it has in this run, which makes the way from the stream
    to the number a linear one; what it adds on its own (biases) is a part, too. With `heads`, an
    attention is split into its heads and its bias. With `neurons`, the name of the step or
    module that a feed-forward layer's second matrix reads (`transformer.h.3.mlp.act`), that layer
    is split into its neurons.
    """
    found = written_parts(trace_of(cell), heads=heads)
    if neurons is not None:
        (layer,) = steps_named(trace_of(cell), neurons, per_head=False)
        found = _with_neurons(found, neurons, layer)
    parts, rest = linear_parts(cell, [step for _, step in found])
    rows: list[tuple[str, float, CellBlock | None]] = []
    for (name, step), part in zip(found, parts, strict=True):
        path, stage, call = stage_called(name)
        if heads and stage == "context":
            path = attention_name(path, call)
            axis = len(step.shape) - 3
            by_head = part.double().movedim(axis, 0).flatten(1).sum(1).tolist()
            for head, value in enumerate(by_head):
                block = step[(*[slice(None)] * axis, head, ...)]
                assert isinstance(block, CellBlock)
                rows.append((f"{path} head {head}", value, block))
        elif name == neurons:
            by_neuron = part.double().flatten(0, -2).sum(0).tolist()
            for at, value in enumerate(by_neuron):
                block = step[..., at]
                assert isinstance(block, CellBlock)
                rows.append((f"{name} neuron {at}", value, block))
        else:
            whole = step[...]
            assert isinstance(whole, CellBlock)
            rows.append((name, float(part.double().sum()), whole))
    rows.append(("biases", rest, None))
    names, values, blocks = zip(*rows, strict=True)
    return Contributions(cell, names, values, blocks)


def written_parts(trace: Trace, *, heads: bool) -> list[tuple[str, Step]]:
    """What is added to the residual stream, in order: the embedding, attentions, feed-forwards."""
    tower = tower_of(residual_stream(trace)[-1][0])
    found: list[tuple[str, Step]] = [residual_stream(trace)[0]]
    wanted = ("context", "mlp_out") if heads else ("attn_out", "cross_out", "mlp_out")
    for name, step in stages_called(trace, *wanted).items():
        if not tower or name.startswith(f"{tower}."):
            found.append((name, step))
    order = {id(step): at for at, step in enumerate(trace.steps)}
    found.sort(key=lambda item: order.get(id(item[1]), -1))
    return found


def _with_neurons(
    found: list[tuple[str, Step]], name: str, neurons: Step
) -> list[tuple[str, Step]]:
    """The parts with a feed-forward layer's neurons instead of its output, the next `mlp_out`."""
    order = {id(step): at for at, step in enumerate(neurons.trace.steps)}
    later = [
        at
        for at, (name, step) in enumerate(found)
        if stage_called(name)[1] == "mlp_out"
        and order.get(id(step), -1) > order.get(id(neurons), 1 << 60)
    ]
    if not later:
        raise TraceError("{name} does not lead to what a feed-forward layer writes", name=name)
    return [*found[: later[0]], (name, neurons), *found[later[0] + 1 :]]
