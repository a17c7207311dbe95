"""The traces that are open: a bounded number of them in a bounded amount of memory.

A run and the traces that edits made of it are a *family*. Families are dropped whole, the one not
looked at for the longest time first, so that undo and reset find what they need; of one family,
edits far back are dropped when there are very many of them. Lessons and the user's own module are
*kept*: they are never dropped, what edits make of them is. The memory of what was dropped is given
back as soon as the last request that looks at it is done. An id that is not open may be one that
was dropped, or one from before the server was started anew: a page does the same in either case.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from glassformer.documents.addresses import all_steps
from glassformer.errors import CancelledError, GlassformerError, cancelled_by
from glassformer.explorer.schemas import Answer, Edit, Task, TraceInfo
from glassformer.tasks import Model
from glassformer.tasks.forward_pass import Pass
from glassformer.tracing import Step, Trace

# --- opened ---
# A trace that is open, with what is known about it.


class NoStepError(GlassformerError, LookupError):
    """A number under which a trace has no step."""


@dataclass(eq=False)
class OpenTrace:
    """A trace with what is known about it."""

    trace: Trace
    model: str
    """The name on the card it was opened from."""
    task: Task
    text: str = ""
    target: str | None = None
    loaded: Model | None = None
    """The model with its tokenizer; None for a module of the user's and for lessons."""
    reading: Pass | None = None
    edits: tuple[Edit, ...] = ()
    parent: str | None = None
    """The id of the trace before the last edit; it may have been dropped."""
    first: OpenTrace | None = None
    """The trace before any edit; None where this is it."""
    reran: bool = False
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    info: TraceInfo | None = None
    """Its description, worked out once."""
    packed: bytes | None = None
    """The same as JSON, compressed."""
    answer: Answer | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    """For what is worked out once."""
    users: int = 0
    """How many requests look at it right now; the store counts."""

    def __post_init__(self) -> None:
        self.steps: list[Step] = all_steps(self.trace)
        self.storages = _storages(self.trace)

    @property
    def root(self) -> OpenTrace:
        """The trace before any edit."""
        return self if self.first is None else self.first

    @property
    def n_bytes(self) -> int:
        """The bytes of the numbers that the run computed."""
        return sum(self.storages.values())

    def step(self, number: int) -> Step:
        """A step by its number."""
        if not 0 <= number < len(self.steps):
            raise NoStepError(f"this trace has no step {number}: it has {len(self.steps)}")
        return self.steps[number]

    def close(self) -> None:
        """Give the memory back at once."""
        self.steps = []
        self.trace.close()


def _storages(trace: Trace) -> dict[int, int]:
    """The memory that a trace holds beyond its model: address and size of each storage."""
    return {
        step.view.version.storage.data_ptr(): step.view.version.nbytes
        for step in trace.steps
        if step.view.numel
    }


MOST_TRACES = 64
MOST_BYTES = 1536 * 1024**2
MOST_IN_FAMILY = 33


class DroppedError(GlassformerError, LookupError):
    """No trace is open under this id: it was closed, or the server was started anew since."""

    def __init__(self) -> None:
        super().__init__("this trace is not open (any more): run the text again")


class Store:
    """Open traces by id; safe to use from several threads."""

    def __init__(
        self,
        most_traces: int = MOST_TRACES,
        most_bytes: int = MOST_BYTES,
        most_in_family: int = MOST_IN_FAMILY,
    ) -> None:
        self.most_traces = most_traces
        self.most_bytes = most_bytes
        self.most_in_family = most_in_family
        self._lock = threading.Lock()
        self._open: dict[str, OpenTrace] = {}
        self._kept: set[str] = set()
        self._families: OrderedDict[str, list[OpenTrace]] = OrderedDict()
        """What may be dropped, by root, the family looked at last at the end."""
        self._leaving: set[OpenTrace] = set()
        """Dropped, but still looked at."""

    def __len__(self) -> int:
        """How many may be dropped: kept ones do not count."""
        return sum(map(len, self._families.values()))

    @property
    def n_bytes(self) -> int:
        """The memory of all that may be dropped; a storage that several share counts once."""
        with self._lock:
            return self._bytes()

    def keep(self, opened: OpenTrace) -> OpenTrace:
        """Take a trace in for good."""
        with self._lock:
            self._kept.add(opened.id)
            self._open[opened.id] = opened
        return opened

    def add(self, opened: OpenTrace) -> OpenTrace:
        """Take a trace in, and drop others if need be."""
        with self._lock:
            root = opened.root.id
            if opened.first is not None and root not in self._open:
                opened.close()
                raise DroppedError
            self._open[opened.id] = opened
            self._families.setdefault(root, []).append(opened)
            self._families.move_to_end(root)
            self._make_room(root)
        return opened

    @contextmanager
    def use(self, id_: str) -> Iterator[OpenTrace]:
        """Look at a trace: it stays whole inside the block, and its family counts as looked at."""
        with self._lock:
            if id_ not in self._open:
                raise DroppedError
            opened = self._open[id_]
            held = {opened, opened.root}
            for one in held:
                one.users += 1
            if opened.root.id in self._families:
                self._families.move_to_end(opened.root.id)
        try:
            yield opened
        finally:
            with self._lock:
                for one in held:
                    one.users -= 1
                    if one.users == 0 and one in self._leaving:
                        self._leaving.remove(one)
                        one.close()

    def remove(self, id_: str) -> None:
        """Close a trace with all that came of it, as its user asked; kept ones stay."""
        with self._lock:
            if id_ not in self._open:
                raise DroppedError
            root = self._open[id_].root.id
            closed = {id_}
            for opened in list(self._families.get(root, [])):  # each comes after what it is made of
                if root in closed or opened.id in closed or opened.parent in closed:
                    closed.add(opened.id)
                    self._forget(root, opened)
            if not self._families.get(root, [None]):
                del self._families[root]

    def _make_room(self, newest: str) -> None:
        """Drop families, then edits far back: the first trace and the last two stay."""
        family = self._families[newest]
        oldest_edit = int(newest not in self._kept)
        while len(family) > self.most_in_family:
            self._forget(newest, family[oldest_edit])
        while len(self) > self.most_traces or self._bytes() > self.most_bytes:
            oldest = next(iter(self._families))
            if oldest != newest:
                for opened in list(self._families.pop(oldest)):
                    self._forget(oldest, opened)
            elif len(family) > 2 + oldest_edit:
                self._forget(newest, family[oldest_edit])
            else:
                return  # what a single trace may take is bounded where it is made

    def _forget(self, root: str, opened: OpenTrace) -> None:
        if root in self._families:
            self._families[root].remove(opened)
        del self._open[opened.id]
        if opened.users:
            self._leaving.add(opened)
        else:
            opened.close()

    def _bytes(self) -> int:
        held: dict[int, int] = {}
        for family in self._families.values():
            for opened in family:
                held.update(opened.storages)
        return sum(held.values())


# --- runs ---
# Long work in threads: a few at once, a few more waiting, the rest told to come back.
#
# Work ends early when the one who asked has gone: a trace looks for that between two operators, a
# search between two tokens, an export between two cells.


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
