"""Several GPUs: each has the whole model (DDP), or a shard of it (FSDP2) if it does not fit."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.data import Batch
from glassformer.nn import Block
from glassformer.training.learner import Learner
from glassformer.training.processes import fill, gather_all
from glassformer.training.run_config import RunConfig


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
