"""What the server holds: models, open traces, lessons, the queue of runs, a watched training run.

The server keeps no selection: which step or cell is shown is up to the page, so that two tabs do
not interfere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Protocol

import numpy as np
import numpy.typing as npt
from fastapi import Depends, Request

from glassformer.explorer.model_list import Catalogue, Models, run_text
from glassformer.explorer.open_audits import OpenAudits
from glassformer.explorer.open_claims import OpenClaims
from glassformer.explorer.open_lessons import Lessons
from glassformer.explorer.open_traces import DroppedError, OpenTrace, Runs, Store
from glassformer.explorer.schemas import ModelInfo, RunCurves, TraceRequest, WatchInfo
from glassformer.explorer.trace_edits import OtherRuns, edit_trace


class RunReader(Protocol):
    """What reads a training run's folder: the explorer itself knows nothing of training."""

    def info(self, since: int) -> WatchInfo:
        """The metrics from an offset on, and the available snapshots."""
        ...

    def trace(self, update: int) -> OpenTrace:
        """The model after an update, run over the text of the pictures."""
        ...

    def other(self, name: str) -> RunCurves:
        """Another run in the same folder, by its name."""
        ...

    def attention(self, update: int, layer: int) -> npt.NDArray[np.float32]:
        """The weights of one layer after an update: heads × queries × keys."""
        ...


@dataclass
class State:
    """Everything that outlives a request."""

    catalogue: Catalogue
    models: Models
    store: Store = field(default_factory=Store)
    runs: Runs = field(default_factory=Runs)
    own: list[ModelInfo] = field(default_factory=list)
    """Cards for what `glassformer.explore` opened."""
    watched: RunReader | None = None
    """The training run being watched, if any."""

    def __post_init__(self) -> None:
        self.lessons = Lessons(self.store)
        self.claims = OpenClaims()
        self.audits = OpenAudits()

    def other_runs(self, opened: OpenTrace) -> OtherRuns:
        """Runs of the same model over other texts."""
        return OtherRuns(self.models, self.store, [*self.own, *self.catalogue.cards], opened)

    @contextmanager
    def use_again(self, id_: str) -> Iterator[OpenTrace]:
        """A trace that is open or, where it was dropped to make room, is made again for a while."""
        with ExitStack() as held:
            try:
                opened = held.enter_context(self.store.use(id_))
            except DroppedError:
                origin = self.store.origin(id_)
                wanted = TraceRequest(model=origin.model, text=origin.text, target=origin.target)
                opened = run_text(self.models, wanted)
                held.callback(opened.close)
                for edit in origin.edits:
                    with self.other_runs(opened) as runs:
                        opened = edit_trace(opened, [edit], runs)
                    held.callback(opened.close)
            yield opened

    @classmethod
    def of(cls, chosen: str | None = None) -> State:
        """A state over all shipped models, or over one model."""
        catalogue = Catalogue(chosen)
        return cls(catalogue, Models(catalogue))


def _state(request: Request) -> State:
    state = request.app.state.explorer
    assert isinstance(state, State)
    return state


Holds = Annotated[State, Depends(_state)]


def _opened(state: Holds, id: str) -> Iterator[OpenTrace]:  # noqa: A002 - the API's name
    with state.store.use(id) as opened:
        yield opened


Opened = Annotated[OpenTrace, Depends(_opened)]
"""The trace named in the URL; it stays open until the response is sent."""
