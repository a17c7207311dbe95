"""The small models that the renderers are tested on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from glassformer import build
from glassformer.nn import presets
from glassformer.tracing import Trace, trace

Toy = tuple[nn.Module, tuple[Tensor, ...], dict[str, list[str]]]

SIGNALLING = {
    torch.float16: torch.tensor([[0x7C01, 0x3C00]], dtype=torch.int16),
    torch.float32: torch.tensor([[0x7F800001, 0x3F800000]], dtype=torch.int32),
    torch.float64: torch.tensor([[0x7FF0000000000001, 0x3FF0000000000000]]),
}
"""The bits of a signalling NaN and of 1, to be viewed as a dtype: memory never written has them."""


def illustrated() -> Toy:
    """Self-attention on three inputs of four numbers."""
    model = build(presets.illustrated(), attention="written")
    x = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
    return model, (x[None],), {"x": ["我", "am", "</script>"]}


def by_hand() -> Toy:
    """An encoder-decoder of width 6 with a padded source."""
    model = build(presets.by_hand_2024(), attention="written")
    source, target = torch.tensor([[1, 2, 3, 4, 0, 0]]), torch.tensor([[25, 5, 6, 7, 8, 9]])
    return model, (source, target), {}


def decoder() -> Toy:
    """One pre-norm block with GELU, two heads, learned positions, tied output."""
    config = presets.gpt2(vocab_size=11, d_model=8, n_heads=2, n_layers=1, max_len=8)
    model = build(config, attention="written")
    with torch.no_grad():  # the usual start is so near 0 that mistakes would drown
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, (torch.tensor([[3, 1, 4, 1, 5]]),), {}


TOYS: dict[str, Callable[[], Toy]] = {
    "illustrated": illustrated,
    "by_hand": by_hand,
    "decoder": decoder,
}


def made(name: str) -> Toy:
    """A toy with the same parameters each time."""
    torch.manual_seed(1)
    return TOYS[name]()


@cache
def traced(name: str) -> Trace:
    """A toy's trace in float32; read it, do not change it."""
    model, inputs, labels = made(name)
    return trace(model, *inputs, axis_labels=labels)


@cache
def traced_in_float64(name: str) -> Trace:
    """The same parameters in float64."""
    model, inputs, labels = made(name)
    doubled = [part.double() if part.is_floating_point() else part for part in inputs]
    return trace(copy.deepcopy(model).double(), *doubled, axis_labels=labels)
