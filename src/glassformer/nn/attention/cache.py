"""What step-by-step decoding remembers, so that no prefix is computed twice.

A cache is filled by the attention modules as they run; it holds no arithmetic of its own.
Dims: B batch, G key/value heads, K positions so far, E and W widths of keys and values.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from glassformer.nn.shapes import Bool, Float, Int, Tensor

__all__ = ["Branches", "DecodingCache", "KeyValueCache"]

_LEAST_ROOM = 64  # positions: most sentences never outgrow it, so that their cache never moves


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
    become. It is written in place: decode under `torch.no_grad()`. In room of its own, all heads of
    a position lie side by side, as the projections give them: writing one is one copy.
    """

    def __init__(self) -> None:
        self.length = 0
        self._keys: Tensor | None = None  # (B, K, G, E), with room to spare
        self._values: Tensor | None = None
        self._slots: Tensor | None = None

    @classmethod
    def over(
        cls, keys: Float[Tensor, "B G K E"], values: Float[Tensor, "B G K W"]
    ) -> "KeyValueCache":
        """A cache in memory that its owner keeps: all positions are there, none is ever moved."""
        cache = cls()
        cache.length = keys.size(2)
        cache._keys, cache._values = keys.transpose(1, 2), values.transpose(1, 2)
        return cache

    def append(
        self, keys: Float[Tensor, "B G N E"], values: Float[Tensor, "B G N W"]
    ) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        """Add the newest positions, at the end or where `reserve` said; returns all there are."""
        if self._slots is None:
            start, self.length = self.length, self.length + keys.size(-2)
            self._keys = _write(self._keys, keys.transpose(1, 2), start)
            self._values = _write(self._values, values.transpose(1, 2), start)
        else:
            self._keys = _put(self._keys, keys.transpose(1, 2), self._slots, self.length)
            self._values = _put(self._values, values.transpose(1, 2), self._slots, self.length)
            self._slots = None
        return self.read()

    def read(self) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        """All keys and values so far."""
        assert self._keys is not None and self._values is not None, "the cache is empty"
        keys, values = self._keys[:, : self.length], self._values[:, : self.length]
        return keys.transpose(1, 2), values.transpose(1, 2)

    def reserve(self, slots: Int[Tensor, "B N"], length: int) -> None:
        """Let the next append overwrite these positions of each row, of `length` there are then.

        Positions that were never written hold zeros; a mask must hide them.
        """
        assert length >= self.length, "a cache does not become shorter"
        self._slots, self.length = slots, length

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Keep these batch rows, in this order: beams that survive, sentences that go on."""
        if self._keys is not None and self._values is not None:
            # Twice as fast as plain indexing.
            self._keys = self._keys[:, : self.length].index_select(0, rows)
            self._values = self._values[:, : self.length].index_select(0, rows)


def _write(
    room: Float[Tensor, "B K G E"] | None, new: Float[Tensor, "B N G E"], start: int
) -> Float[Tensor, "B L G E"]:
    """Add positions behind the first `start`."""
    if room is None:
        return new
    end = start + new.size(1)
    room = _with_room(room, end, max(end, 2 * start))
    room[:, start:end] = new
    return room


def _put(
    room: Float[Tensor, "B K G E"] | None,
    new: Float[Tensor, "B N G E"],
    slots: Int[Tensor, "B N"],
    length: int,
) -> Float[Tensor, "B L G E"]:
    """Overwrite one position for each new one."""
    assert room is not None, "slots are for caches that have been begun"
    room = _with_room(room, length, max(length, 2 * room.size(1), _LEAST_ROOM))
    rows = torch.arange(room.size(0), device=room.device).unsqueeze(-1)
    room[rows, slots] = new
    return room


def _with_room(
    room: Float[Tensor, "B K G E"], needed: int, wanted: int
) -> Float[Tensor, "B L G E"]:
    """The same, or moved to a room of `wanted` positions where it holds fewer than `needed`."""
    if room.size(1) >= needed:
        return room
    # Zeros: what a mask hides has weight 0, but 0 times a stray NaN would still be NaN.
    larger = room.new_zeros(room.size(0), wanted, *room.shape[2:])
    larger[:, : room.size(1)] = room
    return larger


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

    def reserve(self, slots: Int[Tensor, "B N"], length: int) -> None:
        """Let the next step overwrite these positions of each row; see `KeyValueCache.reserve`."""
        for layer in self.self_attention:
            layer.reserve(slots, length)

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Keep these batch rows, in this order."""
        for layer in (*self.self_attention, *self.cross_attention):
            layer.select(rows)
        if self.is_token is not None:
            self.is_token = self.is_token[rows]
