"""How a model knows where a token stands: learned vectors, sinusoids, rotations.

The first two are added to token vectors; a rotation turns queries and keys inside attention.
Positions count from 0. Dims: B batch, T positions, D model width, E head width.
"""

from typing import NamedTuple

import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.nn.devices import device_with_double
from glassformer.nn.shapes import Float, Int, Tensor


def sinusoidal_angles(
    positions: Int[Tensor, "... T"], width: int, base: float = 10_000.0
) -> Float[Tensor, "... T P"]:
    """pos / base^(2i / width) for each pair i of dimensions, in float64.

    Float64, because float32 is wrong in the fourth digit a few thousand positions out; on the CPU
    if the device of the positions has none.
    """
    device = device_with_double(positions.device)
    pairs = torch.arange((width + 1) // 2, dtype=torch.float64, device=device)
    frequencies = base ** (-2.0 * pairs / width)
    return positions.to(device).double().unsqueeze(-1) * frequencies


def sinusoids(
    positions: Int[Tensor, "... T"], width: int, base: float = 10_000.0
) -> Float[Tensor, "... T D"]:
    """Sinusoidal position vectors ("Attention is all you need", section 3.5).

    PE(pos, 2i) = sin(pos / base^(2i/width)), PE(pos, 2i+1) = cos of the same angle. An odd width
    ends with a sine that has no cosine beside it.
    """
    angles = sinusoidal_angles(positions, width, base)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return pairs.flatten(-2)[..., :width].to(torch.get_default_dtype()).to(positions.device)


def sinusoidal_table(n_positions: int, width: int, base: float = 10_000.0) -> Float[Tensor, "T D"]:
    """The sinusoidal vectors of the first n_positions."""
    return sinusoids(torch.arange(n_positions), width, base)


_MOST_READY = 2**22  # numbers: a table for 131,072 positions of heads of 32, or 4,096 of 1,024


def _n_ready(max_len: int, width: int) -> int:
    """How many positions a table holds: a config may name any max_len, and no weight bounds it."""
    return min(max_len, max(1, _MOST_READY // width))


class LearnedPositions(nn.Module):
    """One learned vector for each position; positions beyond the last have none."""

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.max_len = max_len
        self.table = nn.Embedding(max_len, d_model)

    def forward(self, positions: Int[Tensor, "... T"], length: int) -> Float[Tensor, "... T D"]:
        """The vectors of these positions, the last of which is at most length − 1."""
        self.check_length(length)
        vectors: Tensor = self.table(positions)
        return vectors

    def check_length(self, length: int) -> None:
        """Refuse a sequence with more positions than there are vectors."""
        if length > self.max_len:
            raise InputError(
                f"the sequence has {length} positions, the model has learned {self.max_len}; "
                "cut the input (max_len) or use sinusoidal or rotary positions"
            )


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids of any length; the first max_len, or as many as fit, are kept ready."""

    table: Tensor

    def __init__(self, max_len: int, d_model: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.base = base
        table = sinusoidal_table(_n_ready(max_len, d_model), d_model, base)
        self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Int[Tensor, "... T"], length: int) -> Float[Tensor, "... T D"]:
        """The vectors of these positions, the last of which is at most length − 1."""
        if length <= self.table.size(0):
            return self.table[positions]
        return sinusoids(positions, self.table.size(1), self.base).to(self.table.dtype)


class Rotation(NamedTuple):
    """Cosine and sine of each position's angles, ready to turn queries and keys."""

    cosines: Float[Tensor, "... T E"]
    sines: Float[Tensor, "... T E"]


class RotaryPositions(nn.Module):
    """Rotary position embedding (Su et al. 2021): position is an angle, not a vector.

    Dimension i is paired with i + E/2, as in Llama's Hugging Face weights; the paper pairs
    neighbours, which is the same up to a fixed order of a head's dimensions.
    """

    cosines: Tensor
    sines: Tensor

    def __init__(self, max_len: int, d_head: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.d_head = d_head
        self.base = base
        table = self._rotation(torch.arange(_n_ready(max_len, d_head)))
        self.register_buffer("cosines", table.cosines, persistent=False)
        self.register_buffer("sines", table.sines, persistent=False)

    def forward(self, positions: Int[Tensor, "... T"], length: int) -> Rotation:
        """The rotation of these positions, the last of which is at most length − 1."""
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
    """Turn each pair (x_i, x_{i+E/2}) by its position's angle."""
    cosines, sines = rotation
    if cosines.dim() == 3:  # positions of their own for each row of the batch
        cosines, sines = cosines.unsqueeze(1), sines.unsqueeze(1)
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    along = x * cosines
    across = turned * sines
    return along + across
