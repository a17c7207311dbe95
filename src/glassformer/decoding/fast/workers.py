"""Batches in parallel: one core per batch, instead of all cores for one batch.

A step of a small model is many small operations, and splitting each of them over cores is mostly
waiting: on a busy machine, twenty times longer than the work itself. Batches are independent, so on
a CPU each gets its own thread and core; torch releases the GIL while it computes. A large model
gets all cores for each batch, and a GPU takes one batch after the other; so does a watched model
(hooks, torch's modes), whose batches stay in the caller's thread.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from itertools import groupby
from threading import Lock
from typing import TypeVar

import torch
from torch import nn
from torch.nn.modules import module as every_module
from torch.utils._device import DeviceContext

from glassformer.errors import expect_whole
from glassformer.modes import evaluating

T = TypeVar("T")
R = TypeVar("R")

MAX_BATCH = 2**20
_LARGE = 50_000_000  # parameters: from here on, one matrix is work enough for several cores
_changing = Lock()


def in_batches(
    model: nn.Module,
    answer: Callable[[list[int]], Iterable[R]],
    lengths: Sequence[int],
    batch_size: int,
    *,
    equal: bool = False,
) -> list[R]:
    """The results of all sequences, in order; `answer` computes those of one batch.

    `answer` is called with the indices of sequences of similar length, to save padding (`equal`: of
    one length), in evaluation mode and without gradients.
    """
    n_cores = cores_for(model)
    fair_share = max(1, math.ceil(len(lengths) / n_cores))  # no core without work
    batches = list(by_length(lengths, batch_size, most=fair_share, equal=equal))
    results: dict[int, R] = {}
    with evaluating(model.modules()):
        for batch, answers in zip(batches, side_by_side(answer, batches, n_cores), strict=True):
            results.update(zip(batch, answers, strict=True))
    return [results[i] for i in range(len(results))]


def by_length(
    lengths: Sequence[int], batch_size: int, *, most: int = MAX_BATCH, equal: bool = False
) -> Iterator[list[int]]:
    """Indices of sequences in batches of at most `most`, longest first; `equal`: of one length."""
    batch_size = min(expect_whole(batch_size, "batch_size", most=MAX_BATCH), most)
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    groups = groupby(order, key=lambda i: lengths[i] if equal else 0)
    for group in (list(members) for _, members in groups):
        for start in range(0, len(group), batch_size):
            yield group[start : start + batch_size]


def paused_between(run: Iterator[R], model: nn.Module) -> Iterator[R]:
    """Iterate over steps; between them, the model's mode and torch's threads are the caller's."""
    n_cores = cores_for(model)
    while True:
        with evaluating(model.modules()), torch.inference_mode(), single_threaded(n_cores):
            step = next(run, None)
        if step is None:
            return
        yield step


def cores_for(model: nn.Module) -> int:
    """How many batches to run in parallel; 1: in the caller's thread."""
    if _needs_this_thread(model.modules()):
        return 1
    parameters = list(model.parameters())
    on_cpu = not parameters or parameters[0].device.type == "cpu"
    is_small = sum(parameter.numel() for parameter in parameters) < _LARGE
    return torch.get_num_threads() if on_cpu and is_small else 1


def _needs_this_thread(parts: Iterable[nn.Module] = ()) -> bool:
    """Whether these modules would behave differently in another thread.

    Autocast, the profiler and torch's modes are per thread; hooks expect one batch after the other.
    """
    is_profiled = torch._C._autograd._profiler_enabled()
    return torch.is_autocast_enabled("cpu") or is_profiled or is_watched(parts)


def is_watched(parts: Iterable[nn.Module]) -> bool:
    """Whether hooks or torch's modes see what goes through these modules.

    CUDA graphs call no Python, and other threads do not have this thread's modes, so neither is
    used for watched models.
    """
    modes = torch.overrides._get_current_function_mode_stack()
    if any(not isinstance(mode, DeviceContext) for mode in modes):  # a default device is harmless
        return True
    if torch._C._len_torch_dispatch_stack():
        return True
    if every_module._global_forward_hooks or every_module._global_forward_pre_hooks:
        return True
    return any(part._forward_hooks or part._forward_pre_hooks for part in parts)


def side_by_side(function: Callable[[T], R], batches: Sequence[T], n_cores: int) -> list[R]:
    """The function's result for each batch, in order, computed in threads without gradients."""
    callers = copy_context()  # so that the caller can cancel work in the threads
    without_gradients = torch.inference_mode()(
        function
    )  # in each thread: each has a mode of its own
    with single_threaded(n_cores) as is_ours:
        if not is_ours or _needs_this_thread():
            return [without_gradients(batch) for batch in batches]
        with ThreadPoolExecutor(n_cores) as pool:
            return list(
                pool.map(lambda batch: callers.copy().run(without_gradients, batch), batches)
            )


@contextmanager
def single_threaded(n_cores: int) -> Iterator[bool]:
    """Let torch use one thread per operation, if several batches share the cores (`cores_for`).

    torch gives this number to the calling thread and to threads that begin to compute later, those
    of the pool among them; so one caller at a time may change it. Yields whether it was changed;
    other callers meanwhile leave it alone.
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
