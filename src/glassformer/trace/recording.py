"""What a run leaves behind: the raw material of a trace, before names and cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.trace.calls import Call
from glassformer.trace.cell_block import Places
from glassformer.trace.memory import View
from glassformer.trace.names import join
from glassformer.trace.recorder import Found
from glassformer.trace.steps import Role

__all__ = ["Labels", "Program", "Recording", "Source", "tensors_in"]

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
    differentiates: bool = False
    """Whether it takes gradients itself, on its way: autograd is then on, and operators arrive in
    the parts that autograd knows."""


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
    pins: dict[tuple[int, int], Places] = field(default_factory=dict)
    """The cells that an edit set, by call and output: their values follow from no operand."""
    ran: frozenset[type[nn.Module]] = frozenset()
    """The classes of the modules that ran."""

    def emptied(self) -> Recording:
        """What remains when its numbers are let go."""
        return Recording(self.program, [], [], [], [], {}, {}, self.notes)


def tensors_in(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors in nested containers, by dotted paths; a lone one is called `output`."""
    if isinstance(value, Tensor) and value.is_nested and value.layout == torch.jagged:
        rows = {"values": value.values(), "offsets": value.offsets()}  # type: ignore[attr-defined]  # of its class
        yield from tensors_in(rows, path or "output")
    elif isinstance(value, Tensor):
        yield path or "output", value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from tensors_in(part, join(path, str(key)))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key, part in zip(value._fields, value, strict=True):
            yield from tensors_in(part, join(path, str(key)))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from tensors_in(part, join(path or "output", str(place)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for item in dataclasses.fields(value):
            yield from tensors_in(getattr(value, item.name), join(path, item.name))
