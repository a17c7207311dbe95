"""The gradient of one number with respect to any steps before it, from the recording alone.

The recorded operators run once more with autograd on. A step is a window on a storage, as in the
recording: each version of a storage is a flat tensor here, of which windows are read, and into
which results are written, by `as_strided`, which autograd follows.

`linear_parts` does the same with the scale of every norm held at what it was, and with nothing
flowing through the steps asked for: the way that a residual stream takes to an answer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.errors import TraceError, expect
from glassformer.experiments.batched_replay import calls_before
from glassformer.experiments.measure import Measured, signed_cells, trace_of
from glassformer.tracing import Step
from glassformer.tracing.arithmetic import rules
from glassformer.tracing.capture.memory import Version, View, as_real
from glassformer.tracing.capture.operator_calls import Call
from glassformer.tracing.cell_block import Places


def gradients(target: Measured, steps: list[Step]) -> list[Tensor]:
    """∂target/∂step for each of the steps, in the shape of the step; zeros where it has no part."""
    trace = trace_of(target)
    for step in steps:
        expect(step, Step, "steps, t[name]", TraceError)
        if step.trace is not trace:
            raise TraceError(
                "{name} is a step of another trace than {target}",
                name=step.name,
                target=target.name,
            )
    _expect_real(steps, target)
    return _Differentiation(steps).run(target)


def _expect_real(steps: list[Step], target: Measured) -> None:
    """Refuse whole numbers and complex ones."""
    named = [(step.name, step) for step in steps]
    named += [(cell.name, cell.step) for _, cell in signed_cells(target)]
    for name, step in named:
        if not step.dtype.is_floating_point:
            raise TraceError(
                "{name} is {dtype}: only real numbers have gradients", name=name, dtype=step.dtype
            )


def linear_parts(target: Measured, steps: list[Step]) -> tuple[list[Tensor], float]:
    """What each of the steps adds to a number, cell by cell, and what is added without them.

    Refuses a number to which the steps do not lead by sums, norms and linear maps alone.
    """
    _expect_real(steps, target)
    held = _Differentiation(steps, held=True)
    slopes = held.run(target)
    parts = [slope * step.value for slope, step in zip(slopes, steps, strict=True)]
    rest = _Differentiation(steps, held=True, scale=0.0).value(target)
    total = sum(float(part.double().sum()) for part in parts) + rest
    size = sum(float(part.double().abs().sum()) for part in parts) + abs(rest)
    rounding = max(torch.finfo(cell.step.dtype).eps for _, cell in signed_cells(target))
    if abs(total - float(target.value)) > max(1e-4, 8 * rounding) * size:
        raise TraceError(
            "the parts do not add up to {name}: between the residual stream and it stands more "
            "than sums, norms and linear maps (take the logits, not probabilities)",
            name=target.name,
        )
    return parts, rest


class DirectPaths:
    """What some steps add to others straight through the residual stream.

    Norms keep their scale and nothing flows through the steps themselves, so that the effects of
    several add up.
    """

    def __init__(self, steps: list[Step], targets: list[Step]) -> None:
        self._steps = steps
        self._targets = targets
        self._rest = self._tensors({})

    def effects(self, step: Step, value: Tensor) -> list[Tensor]:
        """What this value of one of the steps adds to each target, in the target's shape."""
        made = self._tensors({id(step): value})
        return [now - rest for now, rest in zip(made, self._rest, strict=True)]

    def _tensors(self, given: dict[int, Tensor]) -> list[Tensor]:
        return _Differentiation(self._steps, held=True, scale=0.0, given=given).tensors(
            self._targets
        )


