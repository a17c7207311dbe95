"""Batches side by side: one core for each, instead of all cores for one.

A step of a small model is many small operations, and splitting each of them over cores mostly
waits; on a busy machine it waits twenty times longer than it works. Batches have nothing to do with
each other, so on a CPU each gets a thread and a core; torch lets go of Python's lock while it
computes. A large model gets all cores for each batch, and a GPU takes one after the other; so does
a model that somebody watches, whose batches stay in the caller's thread.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from threading import Lock
from typing import TypeVar

import torch
from torch import nn

from glassformer.decoding.watching import is_watched

__all__ = ["cores_for", "side_by_side", "single_threaded"]

T = TypeVar("T")
R = TypeVar("R")

_LARGE = 50_000_000  # parameters, from where one matrix is work enough for several cores
_changing = Lock()


def cores_for(model: nn.Module) -> int:
    """How many batches of a model are worth running at the same time; one stays in this thread."""
    if _needs_this_thread(model.modules()):
        return 1
    parameters = list(model.parameters())
    on_cpu = not parameters or parameters[0].device.type == "cpu"
    is_small = sum(parameter.numel() for parameter in parameters) < _LARGE
    return torch.get_num_threads() if on_cpu and is_small else 1


def _needs_this_thread(parts: Iterable[nn.Module] = ()) -> bool:
    """Whether these modules would do something else in others, or be out of somebody's sight.

    Autocast, the profiler and torch's modes are each switched on for one thread alone; hooks and
    observers expect one batch after the other.
    """
    is_profiled = torch._C._autograd._profiler_enabled()
    return torch.is_autocast_enabled("cpu") or is_profiled or is_watched(parts)


def side_by_side(function: Callable[[T], R], batches: Sequence[T], n_cores: int) -> list[R]:
    """What the function returns for each batch, in their order; no gradients are tracked."""

    callers = copy_context()  # a thread does not know by itself who may cancel it

    def without_gradients(batch: T) -> R:
        with torch.inference_mode():  # a thread begins with gradients on
            return function(batch)

    with single_threaded(n_cores) as is_ours:
        if not is_ours or _needs_this_thread():
            return [without_gradients(batch) for batch in batches]
        with ThreadPoolExecutor(n_cores) as pool:
            return list(
                pool.map(lambda batch: callers.copy().run(without_gradients, batch), batches)
            )


@contextmanager
def single_threaded(n_cores: int) -> Iterator[bool]:
    """Let torch use one thread for each operation, if there are cores to share (`cores_for`).

    The number of threads is a setting of the whole process, so one caller at a time may change it.
    Gives whether it was changed; another caller meanwhile takes things as they are.
    """
    if n_cores <= 1 or not _changing.acquire(blocking=False):
        yield False
        return
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield True
    finally:
        torch.set_num_threads(before)
        _changing.release()
