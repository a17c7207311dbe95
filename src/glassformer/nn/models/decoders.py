"""Models that write: a language model, and the encoder-decoder of "Attention is all you need".

Both predict the next token at every position in one pass (training), or one step at a time with
a cache (generation); the two agree. Right padding needs no mask in a causal stack, since no token
looks to its right; say where tokens are with `is_token` when the left is padded.
Dims: B batch, S source and T target positions, D model width, V vocabulary.
"""

from torch import nn

from glassformer.errors import InputError
from glassformer.nn.attention.cache import DecodingCache
from glassformer.nn.attention.masks import token_mask
from glassformer.nn.blocks import Stack
from glassformer.nn.config import ModelConfig
from glassformer.nn.layers import TokenEmbedding, initialise, tie
from glassformer.nn.shapes import Bool, Float, Int, Tensor


class LanguageModel(nn.Module):
    """A text to the logits of each next token (decoder only)."""

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
        """Logits of the token after each position; with a cache, ids continue earlier ones."""
        decoded = self.decoder(ids, is_token=is_token, cache=cache)
        logits: Tensor = self.to_vocabulary(decoded)
        return logits

    def start_cache(self) -> DecodingCache:
        """An empty cache for generation."""
        return self.decoder.start_cache()


class Seq2Seq(nn.Module):
    """A source text and the target so far to the logits of each next target token."""

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
        """Logits at every target position at once: how the model is trained.

        `target` begins with the start token; the answer to position t is target token t + 1.
        """
        is_token = self.source_tokens(source, source_is_token)
        memory = self.encode(source, is_token)
        return self.decode(target, memory, is_token, target_is_token)

    def encode(
        self, source: Int[Tensor, "B S"], source_is_token: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B S D"]:
        """The source as vectors for the decoder to read ("memory")."""
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

        The memory does not say which source positions were padding: pass what `source_tokens`
        gives for the source. A model with a pad_id insists on it.
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
        """Where source tokens are: as given, else by the config's pad_id, else everywhere."""
        if is_token is None and self.config.pad_id is not None:
            return token_mask(source, self.config.pad_id)
        return is_token

    def start_cache(self) -> DecodingCache:
        """An empty cache for generation."""
        return self.decoder.start_cache()

    def _flatten(self, decoded: Float[Tensor, "B T D"]) -> Float[Tensor, "B TD"]:
        """All positions as one row: one prediction for the whole target (the by-hand text)."""
        if decoded.size(1) != self.config.max_len:
            raise InputError(
                f"the flattened output layer takes exactly {self.config.max_len} target "
                f"positions, got {decoded.size(1)}; pad the target, or map each position alone "
                "(output.flattened = false)"
            )
        return decoded.flatten(1)
