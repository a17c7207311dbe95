"""Batches side by side: one core for each, instead of all cores for one.

A step of decoding is many small operations, and splitting each of them over cores mostly waits.
Batches have nothing to do with each other, so on a CPU each gets a thread and a share of the
cores; torch lets go of Python's lock while it computes. On a GPU they run one after the other.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

import torch

__all__ = ["side_by_side"]

_changing = Lock()

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], batches: Sequence[T], device: torch.device) -> list[R]:
    """What the function returns for each batch, in their order; no gradients are tracked."""
    n_cores = torch.get_num_threads()
    n_workers = min(n_cores, len(batches)) if device.type == "cpu" else 1

    def without_gradients(batch: T) -> R:
        with torch.inference_mode():  # a thread begins with gradients on
            return function(batch)

    # The number of threads is a setting of the whole process, so one caller at a time may change
    # it; another one meanwhile goes through its batches in a row.
    if n_workers <= 1 or not _changing.acquire(blocking=False):
        return [without_gradients(batch) for batch in batches]
    try:
        torch.set_num_threads(n_cores // n_workers)
        with ThreadPoolExecutor(n_workers) as pool:
            return list(pool.map(without_gradients, batches))
    finally:
        torch.set_num_threads(n_cores)
        _changing.release()
