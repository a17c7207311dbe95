"""Models that read: a plain encoder, classifiers of texts and images, a masked-word model.

All see the whole input at once. Padding is left out of attention and pooling: say where tokens
are with `is_token`, or set the config's pad_id.
Dims: B batch, T positions, D model width, C classes, V vocabulary.
"""

import math

import torch.nn.functional as F
from torch import nn

from glassformer.errors import ConfigError
from glassformer.nn.attention.masks import token_mask
from glassformer.nn.blocks import Stack
from glassformer.nn.config import ModelConfig
from glassformer.nn.layers import PatchEmbedding, TokenEmbedding, initialise, make_norm, tie
from glassformer.nn.shapes import Bool, Float, Int, Tensor


def pool(
    x: Float[Tensor, "B T D"], how: str, is_token: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, "B D"]:
    """One vector for each sequence: mean, max or first of its tokens; padding is left out.

    A sequence of padding alone gives zeros.
    """
    if how not in ("mean", "max", "first"):
        raise ConfigError(f"pooling must be 'mean', 'max' or 'first', got {how!r}")
    if is_token is None:
        return x[:, 0] if how == "first" else x.mean(dim=1) if how == "mean" else x.amax(dim=1)
    present = is_token.unsqueeze(-1)
    absent = ~present
    if how == "max":
        without_padding = x.masked_fill(absent, -math.inf)
        largest = without_padding.amax(dim=1)
        return largest.masked_fill(absent.all(dim=1), 0.0)
    without_padding = x.masked_fill(absent, 0.0)
    if how == "first":
        first = is_token.int().argmax(dim=1)
        return without_padding.take_along_dim(first[:, None, None], dim=1).squeeze(1)
    totals = without_padding.sum(dim=1)
    counted = present.sum(dim=1)
    counts = counted.clamp(min=1)
    return totals / counts


class _Reader(nn.Module):
    """What all models of texts here begin with: an encoder, and a rule for padding."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        table = TokenEmbedding(config.vocab_size, config.d_model, config.embedding.scale)
        self.encoder = Stack(config, table)

    def encode(
        self,
        ids: Int[Tensor, "B T"],
        is_token: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """One vector for each position."""
        encoded: Tensor = self.encoder(ids, is_token=self.tokens_of(ids, is_token), types=types)
        return encoded

    def tokens_of(
        self, ids: Int[Tensor, "B T"], is_token: Bool[Tensor, "B T"] | None
    ) -> Bool[Tensor, "B T"] | None:
        """Where tokens are: as given, else by the config's pad_id, else everywhere."""
        if is_token is None and self.config.pad_id is not None:
            return token_mask(ids, self.config.pad_id)
        return is_token


class TextEncoder(_Reader):
    """Ids to one vector for each position, or one for each text (`embed_text`)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        initialise(self, config.init)

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        is_token: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """One vector for each position."""
        return self.encode(ids, is_token, types)

    def embed_text(
        self, ids: Int[Tensor, "B T"], is_token: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B D"]:
        """One vector of length 1 for each text: pooled, then divided by its length."""
        encoded = self.encode(ids, is_token)
        pooled = pool(encoded, self.config.output.pooling, self.tokens_of(ids, is_token))
        return F.normalize(pooled, dim=-1)


class Classifier(_Reader):
    """A text to one logit for each class: encode, pool, map."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.to_classes = nn.Linear(
            config.d_model, config.output.n_classes, bias=config.output.bias
        )
        initialise(self, config.init)

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        is_token: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B C"]:
        """Logits of the classes; softmax makes them probabilities."""
        encoded = self.encode(ids, is_token, types)
        pooled = pool(encoded, self.config.output.pooling, self.tokens_of(ids, is_token))
        logits: Tensor = self.to_classes(pooled)
        return logits


class MaskedLanguageModel(_Reader):
    """A text with hidden words to one logit for each word of the vocabulary, at each position."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.transform = (
            nn.Linear(config.d_model, config.d_model) if config.output.transform else None
        )
        self.transform_norm = (
            make_norm(config.d_model, config.block) if config.output.transform else None
        )
        self.to_vocabulary = nn.Linear(config.d_model, config.vocab_size, bias=config.output.bias)
        initialise(self, config.init)
        if config.output.tied != "none":
            tie(self.to_vocabulary, self.encoder.embedding)

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        is_token: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
        at: Int[Tensor, " N"] | None = None,
    ) -> Float[Tensor, "... V"]:
        """Logits of the vocabulary at each position (B, T, V).

        `at` asks for some positions alone, counted through the whole batch (b·T + t): (N, V). The
        map to the vocabulary is the largest of all, and training scores few positions.
        """
        encoded = self.encode(ids, is_token, types)
        vectors = encoded if at is None else encoded.flatten(0, 1)[at]
        if self.transform is not None and self.transform_norm is not None:
            transformed = self.transform(vectors)
            activated = F.gelu(transformed)
            vectors = self.transform_norm(activated)
        logits: Tensor = self.to_vocabulary(vectors)
        return logits


class ImageClassifier(nn.Module):
    """An image, cut into patches, to one logit for each class."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        config = config.with_(max_len=config.image.n_patches)
        self.config = config
        self.encoder = Stack(config, PatchEmbedding(config.image, config.d_model))
        self.to_classes = nn.Linear(
            config.d_model, config.output.n_classes, bias=config.output.bias
        )
        initialise(self, config.init)

    def forward(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B N"]:
        """Logits of the classes."""
        encoded = self.encoder(images)
        pooled = pool(encoded, self.config.output.pooling)
        logits: Tensor = self.to_classes(pooled)
        return logits
