"""The models, and `build`, which makes the one that a config describes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, Unpack, overload

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.errors import ConfigError, InputError
from glassformer.nn.attention import Implementation, MultiHeadAttention, set_attention, token_mask
from glassformer.nn.blocks import Stack
from glassformer.nn.cache import DecodingCache
from glassformer.nn.config import Architecture, ModelConfig, Sizes
from glassformer.nn.layers import PatchEmbedding, TokenEmbedding, initialise, make_norm, tie
from glassformer.nn.presets import preset
from glassformer.nn.tensors import Bool, Float, Int, Tensor

# --- models that generate text ---
# A language model, and the encoder-decoder of "Attention is all you need". Both predict the next
# token at every position in one pass (training), or one step at a time with a cache (generation),
# with the same results. Right padding needs no mask in a causal stack; for left padding, pass
# `is_token`. Dims: B batch, S source and T target positions, D model width, V vocabulary.


def _tokens_of(
    ids: Int[Tensor, "B T"], is_token: Bool[Tensor, "B T"] | None, config: ModelConfig
) -> Bool[Tensor, "B T"] | None:
    """The mask of tokens: as given, else from pad_id, else None."""
    if is_token is None and config.pad_id is not None:
        return token_mask(ids, config.pad_id)
    return is_token


class LanguageModel(nn.Module):
    """Decoder only: a text to the logits of each next token."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        tokens = TokenEmbedding(config.vocab_size, config.d_model, config.embedding.scale)
        self.decoder = Stack(config, tokens, causal=True)
        self.to_vocabulary = nn.Linear(config.d_model, config.vocab_size, bias=config.output.bias)
        initialise(self, config.init)
        if config.output.tied != "none":
            tie(self.to_vocabulary, tokens)

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        is_token: Bool[Tensor, "B T"] | None = None,
        cache: DecodingCache | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each position; with a cache, ids continue earlier calls."""
        decoded = self.decoder(ids, is_token=is_token, cache=cache)
        logits: Tensor = self.to_vocabulary(decoded)
        return logits

    def start_cache(self) -> DecodingCache:
        return self.decoder.start_cache()


class Seq2Seq(nn.Module):
    """Encoder-decoder: a source and the target so far to the logits of each next target token."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        target_size = config.target_vocab_size or config.vocab_size
        scale, d_model = config.embedding.scale, config.d_model
        source_tokens = TokenEmbedding(config.vocab_size, d_model, scale)
        target_tokens = (
            source_tokens
            if config.output.tied == "all"
            else TokenEmbedding(target_size, d_model, scale)
        )
        self.encoder = Stack(config, source_tokens)
        self.decoder = Stack(
            config, target_tokens, n_layers=config.n_decoder_layers, causal=True, cross=True
        )
        n_inputs = d_model * (config.max_len if config.output.flattened else 1)
        self.to_vocabulary = nn.Linear(n_inputs, target_size, bias=config.output.bias)
        initialise(self, config.init)
        if config.output.tied != "none":
            tie(self.to_vocabulary, target_tokens)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        source_is_token: Bool[Tensor, "B S"] | None = None,
        target_is_token: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B ... V"]:
        """Logits at every target position in one pass, for training.

        `target` begins with the start token; the label of position t is target token t + 1.
        """
        is_token = self.source_tokens(source, source_is_token)
        memory: Tensor = self.encoder(source, is_token=is_token)
        return self.decode(target, memory, is_token, target_is_token)

    def encode(
        self, source: Int[Tensor, "B S"], source_is_token: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B S D"]:
        """The source as vectors for the decoder ("memory")."""
        is_token = self.source_tokens(source, source_is_token)
        memory: Tensor = self.encoder(source, is_token=is_token)
        return memory

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        source_is_token: Bool[Tensor, "B S"] | None = None,
        target_is_token: Bool[Tensor, "B T"] | None = None,
        cache: DecodingCache | None = None,
    ) -> Float[Tensor, "B ... V"]:
        """Logits of the token after each target position; with a cache, target continues it.

        The memory does not show which source positions are padding: pass `source_tokens(source)`,
        required if the model has a pad_id.
        """
        if source_is_token is None and self.config.pad_id is not None:
            raise InputError(
                "decode needs to know which source positions are padding: pass "
                "source_is_token=model.source_tokens(source)"
            )
        decoded = self.decoder(
            target,
            is_token=target_is_token,
            memory=memory,
            memory_is_token=source_is_token,
            cache=cache,
        )
        to_map = self._flatten(decoded) if self.config.output.flattened else decoded
        logits: Tensor = self.to_vocabulary(to_map)
        return logits

    def source_tokens(
        self, source: Int[Tensor, "B S"], is_token: Bool[Tensor, "B S"] | None = None
    ) -> Bool[Tensor, "B S"] | None:
        """The mask of source tokens: as given, else from pad_id, else None."""
        return _tokens_of(source, is_token, self.config)

    def start_cache(self) -> DecodingCache:
        return self.decoder.start_cache()

    def _flatten(self, decoded: Float[Tensor, "B T D"]) -> Float[Tensor, "B TD"]:
        """All positions as one row: one prediction for the whole target (the by-hand text)."""
        if decoded.size(1) != self.config.max_len:
            raise InputError(
                "the flattened output layer takes exactly {max_len} target positions, got "
                "{length}; pad the target, or set output.flattened = false",
                max_len=self.config.max_len,
                length=decoded.size(1),
            )
        return decoded.flatten(1)


