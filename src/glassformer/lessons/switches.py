"""From self-attention to the Transformer: ten switches, turned on one after the other.

`Switched` is one small model in which each of the ten can be on or off; the lesson turns them on in
order and shows what changes in shapes, parameters and numbers. A switch that is left off changes
what later ones do, so some have a text of their own for that case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import torch
from torch import nn

from glassformer.audit.example_file import load_example
from glassformer.documents.heat_maps import matrix, shape_text
from glassformer.documents.parts import Figure, HeatMap, Paragraph, Part
from glassformer.errors import UnknownNameError
from glassformer.lessons.figures.head_figures import PipelineSteps, mask_figure
from glassformer.lessons.figures.model_figures import (
    feed_forward_figure,
    network_layers,
    stack_figure,
)
from glassformer.lessons.illustrated import printed_matrix
from glassformer.lessons.lesson import LessonStep, Speaker, number
from glassformer.lessons.lesson_steps import heat_map
from glassformer.nn import AttentionConfig, count_parameters
from glassformer.nn.attention import MultiHeadAttention, set_attention
from glassformer.nn.config import FeedForwardConfig
from glassformer.nn.layers import FeedForward, TokenEmbedding
from glassformer.nn.positions import sinusoidal_table
from glassformer.nn.tensors import Float, Int, Tensor
from glassformer.tracing import Trace, trace

SWITCHES = (
    "width", "bias", "embedding", "position", "truncating", "masking", "heads", "stacking",
    "linear", "norm",
)  # fmt: skip

WORDS = ("the", "cat", "walks", "on", "the", "street")
IDS = (0, 1, 2, 3, 0, 4)
WIDTH, KEPT = 4, 5
_NARROW, _SEED = 3, 2
_CHANGING = ("input shape", "output shape", "parameters", "last output")
"""What a switch may change."""


class _SwitchedLayer(nn.Module):
    """One attention layer, and what the switches put after it."""

    def __init__(self, on: frozenset[str]) -> None:
        super().__init__()
        width = WIDTH if "width" in on else _NARROW
        heads = 2 if "heads" in on and "width" in on else 1
        config = AttentionConfig(
            n_heads=heads, d_head=width // heads, d_value=width // heads, bias="bias" in on,
            output_map=False,
        )  # fmt: skip
        self.attention = MultiHeadAttention(WIDTH, config)
        self.feed_forward = (
            FeedForward(width, FeedForwardConfig(d_ff=2 * width)) if "linear" in on else None
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 if "norm" in on else 0))
        self.causal = "masking" in on
        # A sum needs two vectors of one width.
        self.residual = "norm" in on and "width" in on

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D2"]:
        attended = self.attention(x, causal=self.causal)
        mixed = x + attended if self.residual else attended
        normed = self.norms[0](mixed) if self.norms else mixed
        if self.feed_forward is None:
            result: Tensor = normed
            return result
        fed = self.feed_forward(normed)
        summed = normed + fed if self.residual else fed
        output: Tensor = self.norms[1](summed) if self.norms else summed
        return output


class Switched(nn.Module):
    """Self-attention with any of the ten switches on.

    Each part draws its parameters from its own seed, so that a switch changes only what it is for.
    Stacking needs outputs as wide as inputs, and heads an even width: without `width` these two
    have no effect.
    """

    def __init__(self, on: frozenset[str]) -> None:
        super().__init__()
        for name in on:
            if name not in SWITCHES:
                raise UnknownNameError("switch", name, SWITCHES)
        self.on = on
        depth = 2 if {"stacking", "width"} <= on else 1
        self.embedding = TokenEmbedding(len(set(IDS)), WIDTH) if "embedding" in on else None
        self.layers = nn.ModuleList(_SwitchedLayer(on) for _ in range(depth))
        _draw(self)
        set_attention(self.eval(), "written")

    def forward(
        self, ids: Int[Tensor, "B T"], given: Float[Tensor, "B T D"]
    ) -> Float[Tensor, "B T D2"]:
        """Reads ids if there is an embedding, otherwise the given vectors."""
        kept = KEPT if "truncating" in self.on else ids.size(1)
        x = given[:, :kept] if self.embedding is None else self.embedding(ids[:, :kept])
        if "position" in self.on:
            x = x + sinusoidal_table(x.size(1), x.size(2))
        for layer in self.layers:
            x = layer(x)
        return x


@torch.no_grad()
def _draw(model: nn.Module) -> None:
    """Draw matrices and biases with a seed from their name; norms keep their defaults."""
    for name, parameter in model.named_parameters():
        if ".norms." in name:
            continue
        seed = _SEED + sum(map(ord, name))
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(parameter.shape, generator=generator)
        parameter.copy_((drawn * 5).round() / 10)


def switched_trace(on: frozenset[str]) -> tuple[Switched, Trace]:
    """The model and its trace over six words; without an embedding, over six given vectors."""
    rows = printed_matrix(load_example("illustrated"), "x")
    given = rows.repeat(2, 1).unsqueeze(0)
    model = Switched(on)
    ids = torch.tensor([IDS])
    return model, trace(model, ids, given, axis_labels={"ids": list(WORDS)})


def steps(say: Speaker, off: Collection[str] = ()) -> Iterator[LessonStep]:
    """One step per switch; what is in `off` is never switched on."""
    for name in off:
        if name not in SWITCHES:
            raise UnknownNameError("switch", name, SWITCHES)
    chosen = [name for name in SWITCHES if name not in off]
    model, run = switched_trace(frozenset())
    line = _line(model, run, say)
    table = [(say("no switch"), *line)]
    whole, _ = switched_trace(frozenset(chosen))
    words = WORDS[: KEPT if "truncating" in whole.on else None]
    drawn = Figure("stack", stack_figure(words, whole.on, len(whole.layers), say.language))
    yield say.step("switch", "start", [say("goal"), drawn, say("start"), _output(run, say)])
    for place, name in enumerate(chosen, start=1):
        before = line
        model, run = switched_trace(frozenset(chosen[:place]))
        line = _line(model, run, say)
        table.append((say(name), *line))
        title = say("turned on", number=place, count=len(chosen), name=say(name))
        said = [_said(name, model, run, say), *_changed(name, before, line, run, say)]
        yield LessonStep("switch", title, tuple(said))
    summary = say.table(table, "switch", *_CHANGING)
    yield say.step("switch", "all", [say("all"), summary, say("stack")])


def _line(model: Switched, run: Trace, say: Speaker) -> tuple[str, ...]:
    """Shapes, parameter count and the last output (with a mask the first sees only itself)."""
    output = next(iter(run.outputs.values()))
    last = ", ".join(number(x, 3) for x in output.value[0, -1])
    kept = output.shape[-2]
    read = say("given vectors", shape=shape_text((kept, WIDTH)))
    return (
        say("given words", count=kept) if "embedding" in model.on else read,
        shape_text(output.shape[1:]),
        f"{count_parameters(model):,}",
        last,
    )


def _said(name: str, model: Switched, run: Trace, say: Speaker) -> Paragraph:
    """What a switch does, given those that are on."""
    if name == "position":
        with_words = "embedding" in model.on
        again = IDS.index(IDS[0], 1) if with_words else len(IDS) // 2  # equal to the first
        output = next(iter(run.outputs.values())).value[0]
        difference = number((output[0] - output[again]).abs().max(), 3)
        phrase = "position text" if with_words else "position vectors"
        return Paragraph(say(phrase, difference=difference))
    phrase = f"{name} text"
    if name in ("heads", "stacking", "norm") and "width" not in model.on:
        phrase = f"{name} narrow"
    elif name == "norm" and model.on != frozenset(SWITCHES):
        phrase = "norm part"
    return Paragraph(say(phrase, kept=KEPT))


def _changed(
    name: str, before: tuple[str, ...], now: tuple[str, ...], run: Trace, say: Speaker
) -> Iterator[Part]:
    lines = zip(map(say, _CHANGING), before, now, strict=True)
    rows = [(head, old, new) for head, old, new in lines if old != new]
    if rows:
        yield say.table(rows, "", "before", "now")
    yield _output(run, say)
    if name in ("masking", "heads"):
        yield from _weights(run, say)
    if name == "masking":
        count = run["layers.0.attention.weights"].shape[-1]
        steps = PipelineSteps(run, "layers.0.attention", labels=_names(run, count, say))
        yield Figure("mask", mask_figure(steps, say.language))
    if name == "linear":
        yield _feed_forward(run, say)


def _output(run: Trace, say: Speaker) -> HeatMap:
    output = next(iter(run.outputs.values()))
    return heat_map(
        output, say, rows=_names(run, output.shape[-2], say),
        title=f"{say('output shape')}{say('before a shape')}{shape_text(output.shape[1:])}",
    )  # fmt: skip


def _weights(run: Trace, say: Speaker) -> Iterator[HeatMap]:
    weights = run["layers.0.attention.weights"]
    words = _names(run, weights.shape[-1], say)
    for head in range(weights.shape[-3]):
        yield heat_map(weights, say, head=head, rows=words, columns=words)


def _feed_forward(run: Trace, say: Speaker) -> Figure:
    """The two layers of the lesson, and what their first layer alone would give."""
    path, last = "layers.0.feed_forward.", -1
    two = network_layers(run, path, _entering(run), last, say.language)
    one = FeedForward(len(two[0].values), FeedForwardConfig(n_layers=1))
    _draw(one)
    x = torch.tensor(two[0].values, dtype=torch.float32).view(1, 1, -1)
    alone = network_layers(trace(one.eval(), x), "", two[0].values, 0, say.language)
    return Figure("feed-forward", feed_forward_figure(alone, two, say.language))


def _entering(run: Trace) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """What the first feed-forward network is given at the last position."""
    return np.asarray(matrix(run["layers.0.attention.joined"]).values[-1])


def _names(run: Trace, count: int, say: Speaker) -> tuple[str, ...]:
    """The words that are read; numbered inputs if there are vectors instead."""
    if "embedding.weight" in run.parameters:
        return WORDS[:count]
    return tuple(say("numbered input", number=place + 1) for place in range(count))
