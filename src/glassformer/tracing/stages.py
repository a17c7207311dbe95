"""The role of a step in any Transformer: `queries`, `scores`, `weights`, `resid_mid`, …

Models use different names for these tensors (`attn_weights`, `hidden_states.7`), but their
structure is the same. What makes a softmax an attention is in `attention_structure`; the sum of a
tensor and something computed from it through a matrix is a step of the residual stream. The role is
called the step's stage. If the model itself uses the name of a stage for it (T5 also calls a bias
of the scores `values`), its own step has that stage:

    t["model.layers.1.hidden_states.2"].stage         # "resid_mid"
    t["model.layers.1.resid_mid"]                     # the same step
    t.stages                                          # every such name, with its step

Attention: `queries`, `keys`, `values`, `scores`, `scaled`, `masked`, `weights`, `context`; with
rotary position embeddings also `queries_turned`, `queries_cosine_part`, `queries_sine_part`,
`queries_rotated`. A block: `resid_pre` (its input), `attn_out`, `resid_mid` (after self-attention),
`cross_out`, `resid_cross` (after cross-attention), `mlp_out`, `resid_post` (its output). In a loop
over positions, `t3.numerator`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from glassformer.tracing.attention_structure import Attention, find_attentions
from glassformer.tracing.capture.memory import View
from glassformer.tracing.capture.module_stack import UniqueNames, join
from glassformer.tracing.capture.operator_calls import COPIES, MATRICES
from glassformer.tracing.step_graph import StepGraph, views_read, writer_of
from glassformer.tracing.steps import Step

if TYPE_CHECKING:
    from glassformer.tracing.trace import Trace


@dataclass(frozen=True, slots=True)
class StreamAddition:
    """The sum of the residual stream and a branch computed from it."""

    total: Step
    stream: Step
    branch: Step
    kind: str
    """`mid` after self-attention, `cross` after cross-attention, `post` after anything else; `both`
    if attention and feed-forward are parallel; `first` of two without attention."""
    parallel: tuple[Step, Step] | None = None
    """The parts of the branch, if its kind is `both`: attention, feed-forward."""

    @property
    def module(self) -> str:
        """The module that adds; its result may be named by who called it (`return x + …`)."""
        return "" if self.total.call is None else self.total.call.origin.module


@dataclass(frozen=True, slots=True)
class BlockStages:
    """A block: its module, its stages, and the additions that end its parts."""

    path: str
    stages: dict[str, Step]
    additions: list[StreamAddition]


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a trace: by name, and by step."""

    by_name: dict[str, Step] = field(default_factory=dict)
    of_step: dict[int, str] = field(default_factory=dict)
    """The stage of a step, by the step's identity."""
    every: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """All stages of a step: one tensor may be both keys and values."""
    windows: dict[int, list[Step]] = field(default_factory=lambda: defaultdict(list))
    """The parts of packed projections (queries inside QKV), by the identity of their storage."""
    blocks: list[BlockStages] = field(default_factory=list)
    """The blocks of the residual stream, in the order in which they ran."""
    attentions: list[Attention] = field(default_factory=list)

    @property
    def turned(self) -> list[Step]:
        """The steps of attentions that are shown with their axes in another order, as views."""
        return [one.stages[stage] for one in self.attentions for stage in one.turned]


def find_stages(inputs: Iterable[Step], steps: Iterable[Step], known: Mapping[str, Step]) -> Stages:
    """The stages found in the structure of a run; `known` are all steps by their own names."""
    forward = [step for step in steps if step.call is not None and step.call.origin.visit >= -1]
    graph = StepGraph([*inputs, *forward])
    found = Stages()
    naming = _Naming(found, known, graph)
    attentions = list(find_attentions(graph))
    for attention in attentions:
        module = attention.scores.module
        turned = {
            stage: naming.turn(join(module, stage), stage, attention.stages[stage], window)
            for stage, window in attention.turned.items()
        }
        found.attentions.append(replace(attention, stages=attention.stages | turned))
        for stage, step in attention.stages.items():
            if stage in turned:
                continue
            window = attention.factors.get(stage)
            naming.give(join(module, stage), stage, step, window)
            if window is not None:
                naming.give_source(stage, step)
    found.blocks.extend(_blocks(graph, attentions))
    for block in found.blocks:
        for stage, step in block.stages.items():
            naming.give(join(block.path, stage), stage, step)
    for step, stage in _turns(graph.steps):
        naming.give(join(step.module, stage), stage, step)
    return found