class _Differentiation:
    """One pass over the recorded calls with autograd on."""

    def __init__(
        self,
        steps: list[Step],
        *,
        held: bool = False,
        scale: float = 1.0,
        given: dict[int, Tensor] | None = None,
    ) -> None:
        self._steps = steps
        self._held = held
        """Whether norms keep their scale, and the steps are where everything starts."""
        self._scale = scale
        self._given = given or {}
        """The numbers to start with, by the identity of the step, where they are not its own."""
        self._leaves: dict[int, Tensor] = {}
        self._flat: dict[int, Tensor] = {}
        """The memory that depends on the steps asked for, by the identity of its version."""

    def run(self, target: Measured) -> list[Tensor]:
        """The gradients."""
        with torch.enable_grad():
            number = self._number(target)
            leaves = [self._leaves.get(id(step)) for step in self._steps]
            known = [leaf for leaf in leaves if leaf is not None]
            found = iter(
                torch.autograd.grad(number, known, allow_unused=True)
                if number.requires_grad
                else [None] * len(known)
            )
        grads = [None if leaf is None else next(found) for leaf in leaves]
        return [
            torch.zeros(step.shape, dtype=step.dtype) if grad is None else grad.detach().cpu()
            for step, grad in zip(self._steps, grads, strict=True)
        ]

    def value(self, target: Measured) -> float:
        """The number with the steps scaled."""
        with torch.enable_grad():
            return float(self._number(target).detach())

    def tensors(self, targets: list[Step]) -> list[Tensor]:
        """Whole steps, with these numbers to start from."""
        with torch.enable_grad():
            self._run(targets)
            return [self._tensor(step.view).detach().cpu() for step in targets]

    def _number(self, target: Measured) -> Tensor:
        cells = signed_cells(target)
        self._run([cell.step for _, cell in cells])
        numbers = [sign * self._tensor(cell.step.view)[cell.index] for sign, cell in cells]
        return torch.stack(numbers).sum()

    def _run(self, targets: list[Step]) -> None:
        """Compute everything between the steps and the targets."""
        for step in self._steps:
            if step.call is None:
                self._start(step, step.view.tensor())
        stops = [step.view for step in self._steps] if self._held else []
        trace = targets[0].trace
        calls = trace.recording.calls
        pinned: dict[int, list[Step]] = {}
        for step in trace.steps:
            if step.call is not None and isinstance(step.pinned, Places):
                pinned.setdefault(id(step.call), []).append(step)
        for call in calls_before(calls, [step.view for step in targets], stops):
            starting = [step for step in self._steps if step.call is call]
            if not (self._held and starting) and self._runs_again(call):
                self._again(call)
                for step in pinned.get(id(call), ()):
                    self._set_again(step)
            for step in starting:
                self._start(step, self._tensor(step.view))

    def _start(self, step: Step, value: Tensor) -> None:
        """From here on the step's numbers are a variable."""
        if self._held:
            own, given = step.view.tensor(), self._given.get(id(step))
            started = self._scale * own if given is None else given.detach().clone().to(own)
            leaf = started.requires_grad_()
        else:
            leaf = value if value.requires_grad else value.detach().clone().requires_grad_()
        self._leaves[id(step)] = leaf
        self._put(step.view, leaf)

    def _set_again(self, step: Step) -> None:
        """Cells that an edit has set keep their numbers, whatever the operator computes."""
        flat = self._flat.get(id(step.view.version))
        if flat is None or flat.dtype != step.view.dtype:
            return
        assert isinstance(step.pinned, Places)
        mask = torch.zeros(step.view.numel, dtype=torch.bool)
        mask[torch.from_numpy(step.pinned.flat)] = True
        recorded, made = step.view.tensor(), self._tensor(step.view)
        kept = mask.view(step.shape).to(made.device)
        self._put(step.view, torch.where(kept, recorded, made))

    def _runs_again(self, call: Call) -> bool:
        """Whether it makes numbers that depend on the steps."""
        reads = any(id(view.version) in self._flat for view in call.inputs())
        return reads and call.result is None and not rules.is_given(call.operator)

    def _tensor(self, view: View) -> Tensor:
        flat = self._flat.get(id(view.version))
        if flat is None or flat.dtype != view.dtype:
            return view.tensor()
        return flat.as_strided(view.shape, view.strides, view.offset)

    def _put(self, view: View, made: Tensor) -> None:
        """Take a result into memory, in the layout in which it was recorded."""
        flat = self._flat.get(id(view.version))
        memory = (view.version.memory(view.dtype) if flat is None else flat).clone()
        # (`as_strided_scatter` hands the gradient on to what was overwritten.)
        memory.as_strided(view.shape, view.strides, view.offset).copy_(made)
        self._flat[id(view.version)] = memory

    def _again(self, call: Call) -> None:
        written: dict[int, tuple[Version, Tensor]] = {}
        for old, new in call.writes:
            dtype = next(view.dtype for view in call.inputs() if view.version is old)
            flat = self._flat.get(id(old))
            base = old.memory(dtype) if flat is None else flat
            written[id(old)] = (new, base.clone())

        def tensor(_: str, view: View) -> Tensor:
            if id(view.version) in written:
                base = written[id(view.version)][1]
                return view.given(base.as_strided(view.shape, view.strides, view.offset))
            return view.given(self._tensor(view))

        if self._held and call.operator.name in _STATISTICS:
            return  # what it was in the run
        results = call.again(tensor)
        if self._held and call.operator.name in _NORMS:
            results = [_with_its_scale(call, tensor("input", call.view("input")))]
        for new, base in written.values():
            self._flat[id(new)] = base
        for view, made in zip(call.outputs, results, strict=False):
            if view is None or made is None or id(view.version) in self._flat:
                continue
            if made.requires_grad:
                self._put(view, as_real(made))


_STATISTICS = frozenset(
    ["pow", "square", "var", "std", "rsqrt", "sqrt", "reciprocal", "linalg_vector_norm"]
)
_NORMS = frozenset(["layer_norm", "native_layer_norm", "rms_norm"])


def _with_its_scale(call: Call, x: Tensor) -> Tensor:
    """A norm of x with the divisor that it had in the run."""
    recorded = call.view("input").tensor().double()
    axes = tuple(range(-len(call.bound["normalized_shape"]), 0))
    if call.operator.name == "rms_norm":
        eps = call.bound["eps"]
        eps = torch.finfo(x.dtype).eps if eps is None else eps
        size = (recorded.square().mean(axes, keepdim=True) + eps).sqrt()
    else:
        variance = recorded.var(axes, correction=0, keepdim=True)
        size = (variance + call.bound["eps"]).sqrt()
        x = x - x.mean(axes, keepdim=True)
    normed = x / size.to(x.dtype)
    weight, bias = call.maybe_view("weight"), call.maybe_view("bias")
    if weight is not None:
        normed = normed * weight.tensor()
    return normed if bias is None else normed + bias.tensor()
