"""`trace_training_step`: every number of the forward, backward and update of a training step."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing.capture.memory import DEFAULT_BYTES, Index, Version, View
from glassformer.tracing.capture.record import (
    sources_of,
    twice_if_it_differentiates,
    unwrapped,
)
from glassformer.tracing.capture.recorder import (
    Labels,
    Program,
    Recording,
    Source,
    collection_paused,
    differentiable,
    recording,
)
from glassformer.tracing.capture.source_lines import call_inside
from glassformer.tracing.cells import Cell
from glassformer.tracing.formula import number
from glassformer.tracing.gradients.agreement import Agreement
from glassformer.tracing.gradients.backward import (
    Backward,
    ForwardPass,
    Scribe,
    TrainingRecorder,
    no_gradient,
)
from glassformer.tracing.gradients.optimisers import Updates
from glassformer.tracing.notes import ShownAsText
from glassformer.tracing.steps import Step, read_labels
from glassformer.tracing.trace import Trace

LossOfOutput = Callable[[Any], Tensor]


def trace_training_step(
    model: nn.Module,
    /,
    *args: Any,
    loss: LossOfOutput,
    optimiser: Optimizer,
    axis_labels: Labels | None = None,
    max_bytes: int = DEFAULT_BYTES,
    **kwargs: Any,
) -> Trace:
    """Train a model for one step and record all of it: forward, backward, update.

        t = trace_training_step(
            model, ids,
            loss=lambda logits: F.cross_entropy(logits.flatten(0, 1), targets.flatten()),
            optimiser=torch.optim.AdamW(model.parameters(), lr=1e-3),
        )
        t["gradients.encoder.blocks.0.attention.to_queries.weight"][2, 5].explain()
        t["update.encoder.blocks.0.attention.to_queries.weight.weight"][2, 5].explain(depth=3)

    `loss` maps the model's output to one number. The model runs in its current mode; in training
    mode, dropout masks are recorded as constants. Afterwards the model and the optimiser are
    exactly as after `optimiser.zero_grad()`, `backward()` and `optimiser.step()`: this ordinary
    step is made as well, with the same random numbers, and compared with the trace. The model and
    the loss therefore run twice.
    """
    module = unwrapped(model)
    if not isinstance(module, nn.Module):
        raise TraceError("expected a module to train, got {kind}", kind=type(module).__name__)
    labels = read_labels(axis_labels)

    def record(program: Program) -> _Step:
        step = _Step(program, module, loss, optimiser, labels)
        with torch.random.fork_rng(devices=[]), _buffers_kept(module):
            step.record()
        return step

    program = Program(module, args, kwargs, max_bytes, reruns=False)
    with collection_paused():
        step = twice_if_it_differentiates(record, program)
        step.make()
        return step.trace()


class _Step:
    """One step: first recorded, then actually made."""

    def __init__(
        self,
        program: Program,
        module: nn.Module,
        loss: LossOfOutput,
        optimiser: Optimizer,
        labels: Labels,
    ) -> None:
        self._program, self._module = program, module
        self._loss, self._optimiser, self._labels = loss, optimiser, labels
        self._recorder = TrainingRecorder(program)
        self._names = _parameter_names(module, optimiser)
        self._sources = list(sources_of(self._recorder, program))
        self._sources += self._loss_inputs()
        self._sources += self._other_parameters()
        self._updates = Updates(self._recorder, optimiser, self._names)
        self._sources += self._updates.sources
        self._trainable = {
            name: self._recorder.view_of(parameter)
            for name, parameter in self._parameters().items()
            if parameter.requires_grad
        }
        self._outputs: dict[str, View] = {}
        self._gradients: dict[str, Tensor] = {}
        self._weights: dict[str, Tensor] = {}
        self._notes: list[str] = []

    def record(self) -> None:
        """Compute the step under the recorder, without changing the model's weights."""
        with recording(self._recorder):
            call_inside(self._run, (), {})
        for source in self._sources:
            if source.role != "input":  # the step about to be made overwrites these
                source.view.version.freeze()
        self._put_back()

    def _put_back(self) -> None:
        """Restore tensors that the recording wrote to: the actual step will do so again.

        Running statistics may be plain attributes, and a parameter may be clipped under no_grad.
        """
        given = [source.view.version for source in self._sources]
        given += [found.view.version for found in self._recorder.found]
        first = {id(version): version for version in given}
        newest: dict[int, tuple[Version, Version]] = {}
        for call in self._recorder.calls:
            for old, new in call.writes:
                root = first.get(id(old))
                if root is not None:
                    first[id(new)] = root
                    newest[id(root)] = (root, new)
        for root, new in newest.values():
            live = new.storage
            new.freeze()
            live.copy_(root.storage)

    def _run(self) -> None:
        program = self._program
        with differentiable(program.differentiates), torch.enable_grad():
            result = self._module(*program.args, **program.kwargs)
            value = self._loss(result)
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise TraceError("the loss must be one number, got {shape}", shape=shape)
        loss = self._outputs["loss"] = self._recorder.view_of(value)
        for call in self._recorder.calls:
            if any(view is not None and view.version is loss.version for view in call.outputs):
                call.origin = replace(call.origin, targets=("loss",), owner="", visit=-1)
        forward = ForwardPass(self._recording(), self._trainable)
        scribe = Scribe(self._recorder)
        self._backward = Backward(self._recorder, forward, scribe)
        self._gradients = self._backward.run(loss)
        self._weights = self._updates.run(scribe, self._gradients)
        scribe.finish()

    def make(self) -> None:
        """Make the ordinary step and compare the recorded one with it."""
        self._optimiser.zero_grad()
        program = self._program
        with torch.enable_grad():
            loss = self._loss(self._module(*program.args, **program.kwargs))
        if not loss.requires_grad:
            raise no_gradient()
        agreement = Agreement(
            self._parameters(),
            type(self._optimiser).__name__,
            self._backward,
            self._outputs["loss"].tensor(),
            loss,
        )
        try:
            loss.backward()
        except RuntimeError as error:
            raise self._refused(error) from error
        agreement.compare_gradients(self._gradients)
        self._optimiser.step()
        agreement.compare_weights(self._weights, self._updates.method.rescales)
        self._notes += agreement.notes

    def _refused(self, error: RuntimeError) -> TraceError:
        """The error for torch's refusal; it names parameters that were written to after a read."""
        said = str(error).partition(". ")[0].partition("\n")[0]
        parameters = {s.view.version: s.name for s in self._sources if s.role == "parameter"}
        written = {
            call.operator.name: parameters[old.first]
            for call in self._recorder.calls
            for old, _ in call.writes
            if old.first in parameters
        }
        if not written or "inplace" not in said:
            return TraceError(
                "torch itself refuses the backward pass of this model: {error}", error=said
            )
        return TraceError(
            "torch itself refuses the backward pass of this model, in which {operators} writes to "
            "{names}: {error}",
            operators=", ".join(written), names=", ".join(dict.fromkeys(written.values())),
            error=said,
        )  # fmt: skip

    def trace(self) -> Trace:
        return Trace(self._recording())

    def _recording(self) -> Recording:
        recorder = self._recorder
        return Recording(
            self._program, self._sources, recorder.found, recorder.calls, recorder.views,
            dict(self._outputs), self._labels, list(self._notes),
        )  # fmt: skip

    def _parameters(self) -> dict[str, nn.Parameter]:
        """The parameters by name; tied ones appear once."""
        found: dict[str, nn.Parameter] = dict(self._module.named_parameters())
        for group in self._optimiser.param_groups:
            found.update({self._names[id(p)]: p for p in group["params"]})
        return found

    def _other_parameters(self) -> Iterator[Source]:
        """Parameters of the optimiser that are not the model's: those of the loss."""
        known = {id(parameter) for parameter in self._module.parameters()}
        for name, parameter in self._parameters().items():
            if id(parameter) not in known:
                yield Source(name, self._recorder.adopt(parameter), "parameter")

    def _loss_inputs(self) -> Iterator[Source]:
        """The tensors that the loss function refers to, by name: the targets."""
        if not inspect.isfunction(self._loss):
            return
        around = inspect.getclosurevars(self._loss)
        taken = {source.name for source in self._sources}
        for name, value in {**around.globals, **around.nonlocals}.items():
            if isinstance(value, Tensor) and name not in taken:
                yield Source(name, self._recorder.adopt(value), "input")


