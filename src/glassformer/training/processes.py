"""One process or several: who am I, what do all of us know together.

`torchrun` starts the processes and says in variables which one this is. Without it there is one,
and everything here is a no-op. gloo joins CPUs, NCCL joins GPUs.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.errors import ConfigError
from glassformer.nn.processor import multiplies_bfloat16
from glassformer.training.sharding import shard

__all__ = ["Processes", "choose_device", "precision"]

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """This process among all; a context that joins and leaves the group."""

    rank: int = 0
    local_rank: int = 0
    n: int = 1

    @classmethod
    def from_environment(cls) -> "Processes":
        """What torchrun says, or one process."""
        rank, local, n = (
            int(os.environ.get(name, default))
            for name, default in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"))
        )
        return cls(rank, local, n)

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def join(self, device: torch.device) -> None:
        """Meet the other processes."""
        if self.n > 1 and not dist.is_initialized():
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.n > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.n > 1:
            dist.all_reduce(numbers)
        return numbers

    def totals(self, numbers: Sequence[float], device: torch.device) -> list[float]:
        """The sums of plain numbers over all processes, in float64."""
        if self.n == 1:
            return list(numbers)
        # On the device: NCCL sends nothing else.
        return self.sum(torch.tensor(numbers, dtype=torch.float64, device=device)).tolist()

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up what `backward` left in all processes, in one message a type of number."""
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
        """Until all are here."""
        if self.n > 1:
            dist.barrier()

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether it is so in any process."""
        if self.n == 1:
            return flag
        return bool(self.sum(torch.tensor(float(flag), device=device)))

    def gather(self, mine: list[T]) -> list[T]:
        """The lists of all processes, joined in the order of their ranks."""
        if self.n == 1:
            return mine
        lists: list[list[T]] = [[] for _ in range(self.n)]
        dist.all_gather_object(lists, mine)
        return [item for part in lists for item in part]

    def wrap(self, model: nn.Module, device: torch.device, *, sharded: bool = False) -> nn.Module:
        """The model with gradients shared among processes (their mean), where it is not left to us.

        DDP adds gradients up in other portions after its first update, and three numbers in another
        order have another sum: a resumed run would not end with the same bits. On CPUs, where that
        is promised, `sum_gradients` adds them up in the same order each time.
        """
        if self.n > 1 and sharded:
            shard(model, device, self.n)
        elif self.n > 1 and device.type != "cpu":
            ids = [device.index] if device.type == "cuda" else None
            return DistributedDataParallel(model, device_ids=ids)
        return model


def choose_device(asked: str, processes: Processes) -> torch.device:
    """The device that a config names; auto: a GPU where there is one."""
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
    """The GPU of this process, or the one that is named by its number."""
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
    """The context that computes in bfloat16 where a config says so; auto: on CUDA."""
    if asked == "bfloat16" and device.type == "cpu" and not multiplies_bfloat16():
        raise ConfigError("this CPU cannot multiply bfloat16 matrices: set loop.precision float32")
    if asked == "bfloat16" or (asked == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()
