"""The backward pass, operator by operator: from the loss back through the recorded forward pass.

Each operator of the forward pass computes the gradients of its operands, last operator first. A
tensor that several operators read gets one contribution from each; they are summed when the
operator that computed the tensor is reached. All of this runs under the recorder, so a gradient is
a step like any other, named after its tensor: `gradients.blocks.0.scores`.

An operator may have read a window on another operator's output: heads are views of a projection, a
mask is expanded, a row is selected. The gradient arrives in the shape of the window and is needed
in the shape of the whole tensor.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from glassformer.errors import TraceError
from glassformer.tracing.arithmetic import rules
from glassformer.tracing.capture.memory import Version, View, as_real
from glassformer.tracing.capture.module_stack import join
from glassformer.tracing.capture.operator_calls import Call, Operator, as_list, operator_of
from glassformer.tracing.capture.recorder import Program, Recorder, Recording
from glassformer.tracing.capture.source_lines import Line, Origin
from glassformer.tracing.gradients import derivatives
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace

# --- the forward pass: its operators, names and tensors ---


@dataclass(frozen=True, slots=True)
class Title:
    """A tensor's name, and the module it belongs to."""

    name: str
    module: str

    def gradient(self, suffix: str = "") -> Title:
        """That of its gradient, which belongs to a branch of the tree of its own."""
        return Title(f"gradients.{self.name}{suffix}", f"gradients.{self.module}".rstrip("."))

    def below(self, word: str) -> Title:
        """That of a part, in the same module."""
        return Title(join(self.name, word), self.module)

    def beside(self, other: Title) -> str:
        """The name without the modules it shares with another."""
        own, known = self.name.split("."), other.name.split(".")
        while len(own) > 1 and known and own[0] == known[0]:
            own, known = own[1:], known[1:]
        return ".".join(own)


class ForwardPass:
    """A finished forward pass."""

    def __init__(self, recording: Recording, parameters: dict[str, View]) -> None:
        self.calls: list[Call] = list(recording.calls)
        self.parameters = parameters
        """Those that require a gradient, before the pass; a tied one under one of its names."""
        self._titles: dict[int, Title] = {}
        self._wholes: dict[int, View] = {}
        self._views: dict[int, list[tuple[Title, View]]] = defaultdict(list)
        """The named views of a version, by its identity."""
        self._read_names(recording)

    def title(self, version: Version) -> Title:
        """The name of the tensor that filled a storage."""
        return self._titles[id(version)]

    def whole(self, version: Version) -> View:
        """The tensor that a storage was created for; writes to parts of it do not change this."""
        if version.base is not None:
            return self.whole(version.base).on(version)
        return self._wholes[id(version)]

    def view_title(self, view: View) -> Title | None:
        """The name that the source gives to exactly this view, if any."""
        views = self._views.get(id(view.version), ())
        return next((title for title, known in views if same(known, view)), None)

    def _read_names(self, recording: Recording) -> None:
        """Take the names from a trace of the forward pass alone."""
        trace = Trace(recording)
        given = [*trace.parameters.values(), *trace.inputs.values(), *trace.constants.values()]
        for step in [*given, *trace.steps]:
            self._note(step)
        for step in trace.views:
            named = Title(step.name, step.module), step.view
            self._views[id(step.view.version)].append(named)
        for step in [*given, *trace.steps]:  # the trace of the whole step names them again
            step.view.version.owners.clear()

    def _note(self, step: Step) -> None:
        version = step.view.version
        known = self._wholes.setdefault(id(version), step.view)
        if not same(known, step.view) and step.role == "parameter":
            raise TraceError(
                "{name} and {other} share memory but are different tensors: their gradients "
                "cannot be traced",
                name=step.name,
                other=self._titles[id(version)].name,
            )
        self._titles.setdefault(id(version), Title(step.name, step.module))


# --- the pass ---


@dataclass(frozen=True, slots=True)
class _Contribution:
    """A part of a tensor's gradient, and the step it came through."""

    gradient: Tensor
    through: Title


