"""Layers that act on each position separately: embeddings, norms, feed-forward; initialisation.

Dims: B batch, T positions, D model width, F feed-forward width, V vocabulary, N patches.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.errors import InputError, ShapeError
from glassformer.nn.config import BlockConfig, FeedForwardConfig, ImageConfig, Initialisation
from glassformer.nn.tensors import Float, Int, Tensor


def layer_norm(
    x: Float[Tensor, "... D"],
    gain: Float[Tensor, " D"] | None = None,
    bias: Float[Tensor, " D"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "... D"]:
    """Layer normalisation, written out: (x − mean) / √(variance + eps) · gain + bias.

    Over the last axis, with the population variance (divided by D, not D − 1).
    """
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    variance = centred.square().mean(dim=-1, keepdim=True)
    deviation = (variance + eps).sqrt()
    normed = centred / deviation
    scaled = normed if gain is None else normed * gain
    return scaled if bias is None else scaled + bias


def rms_norm(
    x: Float[Tensor, "... D"], gain: Float[Tensor, " D"] | None = None, eps: float = 1e-6
) -> Float[Tensor, "... D"]:
    """Root-mean-square normalisation, written out: x / √(mean(x²) + eps) · gain."""
    mean_square = x.square().mean(dim=-1, keepdim=True)
    normed = x / (mean_square + eps).sqrt()
    return normed if gain is None else normed * gain


class PlainNorm(nn.Module):
    """(x − mean) / (std + eps) without parameters, as in the by-hand text.

    Epsilon is outside the root, and the standard deviation is the population's. For real models use
    LayerNorm: its gradient stays finite on constant rows, this one's does not.
    """

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        deviation = x.std(dim=-1, keepdim=True, correction=0)
        divisor = deviation + self.eps
        normed = centred / divisor
        return normed

    def extra_repr(self) -> str:
        return f"eps={self.eps}"


def make_norm(d_model: int, config: BlockConfig) -> nn.Module:
    if config.norm == "none":
        return nn.Identity()
    if config.norm == "plain":
        return PlainNorm(config.norm_eps)
    norm = nn.LayerNorm if config.norm == "layer" else nn.RMSNorm
    return norm(d_model, eps=config.norm_eps)


class FeedForward(nn.Module):
    """The same small network applied to each position (section 3.3 of the paper)."""

    def __init__(self, d_model: int, config: FeedForwardConfig) -> None:
        super().__init__()
        width = config.d_ff if config.n_layers == 2 else d_model
        self.activation = config.activation
        self.expand = nn.Linear(d_model, width, bias=config.bias)
        self.gate = (
            nn.Linear(d_model, width, bias=config.bias) if config.activation == "swiglu" else None
        )
        self.contract = (
            nn.Linear(width, d_model, bias=config.bias) if config.n_layers == 2 else None
        )
        self.dropout = nn.Dropout(config.dropout) if config.dropout else None

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        expanded = self.expand(x)
        if self.gate is not None:
            opening = self.gate(x)
            gate = F.silu(opening)
            activated = gate * expanded
        elif self.activation == "relu":
            activated = F.relu(expanded)
        else:
            approximation = "tanh" if self.activation == "gelu_tanh" else "none"
            activated = F.gelu(expanded, approximate=approximation)
        kept: Tensor = activated if self.dropout is None else self.dropout(activated)
        if self.contract is None:
            return kept
        contracted: Tensor = self.contract(kept)
        return contracted

    def extra_repr(self) -> str:
        return f"activation={self.activation}"


class TokenEmbedding(nn.Module):
    """From ids to vectors, by looking up rows of a learned table."""

    def __init__(
        self, vocab_size: int, d_model: int, scale: bool = False, what: str = "token"
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.what = what  # of the ids, in error messages
        self.factor = math.sqrt(d_model) if scale else None
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """One row per id, times √D with `scale`."""
        looked_up = self._look_up(ids)
        if self.factor is None:
            return looked_up
        scaled = looked_up * self.factor
        return scaled

    def _look_up(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        if not isinstance(ids, Tensor):
            raise InputError(
                "{what} ids must be a tensor, got {kind}: write torch.tensor(ids)",
                what=self.what,
                kind=type(ids).__name__,
            )
        if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
            raise InputError(
                "{what} ids must be whole numbers (int64 or int32) of shape (batch, "
                "positions), got {dtype} of shape {shape}",
                what=self.what,
                dtype=ids.dtype,
                shape=tuple(ids.shape),
            )
        if ids.size(1) == 0:
            raise InputError("the text is empty: a model needs at least one token")
        if torch.compiler.is_compiling():
            return F.embedding(ids, self.weight)
        try:
            return F.embedding(ids, self.weight)
        except IndexError:  # raised by the lookup; checking first would slow down every call
            raise InputError(
                "{what} ids must be in 0..{last}, got ids from {least} to {most}; was the "
                "text encoded with this model's tokenizer?",
                what=self.what,
                last=self.vocab_size - 1,
                least=int(ids.min()),
                most=int(ids.max()),
            ) from None

    def extra_repr(self) -> str:
        times = "" if self.factor is None else f", times={self.factor:.4g}"
        return f"{self.vocab_size}, {self.weight.size(1)}{times}"


def tie(output: nn.Linear, table: nn.Module) -> None:
    """Make an output map and a token table share one parameter."""
    assert isinstance(table, TokenEmbedding)
    output.weight = table.weight


class PatchEmbedding(nn.Module):
    """From an image to a sequence: split into square patches, map each to a vector."""

    def __init__(self, config: ImageConfig, d_model: int) -> None:
        super().__init__()
        self.config = config
        self.to_vectors = nn.Linear(config.channels * config.patch**2, d_model)

    def forward(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B N D"]:
        """Patches in reading order, each flattened as (channel, row, column)."""
        c = self.config
        if images.shape[1:] != (c.channels, c.size, c.size):
            raise ShapeError(
                "images must have shape (batch, {channels}, {size}, {size}), got {shape}",
                channels=c.channels,
                size=c.size,
                shape=tuple(images.shape),
            )
        per_side = c.size // c.patch
        grid = images.unflatten(3, (per_side, c.patch)).unflatten(2, (per_side, c.patch))
        patches = grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        vectors: Tensor = self.to_vectors(patches)
        return vectors


@torch.no_grad()
def initialise(module: nn.Module, scheme: Initialisation) -> None:
    """Initialise linear maps and tables, in place.

    normal: N(0, 0.02²), as in GPT-2 and BERT; xavier: uniform ±√(6 / (in + out)), each map by
    itself (torch.nn's Transformer counts W_Q, W_K and W_V as one matrix, so its values are √2
    smaller); kaiming: N(0, 2 / in). Biases are 0. Token and position tables are N(0, 0.02²) with
    "normal", otherwise N(0, 1 / D).
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            if scheme == "normal":
                nn.init.normal_(part.weight, std=0.02)
            elif scheme == "xavier":
                nn.init.xavier_uniform_(part.weight)
            else:
                nn.init.kaiming_normal_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding | TokenEmbedding):
            width = part.weight.size(1)
            nn.init.normal_(part.weight, std=0.02 if scheme == "normal" else width**-0.5)
