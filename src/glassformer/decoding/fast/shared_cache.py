"""One cache row per sequence, shared by its beams.

The plain stepper copies a sequence's cache to every beam that continues it. Here all beams of a
sequence share its cache, the encoder's part and the decoder's. Each step writes one cache position
per beam; a mask says which positions are a beam's own past, and a beam that splits or dies changes
the mask, not the cache. A position that no beam needs any more is overwritten, so nothing is ever
moved.
Dims: B sequences, R beams of each, S source and K cached positions, G heads, V vocabulary.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.decoding.stepper import ModelStepper
from glassformer.nn import Block, DecodingCache, LanguageModel, MultiHeadAttention, Seq2Seq, Stack
from glassformer.nn.attention import padding_mask
from glassformer.nn.cache import KeyValueCache, enlarged
from glassformer.nn.tensors import Bool, Float, Int, Tensor

# PyTorch's CPU kernel takes keys in groups of sixteen and the rest one by one: 15 keys cost two and
# a half times as much as 16, and 22 or more cost less when padded with masked ones to 32.
_KEYS_AT_ONCE = 16
_WORTH_FILLING = 6
_MIN_SLOTS = 64  # most sentences never outgrow it, so their cache is never moved

M = TypeVar("M", bound=nn.Module)


class SlotCache(KeyValueCache):
    """A cache whose next positions go wherever `reserve` says."""

    _slots: Tensor | None = None

    @classmethod
    def over(cls, keys: Float[Tensor, "B G K E"], values: Float[Tensor, "B G K W"]) -> "SlotCache":
        """A cache in memory owned by the caller: all positions exist, none is ever moved."""
        cache = cls()
        cache.length = keys.size(2)
        cache._keys, cache._values = keys.transpose(1, 2), values.transpose(1, 2)
        return cache

    def reserve(self, slots: Int[Tensor, "B N"], length: int) -> None:
        """Let the next append overwrite these positions of each row; `length` are in use then.

        Positions that were never written hold zeros; a mask must hide them.
        """
        assert length >= self.length, "a cache does not become shorter"
        self._slots, self.length = slots, length

    def append(
        self, keys: Float[Tensor, "B G N E"], values: Float[Tensor, "B G N W"]
    ) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        """Add new positions, in the reserved places or else at the end; returns all positions."""
        if self._slots is None:
            return super().append(keys, values)
        self._keys = _put(self._keys, keys.transpose(1, 2), self._slots, self.length)
        self._values = _put(self._values, values.transpose(1, 2), self._slots, self.length)
        self._slots = None
        return self.read()


def _put(
    buffer: Float[Tensor, "B K G E"] | None,
    new: Float[Tensor, "B N G E"],
    slots: Int[Tensor, "B N"],
    length: int,
) -> Float[Tensor, "B L G E"]:
    """Overwrite one position for each new one."""
    assert buffer is not None, "only a cache that has been filled has slots"
    buffer = enlarged(buffer, length, max(length, 2 * buffer.size(1), _MIN_SLOTS))
    rows = torch.arange(buffer.size(0), device=buffer.device).unsqueeze(-1)
    buffer[rows, slots] = new
    return buffer


class Branches(NamedTuple):
    """New tokens in parallel, one per beam, rather than one after the other."""

    positions: Int[Tensor, "... T"]
    """The position of each new token in its own sequence."""
    visible: Bool[Tensor, "B T K"]
    """Which positions of the cache each new token may attend to, the new ones included."""
    length: int
    """Length of the longest sequence, the new tokens included."""


class BranchedStack(Stack):
    """A decoder that reads one token per beam in parallel, sharing a plain decoder's parameters.

    Parallel tokens have no order: only the mask says what each sees. The caller keeps track of
    positions and padding.
    """

    @classmethod
    def over(
        cls, decoder: Stack, attention: type[MultiHeadAttention] | None = None
    ) -> "BranchedStack":
        """A branched version of a decoder, optionally with another attention class."""
        blocks = nn.ModuleList()
        for block in decoder.blocks:
            parts = {
                name: copied(part, attention)
                for name, part in block.named_children()
                if attention is not None and isinstance(part, MultiHeadAttention)
            }
            beside = copied(block, type(block), parts)
            assert isinstance(beside, Block)
            beside.causal = False
            blocks.append(beside)
        return copied(decoder, cls, {"blocks": blocks})

    def forward(  # type: ignore[override]  # a decoder of its own, never in place of a plain one
        self,
        tokens: Int[Tensor, "B R"],
        *,
        branches: Branches,
        cache: DecodingCache,
        memory: Float[Tensor, "B S D"] | None = None,
        memory_is_token: Bool[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B R D"]:
        """One vector per beam, given its own past."""
        positions, visible, length = branches
        embedded = self.embed(self.embedding(tokens), positions, length)
        return self.transform(
            embedded,
            mask=visible.unsqueeze(1),  # the same for all heads
            rotation=self.rotation(positions, length),
            memory=memory,
            memory_mask=None if memory_is_token is None else padding_mask(memory_is_token),
            cache=cache,
        )


def copied(module: nn.Module, kind: type[M], parts: Mapping[str, nn.Module] | None = None) -> M:
    """A module of another class with the same parameters and hooks, some parts replaced."""
    twin = copy.copy(module)
    twin.__class__ = kind
    assert isinstance(twin, kind)
    twin.__dict__["_modules"] = {**module._modules, **(parts or {})}
    twin._compiled_call_impl = None  # compiled code is the original's
    return twin


class SharedCacheStepper(ModelStepper):
    """A `Stepper` whose beams share the cache of their sequence."""

    def __init__(
        self,
        model: LanguageModel | Seq2Seq,
        prefixes: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__(model, prefixes, sources)
        self.cache.self_attention = [SlotCache() for _ in self.cache.self_attention]
        if self.memory is not None:
            self.memory, self.memory_is_token = _padded(self.memory, self.memory_is_token)
        self._branched: BranchedStack | None = None
        self._visible: Tensor | None = None  # (B, R, K); None: every beam sees every position
        self._n_free = 0  # at least this many positions of each sequence can be overwritten

    def start(self) -> Float[Tensor, "B 1 V"]:
        logits = super().start()
        if self.cache.is_token is not None:  # from here on, _visible says what is padding
            self._visible, self.cache.is_token = self.cache.is_token.unsqueeze(1), None
        return logits

    def step(
        self, tokens: Int[Tensor, "B R"], parents: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R V"]:
        if self._visible is None and tokens.size(1) == 1:
            vectors = self._decode(tokens)
        else:
            self._branched = self._branched or BranchedStack.over(self.model.decoder)
            vectors = self._branched(
                tokens,
                branches=self._branch(tokens, parents),
                cache=self.cache,
                memory=self.memory,
                memory_is_token=self.memory_is_token,
            )
        self._lengths = self._lengths + 1
        self._longest += 1
        logits: Tensor = self.model.to_vocabulary(vectors)
        return logits

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        super().keep(sequences)  # whose beams share one row
        if self._visible is not None:
            self._visible = self._visible[sequences]

    def _branch(self, tokens: Tensor, parents: Tensor | None) -> Branches:
        """Give each new token its own cache position and the past of its parent."""
        n_sequences, n_beams = tokens.shape
        past = self._visible
        if past is None:
            past = tokens.new_ones((n_sequences, 1, self._longest), dtype=torch.bool)
        if parents is not None:
            past = past.take_along_dim(parents.unsqueeze(-1), dim=1)
        if self._n_free < n_beams:  # counted only when needed, since counting waits
            n_alive, n_cached = most_alive(past), past.size(-1)
            n_more = max(0, _in_sixteens(n_alive + n_beams) - n_cached)
            past = F.pad(past, (0, n_more))
            self._n_free = n_cached + n_more - n_alive
        self._n_free -= n_beams
        slots, self._visible = claim_positions(past)
        reserve(self.cache.self_attention, slots, past.size(-1))
        positions = self._lengths.unsqueeze(-1).expand(-1, n_beams)
        return Branches(positions, self._visible, self._longest + 1)


def reserve(layers: Iterable[KeyValueCache], slots: Int[Tensor, "B N"], length: int) -> None:
    """Let the next step overwrite these positions in all layers; see `SlotCache.reserve`."""
    for layer in layers:
        assert isinstance(layer, SlotCache)
        layer.reserve(slots, length)


def claim_positions(
    past: Bool[Tensor, "B R K"],
) -> tuple[Int[Tensor, "B R"], Bool[Tensor, "B R K"]]:
    """A free position for each beam, and what each beam sees including its own."""
    n_sequences, n_beams, _ = past.shape
    is_dead = ~past.any(dim=1)
    nth_dead = torch.arange(1, n_beams + 1, device=past.device).expand(n_sequences, -1)
    slots = torch.searchsorted(is_dead.cumsum(dim=-1), nth_dead.contiguous())
    return slots, past.scatter(-1, slots.unsqueeze(-1), True)


def most_alive(past: Bool[Tensor, "B R K"]) -> int:
    """The number of positions still in some beam's past, in the sequence that has most."""
    return int(past.any(dim=1).sum(dim=-1).max())


def _in_sixteens(n_keys: int) -> int:
    """The number of keys, rounded up to a multiple of sixteen."""
    return -(-n_keys // _KEYS_AT_ONCE) * _KEYS_AT_ONCE


def _padded(
    memory: Float[Tensor, "B S D"], is_token: Bool[Tensor, "B S"] | None
) -> tuple[Float[Tensor, "B L D"], Bool[Tensor, "B L"] | None]:
    """An encoder's output, padded with masked positions if attention is then faster."""
    n_more = _in_sixteens(memory.size(1)) - memory.size(1)
    if not 0 < n_more <= _KEYS_AT_ONCE - _WORTH_FILLING:
        return memory, is_token
    if is_token is None:
        is_token = memory.new_ones(memory.shape[:2], dtype=torch.bool)
    return F.pad(memory, (0, 0, 0, n_more)), F.pad(is_token, (0, n_more))
