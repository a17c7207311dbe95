"""What each layer would answer (logit lens), and what each part adds to an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.experiments.differentiation import linear_parts
from glassformer.tracing import Cell, Step, Trace


@dataclass(frozen=True, slots=True)
class LayerAnswers:
    """The output that each layer would give if it were the last."""

    layers: tuple[str, ...]
    traces: tuple[Trace, ...]
    output: str

    @property
    def values(self) -> Tensor:
        """(layers, *shape of the output)."""
        return torch.stack([trace[self.output].value for trace in self.traces])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"layers": list(self.layers), "output": self.output, "values": self.values.tolist()}


def logit_lens(trace: Trace, output: str | None = None) -> LayerAnswers:
    """The stream after each layer in the place of the last one's, and the rest computed anew.

    So the model's own last norm and output map read it, whatever they are.
    """
    stream = _stream(trace)
    name = output or next(iter(trace.outputs))
    if name not in trace:
        raise TraceError(f"the trace has no output {name!r}; it has {', '.join(trace.outputs)}")
    last = stream[-1][1]
    runs = [trace.edit({last[...]: step.value.reshape(last.shape)}) for _, step in stream]
    return LayerAnswers(tuple(layer for layer, _ in stream), tuple(runs), trace[name].name)


def _stream(trace: Trace) -> list[tuple[str, Step]]:
    """The residual stream: before the first layer, and after each."""
    after = [(name, step) for name, step in trace.stages.items() if name.endswith(".resid_post")]
    before = [(name, step) for name, step in trace.stages.items() if name.endswith(".resid_pre")]
    if not after:
        raise TraceError("no residual stream was found in this trace, so it has no layers to read")
    side = _tower(after[-1][0])  # of an encoder-decoder, the one that makes the answer
    after = [(name, step) for name, step in after if _tower(name) == side]
    before = [(name, step) for name, step in before if _tower(name) == side]
    return [before[0], *after]


def _tower(name: str) -> str:
    """The path of the list of layers: `decoder.blocks` of `decoder.blocks.2.resid_post`."""
    parts = name.split(".")
    numbers = [at for at, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[-1]]) if numbers else ""


@dataclass(frozen=True, slots=True)
class Contributions:
    """What each part adds to a number; the parts add up to it."""

    cell: Cell
    parts: tuple[str, ...]
    values: tuple[float, ...]

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return float(sum(self.values))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each part."""
        return [{"part": p, "value": v} for p, v in zip(self.parts, self.values, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"cell": self.cell.name, "value": self.cell.value, "rows": self.rows()}


def contributions(cell: Cell, *, heads: bool = False) -> Contributions:
    """Direct logit attribution: what the embedding, each attention and each feed-forward add.

    The last norm is held at the scale that it has in this run, which makes the way from the stream
    to the number a linear one; what it adds on its own (biases) is a part, too. With `heads`, an
    attention is split into its heads and its bias.
    """
    trace = cell.step.trace
    tower = _tower(_stream(trace)[-1][0])
    found: list[tuple[str, Step]] = [_stream(trace)[0]]
    for name, step in trace.stages.items():
        word = name.rpartition(".")[2]
        wanted = ("context", "mlp_out") if heads else ("attn_out", "cross_out", "mlp_out")
        if word in wanted and name.startswith(f"{tower}."):
            found.append((name, step))
    order = {id(step): at for at, step in enumerate(trace.steps)}
    found.sort(key=lambda item: order.get(id(item[1]), -1))
    parts, rest = linear_parts(cell, [step for _, step in found])
    rows: list[tuple[str, float]] = []
    for (name, step), part in zip(found, parts, strict=True):
        if heads and name.endswith(".context"):
            path = name.removesuffix(".context")
            by_head = part.double().movedim(len(step.shape) - 3, 0).flatten(1).sum(1)
            rows += [(f"{path} head {head}", float(v)) for head, v in enumerate(by_head)]
        else:
            rows.append((name, float(part.double().sum())))
    rows.append(("biases", rest))
    return Contributions(cell, tuple(p for p, _ in rows), tuple(v for _, v in rows))
