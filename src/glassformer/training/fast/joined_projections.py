"""Queries, keys and values of self-attention by one product, which a GPU computes faster.

Dims: as in `nn.attention.multi_head`.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.nn import MultiHeadAttention
from glassformer.nn.attention import split_heads
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.positions import Rotation, rotate
from glassformer.nn.tensors import Float, Tensor


class JoinedAttention(MultiHeadAttention):
    """Multi-head attention whose three projections of one input are one product.

    The matrices are joined at each call: that pays with many positions, in training, not with one.
    """

    def project(
        self,
        x: Tensor,
        source: Tensor | None,
        rotation: Rotation | None,
        cache: KeyValueCache | None,
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        """Queries, keys and values of self-attention by one product; others as before."""
        if source is not None or cache is not None:
            return super().project(x, source, rotation, cache)
        projected = joined_linear(x, [self.to_queries, self.to_keys, self.to_values])
        n_heads = (self.n_heads, self.n_kv_heads, self.n_kv_heads)
        queries, keys, values = map(split_heads, projected, n_heads)
        if rotation is None:
            return queries, keys, values
        return rotate(queries, rotation), rotate(keys, rotation), values


def joined_linear(
    x: Float[Tensor, "B T D"], maps: Sequence[nn.Linear]
) -> tuple[Float[Tensor, "B T _"], ...]:
    """Several linear maps of one input by one product."""
    matrix = torch.cat([part.weight for part in maps])
    biases: list[Tensor] = [part.bias for part in maps if part.bias is not None]
    outputs = F.linear(x, matrix, torch.cat(biases) if biases else None)
    parts: tuple[Tensor, ...] = outputs.split([part.out_features for part in maps], dim=-1)
    return parts


def join_projections(module: nn.Module, joined: bool = True) -> nn.Module:
    """Replace every plain attention inside a module by a joined one, in place, or undo that.

    The class changes, as torch's own parametrisations change it: parameters, their names and hooks
    stay. The results are the same up to rounding.
    """
    for part in module.modules():
        if type(part) in (MultiHeadAttention, JoinedAttention):
            part.__class__ = JoinedAttention if joined else MultiHeadAttention
    return module
