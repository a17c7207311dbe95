"""The traces that are open: a bounded number of them in a bounded amount of memory.

A run and the traces that edits made of it are a *family*. Families are dropped whole, the one not
looked at for the longest time first, so that undo and reset always find what they need; within one
family, edits far back are dropped when there are very many of them. What was dropped is remembered
by its id alone, so that a page can be told what happened.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from glassformer.errors import GlassformerError
from glassformer.explorer.schemas import Answer, Edit, Task, TraceInfo
from glassformer.passes import Pass
from glassformer.tasks import Model
from glassformer.trace import Step, Trace
from glassformer.trace.render.addresses import all_steps

__all__ = ["DroppedError", "NoTraceError", "OpenTrace", "Store"]

MOST_TRACES = 64
MOST_BYTES = 1536 * 1024**2
MOST_IN_FAMILY = 33
_REMEMBERED = 10_000


class NoTraceError(GlassformerError, LookupError):
    """An id under which there never was a trace."""


class DroppedError(GlassformerError, LookupError):
    """A trace that had to make room for others."""


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
    lock: threading.Lock = field(default_factory=threading.Lock)
    """For what is worked out once."""

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
            raise NoTraceError(f"this trace has no step {number}: it has {len(self.steps)}")
        return self.steps[number]


def _storages(trace: Trace) -> dict[int, int]:
    """The memory that a trace holds beyond its model: address and size of each storage."""
    return {
        step.view.version.storage.data_ptr(): step.view.version.nbytes
        for step in trace.steps
        if step.view.numel
    }


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
        self._families: OrderedDict[str, list[OpenTrace]] = OrderedDict()
        self._open: dict[str, OpenTrace] = {}
        self._kept: set[str] = set()
        self._dropped: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def n_bytes(self) -> int:
        """The memory of all of them; a storage that several share counts once."""
        with self._lock:
            return self._bytes()

    def add(self, opened: OpenTrace, keep: bool = False) -> OpenTrace:
        """Take a trace in, and drop others if need be; `keep`: this family is never dropped."""
        with self._lock:
            root = opened.root.id
            if opened.first is not None and root not in self._families:
                raise self._gone(root)
            if keep:
                self._kept.add(root)
            self._open[opened.id] = opened
            self._families.setdefault(root, []).append(opened)
            self._families.move_to_end(root)
            self._make_room(root)
        return opened

    def get(self, id_: str) -> OpenTrace:
        """A trace that is open; its family counts as looked at."""
        with self._lock:
            if id_ not in self._open:
                raise self._gone(id_)
            opened = self._open[id_]
            self._families.move_to_end(opened.root.id)
            return opened

    def remove(self, id_: str) -> None:
        """Close a trace with all that came of it, as its user asked."""
        with self._lock:
            if id_ not in self._open:
                raise self._gone(id_)
            root = self._open[id_].root.id
            closed = {id_}
            for opened in list(self._families[root]):  # a trace comes after the one it was made of
                if root in closed or opened.id in closed or opened.parent in closed:
                    closed.add(opened.id)
                    self._forget(root, opened)
            if not self._families[root]:
                del self._families[root]
                self._kept.discard(root)

    def _gone(self, id_: str) -> GlassformerError:
        if id_ in self._dropped:
            return DroppedError("this trace was closed to make room for others: run the text again")
        return NoTraceError(f"there is no trace {id_!r:.40}")

    def _make_room(self, newest: str) -> None:
        """Drop families, then edits far back: the first trace and the last two stay."""
        family = self._families[newest]
        while len(family) > self.most_in_family:
            self._forget(newest, family[1])
        while len(self._open) > self.most_traces or self._bytes() > self.most_bytes:
            oldest = next((f for f in self._families if f != newest and f not in self._kept), None)
            if oldest is not None:
                for opened in list(self._families[oldest]):
                    self._forget(oldest, opened)
                del self._families[oldest]
            elif len(family) > 3:
                self._forget(newest, family[1])
            else:
                return  # what a single trace may take is bounded where it is made

    def _forget(self, root: str, opened: OpenTrace) -> None:
        self._families[root].remove(opened)
        del self._open[opened.id]
        self._dropped[opened.id] = None
        while len(self._dropped) > _REMEMBERED:
            self._dropped.popitem(last=False)

    def _bytes(self) -> int:
        held: dict[int, int] = {}
        for opened in self._open.values():
            held.update(opened.storages)
        return sum(held.values())
