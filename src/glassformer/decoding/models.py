"""Our models as steppers: the one place in decoding that knows caches and masks.

The rivals of a text share its cache, the encoder's part and the decoder's. Each step writes one
cache position for each rival; which positions are a rival's own past is a mask, and a beam that
splits or dies changes the mask, not the cache. A position that no rival looks back to any more is
overwritten by a new one, so that nothing is ever moved. Nothing here knows how tokens are chosen.
Dims: B texts, R rivals of each, S source, T prefix and K cached positions, V vocabulary.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from glassformer.decoding.batching import worth_leaving
from glassformer.errors import ConfigError, InputError
from glassformer.nn import Branches, LanguageModel, Seq2Seq
from glassformer.nn.shapes import Bool, Float, Int, Tensor

__all__ = ["ModelStepper", "claim_positions", "most_alive", "pad"]

# PyTorch's kernel for the CPU takes keys in sixteens, and what remains one by one: 15 keys cost
# two and a half times as much as 16, and 22 or more cost less when masked ones fill them up to 32.
_KEYS_AT_ONCE = 16
_WORTH_FILLING = 6


def pad(
    batch: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"] | None]:
    """Lists of ids as one tensor, padded on the right; the mask is None if nothing is padding."""
    longest = max(map(len, batch))
    rows = [[*ids, *[0] * (longest - len(ids))] for ids in batch]
    padded = torch.tensor(rows, dtype=torch.long)
    lengths = torch.tensor([len(ids) for ids in batch])
    if int(lengths.min()) == longest:
        return padded.to(device), None
    is_token = torch.arange(longest) < lengths[:, None]
    return padded.to(device), is_token.to(device)


class ModelStepper:
    """A `Stepper` over a language model, or over an encoder-decoder with its source read."""

    def __init__(
        self,
        model: LanguageModel | Seq2Seq,
        prefixes: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]] | None = None,
    ) -> None:
        _check(prefixes, "prefix")
        device = model.to_vocabulary.weight.device
        self.model = model
        self.memory: Tensor | None = None
        self.memory_is_token: Tensor | None = None
        if isinstance(model, Seq2Seq):
            if model.config.output.flattened:
                raise ConfigError(
                    "a model with a flattened output layer predicts all positions at once and "
                    "cannot be decoded step by step; set output.flattened = false"
                )
            assert sources is not None, "an encoder-decoder reads a source"
            _check(sources, "source")
            source, self.memory_is_token = pad(sources, device)
            memory = model.encoder(source, is_token=self.memory_is_token)
            self.memory, self.memory_is_token = _filled_up(memory, self.memory_is_token)
        self.cache = model.start_cache()
        self._prefix, self._prefix_is_token = pad(prefixes, device)
        self._lengths = torch.tensor([len(ids) for ids in prefixes], device=device)
        self._longest = int(self._lengths.max())
        self._visible: Tensor | None = None  # (B, R, K); None: every position is every rival's
        self._n_free = 0  # of each text's positions, so many can be overwritten at least

    def start(self) -> Float[Tensor, "B 1 V"]:
        """Read the prefixes; logits of what follows each."""
        is_token = self._prefix_is_token
        vectors = self.model.decoder(
            self._prefix, is_token=is_token, cache=self.cache, **self._source()
        )
        if is_token is not None:
            self._visible = is_token.unsqueeze(1)
            self.cache.is_token = None  # from here on, the account is kept in _visible
        last = vectors.take_along_dim((self._lengths - 1)[:, None, None], dim=1)
        logits: Tensor = self.model.to_vocabulary(last)
        return logits

    def step(
        self, tokens: Int[Tensor, "B R"], parents: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R V"]:
        """Logits after these tokens; each continues the rival `parents` names (None: its own)."""
        branches = None
        if self._visible is not None or tokens.size(1) > 1:
            branches = self._branch(tokens, parents)
        vectors = self.model.decoder(tokens, cache=self.cache, branches=branches, **self._source())
        self._lengths += 1
        self._longest += 1
        logits: Tensor = self.model.to_vocabulary(vectors)
        return logits

    def worth_leaving(self, n_left: int) -> bool:
        """Whether enough texts are done: every one costs its share of a step."""
        return self._runs_out or worth_leaving(self._lengths.numel(), n_left)

    def keep(self, texts: Int[Tensor, " M"]) -> None:
        """Go on with these texts alone, in this order."""
        self.cache.select(texts)
        self._lengths = self._lengths[texts]
        self._longest = int(self._lengths.max())
        if self._visible is not None:
            self._visible = self._visible[texts]
        if self.memory is not None:
            self.memory = self.memory[texts]
        if self.memory_is_token is not None:
            self.memory_is_token = self.memory_is_token[texts]

    @property
    def _runs_out(self) -> bool:
        """Whether there is no position left for the longest text: it is done, and must not stay."""
        config = self.model.config
        return config.positions.kind == "learned" and self._longest >= config.max_len

    def _source(self) -> dict[str, Tensor | None]:
        if self.memory is None:
            return {}
        return {"memory": self.memory, "memory_is_token": self.memory_is_token}

    def _branch(self, tokens: Tensor, parents: Tensor | None) -> Branches:
        """Give each new token a cache position of its own, and the past of its parent."""
        n_texts, n_rivals = tokens.shape
        past = self._visible
        if past is None:
            past = tokens.new_ones((n_texts, 1, self._longest), dtype=torch.bool)
        if parents is not None:
            past = past.take_along_dim(parents.unsqueeze(-1), dim=1)
        if self._n_free < n_rivals:  # counted when they may be too few, since counting waits
            n_alive, n_cached = most_alive(past), past.size(-1)
            n_more = max(0, _in_sixteens(n_alive + n_rivals) - n_cached)
            past = F.pad(past, (0, n_more))
            self._n_free = n_cached + n_more - n_alive
        self._n_free -= n_rivals
        slots, self._visible = claim_positions(past)
        self.cache.reserve(slots, past.size(-1))
        positions = self._lengths.unsqueeze(-1).expand(-1, n_rivals)
        return Branches(positions, self._visible, self._longest + 1)


def claim_positions(
    past: Bool[Tensor, "B R K"],
) -> tuple[Int[Tensor, "B R"], Bool[Tensor, "B R K"]]:
    """For each rival the first positions that none looks back to; what each sees with its own."""
    n_texts, n_rivals, _ = past.shape
    is_dead = ~past.any(dim=1)
    nth_dead = torch.arange(1, n_rivals + 1, device=past.device).expand(n_texts, -1)
    slots = torch.searchsorted(is_dead.cumsum(dim=-1), nth_dead.contiguous())
    return slots, past.scatter(-1, slots.unsqueeze(-1), True)


def most_alive(past: Bool[Tensor, "B R K"]) -> int:
    """How many positions are some rival's past, in the text that has most of them."""
    return int(past.any(dim=1).sum(dim=-1).max())


def _in_sixteens(n_keys: int) -> int:
    """The number of keys, rounded up to what the kernel takes at once."""
    return -(-n_keys // _KEYS_AT_ONCE) * _KEYS_AT_ONCE


def _filled_up(
    memory: Float[Tensor, "B S D"], is_token: Bool[Tensor, "B S"] | None
) -> tuple[Float[Tensor, "B L D"], Bool[Tensor, "B L"] | None]:
    """An encoder's output with masked positions behind it, where attention is faster with them."""
    n_more = _in_sixteens(memory.size(1)) - memory.size(1)
    if not 0 < n_more <= _KEYS_AT_ONCE - _WORTH_FILLING:
        return memory, is_token
    if is_token is None:
        is_token = memory.new_ones(memory.shape[:2], dtype=torch.bool)
    return F.pad(memory, (0, 0, 0, n_more)), F.pad(is_token, (0, n_more))


def _check(texts: Sequence[Sequence[int]], what: str) -> None:
    if not texts:
        raise InputError("there is nothing to decode: no texts were given")
    empty = next((i for i, ids in enumerate(texts) if not len(ids)), None)
    if empty is not None:
        raise InputError(
            f"the {what} of text {empty} is empty; a model needs at least one token, such as the "
            "start or end token"
        )
