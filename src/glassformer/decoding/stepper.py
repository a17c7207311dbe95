"""Steppers: what a search asks of a model, which is logits for the next token.

A search works on B sequences at once and follows R beams (or samples) of each. It never sees
caches, masks, encoders or layers; a model never sees scores. Finished sequences leave the batch.
`ModelStepper` is the plain stepper; `decoding.fast` replaces it by faster ones.
Dims: B sequences, R beams of each, S source and T prefix positions, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from glassformer.errors import ConfigError, InputError
from glassformer.nn import LanguageModel, Seq2Seq
from glassformer.nn.baselines import Translator
from glassformer.nn.tensors import Bool, Float, Int, Tensor

MAX_BEAMS = 1_024
"""Limit on beams or samples per sequence: each caches its own positions in memory."""

Ids = Sequence[int]


class Stepper(Protocol):
    """A model in the middle of several sequences."""

    def start(self) -> Float[Tensor, "B 1 V"]:
        """Logits of the first token of each sequence, after the prefix it was given."""

    def step(
        self, tokens: Int[Tensor, "B R"], parents: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R V"]:
        """Logits after these tokens; each continues the beam `parents` names (None: its own)."""

    def worth_leaving(self, n_left: int) -> bool:
        """Whether continuing with only the n unfinished sequences saves more than `keep` costs."""

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        """Continue with these sequences only, in this order."""


class ModelStepper:
    """A `Stepper` over a language model or an encoder-decoder: one row of the cache per beam."""

    def __init__(
        self,
        model: LanguageModel | Seq2Seq,
        prefixes: Sequence[Ids],
        sources: Sequence[Ids] | None = None,
    ) -> None:
        device = model.to_vocabulary.weight.device
        self.model = model
        self.cache = model.decoder.start_cache()
        self.memory: Tensor | None = None
        self.memory_is_token: Tensor | None = None
        if isinstance(model, Seq2Seq):
            if model.config.output.flattened:
                raise ConfigError(
                    "a model with a flattened output layer predicts all positions at once and "
                    "cannot be decoded step by step; set output.flattened = false"
                )
            assert sources is not None, "an encoder-decoder reads a source"
            source, self.memory_is_token = pad(sources, device)
            self.memory = model.encoder(source, is_token=self.memory_is_token)
        self._prefix, self._prefix_is_token = pad(prefixes, device, left=True)
        self._lengths = torch.tensor([len(ids) for ids in prefixes], device=device)
        self._longest = int(self._lengths.max())
        self._n_beams = 1

    def start(self) -> Float[Tensor, "B 1 V"]:
        vectors = self._decode(self._prefix, self._prefix_is_token)
        logits: Tensor = self.model.to_vocabulary(vectors[:, -1:])
        return logits

    def step(
        self, tokens: Int[Tensor, "B R"], parents: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R V"]:
        if parents is not None:
            first_rows = torch.arange(len(tokens), device=tokens.device) * self._n_beams
            self._select_rows((first_rows.unsqueeze(-1) + parents).flatten())
            self._n_beams = tokens.size(1)
        vectors = self._decode(tokens.reshape(-1, 1))
        self._lengths = self._lengths + 1
        self._longest += 1
        logits: Tensor = self.model.to_vocabulary(vectors)
        return logits.view(*tokens.shape, -1)

    def worth_leaving(self, n_left: int) -> bool:
        return self._runs_out or _leaving_pays(self._lengths.numel(), n_left)

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        beams = torch.arange(self._n_beams, device=sequences.device)
        self._select_rows((sequences.unsqueeze(-1) * self._n_beams + beams).flatten())
        self._lengths = self._lengths[sequences]
        self._longest = int(self._lengths.max())

    @property
    def _runs_out(self) -> bool:
        """Whether the longest sequence, which must be finished, has no position left."""
        config = self.model.config
        return config.positions.kind == "learned" and self._longest >= config.max_len

    def _select_rows(self, rows: Int[Tensor, " N"]) -> None:
        self.cache.select(rows)
        if self.memory is not None:
            self.memory = self.memory[rows]
        if self.memory_is_token is not None:
            self.memory_is_token = self.memory_is_token[rows]

    def _decode(
        self, ids: Int[Tensor, "N T"], is_token: Bool[Tensor, "N T"] | None = None
    ) -> Float[Tensor, "N T D"]:
        vectors: Tensor = self.model.decoder(
            ids,
            is_token=is_token,
            cache=self.cache,
            memory=self.memory,
            memory_is_token=self.memory_is_token,
        )
        return vectors


class PrefixStepper:
    """A `Stepper` over a baseline without a cache: it rereads every prefix from its beginning."""

    def __init__(self, model: Translator, prefixes: Sequence[Ids], sources: Sequence[Ids]) -> None:
        device = next(model.parameters()).device
        padded, is_token = pad(sources, device)
        self.model = model
        self.is_token = torch.ones_like(padded, dtype=torch.bool) if is_token is None else is_token
        self.memory = model.read(padded, self.is_token)
        if len({len(ids) for ids in prefixes}) > 1:
            raise InputError("this model needs prefixes of equal length")
        self.prefixes = torch.tensor([[list(ids)] for ids in prefixes], device=device)

    def start(self) -> Float[Tensor, "B 1 V"]:
        n_sequences, n_beams, length = self.prefixes.shape
        memory, is_token = (
            x.repeat_interleave(n_beams, dim=0) for x in (self.memory, self.is_token)
        )
        logits = self.model.answer(memory, is_token, self.prefixes.reshape(-1, length))
        return logits[:, -1].reshape(n_sequences, n_beams, -1)

    def step(
        self, tokens: Int[Tensor, "B R"], parents: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R V"]:
        past = self.prefixes
        if parents is not None:
            past = past.take_along_dim(parents.unsqueeze(-1), dim=1)
        self.prefixes = torch.cat([past, tokens.unsqueeze(-1)], dim=-1)
        return self.start()

    def worth_leaving(self, n_left: int) -> bool:
        return _leaving_pays(len(self.memory), n_left)

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        self.memory, self.is_token = self.memory[sequences], self.is_token[sequences]
        self.prefixes = self.prefixes[sequences]


class SlidingStepper:
    """A `Stepper` over a language model for sequences longer than its context.

    A language model has max_len positions. When a sequence fills them, its last three quarters are
    read again as if they were the whole sequence, so the mean cost of a step does not grow with the
    length. `make` builds the stepper of each such window.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompts: Sequence[Ids],
        make: Callable[[LanguageModel, Sequence[Ids]], ModelStepper] = ModelStepper,
    ) -> None:
        self.model, self._make = model, make
        self.max_len = model.config.max_len
        self.recent = max(1, self.max_len - self.max_len // 4)
        self._written = [[list(prompt)] for prompt in prompts]  # ids by sequence and beam
        self._n_beams = 1
        self._apart = False
        self._read_again([p if len(p) <= self.max_len else p[-self.recent :] for p in prompts])

    def start(self) -> Float[Tensor, "B 1 V"]:
        return self._inner.start()

    def step(
        self, tokens: Int[Tensor, "B R"], parents: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R V"]:
        n_sequences, n_beams = tokens.shape
        self._note(tokens, parents)
        if self._length == self.max_len:
            self._read_again([beam[-self.recent :] for beams in self._written for beam in beams])
            self._apart = True  # beams no longer share a prefix: to the model, each is a sequence
            return self._inner.start().view(n_sequences, n_beams, -1)
        self._length += 1
        if not self._apart:
            return self._inner.step(tokens, parents)
        if parents is not None:
            sequences = torch.arange(n_sequences, device=tokens.device).unsqueeze(-1)
            self._inner.keep((sequences * self._n_beams + parents).flatten())
            self._n_beams = n_beams
        return self._inner.step(tokens.reshape(-1, 1)).view(n_sequences, n_beams, -1)

    def worth_leaving(self, n_left: int) -> bool:
        return self._inner.worth_leaving(n_left * self._n_beams if self._apart else n_left)

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        self._written = [self._written[sequence] for sequence in sequences.tolist()]
        if self._apart:
            beams = torch.arange(self._n_beams, device=sequences.device)
            sequences = (sequences.unsqueeze(-1) * self._n_beams + beams).flatten()
        self._inner.keep(sequences)

    def _read_again(self, windows: Sequence[Ids]) -> None:
        self._inner = self._make(self.model, windows)
        self._length = max(map(len, windows))
        self._n_beams = len(windows) // len(self._written)

    def _note(self, tokens: Tensor, parents: Tensor | None) -> None:
        if parents is None:
            for beams, new in zip(self._written, tokens.tolist(), strict=True):
                for beam, token in zip(beams, new, strict=True):
                    beam.append(token)
            return
        rows = zip(tokens.tolist(), parents.tolist(), strict=True)
        for sequence, (new, begun) in enumerate(rows):
            beams = self._written[sequence]
            self._written[sequence] = [
                [*beams[parent][-self.max_len :], token]
                for token, parent in zip(new, begun, strict=True)
            ]


def _leaving_pays(n_sequences: int, n_left: int) -> bool:
    """Whether an eighth of the sequences is finished.

    Dropping them copies the caches of the others, so it must not happen at every step.
    """
    n_done = n_sequences - n_left
    return n_done > 0 and 8 * n_done >= n_sequences


def pad(
    batch: Sequence[Ids], device: torch.device, *, left: bool = False
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"] | None]:
    """Lists of ids as one tensor, padded on one side, and its mask (None: there is no padding)."""
    lengths = [len(ids) for ids in batch]
    longest = max(lengths)
    gaps = [[0] * (longest - length) for length in lengths]
    rows = [[*gap, *ids] if left else [*ids, *gap] for ids, gap in zip(batch, gaps, strict=True)]
    padded = torch.tensor(rows, dtype=torch.long, device=device)
    if min(lengths) == longest:
        return padded, None
    places = torch.arange(longest, device=device)
    if left:
        places = places.flip(0)
    return padded, places < torch.tensor(lengths, device=device)[:, None]