# --- models that encode their input ---
# A plain encoder, classifiers of texts and images, a masked language model. All see the whole input
# at once. Padding is ignored in attention and pooling: pass `is_token`, or set the config's pad_id.
# Dims: B batch, T positions, D model width, C classes, V vocabulary.


def pool(
    x: Float[Tensor, "B T D"], how: str, is_token: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, "B D"]:
    """One vector per sequence: mean, max or first of its tokens, ignoring padding.

    A sequence of only padding gives zeros.
    """
    if how not in ("mean", "max", "first"):
        raise ConfigError("pooling must be 'mean', 'max' or 'first', got {how!r}", how=how)
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


class _Encoding(nn.Module):
    """The common part of the text models below: an encoder, and how padding is found."""

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
        encoded: Tensor = self.encoder(
            ids, is_token=_tokens_of(ids, is_token, self.config), types=types
        )
        return encoded


class TextEncoder(_Encoding):
    """Ids to one vector per position, or one per text (`embed_text`)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        initialise(self, config.init)

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        is_token: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        return self.encode(ids, is_token, types)

    def embed_text(
        self, ids: Int[Tensor, "B T"], is_token: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B D"]:
        """One vector per text: pooled, then normalised to length 1."""
        encoded = self.encode(ids, is_token)
        pooled = pool(encoded, self.config.output.pooling, _tokens_of(ids, is_token, self.config))
        return F.normalize(pooled, dim=-1)


class Classifier(_Encoding):
    """A text to one logit per class: encode, pool, map."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.transform = (
            nn.Linear(config.d_model, config.d_model) if config.output.transform else None
        )
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
        encoded = self.encode(ids, is_token, types)
        pooled = pool(encoded, self.config.output.pooling, _tokens_of(ids, is_token, self.config))
        if self.transform is not None:
            transformed = self.transform(pooled)
            pooled = transformed.tanh()
        logits: Tensor = self.to_classes(pooled)
        return logits


