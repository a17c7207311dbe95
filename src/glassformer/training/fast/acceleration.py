"""Which learner a run gets: plain, compiled, recorded as CUDA graphs, or for several GPUs.

Recording takes a second per shape and saves kernel launches; it pays for every run on a GPU.
Compiling fuses kernels and takes some twenty seconds per shape; it pays for long runs of one shape.
Both want few shapes: the loader then pads every batch of a bucket to one. On a GPU, queries, keys
and values of self-attention are computed by one product (`JoinedAttention`).
Dims: as in `nn.attention`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from glassformer.decoding.fast.cuda_graphs import CudaRecorder
from glassformer.errors import ConfigError
from glassformer.nn import MultiHeadAttention
from glassformer.nn.attention import split_heads
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.positions import Rotation, rotate
from glassformer.nn.tensors import Float, Tensor
from glassformer.training.fast.data_parallel import DataParallelLearner
from glassformer.training.fast.graph_learner import GraphLearner
from glassformer.training.learner import Learner, Measure, model_loss
from glassformer.training.processes import Processes
from glassformer.training.run_config import AttentionKernel, RunConfig

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

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
    function: Callable[Arguments, Result], acceleration: Acceleration
) -> Callable[Arguments, Result]:
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
