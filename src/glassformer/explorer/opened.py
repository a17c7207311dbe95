"""A trace that is open, with what is known about it."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field

from glassformer.errors import GlassformerError
from glassformer.explorer.schemas import Answer, Edit, Task, TraceInfo
from glassformer.passes import Pass
from glassformer.tasks import Model
from glassformer.trace import Step, Trace
from glassformer.trace.render.addresses import all_steps

__all__ = ["NoStepError", "OpenTrace"]


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
