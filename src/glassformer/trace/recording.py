"""What a run leaves behind: the raw material of a trace, before names and cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.trace.calls import Call
from glassformer.trace.memory import Index, View
from glassformer.trace.recorder import Found
from glassformer.trace.steps import Role

__all__ = ["Labels", "Program", "Recording", "Source"]

Labels = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor that was there before the run: a parameter, a buffer, an input."""

    name: str
    view: View
    role: Role


@dataclass(frozen=True, slots=True)
class Program:
    """What was traced, so that it can be run again."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    max_bytes: int
    reruns: bool = True
    """Whether an edit may run it again (a training step would train)."""


@dataclass(slots=True)
class Recording:
    """One run (or replay) of a program."""

    program: Program
    sources: list[Source]
    found: list[Found]
    calls: list[Call]
    """The operators that made numbers, and the guards, in order."""
    views: list[Call]
    """The operators that made nothing but views."""
    outputs: dict[str, View]
    labels: Labels
    notes: list[str] = field(default_factory=list)
    pins: dict[tuple[int, int], set[Index]] = field(default_factory=dict)
    """The cells that an edit set, by call and output: their values follow from no operand."""

    def emptied(self) -> Recording:
        """What remains when its numbers are let go."""
        return Recording(self.program, [], [], [], [], {}, {}, self.notes)
