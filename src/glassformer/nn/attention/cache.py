"""What step-by-step decoding remembers, so that no prefix is computed twice.

A cache is filled by the attention modules as they run; it holds no arithmetic of its own.
Dims: B batch, G key/value heads, K positions so far, E and W widths of keys and values.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from glassformer.nn.shapes import Bool, Float, Int, Tensor

__all__ = ["Branches", "DecodingCache", "KeyValueCache"]


class Branches(NamedTuple):
    """New tokens that stand side by side, not one after the other: rival continuations of a text.

    All continuations of one text share its cache; which cached positions belong to which of them
    is said here, so that nothing is copied when a continuation splits or dies.
    """

    positions: Int[Tensor, "... T"]
    """Where each new token stands in its own continuation."""
    visible: Bool[Tensor, "B T K"]
    """Which positions of the cache each new token may attend to, the new ones included."""
    length: int
    """Length of the longest continuation, the new tokens included."""


class KeyValueCache:
    """Keys and values of one attention layer.

    Room is doubled when it runs out, so that appending costs the same however long the text has
    become. It is written in place: decode under `torch.no_grad()`.
    """

    def __init__(self) -> None:
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def append(
        self, keys: Float[Tensor, "B G N E"], values: Float[Tensor, "B G N W"]
    ) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        """Add the newest positions; returns all so far."""
        start, self.length = self.length, self.length + keys.size(-2)
        self._keys = _write(self._keys, keys, start)
        self._values = _write(self._values, values, start)
        return self.read()

    def read(self) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        """All keys and values so far."""
        assert self._keys is not None and self._values is not None, "the cache is empty"
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Keep these batch rows, in this order: beams that survive, sentences that go on."""
        if self._keys is not None and self._values is not None:
            self._keys = self._keys.index_select(0, rows)  # twice as fast as plain indexing
            self._values = self._values.index_select(0, rows)

    def gather(self, positions: Int[Tensor, "B N"]) -> None:
        """Keep these positions of each batch row, in this order, and forget the others."""
        if self._keys is not None and self._values is not None:
            rows = torch.arange(positions.size(0), device=positions.device)[:, None]
            # Indexed with the heads last, one position is one contiguous copy.
            self._keys = self._keys.transpose(1, 2)[rows, positions].transpose(1, 2)
            self._values = self._values.transpose(1, 2)[rows, positions].transpose(1, 2)
            self.length = positions.size(1)


def _write(room: Tensor | None, new: Tensor, start: int) -> Tensor:
    end = start + new.size(-2)
    if room is None:
        return new
    if room.size(-2) < end:
        batch, heads, _, width = room.shape
        larger = room.new_empty(batch, heads, max(end, 2 * start), width)
        larger[:, :, :start] = room[:, :, :start]
        room = larger
    room[:, :, start:end] = new
    return room


@dataclass
class DecodingCache:
    """One cache for each attention of each block, and which positions so far were padding."""

    self_attention: list[KeyValueCache] = field(default_factory=list)
    cross_attention: list[KeyValueCache] = field(default_factory=list)
    length: int = 0
    """Positions so far (a stack without blocks counts them, too)."""
    is_token: Bool[Tensor, "B K"] | None = None
    """True at tokens, False at (left) padding; None while there was none."""

    @classmethod
    def for_blocks(cls, n_layers: int) -> "DecodingCache":
        """An empty cache for a stack of n_layers blocks."""
        return cls(
            [KeyValueCache() for _ in range(n_layers)], [KeyValueCache() for _ in range(n_layers)]
        )

    def extend(self, new_ids: Int[Tensor, "B N"], is_token: Bool[Tensor, "B N"] | None) -> None:
        """Count the newest positions, and note which are padding (none, if no mask is given)."""
        if is_token is not None or self.is_token is not None:
            past, new = self.is_token, is_token
            if past is None:
                past = new_ids.new_ones((new_ids.size(0), self.length), dtype=torch.bool)
            if new is None:
                new = torch.ones_like(new_ids, dtype=torch.bool)
            self.is_token = torch.cat([past, new], dim=1)
        self.length += new_ids.size(1)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Keep these batch rows, in this order."""
        for layer in (*self.self_attention, *self.cross_attention):
            layer.select(rows)
        if self.is_token is not None:
            self.is_token = self.is_token[rows]