class Backward:
    """One backward pass. After `run`, `gradients` holds those of the parameters."""

    def __init__(self, recorder: TrainingRecorder, forward: ForwardPass, scribe: Scribe) -> None:
        self._recorder = recorder
        self._forward = forward
        self._scribe = scribe
        self._parts: dict[int, list[_Contribution]] = defaultdict(list)
        self._claimed: set[str] = set()
        self._active = {id(view.version) for view in forward.parameters.values()}
        """The versions computed from parameters, by identity."""
        for call in forward.calls:
            self._follow(call)
        self.differentiates = not recorder.follows_stops
        self.contributions: list[Tensor] = []
        """Every gradient before it is added to others."""
        self.rounding = 0.0
        """The relative rounding error of all operators up to here: each rounds to its dtype."""

    def run(self, loss: View) -> dict[str, Tensor]:
        """The gradient of each parameter that the loss depends on, by name."""
        if id(loss.version) not in self._active:
            raise self._independent()
        one = torch.ones_like(self._recorder.tensor_of(loss))
        self._add(loss, one, self._forward.title(loss.version))
        for call in reversed(self._forward.calls):
            self._through(call)
        gradients = {
            name: self._total(view.version)
            for name, view in self._forward.parameters.items()
            if id(view.version) in self._parts
        }
        self.rounding = math.hypot(*map(_rounding, self._recorder.calls))
        return gradients

    def _is_active(self, view: View) -> bool:
        """Whether an operand has a gradient."""
        computed = id(view.version) in self._active and view.dtype.is_floating_point
        return computed and not self._recorder.is_stopped(view)

    def _follow(self, call: Call) -> None:
        """Note which versions a call computes from parameters."""
        if any(map(self._is_active, call.inputs())) and not _is_constant(call.operator):
            made = (view for view in call.outputs if view is not None)
            self._active |= {id(view.version) for view in made if view.dtype.is_floating_point}
        self._active |= {id(new) for old, new in call.writes if id(old) in self._active}

    def _independent(self) -> TraceError:
        """The error for a loss without a gradient."""
        if not self.drawn:
            return no_gradient()
        return TraceError(
            "the loss depends on parameters only through {operators}: the trace takes random "
            "numbers as given and does not differentiate them",
            operators=self.drawn,
        )

    @property
    def drawn(self) -> str:
        """The operators that draw random numbers from something that depends on parameters."""
        names = {
            call.operator.name
            for call in self._forward.calls
            if _is_constant(call.operator)
            and not rules.is_unwritten(call.operator)
            and any(map(self._is_active, call.inputs()))
        }
        return ", ".join(sorted(names))

    def _through(self, call: Call) -> None:
        """Propagate the gradient of a call's outputs to its inputs."""
        made = {
            id(view.version): view.version
            for view in call.outputs
            if view is not None and id(view.version) in self._parts
        }
        if not made:
            return
        totals = {key: self._total(version) for key, version in made.items()}
        title = self._forward.title(next(iter(made.values())))
        with self._scribe.about(title.gradient(), call.origin.line):
            incoming = [
                None
                if view is None or id(view.version) not in totals
                else view.given(
                    cut(totals[id(view.version)], view, self._forward.whole(view.version))
                )
                for view in call.outputs
            ]
            if self._writes_unseen(call, totals, title):
                return
            self._keep_unwritten(call, totals, title)
            arguments = call.tensors()
            for argument, gradient in self._derived(call, title, incoming, arguments):
                view = arguments[argument]
                gradient = as_real(gradient)
                assert gradient.shape == view.shape, f"{call.operator.name}: {argument}"
                self._add(view, gradient.to(view.dtype), title)

    def _derived(
        self, call: Call, title: Title, incoming: list[Tensor | None], arguments: dict[str, View]
    ) -> Iterator[tuple[str, Tensor]]:
        wanted = frozenset(name for name, view in arguments.items() if self._is_active(view))
        if not wanted or _is_constant(call.operator):
            return

        def note(name: str, tensor: Tensor) -> Tensor:
            return self._scribe.claim(tensor, Title(f"{title.name}.{name}", title.module))

        forward = derivatives.Forward(call, wanted, self._recorder.tensor_of, note)
        yield from derivatives.differentiate(forward, incoming)

    def _writes_unseen(self, call: Call, totals: dict[int, Tensor], title: Title) -> bool:
        """A write past autograd (`weight.data.clamp_(0)`): to autograd the tensor is the same."""
        if not any(map(self._recorder.is_stopped, call.written())):
            return False
        for old, new in call.writes:
            if id(new) in totals:
                self._add(self._forward.whole(new).on(old), totals[id(new)], title)
        return True

    def _keep_unwritten(self, call: Call, totals: dict[int, Tensor], title: Title) -> None:
        """In a partly overwritten tensor, the other cells keep their gradient."""
        for old, new in call.writes:
            view = next((v for v in call.outputs if v is not None and v.version is new), None)
            if view is None or id(old) not in self._active:
                continue
            whole = self._forward.whole(new)
            if not same(view, whole):
                self._add(whole.on(old), without(totals[id(new)], view, whole), title)

    def _add(self, view: View, gradient: Tensor, through: Title) -> None:
        """Add a contribution to the gradient of the tensor behind a view."""
        whole = self._forward.whole(view.version)
        if not same(view, whole):
            seen = self._forward.view_title(view)
            if seen is not None and seen.name not in self._claimed:
                self._claim(gradient, seen, "")
        part = spread(gradient, view, whole)
        self.contributions.append(part)
        self._parts[id(view.version)].append(_Contribution(part, through))

    def _total(self, version: Version) -> Tensor:
        """The gradient of a tensor: its contributions, added in order of arrival."""
        parts, title = self._parts.pop(id(version)), self._forward.title(version)
        if len(parts) == 1:
            return self._claim(parts[0].gradient, title, "")
        for part in parts:
            self._claim(part.gradient, title, f".through.{part.through.beside(title)}")
        total = parts[0].gradient
        for part in parts[1:-1]:
            total = self._claim(total + part.gradient, title, ".sum")
        return self._claim(total + parts[-1].gradient, title, "")

    def _claim(self, gradient: Tensor, title: Title, suffix: str) -> Tensor:
        self._claimed.add(title.name)
        return self._scribe.claim(gradient, title.gradient(suffix))


