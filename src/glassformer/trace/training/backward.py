"""The backward pass, written out: from the loss back through every recorded operator.

Each operator of the forward pass is asked for the gradients of its operands, last operator first.
A tensor that several operators read gets one contribution from each; they are added up when the
operator that made the tensor is reached. All of it runs under the recorder, so a gradient is a
step like any other, named after what it is the gradient of: `gradients.blocks.0.scores`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.trace import rules
from glassformer.trace.calls import Call
from glassformer.trace.memory import Version, View, as_real
from glassformer.trace.training import derivatives
from glassformer.trace.training.forward import ForwardPass, Title
from glassformer.trace.training.recorder import TrainingRecorder
from glassformer.trace.training.scribe import Scribe
from glassformer.trace.training.windows import cut, same, spread, without

__all__ = ["Backward"]


@dataclass(frozen=True, slots=True)
class _Contribution:
    """A part of a tensor's gradient, and the step through which it came."""

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
        self._active = _depends_on(forward.calls, forward.parameters.values())

    def run(self, loss: View) -> dict[str, Tensor]:
        """The gradient of each parameter that the loss depends on, by name."""
        if id(loss.version) not in self._active:
            raise TraceError("the loss does not depend on any parameter that requires a gradient")
        one = torch.ones_like(self._recorder.tensor_of(loss))
        self._add(loss, one, self._forward.title(loss.version))
        for call in reversed(self._forward.calls):
            self._through(call)
        return {
            name: self._total(view.version)
            for name, view in self._forward.parameters.items()
            if id(view.version) in self._parts
        }

    def _through(self, call: Call) -> None:
        """Hand the gradient of what a call made on to what it was made from."""
        made = {
            id(view.version): view.version
            for view in call.outputs
            if view is not None and id(view.version) in self._parts
        }
        if not made:
            return
        totals = {key: self._total(version) for key, version in made.items()}
        title = self._forward.title(next(iter(made.values())))
        with self._scribe.about(*title.gradient(), call.origin.line):
            incoming = [
                None
                if view is None or id(view.version) not in totals
                else view.given(
                    cut(totals[id(view.version)], view, self._forward.whole(view.version))
                )
                for view in call.outputs
            ]
            self._keep_unwritten(call, totals, title)
            arguments = dict(derivatives.tensor_arguments(call))
            for argument, gradient in self._derived(call, title, incoming, arguments):
                view = arguments[argument]
                gradient = as_real(gradient.resolve_conj())
                assert gradient.shape == view.shape, f"{call.operator.name}: {argument}"
                self._add(view, gradient.to(view.dtype), title)

    def _derived(
        self, call: Call, title: Title, incoming: list[Tensor | None], arguments: dict[str, View]
    ) -> Iterator[tuple[str, Tensor]]:
        """The gradients of a call's operands."""
        wanted = frozenset(
            name for name, view in arguments.items()
            if id(view.version) in self._active and view.dtype.is_floating_point
        )  # fmt: skip
        if not wanted or rules.is_given(call.operator):
            return

        def note(name: str, tensor: Tensor) -> Tensor:
            return self._scribe.claim(tensor, f"{title.name}.{name}", title.module)

        forward = derivatives.Forward(call, wanted, self._recorder.tensor_of, note)
        own = derivatives.find(call.operator)
        first, *others = incoming
        alone = first is not None and not any(g is not None for g in others)
        if own is not None and first is not None and alone and not call.is_complex:
            yield from own(forward, first)
        else:
            yield from derivatives.by_autograd(forward, incoming)

    def _keep_unwritten(self, call: Call, totals: dict[int, Tensor], title: Title) -> None:
        """Of a tensor overwritten in part, the cells left alone keep their gradient."""
        for old, new in call.writes:
            view = next((v for v in call.outputs if v is not None and v.version is new), None)
            if view is None or id(old) not in self._active:
                continue
            whole = self._forward.whole(new)
            if not same(view, whole):
                self._add(whole.on(old), without(totals[id(new)], view, whole), title)

    def _add(self, view: View, gradient: Tensor, through: Title) -> None:
        """Note a contribution to the gradient of what a view shows."""
        whole = self._forward.whole(view.version)
        if not same(view, whole):
            seen = self._forward.view_title(view)
            if seen is not None and seen.name not in self._claimed:
                self._claim(gradient, seen, "")
        part = spread(gradient, view, whole)
        self._parts[id(view.version)].append(_Contribution(part, through))

    def _total(self, version: Version) -> Tensor:
        """The gradient of a tensor: its contributions, added in the order in which they came."""
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
        return self._scribe.claim(gradient, *title.gradient(suffix))


def _depends_on(calls: list[Call], parameters: Iterable[View]) -> set[int]:
    """The versions that were computed from parameters (the parameters' own included)."""
    active = {id(view.version) for view in parameters}
    for call in calls:
        inputs = any(
            id(view.version) in active and view.dtype.is_floating_point for view in call.inputs()
        )
        if inputs and not rules.is_given(call.operator):
            active |= {
                id(view.version)
                for view in call.outputs
                if view is not None and view.dtype.is_floating_point
            }
        active |= {id(new) for old, new in call.writes if id(old) in active}
    return active
