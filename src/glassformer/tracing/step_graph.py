"""Which step of a trace was computed from which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from glassformer.tracing.capture.memory import Version, View
from glassformer.tracing.steps import Step

PRODUCTS = frozenset(["matmul", "bmm", "baddbmm", "mm", "einsum"])
MATRICES = PRODUCTS | {"linear", "addmm", "convolution", "conv1d", "conv2d", "grouped_mm"}
"""Operators that multiply with a matrix, of activations or of parameters."""


class StepGraph:
    """Which step was computed from which: a set of steps is an integer with one bit per step."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.place = {id(step): place for place, step in enumerate(steps)}
        self.readers: dict[int, list[Step]] = defaultdict(list)
        self._before: list[int] = []
        self.products = self._all(PRODUCTS)
        self.matrices = self._all(MATRICES)
        self.inputs = sum(1 << place for place, step in enumerate(steps) if step.role == "input")
        for step in steps:
            before = 0
            for parent in self._parents(step):
                place = self.place.get(id(parent))
                if place is not None and place < len(self._before):
                    before |= self._before[place] | 1 << place
                    self.readers[place].append(step)
            self._before.append(before)

    def _all(self, operators: frozenset[str]) -> int:
        """The set of steps computed by these operators."""
        return sum(1 << place for place, step in enumerate(self.steps) if step.op in operators)

    @staticmethod
    def _parents(step: Step) -> Iterator[Step]:
        for view in step.call.inputs() if step.call is not None else ():
            version: Version | None = view.version
            while version is not None:
                yield from version.owners
                version = version.base

    def bit(self, step: Step) -> int:
        """The set of that step; empty for parameters and constants."""
        place = self.place.get(id(step))
        return 0 if place is None else 1 << place

    def before(self, step: Step) -> int:
        """The set of all steps that a step depends on."""
        place = self.place.get(id(step))
        return 0 if place is None else self._before[place]

    def up_to(self, step: Step) -> int:
        """The steps that a step depends on, and the step itself."""
        return self.before(step) | self.bit(step)

    def made_from(self, later: Step, earlier: Step) -> bool:
        return bool(self.before(later) & self.bit(earlier))


def views_read(step: Step) -> list[View]:
    """The tensors that a step was computed from, except empty ones (a new cache)."""
    return [view for view in step.call.inputs() if view.numel] if step.call is not None else []


def writer_of(view: View) -> Step:
    """The step that wrote a tensor."""
    return view.owner((0,) * view.ndim)[0]