def no_gradient() -> TraceError:
    """The error for a loss that no parameter moves."""
    return TraceError(
        "the loss does not depend on any parameter that requires a gradient, or detach, no_grad or "
        "an operator without a derivative cuts it off"
    )


def _is_constant(operator: Operator) -> bool:
    """Whether an operator's numbers are given, such as random ones, and have no derivative."""
    return rules.is_given(operator) and not derivatives.has_own(operator)


def _rounding(call: Call) -> float:
    """What its results are rounded to: under autocast, more coarsely than the parameters."""
    made = [view.dtype for view in call.outputs if view is not None]
    return max((torch.finfo(d).eps for d in made if d.is_floating_point or d.is_complex), default=0)


# --- windows ---


def same(one: View, other: View) -> bool:
    """Whether two windows show the same cells at the same positions."""
    return (one.shape, one.offset) == (other.shape, other.offset) and all(
        a == b or size == 1
        for a, b, size in zip(one.strides, other.strides, one.shape, strict=True)
    )


def spread(gradient: Tensor, window: View, whole: View) -> Tensor:
    """The gradient of a window as a gradient of the whole tensor, 0 outside the window."""
    if same(window, whole):
        return gradient
    repeated = [
        axis
        for axis, (size, stride) in enumerate(zip(window.shape, window.strides, strict=True))
        if stride == 0 and size > 1
    ]
    if repeated:
        gradient = gradient.sum(repeated, keepdim=True)
    sizes = [1 if axis in repeated else size for axis, size in enumerate(window.shape)]
    order = sorted(range(window.ndim), key=lambda axis: -window.strides[axis])
    place = window.offset - whole.offset
    if window.overlaps:  # as `unfold` and `as_strided` make it
        sums = gradient.new_zeros(_extent(whole))
        sums = sums.index_add(0, _addresses(window, sizes, place), gradient.reshape(-1))
        return sums.as_strided(whole.shape, whole.strides, 0)
    if math.prod(sizes) == whole.numel and _is_dense(whole):
        return _rearranged(gradient.permute(order), whole)
    canvas = gradient.new_zeros(_extent(whole))
    canvas.as_strided(sizes, window.strides, place).copy_(gradient)
    return canvas.as_strided(whole.shape, whole.strides, 0)


