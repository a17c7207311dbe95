"""Faster learners, and which one a run gets: compiled, as CUDA graphs, or for several GPUs.

Each replaces the plain learner (`training.learner`) as a whole and takes the same steps; tests hold
it to that.
Recording takes a second per shape and saves kernel launches; it pays for every run on a GPU.
Compiling fuses kernels and takes some twenty seconds per shape; it pays for long runs of one shape.
Both want few shapes: the loader then pads every batch of a bucket to one. On a GPU, queries, keys
and values of self-attention are computed by one product (`JoinedAttention`).
Dims: as in `nn.attention`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

from glassformer.data.batches import Batch
from glassformer.decoding.fast.cuda_graphs import CudaRecorder, GraphRecorder
from glassformer.errors import ConfigError, TrainingError
from glassformer.nn import Block, MultiHeadAttention
from glassformer.nn.attention import split_heads
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.positions import Rotation, rotate
from glassformer.nn.tensors import Float, Tensor
from glassformer.training.learner import Learner, Measure, model_loss
from glassformer.training.processes import Processes, fill, gather_all
from glassformer.training.run_config import AttentionKernel, RunConfig

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

_MOST_SHAPES = 48
_LONG_RUN = 10_000  # steps
_READS_LENGTHS = ("lstm", "rnn")  # on the CPU in mid-step, which no graph can record

# A one-pass (online) softmax over a large vocabulary reads less, but its exponentials take longer
# than a second read: GPT-2's loss takes 1.8 ms per step on an H200, 2.3 ms with it.
_OPTIONS: dict[str, Any] = {"online_softmax": False}

_KERNELS: dict[AttentionKernel, SDPBackend] = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


@dataclass(frozen=True)
class Acceleration:
    """How steps run; by default, operator by operator."""

    compiled: bool = False
    graphs: bool = False
    n_shapes: int = 1
    tuned: bool = False
    """Whether compiled kernels are autotuned."""

    @property
    def recorded(self) -> bool:
        """Whether we record graphs; those of a compiled step are torch's own."""
        return self.graphs and not self.compiled


class CompiledLearner(Learner):
    """A learner whose forward pass and loss are compiled; `graphs`: with torch's CUDA graphs."""

    def __init__(self, config: RunConfig, *given: Any, graphs: bool, **named: Any) -> None:
        super().__init__(config, *given, **named)
        self.fixed_shapes = graphs
        self.keeps_gradients = graphs and config.loop.accumulate > 1


def make_learner(
    config: RunConfig,
    model: nn.Module,
    measure: Measure,
    acceleration: Acceleration,
    *,
    device: torch.device,
    processes: Processes,
) -> Learner:
    """The learner for this run, device and number of processes."""
    join_projections(model, device.type == "cuda")

    named: dict[str, Any] = {
        "device": device,
        "processes": processes,
        "kernels": partial(attention_kernels, config.loop.attention),
    }
    if acceleration.recorded:
        return GraphLearner(config, model, measure, recorder=CudaRecorder(device), **named)
    named["loss"] = accelerated(model_loss, acceleration)
    # On CPUs, whole gradients are summed after the backward pass, in a fixed order.
    if processes.n > 1 and (config.loop.sharding == "fsdp" or device.type != "cpu"):
        return DataParallelLearner(config, model, measure, **named)
    if acceleration.compiled:
        return CompiledLearner(config, model, measure, graphs=acceleration.graphs, **named)
    return Learner(config, model, measure, **named)


def choose_acceleration(
    config: RunConfig, device: torch.device, *, n_shapes: int, n_steps: int, alone: bool
) -> Acceleration:
    """What a config asks for, with `auto` resolved. `alone`: there is one process."""
    loop = config.loop
    recordable = config.kind not in _READS_LENGTHS
    if loop.graphs == "on":
        _check_graphs(device, config, recordable)
    graphs = loop.graphs == "on" or (
        loop.graphs == "auto"
        and device.type == "cuda"
        and recordable
        and n_shapes <= _MOST_SHAPES
        and loop.sharding == "none"
    )
    compiled = loop.compile in ("on", "tuned") or (
        loop.compile == "auto"
        and graphs
        and alone
        and n_shapes == 1
        and n_steps >= _LONG_RUN
        and config.kind == "transformer"
    )
    # Gradient exchange during the backward pass cannot be part of torch's graphs.
    return Acceleration(
        compiled, graphs and (alone or not compiled), n_shapes, tuned=loop.compile == "tuned"
    )


