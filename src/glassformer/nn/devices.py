"""What some devices cannot do, and where it is done instead."""

import torch

from glassformer.errors import ConfigError

_WITHOUT_DOUBLE = ("mps",)  # Apple's GPUs


def device_with_double(device: torch.device) -> torch.device:
    """Where numbers of this device can be float64: right there, or on the CPU."""
    return torch.device("cpu") if device.type in _WITHOUT_DOUBLE else device


def as_device(device: torch.device | str) -> torch.device:
    """A device by its name, if this machine has it."""
    try:
        if not isinstance(device, torch.device | str):
            raise TypeError(f"a {type(device).__name__}")
        found = torch.device(device)
        torch.empty(0, device=found)  # torch finds out at first use
    except (AssertionError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"device must be one that this machine has, such as 'cpu', got {device!r:.40} "
            f"({reason:.80})"
        ) from None
    return found
