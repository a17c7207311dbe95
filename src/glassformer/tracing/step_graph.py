"""Which step of a trace was computed from which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from glassformer.tracing.capture.memory import View
from glassformer.tracing.capture.operator_calls import MATRICES, PRODUCTS, SOFTMAXES

if TYPE_CHECKING:
    from glassformer.tracing.steps import Step


class StepGraph:
    """Which step was computed from which: a set of steps is an integer with one bit per step."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.place = {id(step): place for place, step in enumerate(steps)}
        self.readers: dict[int, list[Step]] = defaultdict(list)
        self._before: list[int] = []
        self.products = self._all(PRODUCTS)
        self.matrices = self._all(MATRICES)
        self.softmaxes = self._all(SOFTMAXES)
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
            yield from view.owners()

    def _place(self, step: Step) -> int | None:
        return self.place.get(id(writer_of(step.view) if step.is_view else step))

    def bit(self, step: Step) -> int:
        """The set of that step; empty for parameters and constants."""
        place = self._place(step)
        return 0 if place is None else 1 << place

    def before(self, step: Step) -> int:
        """The set of all steps that a step depends on."""
        place = self._place(step)
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
    """The step that wrote a tensor's first cell; of an empty tensor, the last to write to it."""
    if view.numel == 0:
        return next(view.owners())
    if view.version.base is None and len(view.version.owners) == 1:
        return view.version.owners[0]
    return view.owner((0,) * view.ndim)[0]


def behind(step: Step, operators: Collection[str]) -> Step:
    """The step at which a chain of these operators begins; through `cat`, that of its last part."""
    while step.op in operators and (views := views_read(step)):
        step = writer_of(views[-1 if step.op in ("cat", "copy") else 0])
    return step


def fixed_steps(steps: Iterable[Step], given: Iterable[Step] = ()) -> set[int]:
    """The steps, by identity, that depend on no parameter and no input but those given."""
    fixed: set[int] = set()
    known = {id(step) for step in given}

    def is_fixed(view: View) -> bool:
        return all(id(owner) in fixed or id(owner) in known for owner in view.owners())

    for step in steps:
        computed = step.call is not None and step.role == "activation"
        inputs = step.call.inputs() if step.call is not None else []
        if step.role == "constant" or (computed and all(map(is_fixed, inputs))):
            fixed.add(id(step))
    return fixed
