"""Positions: learned vectors, sinusoids, rotary embeddings.

The first two are added to token vectors; rotary embeddings rotate queries and keys in attention.
Positions count from 0. Dims: B batch, T positions, D model width, E head width.
"""

from typing import NamedTuple

import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.nn.tensors import Float, Int, Tensor, float64_device


def sinusoidal_angles(
    positions: Int[Tensor, "... T"], width: int, base: float = 10_000.0
) -> Float[Tensor, "... T P"]:
    """pos / base^(2i / width) for each pair i of dimensions, in float64.

    In float32 the fourth digit would be wrong at a few thousand positions. On the CPU if the
    device of the positions has no float64.
    """
    device = float64_device(positions.device)
    pairs = torch.arange((width + 1) // 2, dtype=torch.float64, device=device)
    frequencies = base ** (-2.0 * pairs / width)
    return positions.to(device).double().unsqueeze(-1) * frequencies


def sinusoids(
    positions: Int[Tensor, "... T"], width: int, base: float = 10_000.0
) -> Float[Tensor, "... T D"]:
    """Sinusoidal position vectors ("Attention is all you need", section 3.5).

    PE(pos, 2i) = sin(pos / base^(2i/width)), PE(pos, 2i+1) = cos of the same angle. An odd width
    ends with a sine without its cosine.
    """
    angles = sinusoidal_angles(positions, width, base)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return pairs.flatten(-2)[..., :width].to(torch.get_default_dtype()).to(positions.device)


def sinusoidal_table(n_positions: int, width: int, base: float = 10_000.0) -> Float[Tensor, "T D"]:
    """The sinusoidal vectors of positions 0 to n_positions − 1."""
    return sinusoids(torch.arange(n_positions), width, base)


_LARGEST_TABLE = 2**22  # numbers: 131,072 positions of width 32, or 4,096 of width 1,024


def _table_length(max_len: int, width: int) -> int:
    """Positions in a precomputed table: bounded, since a config may name any max_len."""
    return min(max_len, max(1, _LARGEST_TABLE // width))


class LearnedPositions(nn.Module):
    """One learned vector per position; a sequence cannot be longer than max_len."""

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.max_len = max_len
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, positions: Int[Tensor, "... T"], length: int) -> Float[Tensor, "... T D"]:
        """The vectors of these positions, all below `length`."""
        self.check_length(length)
        vectors: Tensor = self.table(positions)
        return vectors

    def check_length(self, length: int) -> None:
        if length > self.max_len:
            raise InputError(
                "the sequence has {length} positions, the model has learned {max_len}; "
                "truncate the input (max_len) or use sinusoidal or rotary positions",
                length=length,
                max_len=self.max_len,
            )


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids for any position; those of the first positions are precomputed."""

    table: Tensor

    def __init__(self, max_len: int, d_model: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.base = base
        table = sinusoidal_table(_table_length(max_len, d_model), d_model, base)
        self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Int[Tensor, "... T"], length: int) -> Float[Tensor, "... T D"]:
        """The vectors of these positions, all below `length`."""
        if length <= self.table.size(0):
            return self.table[positions]
        return sinusoids(positions, self.table.size(1), self.base).to(self.table.dtype)


class Rotation(NamedTuple):
    """Cosines and sines of each position's angles, for rotating queries and keys."""

    cosines: Float[Tensor, "... T E"]
    sines: Float[Tensor, "... T E"]


class RotaryPositions(nn.Module):
    """Rotary position embedding (Su et al. 2021): a position is an angle, not a vector.

    Dimension i is paired with i + E/2, as in Llama's Hugging Face weights; the paper pairs adjacent
    dimensions, which is the same up to a permutation of a head's dimensions.
    """

    cosines: Tensor
    sines: Tensor

    def __init__(self, max_len: int, d_head: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.d_head = d_head
        self.base = base
        table = self._rotation(torch.arange(_table_length(max_len, d_head)))
        self.register_buffer("cosines", table.cosines, persistent=False)
        self.register_buffer("sines", table.sines, persistent=False)

    def forward(self, positions: Int[Tensor, "... T"], length: int) -> Rotation:
        """The rotation of these positions, all below `length`."""
        if length <= self.cosines.size(0):
            return Rotation(self.cosines[positions], self.sines[positions])
        longer = self._rotation(positions)
        return Rotation(longer.cosines.to(self.cosines.dtype), longer.sines.to(self.sines.dtype))

    def _rotation(self, positions: Int[Tensor, "... T"]) -> Rotation:
        angles = sinusoidal_angles(positions, self.d_head, self.base)
        both_halves = torch.cat([angles, angles], dim=-1)
        dtype, device = torch.get_default_dtype(), positions.device
        cosines, sines = both_halves.cos().to(dtype), both_halves.sin().to(dtype)
        return Rotation(cosines.to(device), sines.to(device))


def rotate(x: Float[Tensor, "B H T E"], rotation: Rotation) -> Float[Tensor, "B H T E"]:
    """Rotate each pair (x_i, x_{i+E/2}) by its position's angle."""
    cosines, sines = rotation
    if cosines.dim() == 3:  # positions differ between the rows of the batch
        cosines, sines = cosines.unsqueeze(1), sines.unsqueeze(1)
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    along = x * cosines
    across = turned * sines
    return along + across
