"""Recurrent models: an LSTM that classifies, and the attention RNN before the Transformer."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.errors import ConfigError
from glassformer.nn import ModelConfig
from glassformer.training.others.translator import Translator

__all__ = ["RecurrentClassifier", "RecurrentTranslator"]


class RecurrentClassifier(nn.Module):
    """A text through an LSTM in both directions; the mean of its states to the classes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        assert config.pad_id is not None
        self.pad_id = config.pad_id
        self.table = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.block.dropout)
        self.lstm = _both_ways(nn.LSTM, config)
        self.to_classes = nn.Linear(config.d_model, config.output.n_classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the classes."""
        is_token = ids != self.pad_id
        states = _read(self.lstm, self.dropout(self.table(ids)), is_token)
        present = is_token.unsqueeze(-1)
        pooled = (states * present).sum(dim=1) / present.sum(dim=1).clamp(min=1)
        logits: Tensor = self.to_classes(self.dropout(pooled))
        return logits


class RecurrentTranslator(Translator):
    """A GRU in both directions reads; another writes and attends to what was read.

    Attention is multiplicative and after the recurrence (Luong et al. 2015), so that all states
    of a known target are computed in one call; the older form (Bahdanau et al. 2014) attends
    inside the recurrence and would train far slower still.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config.pad_id)
        d_model = config.d_model
        self.table = nn.Embedding(config.vocab_size, d_model)
        self.dropout = nn.Dropout(config.block.dropout)
        self.reader = _both_ways(nn.GRU, config)
        self.writer = nn.GRU(d_model, d_model, config.n_layers, batch_first=True)
        self.to_start = nn.Linear(d_model, config.n_layers * d_model)
        self.to_scores = nn.Linear(d_model, d_model, bias=False)
        self.join = nn.Linear(2 * d_model, d_model)
        self.n_layers = config.n_layers

    def read(self, source: Tensor, is_token: Tensor) -> Tensor:
        """The states of the reader."""
        return _read(self.reader, self.dropout(self.table(source)), is_token)

    def answer(self, memory: Tensor, is_token: Tensor, target: Tensor) -> Tensor:
        """Logits after each target position."""
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


def _both_ways(kind: type[nn.LSTM] | type[nn.GRU], config: ModelConfig) -> nn.LSTM | nn.GRU:
    """A recurrence in both directions whose joined states are d_model wide."""
    if config.d_model % 2:
        raise ConfigError(
            "a recurrence in both directions has half of model.d_model for each: expected an even "
            f"number, got {config.d_model}"
        )
    between = config.block.dropout if config.n_layers > 1 else 0.0
    return kind(
        config.d_model,
        config.d_model // 2,
        config.n_layers,
        batch_first=True,
        bidirectional=True,
        dropout=between,
    )


def _read(recurrence: nn.LSTM | nn.GRU, vectors: Tensor, is_token: Tensor) -> Tensor:
    """States at all positions; padding is never read."""
    lengths = is_token.sum(dim=1).cpu()
    packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    states, _ = recurrence(packed)
    unpacked, _ = pad_packed_sequence(states, batch_first=True, total_length=vectors.size(1))
    return unpacked
