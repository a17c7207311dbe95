"""The convolutional encoder-decoder (Gehring et al. 2017), which came months before the paper."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn import ModelConfig
from glassformer.training.others.translator import Translator

__all__ = ["ConvolutionalTranslator"]

_WIDTH = 3


class ConvolutionalTranslator(Translator):
    """Gated convolutions read and write; every layer that writes attends to what was read."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config.pad_id)
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
        """What the last reading layer says, padding kept at zero."""
        x = self._embed(source)
        present = is_token.unsqueeze(-1)
        for layer in self.readers:
            around = F.pad((x * present).mT, (_WIDTH // 2, _WIDTH // 2))
            x = (x + F.glu(layer(self.dropout(around)), dim=1).mT) * math.sqrt(0.5)
        return x * present

    def answer(self, memory: Tensor, is_token: Tensor, target: Tensor) -> Tensor:
        """Logits after each target position; a convolution sees nothing to its right."""
        embedded = self._embed(target)
        hidden = ~is_token.unsqueeze(1)
        x = embedded
        for layer, to_query in zip(self.writers, self.to_queries, strict=True):
            before = F.pad(x.mT, (_WIDTH - 1, 0))
            written = F.glu(layer(self.dropout(before)), dim=1).mT
            queries = to_query(written) + embedded
            scores = (queries @ memory.mT) / math.sqrt(memory.size(-1))
            weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
            x = (x + written + weights @ memory) * math.sqrt(1 / 3)
        return F.linear(self.dropout(x), self.table.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        # A beam may look beyond the longest text: it gets the last position that was learnt.
        at = torch.arange(ids.size(1), device=ids.device).clamp(
            max=self.positions.num_embeddings - 1
        )
        embedded: Tensor = self.dropout(self.table(ids) + self.positions(at))
        return embedded


def _gated(d_model: int) -> nn.Module:
    """Twice as wide: one half gates the other."""
    return nn.Conv1d(d_model, 2 * d_model, _WIDTH)
