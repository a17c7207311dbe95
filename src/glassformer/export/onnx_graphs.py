"""Our models as modules with plain tensors in and out, which is what a graph can hold.

A cache becomes a list of tensors that are handed in and given back longer. No ONNX here: torch
traces these modules, and tests run them as they are. Dims: B batch, T and S positions, P positions
so far, H heads, E head width, V vocabulary, C classes.
"""

from torch import Tensor, cat, nn

from glassformer.nn import Classifier, DecodingCache, LanguageModel, MultiHeadAttention, Seq2Seq
from glassformer.nn.attention import KeyValueCache, split_heads

__all__ = ["ClassifierGraph", "DecoderGraph", "EncoderGraph"]


class _JoinedCache(KeyValueCache):
    """A cache that grows by joining tensors: a graph cannot keep room in reserve."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.length = keys.size(2)
        self._keys, self._values = keys, values

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add the newest positions; returns all so far."""
        past_keys, past_values = self.read()
        self._keys, self._values = cat([past_keys, keys], 2), cat([past_values, values], 2)
        self.length = self._keys.size(2)
        return self._keys, self._values

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values so far."""
        assert self._keys is not None and self._values is not None
        return self._keys, self._values


class ClassifierGraph(nn.Module):
    """(ids (B, T), is_token (B, T)) → probabilities (B, C)."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, is_token: Tensor) -> Tensor:
        """Probabilities of the classes."""
        logits: Tensor = self.model(ids, is_token)
        return logits.softmax(dim=-1)


class EncoderGraph(nn.Module):
    """(source (B, S), is_token (B, S)) → keys and values of each cross-attention, (B, H, S, E)."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, is_token: Tensor) -> list[Tensor]:
        """Everything that the decoder will ever need of the source."""
        memory = self.model.encode(source, is_token)
        made = []
        for block in self.model.decoder.blocks:
            attention = block.get_submodule("cross_attention")
            assert isinstance(attention, MultiHeadAttention)
            made.append(split_heads(attention.to_keys(memory), attention.n_kv_heads))
            made.append(split_heads(attention.to_values(memory), attention.n_kv_heads))
        return made


class DecoderGraph(nn.Module):
    """(token (B, 1), past keys and values…, and for a translator is_token and the encoder's) →
    logits (B, V), all keys and values so far."""

    def __init__(self, model: Seq2Seq | LanguageModel) -> None:
        super().__init__()
        self.model = model
        self.n_layers = len(model.decoder.blocks)

    def forward(
        self,
        token: Tensor,
        past: list[Tensor],
        is_token: Tensor | None = None,
        source: list[Tensor] | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """One step."""
        cache = DecodingCache(list(_caches(past)), list(_caches(source or [])), past[0].size(2))
        if isinstance(self.model, Seq2Seq):
            assert is_token is not None and source is not None
            # The keys are cached, so the memory itself is never read; only its shape is.
            memory = token.new_zeros((*is_token.shape, 1), dtype=past[0].dtype)
            logits = self.model.decode(
                token, memory.expand(-1, -1, self.model.config.d_model), is_token, cache=cache
            )
        else:
            cache.cross_attention = [KeyValueCache() for _ in range(self.n_layers)]
            logits = self.model(token, cache=cache)
        longer = [tensor for layer in cache.self_attention for tensor in layer.read()]
        return logits[:, -1], longer


def _caches(tensors: list[Tensor]) -> list[KeyValueCache]:
    pairs = zip(tensors[::2], tensors[1::2], strict=True)
    return [_JoinedCache(keys, values) for keys, values in pairs]
