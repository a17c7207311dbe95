"""Blocks and stacks: attention and feed-forward with residual connections and norms.

The residual stream has a name at each stage: `resid_pre` enters a block, `resid_mid` leaves its
attention, `resid_cross` its cross-attention, `resid_post` the block.
Dims: B batch, T positions, S source positions, D model width.
"""

from typing import Unpack

import torch
from torch import nn

from glassformer.errors import InputError, ShapeError
from glassformer.nn.attention import MultiHeadAttention, check_mask, padding_mask
from glassformer.nn.cache import DecodingCache, KeyValueCache
from glassformer.nn.config import ModelConfig, Sizes, config_of
from glassformer.nn.layers import FeedForward, TokenEmbedding, make_norm
from glassformer.nn.positions import (
    LearnedPositions,
    RotaryPositions,
    Rotation,
    SinusoidalPositions,
)
from glassformer.nn.tensors import Bool, Float, Int, Tensor


class Block(nn.Module):
    """Self-attention, optional cross-attention, feed-forward; each with residual and norm.

    Block(d_model=64, n_heads=4)
    Block(presets.gpt2(), causal=True)
    """

    def __init__(
        self,
        config: ModelConfig | None = None,
        *,
        causal: bool = False,
        cross: bool = False,
        **sizes: Unpack[Sizes],
    ) -> None:
        super().__init__()
        config = config_of(ModelConfig, config, {})
        config = config.sized(**sizes) if sizes else config
        d_model = config.d_model
        self.causal = causal
        self.norm_first = config.block.norm_first
        self.attention = MultiHeadAttention(d_model, config.attention)
        self.attention_norm = make_norm(d_model, config.block)
        self.cross_attention = MultiHeadAttention(d_model, config.attention) if cross else None
        self.cross_attention_norm = make_norm(d_model, config.block) if cross else None
        self.feed_forward = FeedForward(d_model, config.feed_forward)
        self.feed_forward_norm = make_norm(d_model, config.block)
        self.dropout = nn.Dropout(config.block.dropout)

    def forward(
        self,
        resid_pre: Float[Tensor, "B T D"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        rotation: Rotation | None = None,
        memory: Float[Tensor, "B S D"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
        memory_cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """One step of the residual stream; cross-attention reads `memory`.

        Each sublayer reads the stream (normalised first, in pre-norm) and its output is added to it
        (normalised after, in post-norm).
        """
        attention_in = self.attention_norm(resid_pre) if self.norm_first else resid_pre
        attended = self.attention(
            attention_in, mask=mask, causal=self.causal, rotation=rotation, cache=cache
        )
        attention_sum = resid_pre + self.dropout(attended)
        resid_mid = attention_sum if self.norm_first else self.attention_norm(attention_sum)

        resid_cross = resid_mid
        if self.cross_attention is not None and self.cross_attention_norm is not None:
            cross_in = self.cross_attention_norm(resid_mid) if self.norm_first else resid_mid
            gathered = self.cross_attention(cross_in, memory, mask=memory_mask, cache=memory_cache)
            cross_sum = resid_mid + self.dropout(gathered)
            resid_cross = cross_sum if self.norm_first else self.cross_attention_norm(cross_sum)

        feed_in = self.feed_forward_norm(resid_cross) if self.norm_first else resid_cross
        fed = self.feed_forward(feed_in)
        feed_sum = resid_cross + self.dropout(fed)
        resid_post: Tensor = feed_sum if self.norm_first else self.feed_forward_norm(feed_sum)
        return resid_post


class Stack(nn.Module):
    """Embedding, positions and blocks: ids (or an image) to vectors.

    An encoder sees all positions; a decoder is causal and may read an encoder's output (`cross`).
    """

    def __init__(
        self,
        config: ModelConfig,
        embedding: nn.Module,
        *,
        n_layers: int | None = None,
        causal: bool = False,
        cross: bool = False,
    ) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.cross = cross
        self.embedding = embedding
        self.positions = _make_positions(config)
        self.types = (
            TokenEmbedding(config.embedding.n_types, config.d_model, what="type")
            if config.embedding.n_types
            else None
        )
        self.embedding_norm = (
            make_norm(config.d_model, config.block) if config.embedding.norm else None
        )
        self.dropout = nn.Dropout(config.block.dropout)
        depth = config.n_layers if n_layers is None else n_layers
        self.blocks = nn.ModuleList(Block(config, causal=causal, cross=cross) for _ in range(depth))
        self.final_norm = (
            make_norm(config.d_model, config.block) if config.block.final_norm else None
        )

    def forward(
        self,
        inputs: Tensor,
        *,
        is_token: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
        memory: Float[Tensor, "B S D"] | None = None,
        memory_is_token: Bool[Tensor, "B S"] | None = None,
        cache: DecodingCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Ids (B, T) or images to vectors. By default, every position is a token."""
        tokens = self.embedding(inputs)
        _check_is_token("is_token", is_token, tokens)
        _check_is_token("the source's is_token", memory_is_token, memory)
        start = 0 if cache is None else cache.length
        length = start + tokens.size(1)
        if cache is not None:
            if isinstance(self.positions, LearnedPositions):
                self.positions.check_length(length)  # so that an error leaves the cache unchanged
            cache.extend(inputs, is_token)
            is_token = cache.is_token
        positions = _positions(is_token, start, tokens.size(1), tokens.device)
        embedded = self.embed(tokens, positions, length, types)
        return self.transform(
            embedded,
            mask=None if is_token is None else padding_mask(is_token),
            rotation=self.rotation(positions, length),
            memory=memory,
            memory_mask=None if memory_is_token is None else padding_mask(memory_is_token),
            cache=cache,
        )

    def embed(
        self,
        tokens: Float[Tensor, "B T D"],
        positions: Int[Tensor, "... T"],
        length: int,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Token vectors plus position (and type) vectors, normalised with `embedding.norm`."""
        summed = tokens
        if isinstance(self.positions, LearnedPositions | SinusoidalPositions):
            position_vectors = self.positions(positions, length)
            summed = tokens + position_vectors
        if self.types is None and types is not None:
            raise InputError("this model takes no type ids (embedding.n_types = 0)")
        if self.types is not None:
            type_ids = (
                tokens.new_zeros(tokens.shape[:2], dtype=torch.long) if types is None else types
            )
            summed = summed + self.types(type_ids)
        normed = summed if self.embedding_norm is None else self.embedding_norm(summed)
        embedded: Tensor = self.dropout(normed)
        return embedded

    def transform(
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        rotation: Rotation | None = None,
        memory: Float[Tensor, "B S D"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: DecodingCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The blocks only, on vectors; masks broadcast to (B, H, T, K)."""
        if self.cross and memory is None:
            raise ShapeError("a decoder with cross-attention needs the encoder's output (memory)")
        for layer, block in enumerate(self.blocks):
            x = block(
                x,
                mask=mask,
                rotation=rotation,
                memory=memory,
                memory_mask=memory_mask,
                cache=None if cache is None else cache.self_attention[layer],
                memory_cache=None if cache is None else cache.cross_attention[layer],
            )
        return x if self.final_norm is None else self.final_norm(x)

    def start_cache(self) -> DecodingCache:
        """An empty cache for step-by-step decoding."""
        return DecodingCache(
            [KeyValueCache() for _ in self.blocks], [KeyValueCache() for _ in self.blocks]
        )

    def rotation(self, positions: Int[Tensor, "... T"], length: int) -> Rotation | None:
        """The rotation of queries and keys; None unless positions are rotary."""
        if not isinstance(self.positions, RotaryPositions):
            return None
        rotation: Rotation = self.positions(positions, length)
        return rotation


def _check_is_token(what: str, is_token: Tensor | None, vectors: Tensor | None) -> None:
    """Refuse a mask that is not boolean or does not have one entry per position."""
    if is_token is None or vectors is None:
        return
    check_mask(is_token)
    if is_token.shape != vectors.shape[:2]:
        raise ShapeError(
            "{what} must have one entry per position, {wanted}, got {shape}",
            what=what,
            wanted=tuple(vectors.shape[:2]),
            shape=tuple(is_token.shape),
        )


def _positions(
    is_token: Bool[Tensor, "B K"] | None, start: int, n_new: int, device: torch.device
) -> Int[Tensor, "... T"]:
    """Positions of the new tokens; left padding is not counted."""
    if is_token is None:
        return torch.arange(start, start + n_new, device=device)
    counted = is_token.long().cumsum(dim=-1) - 1
    return counted[:, start:].clamp(min=0)


def _make_positions(
    config: ModelConfig,
) -> LearnedPositions | SinusoidalPositions | RotaryPositions | None:
    kind, max_len = config.positions.kind, config.max_len
    if kind == "learned":
        return LearnedPositions(max_len, config.d_model)
    if kind == "sinusoidal":
        return SinusoidalPositions(max_len, config.d_model, config.positions.base)
    if kind == "rotary":
        d_head = config.attention.head_width(config.d_model)
        return RotaryPositions(max_len, d_head, config.positions.base)
    return None