def _parameter_names(module: nn.Module, optimiser: Optimizer) -> dict[int, str]:
    """Parameter names by identity."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for place, group in enumerate(optimiser.param_groups):
        for within, parameter in enumerate(group["params"]):
            names.setdefault(id(parameter), f"optimiser.group_{place}.parameter_{within}")
    return names


@contextmanager
def _buffers_kept(module: nn.Module) -> Iterator[None]:
    """Restore the module's buffers (running statistics) after the block."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, before in buffers:
            if not torch.equal(buffer, before):
                buffer.copy_(before)


# --- why a weight changed ---

_GROUP = re.compile(r"update(\.group_\d+)?")
# In the order of computation; each optimiser has some of them.
_SHARED = (
    "learning_rate", "step", "bias_correction_1", "bias_correction_2", "rate", "step_size",
    "share_of_new", "share_kept",
)  # fmt: skip
_OWN = (
    "turned_gradient", "gradient_with_decay", "step_size", "decayed_weight", "first_moment",
    "second_moment", "largest_second_moment", "sum_of_squares", "row_variance", "column_variance",
    "variance", "corrected_deviation", "reciprocal_deviation", "divisor", "scaled_gradient",
    "velocity", "momentum", "direction", "orthogonal", "clipped_step_size", "change",
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Move(ShownAsText):
    """One weight before and after a step, and the cells that explain its change."""

    before: Cell
    gradient: Cell
    after: Cell
    remembered: dict[str, Cell]
    """The optimiser's state for this weight: its moments or its velocity."""
    shared: dict[str, Cell]
    """The numbers shared by all weights: learning rate, bias corrections, step size."""
    steps: dict[str, Cell]
    """The intermediate results for this weight, in order."""

    def __str__(self) -> str:
        change = float(self.after.value) - float(self.before.value)
        lines = [
            f"{self.before.name}: {number(self.before.value)} → {number(self.after.value)} "
            f"({change:+.4g})",
            f"  gradient = {number(self.gradient.value)}: {self.gradient.formula}",
        ]
        lines += [f"  {name} before = {number(c.value)}" for name, c in self.remembered.items()]
        for name, cell in (self.shared | self.steps | {"new weight": self.after}).items():
            arithmetic = f" = {cell.numbers}" if cell.expression is not None else ""
            lines.append(f"  {name}{arithmetic} = {number(cell.value)}")
        return "\n".join(lines)


def why_moved(trace: Trace, parameter: str, index: int | tuple[int, ...]) -> Move:
    """Why one weight has its value after a traced training step."""
    moved = {
        step.module.removeprefix("update.")
        for step in trace.steps
        if step.module.startswith("update.") and step.name == f"{step.module}.weight"
    }
    if parameter not in moved:
        raise UnknownNameError("parameter that moved", parameter, moved)
    own = f"update.{parameter}"
    before = trace[parameter][index]
    if not isinstance(before, Cell):
        raise TraceError(
            "a cell of {name} is one number: its index is one whole number per axis of "
            "{shape}, got {index!r}; a part of the tensor is .value[…]",
            name=parameter,
            shape=trace[parameter].shape,
            index=index,
        )

    def cells(steps: Iterable[Step]) -> dict[str, Cell]:
        return {_word(step): step[_place(step, before.index)] for step in steps}

    kept = (step for step in trace.constants.values() if step.module == f"state.{parameter}")
    shared = sorted(_shared(trace, own), key=lambda step: _SHARED.index(_word(step)))
    steps = (trace[f"{own}.{name}"] for name in _OWN if f"{own}.{name}" in trace)
    return Move(
        before=before,
        gradient=trace[f"gradients.{parameter}"][index],
        after=trace[f"{own}.weight"][index],
        remembered=cells(kept),
        shared=cells(shared),
        steps=cells(steps),
    )


def _word(step: Step) -> str:
    """The name of a step inside its module, without the number of a repeat."""
    return step.name.removeprefix(f"{step.module}.").partition(".")[0]


def _shared(trace: Trace, own: str) -> list[Step]:
    """The numbers that an update reads and shares with others of its group, and their sources."""
    found: dict[str, Step] = {}
    waiting = [step for step in trace.steps if step.module == own]
    while waiting:
        read = (operand.step for operand in waiting.pop().operands)
        fresh = [step for step in read if step is not None and step.name not in found]
        fresh = [step for step in fresh if step.module != own and _GROUP.fullmatch(step.module)]
        found.update({step.name: step for step in fresh})
        waiting += fresh
    return [step for step in found.values() if _word(step) in _SHARED]


def _place(step: Step, index: Index) -> Index:
    """A parameter's cell in a step that may have one number per row or column, or for all."""
    if not step.shape:
        return ()
    return tuple(i if size > 1 else 0 for i, size in zip(index, step.shape, strict=True))
