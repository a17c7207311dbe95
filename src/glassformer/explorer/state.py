"""What the server holds: models, open traces, lessons, the queue of runs, a watched training run.

The server keeps no selection: which step or cell is shown is up to the page, so that two tabs do
not interfere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import Depends, Request
from fastapi import Path as PathPart

from glassformer.explorer.model_list import Models
from glassformer.explorer.open_audits import OpenAudits
from glassformer.explorer.open_claims import OpenClaims
from glassformer.explorer.open_lessons import Lessons
from glassformer.explorer.open_traces import DroppedError, OpenTrace, Runs, Store
from glassformer.explorer.trace_edits import OtherRuns, edit_trace

if TYPE_CHECKING:
    from glassformer.explorer.training_watch import WatchedRun

T = TypeVar("T")
Id = Annotated[str, PathPart(alias="id")]


class State:
    """Everything that outlives a request."""

    def __init__(self, chosen: str | None = None) -> None:
        """Over all shipped models, or over one."""
        self.models = Models(chosen)
        self.store = Store()
        self.runs = Runs()
        self.lessons = Lessons(self.store)
        self.claims = OpenClaims()
        self.audits = OpenAudits()
        self.watched: WatchedRun | None = None
        """The training run being watched, if any."""

    def other_runs(self, opened: OpenTrace) -> OtherRuns:
        """Runs of the same model over other texts."""
        return OtherRuns(self.models, self.store, opened)

    @contextmanager
    def use_again(self, id_: str) -> Iterator[OpenTrace]:
        """An open trace, or a temporary copy of one that was dropped to make room."""
        with ExitStack() as held:
            try:
                opened = held.enter_context(self.store.use(id_))
            except DroppedError:
                origin = self.store.origin(id_)
                opened = self.models.run(origin.model, origin.text, origin.target)
                held.callback(opened.close)
                for edit in origin.edits:
                    with self.other_runs(opened) as runs:
                        opened = edit_trace(opened, [edit], runs)
                    held.callback(opened.close)
            yield opened


def _state(request: Request) -> State:
    state = request.app.state.explorer
    assert isinstance(state, State)
    return state


Holds = Annotated[State, Depends(_state)]


@dataclass(frozen=True)
class Queue:
    """Where the long work of a request waits for its turn; cancelled if the client disconnects."""

    request: Request
    runs: Runs

    async def do(self, work: Callable[[], T]) -> T:
        """Run the work in a thread when its turn comes."""
        return await self.runs.do(self.request, work)


def _queue(request: Request, state: Holds) -> Queue:
    return Queue(request, state.runs)


Queued = Annotated[Queue, Depends(_queue)]


def _opened(state: Holds, id_: Id) -> Iterator[OpenTrace]:
    with state.store.use(id_) as opened:
        yield opened


Opened = Annotated[OpenTrace, Depends(_opened)]
"""The trace named in the URL; it stays open until the response is sent."""
