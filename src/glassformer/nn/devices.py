"""What some devices cannot do, and where it is done instead."""

import torch

__all__ = ["device_with_double"]

_WITHOUT_DOUBLE = ("mps",)  # Apple's GPUs


def device_with_double(device: torch.device) -> torch.device:
    """Where numbers of this device can be float64: right there, or on the CPU."""
    return torch.device("cpu") if device.type in _WITHOUT_DOUBLE else device
