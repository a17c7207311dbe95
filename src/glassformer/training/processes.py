"""The processes of a run, the signals that one gets, its device, and tensors cut into shards.

`torchrun` starts the processes and sets environment variables that say which one this is. Without
it there is one, and sums over processes are no-ops. gloo connects CPUs, NCCL connects GPUs.

During training, Ctrl-C is a request: the current step is completed and saved. While data are being
prepared or a model is tested there is nothing to lose, and the run ends at once.
"""

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, TypeGuard, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from glassformer.errors import ConfigError, TrainingError
from glassformer.modes import multiplies_bfloat16

T = TypeVar("T")

# Importing this takes long, and nearly all runs do without.
if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


@dataclass(frozen=True)
class Processes:
    """This process among all."""

    rank: int = 0
    local_rank: int = 0
    n: int = 1

    @classmethod
    def from_environment(cls) -> "Processes":
        """As set by torchrun; without it, one process."""
        rank, local, n = (
            int(os.environ.get(name, default))
            for name, default in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"))
        )
        return cls(rank, local, n)

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    @contextmanager
    def joined(self, device: torch.device) -> Iterator[None]:
        """Join the process group; leave it again unless it existed before."""
        if self.n == 1 or dist.is_initialized():
            yield
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        try:
            yield
        finally:
            dist.destroy_process_group()

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.n > 1:
            dist.all_reduce(numbers)
        return numbers

    def totals(self, numbers: Sequence[float], device: torch.device) -> list[float]:
        """Sums of plain numbers over all processes, in float64."""
        if self.n == 1:
            return list(numbers)
        # On the device: NCCL sends only from there.
        return self.sum(torch.tensor(numbers, dtype=torch.float64, device=device)).tolist()

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum the gradients of all processes, in one message per dtype."""
        if self.n == 1:
            return
        by_type: dict[torch.dtype, list[Tensor]] = defaultdict(list)
        for parameter in parameters:
            assert parameter.grad is not None
            by_type[parameter.grad.dtype].append(parameter.grad)
        for gradients in by_type.values():
            message = self.sum(torch.cat([gradient.flatten() for gradient in gradients]))
            parts = message.split([gradient.numel() for gradient in gradients])
            for gradient, part in zip(gradients, parts, strict=True):
                gradient.copy_(part.view_as(gradient))

    def wait(self) -> None:
        if self.n > 1:
            dist.barrier()

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether the flag is set in any process."""
        return any(self.totals([flag], device))

    def gather(self, mine: list[T]) -> list[T]:
        """The lists of all processes, concatenated by rank."""
        if self.n == 1:
            return mine
        lists: list[list[T]] = [[] for _ in range(self.n)]
        dist.all_gather_object(lists, mine)
        return [item for part in lists for item in part]


@dataclass
class Interruption:
    """Whether the user asked to stop, and whether that may wait."""

    asked: bool = False
    may_wait: bool = False

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Let the block finish first, or check `asked` itself."""
        self.may_wait = True
        try:
            yield
        finally:
            self.may_wait = False
        if self.asked:
            raise KeyboardInterrupt


@contextmanager
def listen() -> Iterator[Interruption]:
    """Treat SIGINT and SIGTERM as requests if they may wait; a second one interrupts at once."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # only the main thread receives signals
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def ask(_number: int, _frame: FrameType | None) -> None:
        if interruption.asked or not interruption.may_wait:
            raise KeyboardInterrupt
        interruption.asked = True

    try:
        for number in numbers:
            signal.signal(number, ask)
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def choose_device(asked: str, processes: Processes) -> torch.device:
    """The device that a config names; auto: a GPU if there is one."""
    if asked == "auto":
        has_gpu = torch.cuda.is_available()
        asked = "cuda" if has_gpu else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise ConfigError(
            "loop.device must be cpu, cuda, mps or auto, got {asked!r}", asked=asked
        ) from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise ConfigError("loop.device must be cpu, cuda, mps or auto, got {asked!r}", asked=asked)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("loop.device mps is the GPU of a Mac, and this machine has none: set cpu")
    return _numbered(device, processes.local_rank) if device.type == "cuda" else device


def _numbered(device: torch.device, local_rank: int) -> torch.device:
    """The GPU with the given number, or the one of this process."""
    number, count = local_rank if device.index is None else device.index, torch.cuda.device_count()
    if number >= count:
        raise ConfigError(
            "asked for {n} or more GPUs on this machine, which has {count}; lower "
            "--nproc-per-node, or set --loop.device cpu",
            n=number + 1,
            count=count,
        )
    return torch.device("cuda", number)


def precision(asked: str, device: torch.device) -> AbstractContextManager[object]:
    """The autocast context that a config asks for; auto: bfloat16 on CUDA."""
    if asked == "bfloat16" and device.type == "cpu" and not multiplies_bfloat16():
        raise ConfigError("this CPU cannot multiply bfloat16 matrices: set loop.precision float32")
    if asked == "bfloat16" or (asked == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


# --- sharded tensors (FSDP2) ---
# Parameters, gradients and the optimiser's state are split along their first axis; a block's
# parameters are gathered while it computes. Checkpoints hold whole tensors, so that any number of
# processes can resume. Without sharding, these functions return their argument.


def _is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    return hasattr(tensor, "full_tensor")


def gathered(tensor: Tensor) -> Tensor:
    """A tensor gathered from the shards of all processes; all must take part."""
    return tensor.full_tensor() if _is_sharded(tensor) else tensor


def gather_all(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Named tensors, each gathered; all processes must take part."""
    # Sorted: the order in a file need not be the same in all processes.
    return {name: gathered(tensors[name].detach()) for name in sorted(tensors)}


def local_shard(tensor: Tensor) -> Tensor:
    """This process's shard, sharing the tensor's memory."""
    return tensor.to_local() if _is_sharded(tensor) else tensor


def shard_like(tensor: Tensor, pattern: Tensor) -> Tensor:
    """Shard a whole tensor like another one; each process has the whole and takes its shard."""
    if not _is_sharded(pattern) or _is_sharded(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(
        tensor.to(pattern.device), pattern.device_mesh, pattern.placements, src_data_rank=None
    )


@torch.no_grad()
def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy named tensors, whole or sharded, into a model's parameters."""
    parameters = dict(model.named_parameters())
    if parameters.keys() != tensors.keys() or any(
        parameters[name].shape != tensor.shape for name, tensor in tensors.items()
    ):
        raise TrainingError("the checkpoint belongs to another model; start in another folder")
    for name, parameter in parameters.items():
        parameter.copy_(shard_like(tensors[name], parameter))