def cut(gradient: Tensor, window: View, whole: View) -> Tensor:
    """The part of a whole tensor's gradient inside a window."""
    if same(window, whole):
        return gradient
    canvas = _canvas(gradient, whole)
    return canvas.as_strided(window.shape, window.strides, window.offset - whole.offset)


def without(gradient: Tensor, window: View, whole: View) -> Tensor:
    """A whole tensor's gradient with 0 inside a window."""
    canvas = _canvas(gradient, whole)
    canvas.as_strided(window.shape, window.strides, window.offset - whole.offset).zero_()
    return canvas.as_strided(whole.shape, whole.strides, 0)


def _canvas(gradient: Tensor, whole: View) -> Tensor:
    """The memory of a whole tensor, with its gradient in it."""
    canvas = gradient.new_zeros(_extent(whole))
    canvas.as_strided(whole.shape, whole.strides, 0).copy_(gradient)
    return canvas


def _rearranged(in_memory_order: Tensor, whole: View) -> Tensor:
    """From memory order to the axes of the whole tensor."""
    order = sorted(range(whole.ndim), key=lambda axis: -whole.strides[axis])
    back = sorted(range(whole.ndim), key=lambda place: order[place])
    rearranged = in_memory_order.reshape([whole.shape[axis] for axis in order]).permute(back)
    # One copy here, so that a product over all positions finds them in a row, as in autograd.
    return rearranged.contiguous()


def _extent(view: View) -> int:
    """The places in memory from a window's first cell to its last."""
    if not view.numel:
        return 0
    return 1 + sum((size - 1) * s for size, s in zip(view.shape, view.strides, strict=True))


def _is_dense(view: View) -> bool:
    return _extent(view) == view.numel


def _addresses(window: View, sizes: list[int], start: int) -> Tensor:
    """The address of each cell of a window; not recorded as a step."""
    with _disable_current_modes():
        addresses = torch.tensor(start)
        for axis, size in enumerate(sizes):
            addresses = addresses.unsqueeze(-1) + torch.arange(size) * window.strides[axis]
        return addresses.reshape(-1)


# --- names ---
#
# No source line assigns gradients and updates, so the trace names them: a tensor is claimed under a
# name, and at the end every operator since the forward pass gets its names and its place in the
# tree. A claimed tensor that is only a view of another (a gradient passed on by an addition) gets
# its name as a view.


class TrainingRecorder(Recorder):
    """Records the forward pass as `trace` does, and provides its tensors to the backward pass.

    It also follows `detach` and `no_grad`, unless the model computes gradients itself: then
    autograd detaches tensors, too. A detached tensor shares the memory of its original, so that
    only the tensor itself can tell them apart.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.follows_stops = not program.differentiates
        self._stopped: set[int] = set()
        self._arguments: set[int] = set()
        """The tensors passed to the operator that runs, by identity."""

    def is_stopped(self, view: View) -> bool:
        """Whether an operator read this argument through a `detach`, or under `no_grad`."""
        return id(view) in self._stopped

    def _views(self, values: Iterable[Any], origin: Origin) -> list[Any]:
        values = list(values)
        viewed, paused = super()._views(values, origin), not torch.is_grad_enabled()
        if self._sees_stops():
            self._arguments |= {id(value) for value in values if isinstance(value, Tensor)}
            self._stopped |= {
                id(view)
                for value, view in zip(values, viewed, strict=True)
                if isinstance(view, View) and (paused or hasattr(value, _STOPPED))
            }
        return viewed

    def _note_result(self, call: Call, result: Any) -> None:
        super()._note_result(call, result)
        given, self._arguments = self._arguments, set()
        if not self._sees_stops() or not self.views or self.views[-1] is not call:
            return
        detaches = call.operator.name == "detach"
        if not detaches and not any(map(self.is_stopped, call.inputs())):
            return
        for tensor in as_list(result):
            # Without a detach, what was passed in is as before: under no_grad, `weight.to(dtype)`
            # may be the weight itself. An output that was not asked for is None.
            if isinstance(tensor, Tensor) and (detaches or id(tensor) not in given):
                setattr(tensor, _STOPPED, True)

    def _sees_stops(self) -> bool:
        """Not inside an autograd function of the model's own, which runs without gradients."""
        return self.follows_stops and torch._C._is_fwd_grad_enabled()

    def tensor_of(self, view: View) -> Tensor:
        """A recorded tensor, for an operator run by the trace itself."""
        with _disable_current_modes():
            tensor = view.given()
        self._versions.setdefault(int(tensor.untyped_storage()._cdata), view.version)
        return tensor