class MaskedLanguageModel(_Encoding):
    """A text with masked words to one logit per word of the vocabulary, at each position."""

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
        """Logits at each position (B, T, V).

        `at` selects positions, counted through the whole batch (b·T + t), giving (N, V): the map to
        the vocabulary is the most expensive one, and training scores few positions.
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
    """An image, split into patches, to one logit per class."""

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
        encoded = self.encoder(images)
        pooled = pool(encoded, self.config.output.pooling)
        logits: Tensor = self.to_classes(pooled)
        return logits


# --- recommender ---
# Not a Transformer, but the same idea: a good match has a large dot product.
# Dims: N pairs, D width.


class MatrixFactorisation(nn.Module):
    """rating = mean + person bias + film bias + person · film.

    `vocab_size` is the number of people, `target_vocab_size` that of films, `d_model` the width.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        n_people, n_films = config.vocab_size, config.target_vocab_size or config.vocab_size
        self.people = nn.Embedding(n_people, config.d_model)
        self.films = nn.Embedding(n_films, config.d_model)
        self.of_person = nn.Embedding(n_people, 1)
        self.of_film = nn.Embedding(n_films, 1)
        self.mean = nn.Parameter(torch.full((1,), 3.5))
        for table in (self.people, self.films):
            nn.init.normal_(table.weight, std=0.1)
        for table in (self.of_person, self.of_film):
            nn.init.zeros_(table.weight)

    def forward(self, person: Int[Tensor, " N"], film: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        try:
            match = (self.people(person) * self.films(film)).sum(dim=-1)
        except IndexError:  # raised by the lookup, as in TokenEmbedding
            raise InputError(
                "people must be in 0..{last_person} and films in 0..{last_film}, got up to "
                "{person} and {film}",
                last_person=self.people.num_embeddings - 1,
                last_film=self.films.num_embeddings - 1,
                person=int(person.max()),
                film=int(film.max()),
            ) from None
        biases = self.of_person(person) + self.of_film(film)
        rating: Tensor = self.mean + biases.squeeze(-1) + match
        return rating


# --- building ---


def _attention(config: ModelConfig) -> nn.Module:
    module = MultiHeadAttention(config.d_model, config.attention)
    initialise(module, config.init)
    return module


_BUILDERS: dict[Architecture, Callable[[ModelConfig], nn.Module]] = {
    "attention": _attention,
    "encoder": TextEncoder,
    "classifier": Classifier,
    "image_classifier": ImageClassifier,
    "masked_language_model": MaskedLanguageModel,
    "language_model": LanguageModel,
    "seq2seq": Seq2Seq,
    "recommender": MatrixFactorisation,
}


@overload
def build(
    config: Literal["gpt2", "llama"],
    attention: Implementation = "fused",
    **sizes: Unpack[Sizes],
) -> LanguageModel: ...
@overload
def build(
    config: Literal["vaswani_2017_base", "torch_nn_transformer", "by_hand_2024"],
    attention: Implementation = "fused",
    **sizes: Unpack[Sizes],
) -> Seq2Seq: ...
@overload
def build(
    config: Literal["bloem_2019", "bloem_2024"],
    attention: Implementation = "fused",
    **sizes: Unpack[Sizes],
) -> Classifier: ...
@overload
def build(
    config: Literal["bert"], attention: Implementation = "fused", **sizes: Unpack[Sizes]
) -> MaskedLanguageModel: ...
@overload
def build(
    config: Literal["illustrated"], attention: Implementation = "fused", **sizes: Unpack[Sizes]
) -> MultiHeadAttention: ...
@overload
def build(
    config: ModelConfig | str, attention: Implementation = "fused", **sizes: Unpack[Sizes]
) -> nn.Module: ...
def build(
    config: ModelConfig | str, attention: Implementation = "fused", **sizes: Unpack[Sizes]
) -> nn.Module:
    """The model that a config or a preset describes, with fresh parameters.

        build("gpt2", d_model=64, n_layers=2)
        build(presets.gpt2(), d_model=64)

    `attention` chooses between the written-out arithmetic and the fused kernel; it can be changed
    later with `set_attention`.
    """
    if isinstance(config, str):
        config = preset(config)
    if not isinstance(config, ModelConfig):
        raise ConfigError(
            "a model is built from a ModelConfig, such as presets.gpt2(), or the name "
            "of a preset, got {config!r:.60}",
            config=config,
        )
    sized = config.sized(**sizes) if sizes else config
    return set_attention(_BUILDERS[sized.architecture](sized), attention)
