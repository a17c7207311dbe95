"""Work on a GPU that is recorded once and done again at one call.

Starting a kernel takes the host some microseconds, often longer than the kernel runs; a CUDA graph
starts all kernels of some work at once. It reads and writes the same memory at every replay, so
whoever records must keep inputs, results and state in tensors that stay.
"""

import weakref
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol, TypeVar

import torch

Result = TypeVar("Result")

_recording = Lock()  # torch records one graph at a time in a process


class Recorder(Protocol):
    """From work on tensors that stay to its result, which stays too, and what does it again."""

    def __call__(self, work: Callable[[], Result], /) -> tuple[Result, Callable[[], Any]]:
        """Run the work a few times (so it must not matter how often), then record it."""


class CudaRecorder:
    """Records on a GPU; all graphs share their memory for what does not outlive a replay."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # One of its own: torch's is made once, on whichever GPU is the current one then, and
        # memory that graphs share belongs to the stream that they were recorded on.
        self._stream = torch.cuda.Stream(device)
        self._graphs: weakref.WeakSet[torch.cuda.CUDAGraph] = weakref.WeakSet()
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], Result], /) -> tuple[Result, Callable[[], Any]]:
        """Run the work a few times, so that kernels are chosen and loaded, then record it."""
        with _recording, torch.cuda.device(self._device):
            if not self._graphs:  # the memory of others, if there were any, went with the last
                self._pool = torch.cuda.graph_pool_handle()
            self._rehearse(work)
            # The rehearsal left cuBLAS a workspace in ordinary memory. A graph would keep its
            # address, but not the memory: `torch.compile` clears all workspaces before it records
            # its own graphs, and the next replay would write where others live by then. Cleared
            # here, the workspace is allocated again during the capture, from the graph's own pool.
            torch._C._cuda_clearCublasWorkspaces()
            graph = torch.cuda.CUDAGraph()
            # Only this thread is watched: another may prepare batches meanwhile.
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ):
                result = work()
            torch._C._cuda_clearCublasWorkspaces()  # nobody else works in the graph's pool
            self._graphs.add(graph)
        return result, graph.replay

    def _rehearse(self, work: Callable[[], Result]) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        # A resumed run records again: that must not move its random numbers.
        random_state = torch.cuda.get_rng_state(self._device)
        with torch.cuda.stream(self._stream):
            for _ in range(3):
                work()
        torch.cuda.set_rng_state(random_state, self._device)
        torch.cuda.current_stream().wait_stream(self._stream)