_STOPPED = "_glassformer_stopped"
"""The attribute of a tensor behind a `detach`; views of it get it, too."""


class Scribe:
    """Collects the names of the operators that run from now on."""

    def __init__(self, recorder: TrainingRecorder) -> None:
        self._recorder = recorder
        self._start = len(recorder.calls)
        self._names: dict[tuple[int, int], Title] = {}
        self._hints: dict[tuple[int, int], Title] = {}
        self._aliases: list[tuple[Title, View]] = []
        self._about: dict[int, tuple[Title, Line | None]] = {}
        self._made_by: dict[int, tuple[Call, int]] = {}
        self._seen = self._start

    @contextmanager
    def about(self, title: Title, line: Line | None) -> Iterator[None]:
        """Whatever the block computes belongs to this title, unless it is claimed separately."""
        start = len(self._recorder.calls)
        yield
        for call in self._recorder.calls[start:]:
            self._about.setdefault(call.number, (title, line))

    def claim(self, tensor: Tensor, title: Title) -> Tensor:
        """Give a tensor a title; returns the tensor."""
        view = self._recorder.view_of(tensor)
        made = self._maker(view)
        if made is None:
            self._aliases.append((title, view))
            return tensor
        call, output = made
        key, own = (call.number, output), call.outputs[output]
        assert own is not None
        if own.window == view.window and key not in self._names:
            self._names[key] = title
        else:
            self._hints.setdefault(key, title.below(_word(call)))
            self._aliases.append((title, view))
        return tensor

    def finish(self) -> None:
        """Assign the names to the recorded operators."""
        for call in self._recorder.calls[self._start :]:
            about, line = self._about.get(call.number, (Title("gradients", "gradients"), None))
            fallback = about.below(_word(call))
            titles = [
                self._names.get(key) or self._hints.get(key) or fallback
                for key in ((call.number, output) for output in range(len(call.outputs)))
            ]
            call.origin = _origin(titles or [fallback], line, call.number)
        for title, view in self._aliases:
            origin = _origin([title], None, -1)
            alias = operator_of(torch.ops.aten.alias.default)
            self._recorder.views.append(Call(-1, alias, (view,), {}, origin, outputs=(view,)))

    def _maker(self, view: View) -> tuple[Call, int] | None:
        """The operator since the start that computed a tensor, and the number of its output."""
        for call in self._recorder.calls[self._seen :]:
            for output, made in enumerate(call.outputs):
                if made is not None:
                    self._made_by[id(made.version)] = (call, output)
        self._seen = len(self._recorder.calls)
        return self._made_by.get(id(view.version))


def _word(call: Call) -> str:
    return call.operator.name.strip("_")


def _origin(titles: list[Title], line: Line | None, number: int) -> Origin:
    """An origin that gives these names in the trace, in the branch they share."""
    owner = titles[0].module
    while owner and not all(title.name.startswith(f"{owner}.") for title in titles):
        owner = owner.rpartition(".")[0]
    targets = tuple(title.name.removeprefix(f"{owner}.") for title in titles)
    # A separate visit per operator (the forward pass counts up from 1), so that each is a result.
    return Origin(line, targets, owner, owner, visit=-2 - number)