class _Naming:
    """Gives stages to steps, and their names."""

    def __init__(self, found: Stages, known: Mapping[str, Step], graph: StepGraph) -> None:
        self._found = found
        self._known = known
        self._graph = graph
        self._names = UniqueNames()

    def give(self, name: str, stage: str, step: Step, window: View | None = None) -> None:
        """Name a step, or the window of it that an operator read: a part of a projection.

        The output of one block is the input of the next and keeps its first stage. If a step of
        the model has that name and is a form of the stage, it is the stage.
        """
        name = self._names.take(name)
        own = self._known.get(name)
        if own is not None and own.role == "parameter":
            return
        if own is not None and self._belongs(own, step):
            step, window = own, None
        if window is not None and window.numel != step.view.numel:
            part = _window_of(step, name, window)
            self._set(name, stage, part)
            if _n_cells(window) < step.view.numel:
                self._found.windows[id(window.version)].append(part)
                return
        self._set(name, stage, step)

    def turn(self, name: str, stage: str, step: Step, window: View) -> Step:
        """Name a step that has its axes in another order than the stage.

        If the model itself uses the name for a step, the view is found as `weights.turned`, too.
        """
        name = self._names.take(name)
        own = f"{name}.turned" if name in self._known else name
        turned = _window_of(step, own, window)
        self._found.by_name[own] = turned
        self._set(name, stage, turned)
        return turned

    def _set(self, name: str, stage: str, step: Step) -> None:
        self._found.by_name.setdefault(name, step)
        self._found.of_step.setdefault(id(step), stage)
        self._found.every[id(step)].append(stage)

    def _belongs(self, own: Step, step: Step) -> bool:
        """Whether a step with the name of a stage is a form of it: rotated, scaled, or not yet.

        T5 calls a bias of the scores `values`, GPT-OSS calls a part of the weights `scores`.
        """
        graph = self._graph
        writer = own if own.call is not None else writer_of(own.view)
        if graph.made_from(step, writer):
            between = graph.up_to(step) & ~graph.up_to(writer)
        elif graph.made_from(writer, step):
            between = graph.up_to(writer) & ~graph.up_to(step)
        else:
            return writer is step
        return not between & (graph.matrices | graph.softmaxes)

    def give_source(self, stage: str, step: Step) -> None:
        """Give a step's stage also to the part of a packed projection that the step copies."""
        while step.op in (*COPIES, "cat") and len(read := views_read(step)) == 1:
            view, owner = read[0], writer_of(read[0])
            if view.numel < owner.view.numel and owner.op in MATRICES:
                part = _window_of(step, step.name, view)
                self._found.every[id(part)].append(stage)
                self._found.windows[id(view.version)].append(part)
                return
            step = owner


def _window_of(step: Step, name: str, window: View) -> Step:
    """A window on the numbers of a step, as a step of its own."""
    return Step(
        step.trace, name, window, step.role, module=step.module, line=step.line, is_view=True
    )


def _n_cells(window: View) -> int:
    """The number of cells in a window; heads that share keys see the same ones."""
    sizes = zip(window.shape, window.strides, strict=True)
    return math.prod(size for size, stride in sizes if stride)


def _blocks(graph: StepGraph, attentions: list[Attention]) -> Iterator[BlockStages]:
    """The additions, grouped into blocks that end with that of the feed-forward part."""
    waiting: list[StreamAddition] = []
    additions = list(_additions(graph, attentions))
    for place, addition in enumerate(additions):
        follower = additions[place + 1] if place + 1 < len(additions) else None
        if addition.kind == "post" and follower is not None and not waiting:
            # Two additions in one module, without a softmax to identify the first (RWKV).
            twin = follower.kind == "post" and follower.module == addition.module
            if twin and addition.module:
                addition = replace(addition, kind="first")
        waiting.append(addition)
        if addition.kind in ("post", "both") or _begins(follower, addition):
            yield _block(waiting)
            waiting = []


def _begins(follower: StreamAddition | None, addition: StreamAddition) -> bool:
    """Whether the next addition begins a block: attention after attention, of another module."""
    if follower is None:
        return True
    module = addition.module
    return follower.kind == "mid" and (not module or follower.module != module)


def _block(additions: list[StreamAddition]) -> BlockStages:
    """The stages of a block's steps. Branches are named only if the block has attention."""
    stages = {"resid_pre": additions[0].stream}
    attends = any(addition.kind in ("mid", "cross") for addition in additions)
    for addition in additions:
        stage, out = _WORDS[addition.kind]
        if out is not None and attends:
            stages[out] = addition.branch
        if addition.parallel is not None:
            stages["attn_out"], stages["mlp_out"] = addition.parallel
        stages["resid_post" if addition is additions[-1] else stage] = addition.total
    path = _common_path([addition.module for addition in additions])
    return BlockStages(path, stages, additions)


_WORDS = {
    "mid": ("resid_mid", "attn_out"),
    "cross": ("resid_cross", "cross_out"),
    "post": ("resid_post", "mlp_out"),
    "both": ("resid_post", None),
    "first": ("resid_mid", None),
}


def _common_path(modules: list[str]) -> str:
    """The innermost module that contains them all; for a list of modules, the list's owner."""
    paths = [module.split(".") for module in modules]
    shared: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            if shared and not shared[-1].isdigit() and all(part.isdigit() for part in parts):
                shared.pop()
            break
        shared.append(parts[0])
    return ".".join(shared)


