"""Models of which each process keeps a share (FSDP2): for what does not fit into one device.

Parameters, gradients and the optimiser's state are cut along their first axis; a block's parameters
are put together while it computes. Saved states hold whole tensors, so that any number of processes
can go on from them. Without sharding everything here hands its argument back.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from glassformer.errors import TrainingError
from glassformer.nn import Block

# What torch needs for this takes long to import, and nearly all runs do without.
if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

__all__ = ["all_whole", "cut_like", "fill", "local", "shard", "unexchanged", "whole"]


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


def _is_cut(tensor: Tensor) -> "TypeGuard[DTensor]":
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """A tensor put together from all processes' shares; all must take part."""
    return tensor.full_tensor() if _is_cut(tensor) else tensor


def all_whole(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Named tensors, each put together; all processes must take part."""
    # By name: read from a file, the order need not be the same in all processes.
    return {name: whole(tensors[name].detach()) for name in sorted(tensors)}


def local(tensor: Tensor) -> Tensor:
    """This process's share, in the memory of the tensor itself."""
    return tensor.to_local() if _is_cut(tensor) else tensor


def cut_like(tensor: Tensor, pattern: Tensor) -> Tensor:
    """A whole tensor cut as another one is; each process has the whole and takes its share."""
    if not _is_cut(pattern) or _is_cut(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(
        tensor.to(pattern.device), pattern.device_mesh, pattern.placements, src_data_rank=None
    )


@torch.no_grad()
def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy named tensors, whole or cut, into a model's parameters."""
    parameters = dict(model.named_parameters())
    if parameters.keys() != tensors.keys() or any(
        parameters[name].shape != tensor.shape for name, tensor in tensors.items()
    ):
        raise TrainingError("the saved state belongs to another model; start in another folder")
    for name, parameter in parameters.items():
        parameter.copy_(cut_like(tensors[name], parameter))
