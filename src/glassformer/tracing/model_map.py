"""The shape of a model, read from its trace: towers of blocks of parts, or a graph of steps.

A Transformer is a residual stream per token to which each part adds what it computed: `find_stages`
finds these additions in any module. A tower is a chain of them; where the stream of a block does
not come from the block before it, another tower starts (the decoder). What lies between two
additions is a part: a norm, an attention, a feed-forward network. A module without such a stream is
a plain graph.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from glassformer.tracing.attention_structure import Attention
from glassformer.tracing.capture.module_stack import join
from glassformer.tracing.capture.operator_calls import NORMS
from glassformer.tracing.stages import BlockStages, StreamAddition
from glassformer.tracing.step_graph import StepGraph, views_read, writer_of
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace

PartKind = Literal[
    "embedding",
    "norm",
    "attention",
    "cross",
    "feed_forward",
    "experts",
    "parallel",
    "mixer",
    "head",
]
TowerKind = Literal["encoder", "decoder", "stack"]
Floats = npt.NDArray[np.float64]

_NORMS = NORMS | {"rsqrt", "group_norm", "batch_norm", "var"}
_KINDS: dict[str, PartKind] = {
    "mid": "attention",
    "cross": "cross",
    "post": "feed_forward",
    "both": "parallel",
    "first": "mixer",
}
_PICKS = frozenset(["index", "index_select", "gather"])
_LEAST_SHARE = 1 / 3
"""The share of a model's steps that its towers must have to be what the model is."""


@dataclass(slots=True)
class MapPart:
    """Steps that belong together: an attention, a norm."""

    kind: PartKind
    steps: list[Step]
    """Those that a reader should see, in the order in which they ran."""
    total: Step | None = None
    """The residual stream after the part was added to it; None for parts that are not added."""
    attention: Attention | None = None


@dataclass(slots=True)
class MapBlock:
    """One block of a tower."""

    path: str
    """Its module."""
    parts: list[MapPart]


@dataclass(slots=True)
class MapTower:
    """A residual stream from the embedding to the head."""

    start: Step
    """The stream before the first block."""
    embedding: MapPart
    blocks: list[MapBlock] = field(default_factory=list)
    head: MapPart = field(default_factory=lambda: MapPart("head", []))
    kind: TowerKind = "stack"
    axis: int = -2
    """The axis of the stream that has the tokens."""
    memory: int | None = None
    """The tower that its cross-attention reads."""

    @property
    def parts(self) -> list[MapPart]:
        """All parts, first to last."""
        inside = [part for block in self.blocks for part in block.parts]
        return [self.embedding, *inside, self.head]

    @property
    def n_tokens(self) -> int:
        """The number of positions."""
        return self.start.shape[self.axis]

    @property
    def tokens(self) -> list[str]:
        """What the positions are called: their texts, else their numbers."""
        streams = [self.start, *(part.total for part in self.parts if part.total is not None)]
        labels = next((found for s in streams if (found := s.token_labels(self.axis))), None)
        return list(labels or map(str, range(self.n_tokens)))


@dataclass(frozen=True, slots=True)
class ModelMap:
    """The towers of a model; where it has none, its graph of steps."""

    towers: list[MapTower]
    flow: StepFlow | None


def find_map(trace: Trace) -> ModelMap:
    """The shape of the model that made a trace."""
    trace.check_open()
    steps = [*trace.inputs.values(), *forward_steps(trace)]
    towers = _Towers(trace, StepGraph(steps)).found()
    shown = [step for step in steps if step.is_main and step.call is not None]
    inside = sum(len(part.steps) for tower in towers for part in tower.parts[1:-1])
    if towers and inside >= _LEAST_SHARE * len(shown):
        return ModelMap(towers, None)
    return ModelMap([], _find_flow(trace, shown))


def forward_steps(trace: Trace) -> list[Step]:
    """The steps of the forward pass: a traced training step has others after it."""
    return [step for step in trace.steps if step.call is None or step.call.origin.visit >= -1]


