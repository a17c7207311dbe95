"""The traces that are open: a bounded number of them in a bounded amount of memory.

A run and the traces that edits made of it are a *family*. Families are dropped whole, the one not
looked at for the longest time first, so that undo and reset find what they need; of one family,
edits far back are dropped when there are very many of them. Lessons and the user's own module are
*kept*: they are never dropped, what edits make of them is. The memory of what was dropped is given
back as soon as the last request that looks at it is done. An id that is not open may be one that
was dropped, or one from before the server was started anew: a page does the same in either case.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from glassformer.errors import GlassformerError
from glassformer.explorer.opened import OpenTrace

__all__ = ["DroppedError", "Store"]

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
