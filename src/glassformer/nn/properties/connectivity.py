"""Four ways to join positions: dense layer, convolution, recurrence, attention.

Each is a module from (B, T, D) to (B, T, D) without biases, so that what it connects can be
measured (`influence`) and what it costs be compared (`layer_cost`; table 1 of "Attention is all
you need" has the same columns in orders of magnitude).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.errors import ConfigError, UnknownNameError
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.config import AttentionConfig
from glassformer.nn.properties.counting import attention_cost, attention_parameters
from glassformer.nn.shapes import Float, Tensor

LayerKind = Literal["dense", "convolution", "recurrence", "attention"]

_ONE_HEAD = AttentionConfig(n_heads=1, output_map=False)


class DenseLayer(nn.Module):
    """Every number of the sequence with every other: one (T·D) × (T·D) matrix, one length only."""

    def __init__(self, n_positions: int, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(n_positions * d_model, n_positions * d_model, bias=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """All positions as one row, mapped, cut into positions again."""
        mixed: Tensor = self.mix(x.flatten(1))
        return mixed.view_as(x)


class ConvolutionLayer(nn.Module):
    """Each position with its neighbours, by the same map everywhere."""

    def __init__(self, d_model: int, kernel_size: int) -> None:
        super().__init__()
        if kernel_size % 2 == 0 or kernel_size < 1:
            raise ConfigError(
                f"kernel_size must be odd, so that it has a middle, got {kernel_size}"
            )
        self.mix = nn.Conv1d(d_model, d_model, kernel_size, padding=kernel_size // 2, bias=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """y_i = Σ_o W_o x_{i+o}, with zeros beyond the ends."""
        mixed: Tensor = self.mix(x.mT)
        return mixed.mT


class RecurrentLayer(nn.Module):
    """Each position with the state that all positions before it left behind."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(d_model, d_model, bias=False)
        self.from_state = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """h_i = tanh(W x_i + U h_{i−1}): one position after another, and no other way."""
        state = torch.zeros_like(x[:, 0])
        states = []
        for vector in x.unbind(dim=1):
            state = torch.tanh(self.from_input(vector) + self.from_state(state))
            states.append(state)
        return torch.stack(states, dim=1)

    def step(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """One moment: each state moves on to the next position, all at once."""
        earlier = F.pad(states, (0, 0, 1, 0))[:, :-1]
        return torch.tanh(self.from_input(states) + self.from_state(earlier))


def make_layer(kind: LayerKind, n_positions: int, d_model: int, kernel_size: int = 3) -> nn.Module:
    """A fresh layer of this kind; attention has one head and no output map."""
    makers: dict[LayerKind, Callable[[], nn.Module]] = {
        "dense": lambda: DenseLayer(n_positions, d_model),
        "convolution": lambda: ConvolutionLayer(d_model, kernel_size),
        "recurrence": lambda: RecurrentLayer(d_model),
        "attention": lambda: MultiHeadAttention(d_model, _ONE_HEAD),
    }
    _check_kind(kind)
    return makers[kind]()


@dataclass(frozen=True)
class LayerCost:
    """What one layer over a sequence costs, and how far it carries information."""

    kind: LayerKind
    parameters: int
    multiply_adds: int
    sequential_steps: int
    """Steps that must wait for one another; everything else can run at once."""
    longest_path: int
    """Layers, or moments of a recurrence, between the first and the last position."""


def layer_cost(kind: LayerKind, n_positions: int, d_model: int, kernel_size: int = 3) -> LayerCost:
    """The costs of the layer that `make_layer` would make, by formula."""
    _check_kind(kind)
    square = d_model**2
    attention = attention_cost(n_positions, d_model, _ONE_HEAD).multiply_adds
    parameters, multiply_adds = {
        "dense": (n_positions**2 * square, n_positions**2 * square),
        "convolution": (kernel_size * square, n_positions * kernel_size * square),
        "recurrence": (2 * square, n_positions * 2 * square),
        "attention": (sum(attention_parameters(d_model, _ONE_HEAD).values()), attention),
    }[kind]
    return LayerCost(
        kind=kind,
        parameters=parameters,
        multiply_adds=multiply_adds,
        sequential_steps=n_positions if kind == "recurrence" else 1,
        longest_path=path_length(kind, n_positions - 1, kernel_size),
    )


def path_length(kind: LayerKind, distance: int, kernel_size: int = 3) -> int:
    """Layers (of a recurrence: moments) before a position can see one `distance` before it.

    Dense layers and attention: 1, however far. A recurrence: one moment for each position. A
    convolution reaches half its kernel further with each layer.
    """
    _check_kind(kind)
    if distance < 0:
        raise ConfigError(f"distance must not be negative, got {distance}")
    if kind == "recurrence":
        return distance
    if kind != "convolution":
        return min(distance, 1)
    reach = kernel_size // 2
    if reach == 0 and distance:
        raise ConfigError(f"a kernel of {kernel_size} sees no other position")
    return math.ceil(distance / reach) if distance else 0


def _check_kind(kind: str) -> None:
    if kind not in get_args(LayerKind):
        raise UnknownNameError("layer", kind, get_args(LayerKind))