class _Towers:
    """Goes through the blocks in order; each step belongs to the first part that needs it."""

    def __init__(self, trace: Trace, graph: StepGraph) -> None:
        self._trace = trace
        self._graph = graph
        self._taken = 0
        self._towers: list[MapTower] = []

    def found(self) -> list[MapTower]:
        blocks = [block for block in self._trace.found_stages.blocks if _is_block(block)]
        for block in blocks:
            for place, addition in enumerate(block.additions):
                self._add(block, addition, is_first=place == 0)
        if not self._towers:
            return []
        self._towers[-1].head.steps += self._take(-1)
        for tower in self._towers:
            _complete(tower)
            totals = [part.total for part in tower.parts if part.total is not None]
            if len({total.shape for total in totals}) != 1:
                return []
        return self._towers

    def _take(self, wanted: int) -> list[Step]:
        """The steps of a set that no part has yet and that a reader should see."""
        steps = self._graph.steps
        fresh = wanted & ~self._taken & ((1 << len(steps)) - 1)
        self._taken |= fresh
        return [steps[place] for place in _places(fresh) if _is_shown(steps[place])]

    def _add(self, block: BlockStages, addition: StreamAddition, is_first: bool) -> None:
        graph, stream = self._graph, addition.stream
        tower = self._towers[-1] if self._towers else None
        last = None if tower is None else _last_total(tower)
        if tower is None or last is None or not graph.up_to(stream) & graph.bit(last):
            embedding = MapPart("embedding", self._take(graph.up_to(stream)))
            tower = MapTower(stream, embedding)
            self._towers.append(tower)
        elif between := self._take(graph.up_to(stream)):  # post-norm: it ends what came before
            tower.blocks[-1].parts.append(MapPart(_between(between), between))
        if is_first:
            tower.blocks.append(MapBlock(block.path, []))
        if addition.kind == "cross":
            self._end_memory(tower, block, addition)
        tower.blocks[-1].parts += self._parts(addition)

    def _end_memory(self, tower: MapTower, block: BlockStages, addition: StreamAddition) -> None:
        """Give the encoder what follows its last block: a final norm, read by cross-attention."""
        graph = self._graph
        inside = graph.up_to(addition.branch) & ~graph.up_to(addition.stream)
        for attention in self._trace.found_stages.attentions:
            both = graph.up_to(attention.stages["keys"]) & graph.up_to(attention.stages["values"])
            if not inside & graph.bit(attention.weights):
                continue
            for place, other in enumerate(self._towers[:-1]):
                last = _last_total(other)
                if last is None or not both & graph.bit(last) or both & graph.bit(tower.start):
                    continue
                after = [p for p in _places(both & ~self._taken) if self._is_outside(p, block)]
                other.head.steps += self._take(sum(1 << p for p in after))
                tower.memory = place

    def _is_outside(self, place: int, block: BlockStages) -> bool:
        return not f"{self._graph.steps[place].module}.".startswith(f"{block.path}.")

    def _parts(self, addition: StreamAddition) -> Iterator[MapPart]:
        graph = self._graph
        inside = graph.up_to(addition.branch) & ~self._taken
        attentions = self._trace.found_stages.attentions
        here = next((a for a in attentions if inside & graph.bit(a.weights)), None)
        steps = self._take(inside)
        norm = self._norm_before(steps, addition.stream)
        if norm:
            yield MapPart("norm", norm)
        skipped = {id(step) for step in norm}
        body = [step for step in steps if id(step) not in skipped]
        kind: PartKind = _KINDS[addition.kind]
        if kind == "feed_forward" and self._picks_tokens(body):
            kind = "experts"
        self._take(graph.up_to(addition.total))
        yield MapPart(kind, body, addition.total, here)

    def _picks_tokens(self, steps: list[Step]) -> bool:
        """Whether rows are picked and then multiplied: a router sends tokens to some experts."""
        graph = self._graph
        picks = sum(graph.bit(step) for step in steps if step.op in _PICKS)
        return any(picks & graph.up_to(s) for s in steps if graph.matrices & graph.bit(s))

    def _norm_before(self, steps: list[Step], stream: Step) -> list[Step]:
        """The steps between the stream and the first product with a matrix, if they normalise."""
        graph = self._graph
        products = sum(graph.bit(step) for step in steps) & graph.matrices
        before = [
            step
            for step in steps
            if not graph.up_to(step) & products and graph.up_to(step) & graph.bit(stream)
        ]
        return before if any(step.op in _NORMS for step in before) else []