def accelerated(
    function: Callable[Given, Returned], acceleration: Acceleration
) -> Callable[Given, Returned]:
    """The function, compiled if `acceleration` says so."""
    if not acceleration.compiled:
        return function
    options = {**_OPTIONS, "coordinate_descent_tuning": acceleration.tuned}
    if not acceleration.graphs:
        return torch.compile(function, options=options)
    # Each shape is compiled separately; torch's limit is meant for code that recompiles forever.
    limits = torch._dynamo.config
    limits.recompile_limit = max(limits.recompile_limit, 4 * acceleration.n_shapes)
    return torch.compile(function, options={**options, "triton.cudagraphs": True}, dynamic=False)


def attention_kernels(preferred: AttentionKernel) -> AbstractContextManager[object]:
    """Inside this block, fused attention prefers this kernel; auto: torch chooses."""
    if preferred == "auto":
        return nullcontext()
    rest = [kernel for name, kernel in _KERNELS.items() if name != preferred]
    return sdpa_kernel([_KERNELS[preferred], *rest, SDPBackend.MATH], set_priority=True)


def _check_graphs(device: torch.device, config: RunConfig, recordable: bool) -> None:
    if device.type != "cuda":
        raise ConfigError(
            "loop.graphs = on needs an NVIDIA GPU, this run is on {type}", type=device.type
        )
    if not recordable:
        raise ConfigError(
            "loop.graphs = on does not work with models of kind {kind}", kind=config.kind
        )
    if config.loop.sharding == "fsdp":
        raise ConfigError(
            "loop.graphs = on cannot be combined with loop.sharding = fsdp; turn one of them off"
        )


class JoinedAttention(MultiHeadAttention):
    """Multi-head attention that computes queries, keys and values by one product.

    The matrices are concatenated at each call: that pays with many positions, not with one.
    """

    def project(
        self,
        x: Tensor,
        source: Tensor | None,
        rotation: Rotation | None,
        cache: KeyValueCache | None,
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "B G K E"], Float[Tensor, "B G K W"]]:
        if source is not None or cache is not None:
            return super().project(x, source, rotation, cache)
        projected = joined_linear(x, [self.to_queries, self.to_keys, self.to_values])
        n_heads = (self.n_heads, self.n_kv_heads, self.n_kv_heads)
        queries, keys, values = map(split_heads, projected, n_heads)
        if rotation is None:
            return queries, keys, values
        return rotate(queries, rotation), rotate(keys, rotation), values


def joined_linear(
    x: Float[Tensor, "B T D"], maps: Sequence[nn.Linear]
) -> tuple[Float[Tensor, "B T _"], ...]:
    """Several linear maps of one input as one product."""
    matrix = torch.cat([part.weight for part in maps])
    biases: list[Tensor] = [part.bias for part in maps if part.bias is not None]
    outputs = F.linear(x, matrix, torch.cat(biases) if biases else None)
    parts: tuple[Tensor, ...] = outputs.split([part.out_features for part in maps], dim=-1)
    return parts


def join_projections(module: nn.Module, joined: bool = True) -> nn.Module:
    """Turn every plain attention in a module into a joined one in place, or undo that.

    Only the class changes, as in torch's parametrisations: parameters, names and hooks stay. The
    results are the same up to rounding.
    """
    for part in module.modules():
        if type(part) in (MultiHeadAttention, JoinedAttention):
            part.__class__ = JoinedAttention if joined else MultiHeadAttention
    return module


# --- CUDA graphs ---
# Forward and backward of a batch as one CUDA graph: recorded once per shape, then replayed. A step
# of a small model is hundreds of kernels of a few microseconds each, and launching them one by one
# takes longer than running them. A graph reads and writes the same memory at every replay, so a
# batch is copied into the recorded tensors, gradients are accumulated in tensors that stay
# (`keeps_gradients`), and parameters are only ever changed in place. What changes from step to step
# stays outside: clipping, learning rate, EMA. Dropout masks differ at every replay: the RNG
# advances with the graph.

GradientWork = Callable[[Batch, Tensor], Tensor]
"""Adds the gradient of a batch's loss, times a factor, to the parameters; returns the loss."""


@dataclass(frozen=True)
class _RecordedBatch:
    """The graph of one shape and the tensors that it reads."""

    batch: Batch
    factor: Tensor
    loss: Tensor
    replay: Callable[[], None]


