"""The interface of "Transformers from scratch": its two classes, and its ways to fold heads.

`SelfAttention` and `Transformer` have the text's interface and attribute names (`toqueries`,
`unifyheads`), and are built from the modules that everything else here uses. They correct its
printed code: scores are divided by √(k/h), `mask=True` masks, and positions live on the input's
device.
Dims: B batch, T positions, K width (the text's k), H heads, S = K / H, C classes.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.errors import ConfigError
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.config import AttentionConfig, Initialisation
from glassformer.nn.layers import initialise
from glassformer.nn.models import Classifier
from glassformer.nn.presets import bloem_2024
from glassformer.nn.tensors import Float, Int, Tensor


class SelfAttention(nn.Module):
    """Multi-head self-attention on (B, T, K); `mask=True` hides later positions."""

    def __init__(
        self, k: int, heads: int = 4, mask: bool = False, init: Initialisation | None = None
    ) -> None:
        super().__init__()
        _check_divisible(k, heads)
        self.k, self.heads, self.mask = k, heads, mask
        self.attention = MultiHeadAttention(k, AttentionConfig(n_heads=heads, output_bias=True))
        if init is not None:
            initialise(self, init)

    @property
    def toqueries(self) -> nn.Linear:
        return self.attention.to_queries

    @property
    def tokeys(self) -> nn.Linear:
        return self.attention.to_keys

    @property
    def tovalues(self) -> nn.Linear:
        return self.attention.to_values

    @property
    def unifyheads(self) -> nn.Linear:
        assert self.attention.to_output is not None
        return self.attention.to_output

    def forward(self, x: Float[Tensor, "B T K"]) -> Float[Tensor, "B T K"]:
        """Attend from each position to all, or with `mask` to itself and earlier ones."""
        attended: Tensor = self.attention(x, causal=self.mask)
        return attended


class Transformer(nn.Module):
    """The text's classifier: word ids to log-probabilities of the classes."""

    def __init__(
        self, k: int, heads: int, depth: int, seq_length: int, num_tokens: int, num_classes: int
    ) -> None:
        super().__init__()
        self.classifier = Classifier(
            bloem_2024(
                vocab_size=num_tokens,
                d_model=k,
                n_heads=heads,
                n_layers=depth,
                max_len=seq_length,
                n_classes=num_classes,
            )
        )

    def forward(self, x: Int[Tensor, "B T"]) -> Float[Tensor, "B C"]:
        """Log-probabilities of the classes."""
        logits = self.classifier(x)
        return F.log_softmax(logits, dim=-1)


def _check_divisible(k: int, heads: int) -> None:
    if k < 1 or heads < 1 or k % heads:
        raise ConfigError(
            "k must be a multiple of heads, got k={k} and heads={heads}", k=k, heads=heads
        )


def _fold_by_view(x: Float[Tensor, "B T K"], heads: int) -> Float[Tensor, "BH T S"]:
    b, t, k = x.shape
    pieces = x.view(b, t, heads, k // heads)
    return pieces.transpose(1, 2).contiguous().view(b * heads, t, k // heads)


def _fold_by_reshape(x: Float[Tensor, "B T K"], heads: int) -> Float[Tensor, "BH T S"]:
    b, t, k = x.shape
    pieces = x.reshape(b, t, heads, k // heads)
    return pieces.transpose(1, 2).reshape(b * heads, t, k // heads)


def _fold_by_chunks(x: Float[Tensor, "B T K"], heads: int) -> Float[Tensor, "BH T S"]:
    return torch.stack(x.chunk(heads, dim=-1), dim=1).flatten(0, 1)


FOLDS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "view": _fold_by_view,
    "reshape": _fold_by_reshape,
    "chunks": _fold_by_chunks,
}
"""Three ways to move heads into the batch, (B, T, K) → (B·H, T, S): all give the same tensor."""


def attend_folded(
    queries: Float[Tensor, "B T K"],
    keys: Float[Tensor, "B T K"],
    values: Float[Tensor, "B T K"],
    heads: int,
    fold: str = "view",
) -> Float[Tensor, "B T K"]:
    """Multi-head attention with the heads folded into the batch, so that `bmm` does them all."""
    _check_divisible(queries.size(-1), heads)
    if fold not in FOLDS:
        raise ConfigError(
            "fold must be one of {folds}, got {fold!r}", folds=", ".join(FOLDS), fold=fold
        )
    folded_queries = FOLDS[fold](queries, heads)
    folded_keys = FOLDS[fold](keys, heads)
    folded_values = FOLDS[fold](values, heads)
    scores = torch.bmm(folded_queries, folded_keys.transpose(1, 2))
    scaled = scores / math.sqrt(folded_keys.size(-1))
    weights = torch.softmax(scaled, dim=-1)
    context = torch.bmm(weights, folded_values)
    b, t, k = queries.shape
    return context.view(b, heads, t, k // heads).transpose(1, 2).reshape(b, t, k)


def attend_einsum(
    queries: Float[Tensor, "B T K"],
    keys: Float[Tensor, "B T K"],
    values: Float[Tensor, "B T K"],
    heads: int,
) -> Float[Tensor, "B T K"]:
    """The same with einsum: heads have their own axis, and nothing is transposed."""
    b, t, k = queries.shape
    _check_divisible(k, heads)
    q, key, v = (x.reshape(b, t, heads, k // heads) for x in (queries, keys, values))
    scores = torch.einsum("bihs,bjhs->bhij", q, key)
    weights = torch.softmax(scores / math.sqrt(k // heads), dim=-1)
    context = torch.einsum("bhij,bjhs->bihs", weights, v)
    return context.reshape(b, t, k)
