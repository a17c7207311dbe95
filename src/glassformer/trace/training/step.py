"""`trace_training_step`: forward, backward and update of one training step, every number kept."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from glassformer.errors import TraceError
from glassformer.trace.budget import DEFAULT_BYTES, Budget
from glassformer.trace.calls import Call
from glassformer.trace.labels import read_labels
from glassformer.trace.memory import Version, View
from glassformer.trace.modules import ModulePaths
from glassformer.trace.record import call_inside, sources_of, twice_if_it_differentiates, unwrapped
from glassformer.trace.recording import Labels, Program, Recording, Source
from glassformer.trace.switches import differentiable, recording
from glassformer.trace.trace import Trace
from glassformer.trace.training.agreement import Agreement
from glassformer.trace.training.backward import Backward, ForwardPass
from glassformer.trace.training.optimisers import Updates
from glassformer.trace.training.scribe import Scribe, TrainingRecorder

Loss = Callable[[Any], Tensor]


def trace_training_step(
    model: nn.Module,
    /,
    *args: Any,
    loss: Loss,
    optimiser: Optimizer,
    axis_labels: Labels | None = None,
    max_bytes: int = DEFAULT_BYTES,
    **kwargs: Any,
) -> Trace:
    """Train a model by one step and record all of it: forward, backward, update.

        t = trace_training_step(
            model, ids,
            loss=lambda logits: F.cross_entropy(logits.flatten(0, 1), targets.flatten()),
            optimiser=torch.optim.AdamW(model.parameters(), lr=1e-3),
        )
        t["gradients.encoder.blocks.0.attention.to_queries.weight"][2, 5].explain()
        t["update.encoder.blocks.0.attention.to_queries.weight.weight"][2, 5].explain(depth=3)

    `loss` takes what the model returns and gives one number. The model runs in the mode it is in;
    in training mode the dropout masks are kept as constants. Afterwards the model and the
    optimiser are exactly as after `optimiser.zero_grad()`, `backward()` and `optimiser.step()`:
    that ordinary step is made, too, with the same random numbers, and the trace is held against
    it. The model and the loss therefore run twice.
    """
    module = unwrapped(model)
    if not isinstance(module, nn.Module):
        raise TraceError(f"expected a module to train, got {type(module).__name__}")
    labels = read_labels(axis_labels)

    def record(program: Program) -> _Step:
        step = _Step(program, module, loss, optimiser, labels)
        with _as_it_was(module):
            step.record()
        return step

    program = Program(module, args, kwargs, max_bytes, reruns=False)
    step = twice_if_it_differentiates(record, program)
    step.make()
    return step.trace()


class _Step:
    """One step: first recorded, then made."""

    def __init__(
        self,
        program: Program,
        module: nn.Module,
        loss: Loss,
        optimiser: Optimizer,
        labels: Labels,
    ) -> None:
        self._program, self._module = program, module
        self._loss, self._optimiser, self._labels = loss, optimiser, labels
        budget = Budget(program.max_bytes)
        self._recorder = TrainingRecorder(ModulePaths(module, budget), budget, call_inside.__code__)
        self._names = _parameter_names(module, optimiser)
        self._sources = list(sources_of(self._recorder, program))
        self._sources += self._loss_inputs()
        self._sources += self._other_parameters()
        self._updates = Updates(self._recorder, optimiser, self._names)
        self._sources += self._updates.sources
        self._outputs: dict[str, View] = {}
        self._gradients: dict[str, Tensor] = {}
        self._backward_calls: list[Call] = []
        self._weights: dict[str, Tensor] = {}
        self._notes: list[str] = []

    def record(self) -> None:
        """Compute the step under the recorder; the model's weights stay as they are."""
        with recording(self._recorder):
            call_inside(self._run, (), {})
        for source in self._sources:
            if source.role != "input":  # the step about to be made overwrites these
                source.view.version.freeze()
        self._put_back()

    def _put_back(self) -> None:
        """Tensors that are no buffers, and were written to, as they were before the recording.

        Running statistics may be plain attributes. The step about to be made moves them once more.
        """
        first = {id(found.view.version): found.view.version for found in self._recorder.found}
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
        with differentiable(program.differentiates):
            result = self._module(*program.args, **program.kwargs)
            value = self._loss(result)
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise TraceError(f"the loss must be one number, got {shape}")
        loss = self._outputs["loss"] = self._recorder.view_of(value)
        for call in self._recorder.calls:
            if any(view is not None and view.version is loss.version for view in call.outputs):
                call.origin = replace(call.origin, targets=("loss",), owner="", visit=-1)
        forward = ForwardPass(self._recording(), self._trainable())
        scribe = Scribe(self._recorder)
        start = len(self._recorder.calls)
        self._gradients = Backward(self._recorder, forward, scribe).run(loss)
        self._backward_calls = self._recorder.calls[start:]
        self._weights = self._updates.run(scribe, self._gradients)
        scribe.finish()

    def make(self) -> None:
        """The ordinary step, and whether the recorded one agrees with it."""
        self._optimiser.zero_grad()
        program = self._program
        with torch.enable_grad():
            self._loss(self._module(*program.args, **program.kwargs)).backward()
        name = type(self._optimiser).__name__
        agreement = Agreement(self._parameters(), name, self._backward_calls)
        agreement.compare_gradients(self._gradients)
        self._optimiser.step()
        agreement.compare_weights(self._weights, self._updates.method.rescales)
        self._notes += agreement.notes

    def trace(self) -> Trace:
        """The trace of the recorded step."""
        return Trace(self._recording())

    def _recording(self) -> Recording:
        recorder = self._recorder
        return Recording(
            self._program, self._sources, recorder.found, recorder.calls, recorder.views,
            dict(self._outputs), self._labels, list(self._notes),
        )  # fmt: skip

    def _parameters(self) -> dict[str, nn.Parameter]:
        """The parameters by name, a tied one once."""
        found: dict[str, nn.Parameter] = dict(self._module.named_parameters())
        for group in self._optimiser.param_groups:
            found.update({self._names[id(p)]: p for p in group["params"]})
        return found

    def _trainable(self) -> dict[str, View]:
        return {
            name: self._recorder.view_of(parameter)
            for name, parameter in self._parameters().items()
            if parameter.requires_grad
        }

    def _other_parameters(self) -> Iterator[Source]:
        """Parameters that the optimiser has and the model has not: those of the loss."""
        known = {id(parameter) for parameter in self._module.parameters()}
        for name, parameter in self._parameters().items():
            if id(parameter) not in known:
                yield Source(name, self._recorder.adopt(parameter), "parameter")

    def _loss_inputs(self) -> Iterator[Source]:
        """The tensors that the loss brings along, by their names there: the targets."""
        if not inspect.isfunction(self._loss):
            return
        around = inspect.getclosurevars(self._loss)
        taken = {source.name for source in self._sources}
        for name, value in {**around.globals, **around.nonlocals}.items():
            if isinstance(value, Tensor) and name not in taken:
                yield Source(name, self._recorder.adopt(value), "input")


def _parameter_names(module: nn.Module, optimiser: Optimizer) -> dict[int, str]:
    """The name of each parameter, by identity."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for number, group in enumerate(optimiser.param_groups):
        for place, parameter in enumerate(group["params"]):
            names.setdefault(id(parameter), f"optimiser.group_{number}.parameter_{place}")
    return names


@contextmanager
def _as_it_was(module: nn.Module) -> Iterator[None]:
    """Random numbers and buffers (running statistics) as they were, after the block."""
    state = torch.get_rng_state()
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        torch.set_rng_state(state)
        for buffer, before in buffers:
            if not torch.equal(buffer, before):
                buffer.copy_(before)
