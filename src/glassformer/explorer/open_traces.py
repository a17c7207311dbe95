"""The traces that are open: a bounded number of them in a bounded amount of memory.

A run and the traces that edits made from it are a *family*. Families are dropped whole, least
recently used first, so that undo and reset find what they need; within a very large family old
edits are dropped. Lessons and the user's own module are *kept*: they are never dropped, only their
edits are. The memory of a dropped trace is freed as soon as the last request that uses it is done.
An unknown id may have been dropped or may predate a restart of the server: the page handles both
alike.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import torch
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from glassformer.documents.trace_data import all_steps
from glassformer.errors import CancelledError, GlassformerError, cancelled_by
from glassformer.explorer.schemas import Answer, Edit, Task, TraceInfo
from glassformer.tasks import Model
from glassformer.tasks.forward_pass import Pass
from glassformer.tracing import Step, Trace

if TYPE_CHECKING:
    from glassformer.explorer.map_info import MapInfo

# --- opened ---
# A trace that is open, with what is known about it.


class NoStepError(GlassformerError, LookupError):
    """A trace has no step of this number."""


@dataclass(frozen=True)
class RunOrigin:
    """What a run was made from: enough to make it again."""

    model: str
    text: str
    target: str | None
    edits: tuple[Edit, ...]


@dataclass(eq=False)
class OpenTrace:
    """A trace and what belongs to it."""

    trace: Trace
    model: str
    """The name on the card it was opened from."""
    task: Task
    text: str = ""
    target: str | None = None
    loaded: Model | None = None
    """The model with its tokenizer; None for a user's module and for lessons."""
    reading: Pass | None = None
    edits: tuple[Edit, ...] = ()
    parent: str | None = None
    """The id of the trace before the last edit; it may have been dropped."""
    first: OpenTrace | None = None
    """The trace before any edit; None if this is that one."""
    reran: bool = False
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    info: TraceInfo | None = None
    """Its description, cached."""
    packed: bytes | None = None
    """The same as JSON, compressed."""
    answer: Answer | None = None
    map: MapInfo | None = None
    """The picture of its model."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Guards the cached fields."""
    users: int = 0
    """How many requests are using it; maintained by the store."""

    def __post_init__(self) -> None:
        self.steps: list[Step] = [*all_steps(self.trace), *self.trace.found_stages.turned]
        self.storages = _storages(self.trace)

    @property
    def root(self) -> OpenTrace:
        """The trace before any edit."""
        return self if self.first is None else self.first

    @property
    def origin(self) -> RunOrigin | None:
        """How to make it again; None for a user's module and for lessons."""
        if self.loaded is None:
            return None
        return RunOrigin(self.model, self.text, self.target, self.edits)

    @property
    def n_bytes(self) -> int:
        """The size of the numbers that the run computed."""
        return sum(self.storages.values())

    def step(self, number: int) -> Step:
        if not 0 <= number < len(self.steps):
            raise NoStepError(
                "this trace has no step {number}: it has {count}",
                number=number,
                count=len(self.steps),
            )
        return self.steps[number]

    def close(self) -> None:
        """Free the memory at once."""
        self.steps = []
        self.trace.close()


def _storages(trace: Trace) -> dict[int, int]:
    """The memory that a trace holds beyond its model: address and size of each storage."""
    return {
        step.view.version.storage.data_ptr(): step.view.version.nbytes
        for step in trace.steps
        if step.view.numel and step.view.version.is_kept
    }


MOST_TRACES = 64
MOST_BYTES = 1536 * 1024**2
MOST_IN_FAMILY = 33
MOST_ORIGINS = 256


