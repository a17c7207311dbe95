"""Several GPUs: each has the whole model (DDP), or a share of it (FSDP2) where it does not fit."""

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
from glassformer.training.processes import all_whole, fill
from glassformer.training.run_config import RunConfig


class DataParallelLearner(Learner):
    """A learner among several that exchange gradients during the backward pass of the last batch.

    What they exchange is the mean over processes; the sum is wanted. DDP adds gradients up in other
    portions after its first update, and three numbers in another order have another sum: a resumed
    run would not end with the same bits. On CPUs, where that is promised, the plain learner adds
    them up in the same order each time; there this one is for shards alone.
    """

    def __init__(self, config: RunConfig, model: nn.Module, *given: Any, **named: Any) -> None:
        self.sharded = config.loop.sharding == "fsdp"
        self._whole = deepcopy(model).cpu() if self.sharded else model
        super().__init__(config, model, *given, **named)
        if self.sharded:
            shard(model, self.device, self.processes.n)
            # Sharding replaces the parameters.
            self.parameters = [p for p in model.parameters() if p.requires_grad]
        else:
            ids = [self.device.index] if self.device.type == "cuda" else None
            self.model = DistributedDataParallel(model, device_ids=ids)

    def forward_backward(
        self, batch: Batch, scale: float | Tensor, *, is_last: bool = True
    ) -> Tensor:
        """Add a batch's gradient; with the last one, that of all processes."""
        with nullcontext() if is_last else self._unexchanged():
            return super().forward_backward(batch, scale * self.processes.n)

    def exchange_gradients(self) -> None:
        """Done already, during the backward pass."""

    def whole_model(self) -> nn.Module:
        """The model put together from all shares; all processes must take part."""
        if self.sharded:
            self._whole.to(self.device)
            fill(self._whole, all_whole(dict(self.model.named_parameters())))
        return self._whole

    def _unexchanged(self) -> AbstractContextManager[None]:
        if isinstance(self.model, DistributedDataParallel):
            return self.model.no_sync()
        return unexchanged(self.model)


def shard(model: nn.Module, device: torch.device, n_processes: int) -> None:
    """Cut a model's parameters in place, block by block; gradients become means over processes."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (n_processes,))
    for part in model.modules():
        if isinstance(part, Block):
            fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)


@contextmanager
def unexchanged(model: nn.Module) -> Iterator[None]:
    """A block in which a sharded model's gradients stay in their processes."""
    from torch.distributed.fsdp import FSDPModule

    assert isinstance(model, FSDPModule)
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)
