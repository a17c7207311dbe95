"""Long work in threads: a few at once, a few more waiting, the rest told to come back.

Work ends early when the one who asked has gone: a trace looks for that between two operators, a
search between two tokens, an export between two cells.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from glassformer.cancelling import cancelled_by
from glassformer.errors import CancelledError, GlassformerError

__all__ = ["RETRY_AFTER_S", "BusyError", "Runs"]

T = TypeVar("T")
RETRY_AFTER_S = 2


class BusyError(GlassformerError, RuntimeError):
    """More is asked for at once than can be done."""


class Runs:
    """The queue."""

    def __init__(self, at_once: int = 2, most_waiting: int = 16) -> None:
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._slots: asyncio.Semaphore | None = None
        self._limiter: CapacityLimiter | None = None
        self._waiting = 0

    async def do(self, request: Request, work: Callable[[], T]) -> T:
        """Do the work in a thread, when its turn has come."""
        if self._slots is None or self._limiter is None:  # they belong to the running event loop
            self._slots = asyncio.Semaphore(self._at_once)
            self._limiter = CapacityLimiter(self._at_once)
        if self._waiting >= self._most_waiting and self._slots.locked():
            raise BusyError(f"{self._waiting} runs are waiting already: try again in a moment")
        left = threading.Event()
        watching = asyncio.create_task(_watch(request, left))
        try:
            self._waiting += 1
            try:
                await self._slots.acquire()
            finally:
                self._waiting -= 1
            try:
                return await to_thread.run_sync(_guarded, work, left, limiter=self._limiter)
            finally:
                self._slots.release()
        finally:
            watching.cancel()


def _guarded(work: Callable[[], T], left: threading.Event) -> T:
    if left.is_set():
        raise CancelledError("nobody waits for this any more")
    with cancelled_by(left.is_set):
        return work()


async def _watch(request: Request, left: threading.Event) -> None:
    """Wait until the one who asked has gone; the body has been read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    left.set()
