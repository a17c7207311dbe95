"""Work on a GPU that is recorded once and done again at one call.

Starting a kernel takes the host some microseconds, often longer than the kernel runs; a CUDA graph
starts all kernels of some work at once. It reads and writes the same memory at every replay, so
whoever records must keep inputs, results and state in tensors that stay.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch

__all__ = ["CudaRecorder", "Recorder"]

Result = TypeVar("Result")


class Recorder(Protocol):
    """From work on tensors that stay to its result, which stays too, and what does it again."""

    def __call__(self, work: Callable[[], Result], /) -> tuple[Result, Callable[[], Any]]:
        """Run the work a few times (so it must not matter how often), then record it."""


class CudaRecorder:
    """Records on a GPU; all graphs share their memory for what does not outlive a replay.

    That memory goes with the last of the graphs: for others, make another recorder.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], Result], /) -> tuple[Result, Callable[[], Any]]:
        """Run the work a few times, so that kernels are chosen and loaded, then record it."""
        with torch.cuda.device(self._device):
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            # A resumed run records again: that must not move its random numbers.
            with torch.random.fork_rng([torch.cuda.current_device()]), torch.cuda.stream(aside):
                for _ in range(3):
                    work()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            # Only this thread is watched: another may prepare batches meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                result = work()
        return result, graph.replay