def _additions(graph: StepGraph, attentions: list[Attention]) -> Iterator[StreamAddition]:
    streams: dict[int, Step] = {}
    for total in graph.steps:
        if total.op != "add" or total.view.ndim < 2:
            continue
        sides = [(writer_of(view), view) for view in views_read(total) if view.shape == total.shape]
        if len(sides) != 2:
            continue
        for (stream, read), (branch, _) in (sides, sides[::-1]):
            if read.numel < stream.view.numel:  # a row of the input of a recurrence
                continue
            stream = _unscaled(stream)
            origin = stream
            if not graph.made_from(branch, stream):  # as in x + attention(x) + feed_forward(x)
                origin = streams.get(id(stream), stream)
            if not graph.made_from(branch, origin):
                continue
            inside = graph.up_to(branch) & ~graph.up_to(stream)
            if inside & graph.matrices:
                weights = [a.weights for a in attentions if inside & graph.bit(a.weights)]
                parallel = _parallel(graph, weights, branch, inside)
                kind = "both" if parallel else _kind(graph, attentions, origin, inside)
                streams[id(total)] = origin
                yield StreamAddition(total, stream, branch, kind, parallel)
                break


def _unscaled(step: Step) -> Step:
    """The stream before it is multiplied by a number (`0.5 * x + …`)."""
    while step.op in ("mul", "div") and len(read := views_read(step)) == 1:
        step = writer_of(read[0])
    return step


def _parallel(
    graph: StepGraph, weights: list[Step], branch: Step, inside: int
) -> tuple[Step, Step] | None:
    """Attention and feed-forward, if a branch is the sum of the two; `weights` are inside it."""
    parts = [writer_of(view) for view in views_read(branch)] if branch.op == "add" else []
    attends = sum(map(graph.bit, weights))
    parts.sort(key=lambda part: not graph.up_to(part) & attends)  # attention first
    if len(parts) != 2 or not attends or graph.up_to(parts[1]) & attends:
        return None
    attention, other = parts
    return (attention, other) if graph.up_to(other) & inside & graph.matrices else None


def _kind(graph: StepGraph, attentions: list[Attention], stream: Step, inside: int) -> str:
    """The part of a block that a branch is, if it is one: see `StreamAddition.kind`."""
    here = [a.stages for a in attentions if inside & graph.bit(a.weights)]
    if not here:
        return "post"
    self_attending = any(graph.up_to(stages["keys"]) & graph.bit(stream) for stages in here)
    return "mid" if self_attending else "cross"


def _turns(steps: list[Step]) -> Iterator[tuple[Step, str]]:
    """The steps of a loop over positions, with their iteration: `t3.numerator`.

    A loop over positions reads another row of one tensor in each iteration, unlike one over layers.
    """
    loops: dict[str, list[list[tuple[Step, int]]]] = defaultdict(list)
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    running: dict[str, bool] = {}
    for step in steps:
        if step.line is None:
            continue
        if not step.line.looped:
            running[step.module] = False
            continue
        if not running.get(step.module):  # the loop starts, perhaps not for the first time
            running[step.module] = True
            counts[step.module].clear()
            loops[step.module].append([])
        turn = counts[step.module][id(step.line)]
        counts[step.module][id(step.line)] += 1
        loops[step.module][-1].append((step, turn))
    for loop in (loop for found in loops.values() for loop in found):
        if _moves_along(loop):
            for step, turn in loop:
                word = step.name.removeprefix(f"{step.module}.").partition(".")[0]
                yield step, f"t{turn}.{word}"


def _moves_along(loop: list[tuple[Step, int]]) -> bool:
    """Whether a line of the loop reads the rows of one tensor in turn."""
    offsets: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for step, _ in loop:
        for argument, view in enumerate(views_read(step)):
            offsets[id(step.line), argument, id(view.version)].append(view.offset)
    turns = 1 + max(turn for _, turn in loop)
    return turns > 1 and any(len(set(read)) == turns for read in offsets.values())


# --- calls ---
# A module that runs again names its stages again: `layer.resid_pre`, `layer.resid_pre.2`.


def stages_called(trace: Trace, *wanted: str) -> dict[str, Step]:
    """The steps of these stages, by name, of every call: `resid_pre` and `resid_pre.2`."""
    return {name: step for name, step in trace.stages.items() if stage_called(name)[1] in wanted}


def stage_called(name: str) -> tuple[str, str, int]:
    """The path, stage and call of a name; a module that runs again makes `path.resid_pre.2`."""
    path, _, last = name.rpartition(".")
    if not last.isdigit():
        return path, last, 1
    path, _, stage = path.rpartition(".")
    return path, stage, int(last)


def attention_name(path: str, call: int) -> str:
    """An attention by its path, and by its call where its module ran before."""
    return path if call == 1 else f"{path} call {call}"
