"""A stand-in for Apple's GPUs: a device named "mps" that computes on the CPU and has no float64.

As on the real device, float64 is an error, and so is mixing its tensors with CPU tensors; only
copies move between them. Which operations the real device supports is not imitated.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

CPU, MPS = torch.device("cpu"), torch.device("mps")


class OnMps(Tensor):
    """A CPU tensor that pretends to be on the other device."""


class _Mps(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if func == Tensor.device.__get__:
                return MPS if isinstance(args[0], OnMps) else CPU
            return self._run(func, args, kwargs or {})

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        given = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
        is_there = [isinstance(x, OnMps) for x in given if x.dim() or isinstance(x, OnMps)]
        if len(set(is_there)) > 1:
            raise RuntimeError(f"{func}: expected all tensors to be on the same device")
        named = [x for x in (*args, kwargs.get("device")) if isinstance(x, torch.device)]
        stays = MPS if any(is_there) and func != Tensor.cpu else CPU
        goes_to = named[0] if named else stays
        args, kwargs = tree_map(lambda x: CPU if isinstance(x, torch.device) else x, (args, kwargs))
        made = func(*args, **kwargs)
        return tree_map(lambda x: _put(x, goes_to, any(is_there)), made)


def _put(made: object, device: torch.device, is_there: bool) -> object:
    if not isinstance(made, Tensor):
        return made
    if made.dtype is torch.float64 and (is_there or device == MPS):
        raise TypeError("this device has no float64")  # a copy is cast on its own device first
    return made.as_subclass(OnMps if device == MPS else Tensor)


@contextmanager
def mps_without_double() -> Iterator[torch.device]:
    """Yields the device; tensors can be moved to it with `to`."""
    with _Mps():
        yield MPS