class DroppedError(GlassformerError, LookupError):
    """No trace is open under this id: it was closed, or the server has been restarted."""

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
        """The families that may be dropped, by root, least recently used first."""
        self._leaving: set[OpenTrace] = set()
        """Dropped, but still in use."""
        self._origins: OrderedDict[str, RunOrigin] = OrderedDict()
        """Of the traces that were dropped last."""

    def __len__(self) -> int:
        """The number of traces that may be dropped; kept ones do not count."""
        return sum(map(len, self._families.values()))

    @property
    def n_bytes(self) -> int:
        """The memory of all droppable traces; shared storages count once."""
        with self._lock:
            return self._bytes()

    def keep(self, opened: OpenTrace) -> OpenTrace:
        """Add a trace that is never dropped."""
        with self._lock:
            self._kept.add(opened.id)
            self._open[opened.id] = opened
        return opened

    def add(self, opened: OpenTrace) -> OpenTrace:
        """Add a trace, dropping others if necessary."""
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

    def origin(self, id_: str) -> RunOrigin:
        """What a dropped trace was made from; an id that is not known is a DroppedError."""
        with self._lock:
            if id_ not in self._origins:
                raise DroppedError
            return self._origins[id_]

    def find(self, model: str, text: str) -> str | None:
        """The id of an open run of a model over a text, without target or edits; the newest."""
        with self._lock:
            for opened in reversed(self._open.values()):
                is_run = opened.loaded is not None and opened.first is None
                if is_run and (opened.model, opened.text, opened.target) == (model, text, None):
                    return opened.id
        return None

    @contextmanager
    def use(self, id_: str) -> Iterator[OpenTrace]:
        """Keep a trace open inside the block, and mark its family as most recently used."""
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
        """Close a trace and the edits made from it; kept ones stay."""
        with self._lock:
            if id_ not in self._open:
                raise DroppedError
            root = self._open[id_].root.id
            closed = {id_}
            for opened in list(self._families.get(root, [])):  # parents first
                if root in closed or opened.id in closed or opened.parent in closed:
                    closed.add(opened.id)
                    self._forget(root, opened)
            if not self._families.get(root, [None]):
                del self._families[root]

    def _make_room(self, newest: str) -> None:
        """Drop old families, then old edits: the first trace and the last two stay."""
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
                return  # a single trace's memory is limited where it is made

    def _forget(self, root: str, opened: OpenTrace) -> None:
        if root in self._families:
            self._families[root].remove(opened)
        del self._open[opened.id]
        if (origin := opened.origin) is not None:
            self._origins[opened.id] = origin
            while len(self._origins) > MOST_ORIGINS:
                self._origins.popitem(last=False)
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
# Long work in threads: a few at once, a few more in the queue, the rest refused with 429.
#
# Work is cancelled when its client disconnects: a trace checks between operators, a search between
# tokens, an export between cells.
#
# OpenMP keeps the number of threads per thread: a worker that first computes while a claim runs on
# one thread would stay with one. So each piece of work sets the number of when the queue was made:
# sums, which are divided among threads, then have the same last digits in every worker.


T = TypeVar("T")
RETRY_AFTER_S = 2


class BusyError(GlassformerError, RuntimeError):
    """The queue is full."""


class Runs:
    """A bounded queue of work in threads."""

    def __init__(self, at_once: int = 2, most_waiting: int = 16) -> None:
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._limiter: CapacityLimiter | None = None
        self._n_threads = torch.get_num_threads()

    async def do(self, request: Request, work: Callable[[], T]) -> T:
        """Run the work in a thread when its turn comes."""
        if self._limiter is None:  # it belongs to the running event loop
            self._limiter = CapacityLimiter(self._at_once)
        waiting = self._limiter.statistics().tasks_waiting
        if waiting >= self._most_waiting:
            raise BusyError(
                "{waiting} runs are waiting already: try again in a moment", waiting=waiting
            )
        left = threading.Event()
        watching = asyncio.create_task(_watch(request, left))
        try:
            return await to_thread.run_sync(self._guarded, work, left, limiter=self._limiter)
        finally:
            watching.cancel()

    def _guarded(self, work: Callable[[], T], left: threading.Event) -> T:
        if left.is_set():
            raise CancelledError("nobody waits for this any more")
        torch.set_num_threads(self._n_threads)
        with cancelled_by(left.is_set):
            return work()


async def _watch(request: Request, left: threading.Event) -> None:
    """Wait until the client disconnects; the body has been read, so no other message can arrive."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    left.set()
