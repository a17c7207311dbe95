"""Which step of a trace was computed from which, and the same as a graph small enough to read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from glassformer.tracing.capture.memory import View
from glassformer.tracing.capture.module_stack import join
from glassformer.tracing.capture.operator_calls import MATRICES, PRODUCTS, SOFTMAXES

if TYPE_CHECKING:
    from glassformer.tracing.steps import Step
    from glassformer.tracing.trace import Trace


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
    """The step that wrote a tensor."""
    return view.owner((0,) * view.ndim)[0]


# --- the flow of a module ---
# A module as a graph of a limited size: steps, and groups of steps that ran together. A group is
# one call of a module, or one turn of a loop over positions (`layer0.t3`): it runs without
# interruption, so that the graph of groups has no cycles. The largest groups are opened first, as
# long as the graph stays small enough to be read.


MOST_FLOW_NODES = 60
"""More boxes than these are a wallpaper, not a picture."""
_REPEAT = re.compile(r"\.\d+$")
_DIGITS = re.compile(r"\d+")
_TURN = re.compile(r"(t\d+)\.")


@dataclass(slots=True)
class FlowNode:
    """A step, or a group of them under one name."""

    path: str
    steps: list[Step]
    is_group: bool


@dataclass(frozen=True, slots=True)
class StepFlow:
    """Nodes in the order in which they ran, and which reads which, by their places."""

    nodes: list[FlowNode]
    edges: list[tuple[int, int]]


@dataclass(slots=True)
class _Group:
    """One uninterrupted run of the steps below a path."""

    path: str
    inside: list[_Group | Step] = field(default_factory=list)

    @property
    def steps(self) -> list[Step]:
        found: list[Step] = []
        for one in self.inside:
            found.extend(one.steps if isinstance(one, _Group) else [one])
        return found


def find_flow(trace: Trace, steps: list[Step]) -> StepFlow:
    """The graph of the steps that a reader should see, and of the inputs they read."""
    shown = [step for step in steps if step.is_main and step.call is not None]
    inputs = [step for step in trace.inputs.values() if step.view.numel]
    opened: list[_Group | Step] = _opened(_grouped(shown))
    nodes = [FlowNode(step.name, [step], is_group=False) for step in inputs]
    for one in opened:
        if isinstance(one, _Group):
            nodes.append(FlowNode(one.path, one.steps, is_group=True))
        else:
            nodes.append(FlowNode(one.name, [one], is_group=False))
    nodes, edges = _connected(nodes, len(inputs))
    return StepFlow(nodes, edges)


def _path_of(step: Step) -> str:
    """Where a step belongs: its module, and the turn of a loop in it."""
    own = step.name.removeprefix(f"{step.module}." if step.module else "")
    own = _REPEAT.sub("", own)
    if own != step.module and "." in own:
        return join(step.module, own.rpartition(".")[0])
    turn = _TURN.match(step.stage or "")
    return join(step.module, turn[1]) if turn is not None else step.module


def _grouped(steps: list[Step]) -> _Group:
    root = _Group("")
    way = [root]
    for step in steps:
        path = _path_of(step)
        while not f"{path}.".startswith(f"{way[-1].path}." if way[-1].path else ""):
            way.pop()
        rest = path.removeprefix(way[-1].path).strip(".")
        for name in rest.split(".") if rest else []:
            inner = _Group(join(way[-1].path, name))
            way[-1].inside.append(inner)
            way.append(inner)
        way[-1].inside.append(step)
    return root


def _opened(root: _Group) -> list[_Group | Step]:
    """The root's contents, the largest groups replaced by what is in them while there is room."""
    found: list[_Group | Step] = list(root.inside)
    while True:
        kinds: dict[str, list[_Group]] = defaultdict(list)
        for one in found:
            if isinstance(one, _Group):
                kinds[_DIGITS.sub("#", one.path)].append(one)
        growth = {
            kind: sum(len(one.inside) - 1 for one in groups) for kind, groups in kinds.items()
        }
        small = [kind for kind in kinds if len(found) + growth[kind] <= MOST_FLOW_NODES]
        if not small:
            return found
        largest = max(small, key=lambda kind: sum(len(one.steps) for one in kinds[kind]))
        chosen = {id(one) for one in kinds[largest]}
        found = [
            inner
            for one in found
            for inner in (one.inside if isinstance(one, _Group) and id(one) in chosen else [one])
        ]


def _connected(
    nodes: list[FlowNode], n_inputs: int
) -> tuple[list[FlowNode], list[tuple[int, int]]]:
    """The edges between nodes; inputs that nothing reads (masks) are left out."""
    edges = edges_between([node.steps for node in nodes])
    used = {end for edge in edges for end in edge}
    kept = [at for at in range(len(nodes)) if at in used or at >= n_inputs]
    renumbered = {old: new for new, old in enumerate(kept)}
    return [nodes[at] for at in kept], [(renumbered[a], renumbered[b]) for a, b in edges]


def edges_between(groups: list[list[Step]]) -> list[tuple[int, int]]:
    """Which group of steps reads which, by their places: also through steps that are in none."""
    place = {id(step): at for at, steps in enumerate(groups) for step in steps}
    edges: dict[tuple[int, int], None] = {}
    for at, steps in enumerate(groups):
        for step in steps:
            for source in _sources(step, place):
                if source != at:
                    edges[source, at] = None
    return list(edges)


def _sources(step: Step, place: dict[int, int]) -> Iterator[int]:
    """The nodes that a step reads, through copies, masks and other steps that are not shown."""
    waiting, seen = [step], {id(step)}
    while waiting:
        for view in views_read(waiting.pop()):
            parent = writer_of(view)
            if id(parent) in seen:
                continue
            seen.add(id(parent))
            if id(parent) in place:
                yield place[id(parent)]
            else:
                waiting.append(parent)
