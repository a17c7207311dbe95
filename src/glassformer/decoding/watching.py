"""Whether somebody looks on while a model runs: hooks, observers, torch's modes.

A recorded step calls no Python, and a thread of its own knows nothing of the modes of another, so
both are for models that nobody watches.
"""

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.modules import module as every_module
from torch.utils._device import DeviceContext

__all__ = ["is_watched"]


def is_watched(parts: Iterable[nn.Module]) -> bool:
    """Whether somebody wants to see what goes through these modules."""
    modes = torch.overrides._get_current_function_mode_stack()
    if any(not isinstance(mode, DeviceContext) for mode in modes):  # a default device is no watcher
        return True
    if torch._C._len_torch_dispatch_stack():
        return True
    if every_module._global_forward_hooks or every_module._global_forward_pre_hooks:
        return True
    return any(
        part._forward_hooks or part._forward_pre_hooks or getattr(part, "observer", None)
        for part in parts
    )
