"""The steps of `shared_cache` on a GPU, recorded as CUDA graphs.

A decoder step is some two hundred small kernels, and launching them one by one takes the host
longer than running them takes the GPU. The arithmetic is the same, up to rounding: the numbers of
sequences, positions and source positions are rounded up, the surplus is masked or discarded, and
buffers that keep a head's keys together allow attention by products: the fused kernel is made for
many queries and gives each block one head; with four queries most of a block is idle.
Dims: B sequences, R beams of each, K cached positions, V vocabulary.
"""

import math
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F

from glassformer.decoding.fast.cuda_graphs import (
    CudaRecorder,
    GraphRecorder,
    StepInputs,
    StepOutputs,
    StepShape,
    Workspace,
    give_back,
    take,
)
from glassformer.decoding.fast.shared_cache import (
    BranchedStack,
    Branches,
    SharedCacheStepper,
    claim_positions,
    most_alive,
    reserve,
)
from glassformer.decoding.fast.workers import is_watched
from glassformer.nn import DecodingCache, LanguageModel, MultiHeadAttention, Seq2Seq
from glassformer.nn.attention import softmax_over_keys, visible_keys
from glassformer.nn.tensors import Bool, Float, Int, Tensor

_MIN_KEYS = 64  # then doubled: most sentences never outgrow it
_SOURCE_AT_ONCE = 16
_FEW_QUERIES = 8
_FEW_KEYS = 256


def can_be_recorded(model: LanguageModel | Seq2Seq) -> bool:
    """Whether a replay does all that a step would do: no hooks, no modes, no autocast."""
    if os.environ.get("GLASSFORMER_GRAPHS") == "off" or not model.decoder.blocks:
        return False
    if torch.is_autocast_enabled("cuda"):  # it casts weights into temporary memory
        return False
    return not is_watched(model.modules())


class GraphStepper(SharedCacheStepper):
    """A `Stepper` that reads prefixes like its base class, then steps in the model's workspace."""

    def __init__(
        self,
        model: LanguageModel | Seq2Seq,
        prefixes: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]] | None = None,
        make_recorder: Callable[[torch.device], GraphRecorder] = CudaRecorder,
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
        assert self._visible is not None and self._branched is not None
        n_sequences, n_beams = tokens.shape
        n_more = self._visible.size(0) - n_sequences
        if n_more:
            tokens = F.pad(tokens, (0, 0, 0, n_more))
            parents = None if parents is None else F.pad(parents, (0, 0, 0, n_more))
        if parents is None:
            parents = self._same_parents(tokens)
        if self._visible.size(1) != n_beams:
            self._visible = self._visible.take_along_dim(parents.unsqueeze(-1), dim=1)
            parents = self._same_parents(tokens)
        self._make_room(workspace, parents)
        shape = StepShape(len(tokens), n_beams, self._visible.size(-1), self._n_source)
        inputs = StepInputs(tokens, parents, self._visible, self._lengths)
        length = self._longest + 1
        outputs = workspace.step(
            shape,
            inputs,
            _Advance(self.model, self._branched, length, workspace.source_in(shape)),
            # Positions beyond the model's table are computed each time, or refused.
            record=length <= self.model.config.max_len and not is_watched(self._parts),
        )
        self._visible = outputs.visible
        self._lengths = self._lengths + 1
        self._longest += 1
        return outputs.logits[:n_sequences]

    def worth_leaving(self, n_left: int) -> bool:
        """Whether a smaller graph would do: finished rows cost as much as others."""
        return self._runs_out or rounded_up(n_left) < rounded_up(self._lengths.numel())

    def keep(self, sequences: Int[Tensor, " M"]) -> None:
        """Continue with these sequences only, in this order."""
        if self._workspace is None:
            super().keep(sequences)
            return
        assert self._visible is not None
        n_more = rounded_up(len(sequences)) - len(sequences)
        n_keys = self._visible.size(-1)
        shape = StepShape(len(sequences) + n_more, 1, n_keys, self._n_source)
        self._workspace.select(sequences, shape)
        lengths = self._lengths[sequences]
        self._longest = int(lengths.max())
        self._lengths = F.pad(lengths, (0, n_more), value=1)
        self._visible = F.pad(self._visible[sequences], (0, 0, 0, 0, 0, n_more))

    def _move_in(self) -> Workspace:
        """Take the model's workspace and copy what has been cached so far into it."""
        n_sequences = self._lengths.numel()
        past = self._visible
        if past is None:
            past = self._lengths.new_ones((n_sequences, 1, self._longest), dtype=torch.bool)
        n_keys = max(_MIN_KEYS, _power_of_two(past.size(-1)))
        if self.memory is not None:
            self._n_source = -(-self.memory.size(1) // _SOURCE_AT_ONCE) * _SOURCE_AT_ONCE
        size = StepShape(rounded_up(n_sequences), 1, n_keys, self._n_source)
        device = self._lengths.device
        workspace = take(self.model, size, self.cache, partial(self._make_recorder, device))
        workspace.fill(self.cache, self.memory_is_token)
        n_more = size.n_sequences - n_sequences
        self._visible = F.pad(past, (0, n_keys - past.size(-1), 0, 0, 0, n_more))
        self._lengths = F.pad(self._lengths, (0, n_more), value=1)
        self._n_free = 0
        self.cache, self.memory = self.model.start_cache(), None  # they lie in the workspace now
        self._branched = BranchedStack.over(self.model.decoder, ProductAttention)
        self._workspace = workspace
        weakref.finalize(self, give_back, weakref.ref(self.model), workspace)
        return workspace

    def _same_parents(self, tokens: Int[Tensor, "B R"]) -> Int[Tensor, "B R"]:
        """The parents of beams that continue themselves, computed once per shape."""
        if self._own is None or self._own.shape != tokens.shape:
            self._own = torch.arange(tokens.size(1), device=tokens.device).repeat(len(tokens), 1)
        return self._own

    def _make_room(self, workspace: Workspace, parents: Int[Tensor, "B R"]) -> None:
        """Give every beam of the next step a position that it may overwrite."""
        assert self._visible is not None
        n_beams, n_keys = self._visible.shape[1:]
        if self._n_free < n_beams:  # counted when they may be too few, since counting waits
            past = self._visible.take_along_dim(parents.unsqueeze(-1), dim=1)
            n_alive = most_alive(past)
            n_wanted = max(n_keys, _power_of_two(n_alive + n_beams))
            if n_wanted > workspace.size.n_keys:
                workspace.enlarge(workspace.size._replace(n_keys=n_wanted))
            self._visible = F.pad(self._visible, (0, n_wanted - n_keys))
            self._n_free = n_wanted - n_alive
        self._n_free -= n_beams


@dataclass(frozen=True)
class _Advance:
    """One step of a model; repeated, it writes the same to the cache."""

    model: LanguageModel | Seq2Seq
    decoder: BranchedStack
    length: int
    """Of the longest sequence, including the new token."""
    source_is_token: Bool[Tensor, "B S"] | None

    def __call__(self, given: StepInputs, cache: DecodingCache) -> StepOutputs:
        past = given.past.take_along_dim(given.parents.unsqueeze(-1), dim=1)
        slots, visible = claim_positions(past)
        reserve(cache.self_attention, slots, past.size(-1))
        positions = given.lengths.unsqueeze(-1).expand_as(given.tokens)
        branches = Branches(positions, visible, self.length)
        vectors = self.decoder(given.tokens, cache=cache, branches=branches, **self._source())
        logits: Tensor = self.model.to_vocabulary(vectors)
        return StepOutputs(logits, visible)

    def _source(self) -> dict[str, Tensor | None]:
        """The encoder's output is cached as keys and values: only its shape is still needed."""
        is_token = self.source_is_token
        if is_token is None:
            return {}
        nothing = self.model.to_vocabulary.weight.new_zeros(1)
        memory = nothing.expand(*is_token.shape, self.model.config.d_model)
        return {"memory": memory, "memory_is_token": is_token}


def rounded_up(n_sequences: int) -> int:
    """The number of sequences that a graph is recorded for: a power of two, or 3/4 of one."""
    whole = _power_of_two(n_sequences)
    return whole * 3 // 4 if n_sequences <= whole * 3 // 4 else whole


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


class ProductAttention(MultiHeadAttention):
    """Multi-head attention by products where these are faster than the fused kernel."""

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
    ) -> Float[Tensor, "B H Q W"]:
        is_plain = self.score_vector is not None or self.implementation != "fused"
        dropout = self.config.dropout if self.training else 0.0
        if is_plain or dropout or not products_pay(queries, keys, values):
            return super().attend(queries, keys, values, mask, causal)
        return attend_by_products(
            queries, keys, values, divisor=self.divisor, mask=mask, causal=causal
        )


