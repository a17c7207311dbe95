"""Types of tensors in signatures, and the devices that tensors are on.

`Float[Tensor, "B T D"]` is documentation first: for users and type checkers it is
`Annotated[Tensor, "B T D"]`, which means `Tensor`. Under our tests, which set the variable
GLASSFORMER_CHECK_SHAPES before the import, it is jaxtyping's real type, and every call is checked.
The letters are those of docs/notation.md; "..." is any number of leading axes.
"""

import os
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.errors import ConfigError

if TYPE_CHECKING or not os.environ.get("GLASSFORMER_CHECK_SHAPES"):
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
else:
    from jaxtyping import Bool, Float, Int

# Type checkers take `Annotated as Float` for a private name unless it is listed.
__all__ = ["Bool", "Float", "Int", "Tensor", "as_device", "float64_device"]

_NO_FLOAT64 = ("mps",)  # Apple's GPUs


def float64_device(device: torch.device) -> torch.device:
    """The device itself if it supports float64, otherwise the CPU."""
    return torch.device("cpu") if device.type in _NO_FLOAT64 else device


def as_device(device: torch.device | str) -> torch.device:
    """The device of this name; a ConfigError if this machine does not have it."""
    try:
        if not isinstance(device, torch.device | str):
            raise TypeError(f"a {type(device).__name__}")
        found = torch.device(device)
        torch.empty(0, device=found)  # torch checks the device on first use only
    except (AssertionError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            "device must be available on this machine, for example 'cpu'; got "
            "{device!r:.40} ({reason:.80})",
            device=device,
            reason=reason,
        ) from None
    return found
