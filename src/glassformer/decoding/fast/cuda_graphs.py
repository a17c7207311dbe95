"""CUDA graphs: work on a GPU that is recorded once and replayed by one call.

Starting a kernel takes the host some microseconds, often longer than the kernel runs; a CUDA graph
starts all kernels of some work at once. It reads and writes the same memory at every replay, so
inputs, results and state must stay where they are. For decoding, a `Workspace` does that: the keys
and values of all layers lie in buffers that are never moved, a step's inputs are copied into
tensors that stay, and shapes are rounded up, so that few graphs serve all batches. Nothing here
knows how tokens are chosen.
Dims: L layers, B sequences, R beams, K positions, S source positions, G heads, E width,
V vocabulary.
"""

import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Lock, RLock
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import nn

from glassformer.decoding.fast.shared_cache import SlotCache
from glassformer.nn import DecodingCache, MultiHeadAttention
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.tensors import Bool, Float, Int, Tensor

Made = TypeVar("Made")

_WORTH_RECORDING = 3  # steps of one shape: a graph costs about as much as ten of them
_MOST_RECORDINGS = 32  # each keeps the logits of its shape

_recording = Lock()  # torch records one graph at a time in a process


class GraphRecorder(Protocol):
    """Records work on fixed tensors; returns its (fixed) result and a function that replays it."""

    def __call__(self, work: Callable[[], Made], /) -> tuple[Made, Callable[[], Any]]:
        """Run the work a few times as a warm-up (repeats must be harmless), then record it."""


class CudaRecorder:
    """Records on a GPU; all graphs share memory for temporaries."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # Its own stream: torch's default one is made once, on whichever GPU is current then, and
        # memory shared by graphs belongs to the stream that they were recorded on.
        self._stream = torch.cuda.Stream(device)
        self._graphs: weakref.WeakSet[torch.cuda.CUDAGraph] = weakref.WeakSet()
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], Made], /) -> tuple[Made, Callable[[], Any]]:
        """Warm up, so that kernels are chosen and loaded, then record."""
        with _recording, torch.cuda.device(self._device):
            if not self._graphs:  # earlier graphs' memory was freed with the last of them
                self._pool = torch.cuda.graph_pool_handle()
            self._warm_up(work)
            # The warm-up left cuBLAS a workspace in ordinary memory. A graph would keep its
            # address, but not the memory: `torch.compile` clears all workspaces before it records
            # its own graphs, and the next replay would overwrite whatever is there by then. Cleared
            # here, the workspace is allocated again during the capture, from the graph's own pool.
            torch._C._cuda_clearCublasWorkspaces()
            graph = torch.cuda.CUDAGraph()
            # Errors of this thread only: another may be preparing batches meanwhile.
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ):
                result = work()
            torch._C._cuda_clearCublasWorkspaces()  # nobody else may use the graph's pool
            self._graphs.add(graph)
        return result, graph.replay

    def _warm_up(self, work: Callable[[], Made]) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        # A resumed run records again: that must not advance its RNG.
        random_state = torch.cuda.get_rng_state(self._device)
        with torch.cuda.stream(self._stream):
            for _ in range(3):
                work()
        torch.cuda.set_rng_state(random_state, self._device)
        torch.cuda.current_stream().wait_stream(self._stream)


class StepShape(NamedTuple):
    """The sizes of a step; for a workspace, the largest that fit."""

    n_sequences: int
    n_beams: int
    n_keys: int
    n_source: int
    """0: there is no source."""

    @property
    def n_cells(self) -> int:
        """Positions of all sequences, the source's included."""
        return self.n_sequences * (self.n_keys + self.n_source)


@dataclass(frozen=True)
class StepInputs:
    """What changes from step to step."""

    tokens: Int[Tensor, "B R"]
    parents: Int[Tensor, "B R"]
    past: Bool[Tensor, "B R K"]
    """Which positions each beam of the previous step attends to."""
    lengths: Int[Tensor, " B"]

    def copied(self) -> "StepInputs":
        return StepInputs(*(tensor.clone() for tensor in vars(self).values()))

    def fill(self, other: "StepInputs") -> None:
        """Copy another step's inputs into these tensors."""
        for mine, new in zip(vars(self).values(), vars(other).values(), strict=True):
            mine.copy_(new)


