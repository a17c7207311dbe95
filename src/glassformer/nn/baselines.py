"""Baselines for the Transformer: an LSTM, an RNN with attention, a convolutional network.

They take their sizes from the same ModelConfig and are trained by the same loop on the same data.
They decode without a cache, reading the whole prefix at each step: slower and simpler.
Dims: B batch, S source and T target positions, D width, V vocabulary.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.errors import ConfigError
from glassformer.nn.config import ModelConfig
from glassformer.nn.models import MatrixFactorisation, build

_KERNEL = 3  # positions


class Translator(nn.Module, ABC):
    """An encoder-decoder: `read` a source, then predict the next tokens with `answer`."""

    @abstractmethod
    def read(self, source: Tensor, is_token: Tensor) -> Tensor:
        """A source (B, S) as vectors (B, S, D)."""

    @abstractmethod
    def answer(self, memory: Tensor, is_token: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V) of the token after each position of a target (B, T)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, self.pad_id = config, _pad_id(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits at all target positions, for training."""
        is_token = source != self.pad_id
        return self.answer(self.read(source, is_token), is_token, target)


class RecurrentClassifier(nn.Module):
    """A bidirectional LSTM; the mean of its states is mapped to the classes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, self.pad_id = config, _pad_id(config)
        self.table = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.block.dropout)
        self.lstm = _bidirectional(nn.LSTM, config)
        self.to_classes = nn.Linear(config.d_model, config.output.n_classes)

    def forward(self, ids: Tensor) -> Tensor:
        is_token = ids != self.pad_id
        states = _read(self.lstm, self.dropout(self.table(ids)), is_token)
        present = is_token.unsqueeze(-1)
        pooled = (states * present).sum(dim=1) / present.sum(dim=1).clamp(min=1)
        logits: Tensor = self.to_classes(self.dropout(pooled))
        return logits


class RecurrentTranslator(Translator):
    """A bidirectional GRU encoder, and a GRU decoder that attends to its states.

    Attention is multiplicative and after the recurrence (Luong et al. 2015), so all states of a
    known target are computed in one call; the older form (Bahdanau et al. 2014) attends inside the
    recurrence and would train far slower still.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        d_model = config.d_model
        self.table = nn.Embedding(config.vocab_size, d_model)
        self.dropout = nn.Dropout(config.block.dropout)
        self.reader = _bidirectional(nn.GRU, config)
        self.writer = nn.GRU(d_model, d_model, config.n_layers, batch_first=True)
        self.to_start = nn.Linear(d_model, config.n_layers * d_model)
        self.to_scores = nn.Linear(d_model, d_model, bias=False)
        self.join = nn.Linear(2 * d_model, d_model)
        self.n_layers = config.n_layers

    def read(self, source: Tensor, is_token: Tensor) -> Tensor:
        return _read(self.reader, self.dropout(self.table(source)), is_token)

    def answer(self, memory: Tensor, is_token: Tensor, target: Tensor) -> Tensor:
        present = is_token.unsqueeze(-1)
        mean = (memory * present).sum(dim=1) / present.sum(dim=1)
        start = torch.tanh(self.to_start(mean)).unflatten(-1, (self.n_layers, -1))
        states, _ = self.writer(
            self.dropout(self.table(target)), start.transpose(0, 1).contiguous()
        )
        scores = self.to_scores(states) @ memory.mT
        weights = scores.masked_fill(~is_token.unsqueeze(1), -torch.inf).softmax(dim=-1)
        joined = torch.tanh(self.join(torch.cat([states, weights @ memory], dim=-1)))
        return F.linear(self.dropout(joined), self.table.weight)


def _bidirectional(kind: type[nn.LSTM] | type[nn.GRU], config: ModelConfig) -> nn.LSTM | nn.GRU:
    """A bidirectional recurrence whose concatenated states are d_model wide."""
    if config.d_model % 2:
        raise ConfigError(
            "a bidirectional recurrence uses half of model.d_model per direction: expected an even "
            "number, got {d_model}",
            d_model=config.d_model,
        )
    return kind(
        config.d_model,
        config.d_model // 2,
        config.n_layers,
        batch_first=True,
        bidirectional=True,
        dropout=config.block.dropout if config.n_layers > 1 else 0.0,  # between layers
    )


def _read(recurrence: nn.LSTM | nn.GRU, vectors: Tensor, is_token: Tensor) -> Tensor:
    """States at all positions; padding is skipped."""
    lengths = is_token.sum(dim=1).cpu()
    packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    states, _ = recurrence(packed)
    unpacked, _ = pad_packed_sequence(states, batch_first=True, total_length=vectors.size(1))
    return unpacked


class ConvolutionalTranslator(Translator):
    """Gated convolutions; every decoder layer attends to the encoder's output."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        d_model = config.d_model
        self.table = nn.Embedding(config.vocab_size, d_model)
        self.positions = nn.Embedding(config.max_len, d_model)
        self.dropout = nn.Dropout(config.block.dropout)
        self.readers = nn.ModuleList(_gated(d_model) for _ in range(config.n_layers))
        self.writers = nn.ModuleList(_gated(d_model) for _ in range(config.n_layers))
        self.to_queries = nn.ModuleList(nn.Linear(d_model, d_model) for _ in self.writers)
        for table in (self.table, self.positions):
            nn.init.normal_(table.weight, std=d_model**-0.5)

    def read(self, source: Tensor, is_token: Tensor) -> Tensor:
        """Output of the last encoder layer; padding stays zero."""
        x = self._embed(source)
        present = is_token.unsqueeze(-1)
        for layer in self.readers:
            around = F.pad((x * present).mT, (_KERNEL // 2, _KERNEL // 2))
            x = (x + F.glu(layer(self.dropout(around)), dim=1).mT) * math.sqrt(0.5)
        return x * present

    def answer(self, memory: Tensor, is_token: Tensor, target: Tensor) -> Tensor:
        """The convolutions are causal: they see nothing to their right."""
        embedded = self._embed(target)
        hidden = ~is_token.unsqueeze(1)
        x = embedded
        for layer, to_query in zip(self.writers, self.to_queries, strict=True):
            before = F.pad(x.mT, (_KERNEL - 1, 0))
            written = F.glu(layer(self.dropout(before)), dim=1).mT
            queries = to_query(written) + embedded
            scores = (queries @ memory.mT) / math.sqrt(memory.size(-1))
            weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
            x = (x + written + weights @ memory) * math.sqrt(1 / 3)
        return F.linear(self.dropout(x), self.table.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        # A beam may exceed max_len: further tokens get the last learned position.
        at = torch.arange(ids.size(1), device=ids.device).clamp(
            max=self.positions.num_embeddings - 1
        )
        embedded: Tensor = self.dropout(self.table(ids) + self.positions(at))
        return embedded


def _gated(d_model: int) -> nn.Module:
    """Twice as wide as the output: one half gates the other."""
    return nn.Conv1d(d_model, 2 * d_model, _KERNEL)


def _pad_id(config: ModelConfig) -> int:
    if config.pad_id is None:
        raise ConfigError("this model masks padding by its id: set pad_id")
    return config.pad_id


KINDS: dict[str, Callable[[ModelConfig], nn.Module]] = {
    "transformer": build,
    "lstm": RecurrentClassifier,
    "rnn": RecurrentTranslator,
    "conv": ConvolutionalTranslator,
    "factors": MatrixFactorisation,
}
"""The trainable models, by `RunConfig.kind`."""