class RecordedWork:
    """Work recorded as a CUDA graph for each batch shape; called like the work itself."""

    def __init__(
        self, work: GradientWork, parameters: Sequence[nn.Parameter], recorder: GraphRecorder
    ) -> None:
        self._work = work
        self._parameters = parameters
        self._recorder = recorder
        self.recordings: dict[tuple[object, ...], _RecordedBatch] = {}

    def __call__(self, batch: Batch, factor: Tensor) -> Tensor:
        """The returned loss lies in graph memory: use it before the next call."""
        shapes = tuple((name, tensor.shape) for name, tensor in _tensors(batch).items())
        if shapes not in self.recordings:
            self.recordings[shapes] = self._record(batch, factor)
        recording = self.recordings[shapes]
        for name, tensor in _tensors(batch).items():
            getattr(recording.batch, name).copy_(tensor)
        recording.factor.copy_(factor)
        recording.replay()
        return recording.loss

    def _record(self, batch: Batch, factor: Tensor) -> _RecordedBatch:
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        assert len(gradients) == len(self._parameters), "gradients must stay between steps"
        before = [gradient.clone() for gradient in gradients]
        kept, kept_factor = batch.copied(), factor.clone()
        try:
            loss, replay = self._recorder(lambda: self._work(kept, kept_factor))
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise TrainingError(
                "a step cannot be recorded as a CUDA graph ({reason}); run it with "
                "--loop.graphs off",
                reason=reason,
            ) from error
        torch._foreach_copy_(gradients, before)  # the warm-up has added to them
        return _RecordedBatch(kept, kept_factor, loss, replay)


class GraphLearner(Learner):
    """Replays the graph of a batch's shape; gradients are exchanged afterwards, outside it."""

    fixed_shapes = True
    keeps_gradients = True

    def __init__(self, *given: Any, recorder: GraphRecorder, **named: Any) -> None:
        super().__init__(*given, **named)
        self.work = RecordedWork(super().forward_backward, self.parameters, recorder)

    def forward_backward(
        self,
        batch: Batch,
        scale: float | Tensor,
        *,
        is_last: bool = True,  # noqa: ARG002  # for learners that exchange gradients here
    ) -> Tensor:
        """Add a batch's gradient; the returned loss is valid until the next call."""
        return self.work(batch, torch.full((), float(scale), device=self.device))


def _tensors(batch: Batch) -> dict[str, Tensor]:
    return {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}


# --- several GPUs ---
# Each has the whole model (DDP), or a shard of it (FSDP2) if it does not fit.


class DataParallelLearner(Learner):
    """Exchanges gradients during the backward pass of a step's last batch.

    DDP and FSDP average gradients over processes; we want the sum, hence the factor n. DDP changes
    its buckets after the first step, so sums are taken in another order, and a resumed run would
    not match to the bit. On CPUs, where we promise that, the plain learner sums in a fixed order;
    there this one serves shards only.
    """

    def __init__(self, config: RunConfig, model: nn.Module, *given: Any, **named: Any) -> None:
        self.sharded = config.loop.sharding == "fsdp"
        self._whole = deepcopy(model).cpu() if self.sharded else model
        super().__init__(config, model, *given, **named)
        if self.sharded:
            shard(model, self.device, self.processes.n)
            # Sharding replaces the parameter objects.
            self.parameters = [p for p in model.parameters() if p.requires_grad]
        else:
            ids = [self.device.index] if self.device.type == "cuda" else None
            self.model = DistributedDataParallel(model, device_ids=ids)

    def forward_backward(
        self, batch: Batch, scale: float | Tensor, *, is_last: bool = True
    ) -> Tensor:
        with nullcontext() if is_last else self._without_exchange():
            return super().forward_backward(batch, scale * self.processes.n)

    def exchange_gradients(self) -> None:
        """Nothing to do: done during the backward pass."""

    def whole_model(self) -> nn.Module:
        """The model gathered from all shards; all processes must take part."""
        if self.sharded:
            self._whole.to(self.device)
            fill(self._whole, gather_all(dict(self.model.named_parameters())))
        return self._whole

    def _without_exchange(self) -> AbstractContextManager[None]:
        if isinstance(self.model, DistributedDataParallel):
            return self.model.no_sync()
        return without_exchange(self.model)


def shard(model: nn.Module, device: torch.device, n_processes: int) -> None:
    """Shard a model in place, block by block; gradients become means over processes."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (n_processes,))
    for part in model.modules():
        if isinstance(part, Block):
            fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)


@contextmanager
def without_exchange(model: nn.Module) -> Iterator[None]:
    """Inside this block, a sharded model's gradients are not exchanged."""
    from torch.distributed.fsdp import FSDPModule

    assert isinstance(model, FSDPModule)
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)