class StepOutputs(NamedTuple):
    """The results of a step, in graph memory until the next step."""

    logits: Float[Tensor, "B R V"]
    visible: Bool[Tensor, "B R K"]


StepFunction = Callable[[StepInputs, DecodingCache], StepOutputs]
"""One step of a model; repeating it must be harmless."""


class Buffers:
    """Keys and values of the self- or cross-attention of all layers.

    All positions of a head are contiguous, so a product reads them in place. Writing one position
    of every head is slower, but there is only one to write.
    """

    def __init__(self, like: Sequence[KeyValueCache], n_sequences: int, n_keys: int) -> None:
        keys, values = like[0].read()
        # Zeros: a masked position has weight 0, but 0 times a stray NaN would still be NaN.
        self.keys, self.values = (
            x.new_zeros(len(like), n_sequences, x.size(1), n_keys, x.size(3))
            for x in (keys, values)
        )

    def fill(self, caches: Sequence[KeyValueCache]) -> None:
        """Copy the caches of a new batch, and zero the rest."""
        for layer, cache in enumerate(caches):
            for buffer, cached in zip((self.keys, self.values), cache.read(), strict=True):
                n_sequences, _, n_keys, _ = cached.shape
                buffer[layer].zero_()
                buffer[layer, :n_sequences, :, :n_keys] = cached

    def select(self, rows: Int[Tensor, " M"], n_keys: int) -> None:
        """Move these sequences to the front, in this order."""
        for buffer in (self.keys[..., :n_keys, :], self.values[..., :n_keys, :]):
            buffer[:, : len(rows)] = buffer.index_select(1, rows)

    def caches(self, n_sequences: int, n_keys: int) -> list[KeyValueCache]:
        """A cache per layer over the first sequences and positions."""
        return [
            SlotCache.over(keys[:n_sequences, :, :n_keys], values[:n_sequences, :, :n_keys])
            for keys, values in zip(self.keys, self.values, strict=True)
        ]


@dataclass(frozen=True)
class _RecordedStep:
    inputs: StepInputs
    outputs: StepOutputs
    replay: Callable[[], Any]


class Workspace:
    """Buffers for batches up to a size, and the graphs recorded over them."""

    def __init__(
        self,
        make_recorder: Callable[[], GraphRecorder],
        fingerprint: object,
        size: StepShape,
        like: DecodingCache,
    ) -> None:
        self._make_recorder, self.fingerprint = make_recorder, fingerprint
        self._is_refused = False
        self._allocate(size, like)

    def _allocate(self, size: StepShape, like: DecodingCache) -> None:
        self.size = size
        with torch.inference_mode(False):  # tensors that can be changed in any mode
            self.own = Buffers(like.self_attention, size.n_sequences, size.n_keys)
            self.source = (
                Buffers(like.cross_attention, size.n_sequences, size.n_source)
                if size.n_source
                else None
            )
            self.source_is_token = self.own.keys.new_ones((size.n_sequences, size.n_source)).bool()
        self._forget()

    def _forget(self) -> None:
        self.recordings: dict[StepShape, _RecordedStep] = {}
        self._n_steps: Counter[StepShape] = Counter()
        self._recorder = self._make_recorder()

    def step(
        self, shape: StepShape, inputs: StepInputs, step: StepFunction, *, record: bool
    ) -> StepOutputs:
        """One step over these buffers: replayed if its shape is recorded or worth recording now."""
        self._n_steps[shape] += record
        if not record or self._is_refused or self._n_steps[shape] < _WORTH_RECORDING:
            return step(inputs, self._cache(shape))
        if shape not in self.recordings and not self._record(shape, inputs, step):
            return step(inputs, self._cache(shape))
        recording = self.recordings[shape]
        recording.inputs.fill(inputs)
        recording.replay()
        return recording.outputs

    def _record(self, shape: StepShape, inputs: StepInputs, step: StepFunction) -> bool:
        """Record a step; if that fails, warn once and continue without graphs."""
        if len(self.recordings) >= _MOST_RECORDINGS:
            self._forget()
        kept, cache = inputs.copied(), self._cache(shape)
        try:
            outputs, replay = self._recorder(lambda: step(kept, cache))
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            warnings.warn(
                f"a decoding step cannot be recorded as a CUDA graph ({reason}); continuing "
                "without, which is slower",
                RuntimeWarning,
                stacklevel=2,
            )
            self._is_refused = True
            return False
        self.recordings[shape] = _RecordedStep(kept, outputs, replay)
        return True

    def fill(self, cache: DecodingCache, is_token: Bool[Tensor, "B S"] | None) -> None:
        """Copy the caches of a batch that has read its prefixes."""
        self.own.fill(cache.self_attention)
        if self.source is None:
            return
        self.source.fill(cache.cross_attention)
        n_sequences, _, n_source, _ = cache.cross_attention[0].read()[0].shape
        self.source_is_token[:n_sequences] = False
        self.source_is_token[:n_sequences, :n_source] = True if is_token is None else is_token
        self.source_is_token[n_sequences:] = True  # rows that only pad the batch must not give NaN

    def select(self, rows: Int[Tensor, " M"], shape: StepShape) -> None:
        """Continue with these sequences only, in steps of this shape."""
        if shape.n_sequences > self.size.n_sequences:
            self.enlarge(self.size._replace(n_sequences=shape.n_sequences))
        self.own.select(rows, shape.n_keys)
        if self.source is not None:
            self.source.select(rows, shape.n_source)
            self.source_is_token[: len(rows)] = self.source_is_token[rows]

    def enlarge(self, size: StepShape) -> None:
        """Make room for more or longer sequences; graphs over the old buffers are dropped."""
        like = self._cache(self.size)
        is_token = self.source_is_token
        self._allocate(size, like)
        self.own.fill(like.self_attention)
        if self.source is not None:
            self.source.fill(like.cross_attention)
            self.source_is_token[: len(is_token)] = is_token

    def source_in(self, shape: StepShape) -> Bool[Tensor, "B S"] | None:
        """Where the source of each sequence has tokens."""
        return (
            self.source_is_token[: shape.n_sequences, : shape.n_source] if shape.n_source else None
        )

    def has_room_for(self, shape: StepShape) -> bool:
        """Whether batches of this size fit."""
        mine = self.size
        return (
            shape.n_sequences <= mine.n_sequences
            and shape.n_keys <= mine.n_keys
            and shape.n_source <= mine.n_source
        )

    def _cache(self, shape: StepShape) -> DecodingCache:
        source = (
            [] if self.source is None else self.source.caches(shape.n_sequences, shape.n_source)
        )
        own = self.own.caches(shape.n_sequences, shape.n_keys)
        return DecodingCache(own, source or [KeyValueCache() for _ in own])


