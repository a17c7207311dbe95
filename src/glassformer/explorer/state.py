"""What the server holds: models, open traces, the queue of runs. Nothing of it is a selection:
which step or cell is looked at is the page's affair, so two tabs do not disturb each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from glassformer.explorer.model_list import Catalogue, Models
from glassformer.explorer.open_traces import OpenTrace, Runs, Store
from glassformer.explorer.schemas import ModelInfo
from glassformer.explorer.views import Lessons, Watched


@dataclass
class State:
    """Everything that outlives a request."""

    catalogue: Catalogue
    models: Models
    store: Store = field(default_factory=Store)
    runs: Runs = field(default_factory=Runs)
    own: list[ModelInfo] = field(default_factory=list)
    """Cards for what `glassformer.explore` opened."""
    watched: Watched | None = None
    """The training run that is looked at, if one is."""

    def __post_init__(self) -> None:
        self.lessons = Lessons(self.store)

    @classmethod
    def of(cls, chosen: str | None = None) -> State:
        """A state over the shipped models, or over one."""
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
"""The trace that the address names; it stays whole until the answer is sent."""
