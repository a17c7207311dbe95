"""A model's weights in fewer bits: int8 or bfloat16 instead of float32.

    store(model, "int8")

In int8, a row of a matrix is integers from −127 to 127 and one scale (−63 to 63 on processors whose
sums saturate: `largest_weight`); inputs are rounded to integers as well, so that the product is one
of integers. Norms, biases, attention and softmax stay in float32. In bfloat16, everything is
bfloat16. docs/inference.md measures the loss in score and the gain in speed.
Dims: N rows of vectors, I inputs, O outputs, V vocabulary, D model width.
"""

from typing import Literal, get_args

import torch
from torch import nn

from glassformer.errors import ConfigError
from glassformer.modes import multiplies_bfloat16, multiplies_int8
from glassformer.nn.layers import TokenEmbedding
from glassformer.nn.tensors import Float, Int, Tensor, as_device

Weights = Literal["float32", "int8", "bfloat16"]


def check_weights(weights: str, device: torch.device | str) -> None:
    """Reject unknown formats, and those this machine cannot compute, before a model is read."""
    if not isinstance(weights, str) or weights not in get_args(Weights):
        names = ", ".join(get_args(Weights))
        raise ConfigError(
            "weights must be one of {names}, got {weights!r}", names=names, weights=weights
        )
    if weights == "int8" and str(device) != "cpu":
        raise ConfigError(
            "int8 weights are for the CPU, got device {device}; use bfloat16 there", device=device
        )
    kind = as_device(device).type
    if weights == "bfloat16" and kind == "cpu" and not multiplies_bfloat16():
        raise ConfigError("this CPU cannot multiply bfloat16 matrices; use int8 or float32 weights")


def store(model: nn.Module, weights: Weights) -> nn.Module:
    """Convert a model's weights in place; returns the model."""
    if weights == "bfloat16":
        return model.to(torch.bfloat16)
    if weights == "int8":
        _store_int8(model)
    return model


def largest_weight() -> int:
    """127, or 63 where the processor saturates sums of two products at 16 bits.

    Inputs are shifted to 0 … 255 there, and 2 · 255 · 63 is below 2¹⁵.
    """
    return 127 if multiplies_int8() else 63


def to_int8(
    rows: Float[Tensor, "N I"], most: int = 127
) -> tuple[Int[Tensor, "N I"], Float[Tensor, " N"]]:
    """Integers and a scale per row: rows ≈ integers · scale, within half a scale.

    The largest of a row becomes ±`most`. A row of zeros has the scale 1, since any would do.
    """
    largest = torch.linalg.vector_norm(rows, float("inf"), dim=-1)
    scales = torch.where(largest > 0, largest / most, 1.0)
    return (rows / scales.unsqueeze(-1)).round_().to(torch.int8), scales


class Int8Linear(nn.Module):
    """A linear map whose matrix is int8; its inputs are rounded to int8 as they come."""

    weight: Tensor
    scales: Tensor

    def __init__(self, matrix: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", matrix)
        self.register_buffer("scales", scales)
        self.bias = bias

    def forward(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        """(numbers of x · numbers of W) · scale of x · scale of W + b."""
        numbers, scales = to_int8(x.reshape(-1, x.size(-1)))
        sums = torch._int_mm(numbers, self.weight.t())
        output = (sums * scales.unsqueeze(-1)).mul_(self.scales)  # in place: bound by memory
        if self.bias is not None:
            output.add_(self.bias)
        return output.view(*x.shape[:-1], -1)

    def extra_repr(self) -> str:
        """Shown by print(module)."""
        n_outputs, n_inputs = self.weight.shape
        return f"in_features={n_inputs}, out_features={n_outputs}, int8"


class Int8Embedding(TokenEmbedding):
    """A token table of int8 rows; an output map that was tied to it still is."""

    scales: Tensor

    def __init__(self, table: TokenEmbedding, matrix: Tensor, scales: Tensor) -> None:
        nn.Module.__init__(self)
        self.vocab_size, self.what, self.factor = table.vocab_size, table.what, table.factor
        self.register_buffer("weight", matrix)
        self.register_buffer("scales", scales)

    def _look_up(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        numbers = nn.functional.embedding(ids, self.weight)
        return numbers * self.scales[ids].unsqueeze(-1)


@torch.no_grad()
def _store_int8(model: nn.Module) -> None:
    stored: dict[int, tuple[Tensor, Tensor]] = {}  # by parameter: tied ones stay tied
    made: dict[nn.Module, nn.Module] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) not in (nn.Linear, TokenEmbedding):
                continue
            assert isinstance(child, nn.Linear | TokenEmbedding)
            if id(child.weight) not in stored:
                stored[id(child.weight)] = to_int8(child.weight, largest_weight())
            matrix, scales = stored[id(child.weight)]
            if child not in made:
                made[child] = (
                    Int8Linear(matrix, scales, child.bias)
                    if isinstance(child, nn.Linear)
                    else Int8Embedding(child, matrix, scales)
                )
            setattr(parent, name, made[child])
