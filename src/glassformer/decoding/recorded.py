"""Our models as steppers on a GPU: the steps of `models`, recorded as CUDA graphs.

A step of a decoder is some two hundred small kernels, and starting them one by one takes the host
longer than the GPU takes to run them. The arithmetic is the same, up to rounding: texts, positions
and source are rounded up, what nobody asked for is masked or thrown away, and rooms that keep a
head's keys together let attention be two products instead of a fused kernel (`products_pay`).
Dims: B texts, R rivals of each, K cached positions, V vocabulary.
"""

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F

from glassformer.cuda_graphs import CudaRecorder, Recorder
from glassformer.decoding.models import ModelStepper, claim_positions, most_alive
from glassformer.decoding.watching import is_watched
from glassformer.decoding.workspace import (
    Shape,
    StepInputs,
    StepOutputs,
    Workspace,
    give_back,
    release,
    take,
)
from glassformer.nn import Branches, DecodingCache, LanguageModel, Seq2Seq
from glassformer.nn.shapes import Bool, Float, Int, Tensor

__all__ = ["RecordedStepper", "stepper_for"]

_LEAST_KEYS = 64  # then doubled: most sentences never outgrow it
_SOURCE_AT_ONCE = 16


def stepper_for(
    model: LanguageModel | Seq2Seq,
    prefixes: Sequence[Sequence[int]],
    sources: Sequence[Sequence[int]] | None = None,
) -> ModelStepper:
    """A stepper that suits the model's device: recorded on a GPU, if nobody watches the steps."""
    if model.to_vocabulary.weight.is_cuda:
        if can_be_recorded(model):
            return RecordedStepper(model, prefixes, sources)
    else:
        release(model)  # it may have been on a GPU before
    return ModelStepper(model, prefixes, sources)


def can_be_recorded(model: LanguageModel | Seq2Seq) -> bool:
    """Whether a replay is all that a step would do: no hooks to call, no modes that look on."""
    if os.environ.get("GLASSFORMER_GRAPHS") == "off" or not model.decoder.blocks:
        return False
    if torch.is_autocast_enabled("cuda"):  # it casts weights to memory that does not stay
        return False
    return not is_watched(model.modules())