def _is_block(block: BlockStages) -> bool:
    """Whether its stream is a row of vectors: one for each token."""
    return all(
        addition.stream.shape == addition.total.shape
        and (
            len(addition.total.shape) == 3
            or (len(addition.total.shape) == 2 and addition.kind in ("mid", "cross"))
            or (len(addition.total.shape) == 2 and len(block.additions) > 1)
        )
        for addition in block.additions
    )


def _is_shown(step: Step) -> bool:
    return step.call is not None and step.is_main


def _last_total(tower: MapTower) -> Step | None:
    totals = [part.total for block in tower.blocks for part in block.parts if part.total]
    return totals[-1] if totals else None


def _between(steps: list[Step]) -> PartKind:
    return "norm" if any(step.op in _NORMS for step in steps) else "mixer"


def _places(found: int) -> Iterator[int]:
    """The places of the bits that are set, lowest first."""
    while found:
        lowest = found & -found
        yield lowest.bit_length() - 1
        found ^= lowest


def _complete(tower: MapTower) -> None:
    """What a tower is, once all its parts are known."""
    _end_last_block(tower)
    attentions = [part.attention for part in tower.parts if part.attention is not None]
    for block in tower.blocks:
        attends = any(part.attention is not None for part in block.parts)
        for part in block.parts:
            if part.kind == "feed_forward" and not attends:
                part.kind = "mixer"
    if attentions:
        queries, keys = attentions[0].weights.shape[-2:]
        shape = tower.start.shape
        fitting = [axis for axis in (-2, -3) if -axis <= len(shape) and shape[axis] == queries]
        tower.axis = fitting[0] if fitting else -2
        is_causal = queries == keys > 1 and attentions[0].is_causal
        crosses = any(part.kind == "cross" for part in tower.parts)
        tower.kind = "decoder" if crosses or is_causal else "encoder"


def _end_last_block(tower: MapTower) -> None:
    """Move the norm after the last addition into its block, where the module has it there."""
    block, head = tower.blocks[-1], tower.head
    inside = [step for step in head.steps if f"{step.module}.".startswith(f"{block.path}.")]
    if inside and block.path:
        block.parts.append(MapPart(_between(inside), inside))
        head.steps = [step for step in head.steps if step not in inside]


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


def _find_flow(trace: Trace, shown: list[Step]) -> StepFlow:
    """The graph of the steps that a reader should see, and of the inputs they read."""
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


# --- numbers ---
# What the picture shows of a stream and of an attention: of the first sequence of a batch.


def stream_stripes(tower: MapTower, stream: Step, most: int, n_stripes: int) -> Floats:
    """For each token some numbers of its vector: of each group of neighbours the largest in size.

    Shapes: (tokens, stripes); a vector of no more than `n_stripes` numbers is shown whole.
    """
    values = np.moveaxis(np.asarray(stream.view.array, dtype=np.float64), tower.axis, -2)
    rows: Floats = values.reshape(-1, *values.shape[-2:])[0][:most]
    width = rows.shape[1]
    if width <= n_stripes:
        return rows
    edges = (np.arange(n_stripes + 1) * width) // n_stripes
    groups = [rows[:, low:high] for low, high in pairwise(edges)]
    sizes = [np.nan_to_num(np.abs(group), nan=-1.0).argmax(axis=1) for group in groups]
    picked = [group[np.arange(len(rows)), at] for group, at in zip(groups, sizes, strict=True)]
    return np.stack(picked, axis=1)


def mean_weights(tower: MapTower, weights: Step, most: int) -> tuple[Floats, int]:
    """Attention weights of the first sequence, mean over heads, and the number of heads.

    Some modules fold heads into the batch: the first `heads` matrices are the first sequence's.
    """
    values = np.asarray(weights.view.array, dtype=np.float64)
    shape = tower.start.shape
    n_batch = 1 if len(shape) < 3 else shape[0] if tower.axis == -2 else shape[-2]
    matrices = values.reshape(-1, *values.shape[-2:])
    n_heads = max(1, len(matrices) // n_batch)
    mean: Floats = matrices[:n_heads].mean(axis=0)
    return mean[:most, :most], n_heads