def products_pay(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether two products are faster than the fused kernel.

    Measured on an H200, 4 queries of 8 heads in 2,048 sequences with 64 keys: 2.5 times as fast in
    bfloat16, 1.6 in float32; 1 query with 4,096 keys: 0.9 and 1.5. So in half precision the keys
    must be few, too. A head's keys must be contiguous: otherwise the products would copy them.
    """
    if torch.compiler.is_compiling() or torch.is_grad_enabled() or not queries.is_cuda:
        return False
    if queries.size(-2) > _FEW_QUERIES or (keys.element_size() < 4 and keys.size(-2) > _FEW_KEYS):
        return False
    return all(x.stride(-3) > x.stride(-2) for x in (keys, values))


def attend_by_products(
    queries: Float[Tensor, "B H Q E"],
    keys: Float[Tensor, "B G K E"],
    values: Float[Tensor, "B G K W"],
    *,
    divisor: float,
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
) -> Float[Tensor, "B H Q W"]:
    """The arithmetic of `attend_written`, with scores in at least single precision.

    Heads that share keys are treated as more queries of one head.
    """
    n_sequences, n_heads, n_queries, width = queries.shape
    together = queries.reshape(n_sequences * keys.size(1), -1, width)
    scores = _scores(together, keys.flatten(0, 1)).view(n_sequences, n_heads, n_queries, -1)
    scores.mul_(1.0 / divisor)
    visible = visible_keys(scores.shape, mask, causal, scores.device)
    if visible is not None:
        scores.masked_fill_(~visible, -math.inf)
    weights = softmax_over_keys(scores).to(values.dtype)
    context = torch.bmm(weights.view(*together.shape[:2], -1), values.flatten(0, 1))
    return context.view(n_sequences, n_heads, n_queries, -1)


def _scores(
    queries: Float[Tensor, "N Q E"], keys: Float[Tensor, "N K E"]
) -> Float[Tensor, "N Q K"]:
    if queries.element_size() >= 4:
        return torch.bmm(queries, keys.mT)
    if queries.is_cuda:
        return torch.bmm(queries, keys.mT, out_dtype=torch.float32)
    return torch.bmm(queries.float(), keys.float().mT)