class RecordedStepper(ModelStepper):
    """A `Stepper` that reads prefixes like its base, then steps in a workspace of the model."""

    def __init__(
        self,
        model: LanguageModel | Seq2Seq,
        prefixes: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]] | None = None,
        make_recorder: Callable[[torch.device], Recorder] = CudaRecorder,
    ) -> None:
        super().__init__(model, prefixes, sources)
        self._make_recorder = make_recorder
        self._parts = list(model.modules())
        self._workspace: Workspace | None = None
        self._n_source = 0
        self._own: Tensor | None = None

    def step(
        self, tokens: Int[Tensor, "B R"], parents: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R V"]:
        """Logits after these tokens, in memory that the next step overwrites."""
        workspace = self._workspace or self._move_in()
        assert self._visible is not None
        n_texts, n_rivals = tokens.shape
        n_more = self._visible.size(0) - n_texts
        if n_more:
            tokens = F.pad(tokens, (0, 0, 0, n_more))
            parents = None if parents is None else F.pad(parents, (0, 0, 0, n_more))
        if parents is None:
            parents = self._same_parents(tokens)
        if self._visible.size(1) != n_rivals:
            self._visible = self._visible.take_along_dim(parents.unsqueeze(-1), dim=1)
            parents = self._same_parents(tokens)
        self._make_room(workspace, parents)
        shape = Shape(len(tokens), n_rivals, self._visible.size(-1), self._n_source)
        inputs = StepInputs(tokens, parents, self._visible, self._lengths)
        length = self._longest + 1
        outputs = workspace.step(
            shape,
            inputs,
            _Advance(self.model, length, workspace.source_in(shape)),
            # Positions beyond the model's are worked out anew each time, or refused.
            record=length <= self.model.config.max_len and not is_watched(self._parts),
        )
        self._visible = outputs.visible
        self._lengths = self._lengths + 1
        self._longest += 1
        return outputs.logits[:n_texts]

    def worth_leaving(self, n_left: int) -> bool:
        """Whether a smaller graph would do: one costs the same however many of its texts count."""
        return self._runs_out or rounded_up(n_left) < rounded_up(self._lengths.numel())

    def keep(self, texts: Int[Tensor, " M"]) -> None:
        """Go on with these texts alone, in this order."""
        if self._workspace is None:
            super().keep(texts)
            return
        assert self._visible is not None
        n_more = rounded_up(len(texts)) - len(texts)
        n_keys = self._visible.size(-1)
        self._workspace.select(texts, Shape(len(texts) + n_more, 1, n_keys, self._n_source))
        lengths = self._lengths[texts]
        self._longest = int(lengths.max())
        self._lengths = F.pad(lengths, (0, n_more), value=1)
        self._visible = F.pad(self._visible[texts], (0, 0, 0, 0, 0, n_more))

    def _move_in(self) -> Workspace:
        """Take the model's workspace, and what has been cached so far into it."""
        n_texts = self._lengths.numel()
        past = self._visible
        if past is None:
            past = self._lengths.new_ones((n_texts, 1, self._longest), dtype=torch.bool)
        n_keys = max(_LEAST_KEYS, _power_of_two(past.size(-1)))
        if self.memory is not None:
            self._n_source = -(-self.memory.size(1) // _SOURCE_AT_ONCE) * _SOURCE_AT_ONCE
        size = Shape(rounded_up(n_texts), 1, n_keys, self._n_source)
        device = self._lengths.device
        workspace = take(self.model, size, self.cache, partial(self._make_recorder, device))
        workspace.fill(self.cache, self.memory_is_token)
        n_more = size.n_texts - n_texts
        self._visible = F.pad(past, (0, n_keys - past.size(-1), 0, 0, 0, n_more))
        self._lengths = F.pad(self._lengths, (0, n_more), value=1)
        self._n_free = 0
        self.cache, self.memory = self.model.start_cache(), None  # they lie in the workspace now
        self._workspace = workspace
        weakref.finalize(self, give_back, weakref.ref(self.model), workspace)
        return workspace

    def _same_parents(self, tokens: Int[Tensor, "B R"]) -> Int[Tensor, "B R"]:
        """The parents of rivals that continue themselves, made once for each shape."""
        if self._own is None or self._own.shape != tokens.shape:
            self._own = torch.arange(tokens.size(1), device=tokens.device).repeat(len(tokens), 1)
        return self._own

    def _make_room(self, workspace: Workspace, parents: Int[Tensor, "B R"]) -> None:
        """Give every rival of the next step a position that it may overwrite."""
        assert self._visible is not None
        n_rivals, n_keys = self._visible.shape[1:]
        if self._n_free < n_rivals:  # counted when they may be too few, since counting waits
            past = self._visible.take_along_dim(parents.unsqueeze(-1), dim=1)
            n_alive = most_alive(past)
            n_wanted = max(n_keys, _power_of_two(n_alive + n_rivals))
            if n_wanted > workspace.size.n_keys:
                workspace.enlarge(workspace.size._replace(n_keys=n_wanted))
            self._visible = F.pad(self._visible, (0, n_wanted - n_keys))
            self._n_free = n_wanted - n_alive
        self._n_free -= n_rivals


@dataclass(frozen=True)
class _Advance:
    """One step of a model; it writes to the cache, and writes the same when it is done again."""

    model: LanguageModel | Seq2Seq
    length: int
    """Of the longest text, the new token included."""
    source_is_token: Bool[Tensor, "B S"] | None

    def __call__(self, given: StepInputs, cache: DecodingCache) -> StepOutputs:
        past = given.past.take_along_dim(given.parents.unsqueeze(-1), dim=1)
        slots, visible = claim_positions(past)
        cache.reserve(slots, past.size(-1))
        positions = given.lengths.unsqueeze(-1).expand_as(given.tokens)
        branches = Branches(positions, visible, self.length)
        vectors = self.model.decoder(given.tokens, cache=cache, branches=branches, **self._source())
        logits: Tensor = self.model.to_vocabulary(vectors)
        return StepOutputs(logits, visible)

    def _source(self) -> dict[str, Tensor | None]:
        """The encoder's output is cached as keys and values: all that is left of it is its size."""
        is_token = self.source_is_token
        if is_token is None:
            return {}
        nothing = self.model.to_vocabulary.weight.new_zeros(1)
        memory = nothing.expand(*is_token.shape, self.model.config.d_model)
        return {"memory": memory, "memory_is_token": is_token}


def rounded_up(n_texts: int) -> int:
    """A number of texts that a graph is recorded for: a power of two, or half as much again."""
    whole = _power_of_two(n_texts)
    return whole * 3 // 4 if n_texts <= whole * 3 // 4 else whole


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
