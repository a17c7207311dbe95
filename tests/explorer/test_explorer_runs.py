"""Long work: a few at once, the rest waits or is told to come back, and it ends with its caller."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from starlette.requests import Request
from torch import Tensor, nn

from glassformer.documents import render
from glassformer.errors import CancelledError, cancelled_by
from glassformer.explorer.open_traces import BusyError, Runs
from glassformer.tracing import trace

SOON = 60.0


class Caller:
    """One who asks, and may go away."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.request = Request({"type": "http", "headers": []}, self._receive)

    async def _receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}


class Gate:
    """Work that waits until it is let go, and counts how many do so at once."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def work(self) -> str:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        assert self.open.wait(SOON)
        with self._lock:
            self.inside -= 1
        return "done"


def complete(scenario: Coroutine[Any, Any, None]) -> None:
    """Run it in a thread of its own: Playwright keeps an event loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, scenario).result()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.01)


def test_so_many_at_once_others_wait_and_the_rest_is_told_to_come_back() -> None:
    async def scenario() -> None:
        runs, gate = Runs(at_once=2, most_waiting=3), Gate()
        tasks = [asyncio.create_task(runs.do(Caller().request, gate.work)) for _ in range(5)]
        await until(lambda: gate.inside == 2)
        with pytest.raises(BusyError, match="3 runs are waiting already"):
            await runs.do(Caller().request, gate.work)
        gate.open.set()
        assert await asyncio.gather(*tasks) == ["done"] * 5
        assert gate.most == 2
        assert await runs.do(Caller().request, gate.work) == "done"  # there is room again

    complete(scenario())


class Endless(nn.Module):
    """A model that takes far too long, one small operator after another."""

    def __init__(self, started: threading.Event) -> None:
        super().__init__()
        self.started = started

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(10_000_000):
            x = x + 1
            self.started.set()
        return x


def test_a_run_ends_when_its_caller_has_gone() -> None:
    async def scenario() -> None:
        runs, caller, started = Runs(), Caller(), threading.Event()
        run = asyncio.create_task(
            runs.do(caller.request, lambda: trace(Endless(started), torch.ones(1)))
        )
        await until(started.is_set)
        caller.gone.set()
        with pytest.raises(CancelledError):
            async with asyncio.timeout(SOON):
                await run
        assert await runs.do(Caller().request, lambda: "the next") == "the next"

    complete(scenario())


def test_what_waits_for_a_caller_who_has_gone_is_never_begun() -> None:
    async def scenario() -> None:
        runs, gate, caller = Runs(at_once=1), Gate(), Caller()
        first = asyncio.create_task(runs.do(Caller().request, gate.work))
        await until(lambda: gate.inside == 1)
        begun = threading.Event()
        second = asyncio.create_task(runs.do(caller.request, begun.set))
        await asyncio.sleep(0.05)
        caller.gone.set()
        await asyncio.sleep(0.05)
        gate.open.set()
        await first
        with pytest.raises(CancelledError):
            await second
        assert not begun.is_set()

    complete(scenario())


def test_an_error_in_one_run_leaves_room_for_the_next() -> None:
    async def scenario() -> None:
        runs = Runs(at_once=1)

        def broken() -> None:
            raise ZeroDivisionError

        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await runs.do(Caller().request, broken)
        assert await runs.do(Caller().request, lambda: 1) == 1

    complete(scenario())


def test_torchs_number_of_threads_belongs_to_the_thread_that_set_it() -> None:
    """Why `Runs` sets it for each piece of work: it is a setting of OpenMP, not of the process."""
    before, asked, answered = torch.get_num_threads(), threading.Event(), threading.Event()
    found = []

    def worker() -> None:
        found.append(torch.get_num_threads())
        answered.set()
        assert asked.wait(SOON)
        found.append(torch.get_num_threads())

    thread = threading.Thread(target=worker)
    thread.start()
    assert answered.wait(SOON)
    try:
        torch.set_num_threads(before + 1)
        asked.set()
        thread.join(SOON)
    finally:
        torch.set_num_threads(before)
    assert found == [before, before]


def test_every_worker_computes_with_the_threads_that_the_queue_was_made_with() -> None:
    before = torch.get_num_threads()

    def spoil() -> int:
        found = torch.get_num_threads()
        torch.set_num_threads(before + 1)
        return found

    runs = Runs(at_once=1)

    async def scenario() -> None:
        assert [await runs.do(Caller().request, spoil) for _ in range(3)] == [before] * 3

    try:
        complete(scenario())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("kind", ["md", "tex", "html", "xlsx", "json"])
def test_a_file_is_given_up_on_the_way(kind: str) -> None:
    recorded = trace(nn.Linear(3, 2), torch.ones(4, 2, 3))
    asked = 0

    def is_unwanted() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    with cancelled_by(is_unwanted), pytest.raises(CancelledError):
        render(recorded.steps, to=kind)
    assert asked == 3
