"""The modules whose shape is found and drawn: of each family one, as small as possible."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.tasks import load
from glassformer.tracing import Trace, trace
from tests.tracing.foreign_models import FAMILIES, torch_transformer

__all__ = ["NAMES", "newly_traced", "traced"]


class SmallUNet(nn.Module):
    """Two levels down, two up, with the skip connections of a U-Net."""

    def __init__(self) -> None:
        super().__init__()
        self.down1 = nn.Conv2d(1, 4, 3, padding=1)
        self.down2 = nn.Conv2d(4, 8, 3, padding=1)
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.up2 = nn.Conv2d(16, 4, 3, padding=1)
        self.up1 = nn.Conv2d(8, 1, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.grow = nn.Upsample(scale_factor=2)

    def forward(self, image: Tensor) -> Tensor:
        first = torch.relu(self.down1(image))
        second = torch.relu(self.down2(self.pool(first)))
        lowest = torch.relu(self.middle(self.pool(second)))
        third = torch.relu(self.up2(torch.cat([self.grow(lowest), second], 1)))
        out: Tensor = self.up1(torch.cat([self.grow(third), first], 1))
        return out


class GatedLayer(nn.Module):
    """A module of a user's own: a gate multiplies what it is computed from."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 8)
        self.gate = nn.Linear(8, 8)
        self.outer = nn.Linear(8, 2)

    def forward(self, given: Tensor) -> Tensor:
        hidden = torch.tanh(self.inner(given))
        opened = torch.sigmoid(self.gate(hidden))
        out: Tensor = self.outer(hidden * opened)
        return out


OURS = {"ours: classifier": ("toy", "I am not happy"), "ours: translator": ("en-de", "A dog runs.")}
FAMILY_NAMES = ("gpt2", "bert", "t5", "llama", "vit", "mixtral", "mamba")
NAMES = (*OURS, "torch.nn.Transformer", *FAMILY_NAMES, "U-Net", "LSTM", "a user's own")


@cache
def traced(name: str) -> Trace:
    """The trace of one of them: shared, so nobody may close it."""
    return newly_traced(name)


def newly_traced(name: str) -> Trace:
    """A trace to give away: to the explorer, which closes what it has no room for."""
    if name in OURS:
        model, text = OURS[name]
        return load(model, attention="written").trace(text)
    torch.manual_seed(0)
    module, inputs = _foreign(name)
    return trace(module.eval(), **inputs)


def _foreign(name: str) -> tuple[nn.Module, dict[str, Any]]:
    if name in FAMILIES:
        return FAMILIES[name].make(), FAMILIES[name].inputs()
    match name:
        case "torch.nn.Transformer":
            return torch_transformer()
        case "U-Net":
            return SmallUNet(), {"image": torch.randn(1, 1, 8, 8)}
        case "LSTM":
            return nn.LSTM(3, 4, 2, batch_first=True), {"input": torch.randn(1, 5, 3)}
    return GatedLayer(), {"given": torch.randn(3, 4)}