_idle: weakref.WeakKeyDictionary[nn.Module, Workspace] = weakref.WeakKeyDictionary()
# The garbage collector may return a workspace at any line, even while the lock is held.
_changing = RLock()


def take(
    model: nn.Module,
    size: StepShape,
    like: DecodingCache,
    make_recorder: Callable[[], GraphRecorder],
) -> Workspace:
    """The idle workspace of a model, or a new one if it is in use, too small or out of date."""
    with _changing:
        idle = _idle.pop(model, None)
    fingerprint = _fingerprint(model)
    if idle is not None and idle.fingerprint == fingerprint:
        if idle.has_room_for(size):
            return idle
        both = StepShape(*map(max, size, idle.size))
        if both.n_cells <= 2 * max(size.n_cells, idle.size.n_cells):  # not many short and one long
            size = both
    del idle  # its memory is freed before more is allocated
    return Workspace(make_recorder, fingerprint, size, like)


def give_back(model: "weakref.ref[nn.Module]", workspace: Workspace) -> None:
    """Keep a workspace for the next batch of its model, as long as the model exists."""
    alive = model()
    if alive is not None:
        with _changing:
            _idle[alive] = workspace


def release(model: nn.Module) -> None:
    """Free the memory kept for a model's next batch, and the graphs recorded over it."""
    with _changing:
        _idle.pop(model, None)


def _fingerprint(model: nn.Module) -> object:
    """What a graph depends on: the addresses of the weights, and how things are computed."""
    tensors = tuple(
        (x.data_ptr(), x.dtype, x.shape, x.stride())
        for x in chain(model.parameters(), model.buffers())
    )
    attentions = (part for part in model.modules() if isinstance(part, MultiHeadAttention))
    kernels = torch.backends.cuda
    return (
        tensors,
        tuple(attention.implementation for attention in attentions),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        (kernels.flash_sdp_enabled(), kernels.mem_efficient_sdp_enabled()),
        (kernels.math_sdp_enabled(), kernels.cudnn_sdp_enabled()),
    )
