"""What an encoder-decoder must offer to be decoded here: reading once, answering a whole prefix.

The Transformer decodes with a cache (`glassformer.decoding`); those it is compared with read the
prefix anew at each step, which is slower and simpler. Training time is what is compared.
Dims: B texts, R rivals of each, S source and T prefix positions, D width, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from glassformer.decoding import Beam, Decoded, beam_search
from glassformer.decoding.batching import worth_leaving
from glassformer.decoding.models import pad
from glassformer.decoding.results import Stop

__all__ = ["Translator", "translate_others"]


class Translator(nn.Module, ABC):
    """An encoder-decoder: `read` a source, then `answer` any prefix of its translation."""

    @abstractmethod
    def read(self, source: Tensor, is_token: Tensor) -> Tensor:
        """A source (B, S) as vectors (B, S, D)."""

    @abstractmethod
    def answer(self, memory: Tensor, is_token: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V) of the token after each position of a target (B, T)."""

    def __init__(self, pad_id: int | None) -> None:
        super().__init__()
        assert pad_id is not None
        self.pad_id = pad_id

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits at all target positions: how the model is trained."""
        is_token = source != self.pad_id
        return self.answer(self.read(source, is_token), is_token, target)


class _Prefixes:
    """A `Stepper` that reads every prefix from its beginning."""

    def __init__(self, model: Translator, sources: Sequence[Sequence[int]], start: int) -> None:
        device = next(model.parameters()).device
        padded, is_token = pad(sources, device)
        self.model = model
        self.is_token = torch.ones_like(padded, dtype=torch.bool) if is_token is None else is_token
        self.memory = model.read(padded, self.is_token)
        self.prefixes = torch.full((len(sources), 1, 1), start, device=device)

    def start(self) -> Tensor:
        return self._logits()

    def step(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        past = self.prefixes
        if parents is not None:
            past = past.take_along_dim(parents.unsqueeze(-1), dim=1)
        self.prefixes = torch.cat([past, tokens.unsqueeze(-1)], dim=-1)
        return self._logits()

    def worth_leaving(self, n_left: int) -> bool:
        return worth_leaving(len(self.memory), n_left)

    def keep(self, texts: Tensor) -> None:
        self.memory, self.is_token = self.memory[texts], self.is_token[texts]
        self.prefixes = self.prefixes[texts]

    def _logits(self) -> Tensor:
        n_texts, n_rivals, length = self.prefixes.shape
        memory, is_token = (
            x.repeat_interleave(n_rivals, dim=0) for x in (self.memory, self.is_token)
        )
        logits = self.model.answer(memory, is_token, self.prefixes.reshape(-1, length))
        return logits[:, -1].reshape(n_texts, n_rivals, -1)


@torch.no_grad()
def translate_others(
    model: Translator,
    sources: Sequence[Sequence[int]],
    *,
    start: int,
    end: int | None,
    beam: Beam,
    batch_size: int,
) -> list[Decoded]:
    """Translations by beam search; a beam of one is greedy."""
    results: list[Decoded] = []
    for at in range(0, len(sources), batch_size):
        some = sources[at : at + batch_size]
        stop = Stop(end, tuple(len(source) + 50 for source in some))
        results += beam_search(_Prefixes(model, some, start), beam, stop)
    return results
