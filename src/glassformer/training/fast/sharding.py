"""Tensors of which each process keeps a share (FSDP2): put together, cut, copied.

Parameters, gradients and the optimiser's state are cut along their first axis; a block's parameters
are put together while it computes. Saved states hold whole tensors, so that any number of processes
can go on from them. Without sharding the functions here hand their argument back.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from glassformer.errors import TrainingError

# What torch needs for this takes long to import, and nearly all runs do without.
if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


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
