"""The key/value cache of step-by-step decoding, filled by the attention modules as they run.

Dims: B batch, G key/value heads, K positions so far, E and W widths of keys and values.
"""

from dataclasses import dataclass, field

import torch

from glassformer.nn.tensors import Bool, Float, Int, Tensor


class KeyValueCache:
    """Keys and values of one attention layer.

    The buffer doubles when full, so appending takes amortised constant time. It is written in
    place: decode under `torch.no_grad()`. All heads of a position are contiguous, as the
    projections produce them, so writing one position is one copy.
    """

    def __init__(self) -> None:
        self.length = 0
        self._keys: Tensor | None = None  # (B, capacity, G, E)
        self._values: Tensor | None = None

    def append(
        self, keys: Float[Tensor, "B G N E"], values: Float[Tensor, "B G N W"]
    ) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        """Append new positions; returns all keys and values."""
        start, self.length = self.length, self.length + keys.size(-2)
        self._keys = _write(self._keys, keys.transpose(1, 2), start)
        self._values = _write(self._values, values.transpose(1, 2), start)
        return self.read()

    def read(self) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        assert self._keys is not None and self._values is not None, "the cache is empty"
        keys, values = self._keys[:, : self.length], self._values[:, : self.length]
        return keys.transpose(1, 2), values.transpose(1, 2)

    def select(self, rows: Int[Tensor, " N"], start: int = 0) -> None:
        """Keep these batch rows, in this order, from position `start` on."""
        if self._keys is not None and self._values is not None:
            # index_select is twice as fast as plain indexing.
            self._keys = self._keys[:, start : self.length].index_select(0, rows)
            self._values = self._values[:, start : self.length].index_select(0, rows)
            self.length -= start


def _write(
    buffer: Float[Tensor, "B K G E"] | None, new: Float[Tensor, "B N G E"], start: int
) -> Float[Tensor, "B L G E"]:
    """Write positions after the first `start`, enlarging the buffer if necessary."""
    if buffer is None:
        return new
    end = start + new.size(1)
    buffer = enlarged(buffer, end, max(end, 2 * start))
    buffer[:, start:end] = new
    return buffer


def enlarged(
    buffer: Float[Tensor, "B K G E"], needed: int, wanted: int
) -> Float[Tensor, "B L G E"]:
    """The buffer itself, or a copy with `wanted` positions if it has fewer than `needed`."""
    if buffer.size(1) >= needed:
        return buffer
    # Zeros: a masked position has weight 0, but 0 times a stray NaN would still be NaN.
    larger = buffer.new_zeros(buffer.size(0), wanted, *buffer.shape[2:])
    larger[:, : buffer.size(1)] = buffer
    return larger


@dataclass
class DecodingCache:
    """One cache per attention of each block, and which positions are padding."""

    self_attention: list[KeyValueCache] = field(default_factory=list)
    cross_attention: list[KeyValueCache] = field(default_factory=list)
    length: int = 0
    """Positions so far, also counted in a stack without blocks."""
    is_token: Bool[Tensor, "B K"] | None = None
    """True at tokens, False at (left) padding; None if there is no padding."""

    def extend(self, new_ids: Int[Tensor, "B N"], is_token: Bool[Tensor, "B N"] | None) -> None:
        """Count new positions and record which are padding (none if no mask is given)."""
        if is_token is not None or self.is_token is not None:
            past, new = self.is_token, is_token
            if past is None:
                past = new_ids.new_ones((new_ids.size(0), self.length), dtype=torch.bool)
            if new is None:
                new = torch.ones_like(new_ids, dtype=torch.bool)
            self.is_token = torch.cat([past, new], dim=1)
        self.length += new_ids.size(1)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Keep these batch rows, in this order, and drop left padding common to all of them."""
        n_padding = 0
        if self.is_token is not None:
            self.is_token = self.is_token[rows]
            n_padding = int((~self.is_token).all(dim=0).long().cumprod(dim=0).sum())
            self.is_token = self.is_token[:, n_padding:]
            self.length -= n_padding
        for layer in self.self_attention:
            layer.select(rows, n_padding)
        for layer in self.cross_attention:
            layer.select(rows)
