"""The optimiser's step, recorded: every parameter's new weight from its gradient and its past.

What the optimiser remembers is read from it and never written: the real optimiser makes the same
step afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from glassformer.trace.recording import Source
from glassformer.trace.training.optimisers import Numbers, method_of
from glassformer.trace.training.recorder import TrainingRecorder
from glassformer.trace.training.scribe import Scribe

__all__ = ["Updates"]


class Updates:
    """The updates of all parameters of an optimiser, under a recorder."""

    def __init__(
        self, recorder: TrainingRecorder, optimiser: Optimizer, names: dict[int, str]
    ) -> None:
        self._recorder = recorder
        self._optimiser = optimiser
        self._names = names
        self.method = method_of(optimiser)
        self._states: dict[int, dict[str, Tensor]] = {}
        self._shared: dict[tuple[int, float], Numbers] = {}
        self._numbers: dict[tuple[int, float], tuple[Tensor, Tensor]] = {}
        self.sources = self._read_state()

    def run(self, scribe: Scribe, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The new weight of each parameter that has a gradient, by name."""
        new: dict[str, Tensor] = {}
        for number, group in enumerate(self._optimiser.param_groups):
            for parameter in group["params"]:
                name = self._names[id(parameter)]
                if name in gradients:
                    new[name] = self._one(scribe, number, group, parameter, gradients[name])
        return new

    def _one(
        self,
        scribe: Scribe,
        number: int,
        group: dict[str, Any],
        parameter: Tensor,
        gradient: Tensor,
    ) -> Tensor:
        shared = self._shared_numbers(scribe, number, group, parameter)
        weight = self._recorder.tensor_of(self._recorder.view_of(parameter))
        note = _notes(scribe, f"update.{self._names[id(parameter)]}")
        state = self._states[id(parameter)]
        return self.method.update(note, weight, gradient, state, group, shared)

    def _shared_numbers(
        self, scribe: Scribe, number: int, group: dict[str, Any], parameter: Tensor
    ) -> Numbers:
        """The group's numbers for this step, computed once for all its parameters."""
        if self.method.schedule is None:
            return {}
        key = (number, self._step(parameter))
        if key not in self._shared:
            note = _notes(scribe, _place(number))
            self._shared[key] = self.method.schedule(note, *self._numbers[key], group)
        return self._shared[key]

    def _step(self, parameter: Tensor) -> float:
        """The number of the step about to be made."""
        return float(self._optimiser.state.get(parameter, {}).get("step", 0)) + 1

    def _read_state(self) -> list[Source]:
        """What the optimiser remembers, and its settings, made known to the recorder."""
        sources: list[Source] = []

        def adopt(name: str, tensor: Tensor) -> Tensor:
            sources.append(Source(name, self._recorder.adopt(tensor), "constant"))
            return tensor

        for number, group in enumerate(self._optimiser.param_groups):
            for parameter in group["params"]:
                name = self._names[id(parameter)]
                self._states[id(parameter)] = {
                    ours: adopt(f"state.{name}.{ours}", tensor)
                    for ours, tensor in self._remembered(parameter, group).items()
                }
                key = (number, self._step(parameter))
                if key not in self._numbers and self.method.schedule is not None:
                    rate = torch.tensor(float(group["lr"]), dtype=torch.float64)
                    step = torch.tensor(key[1], dtype=torch.float64)
                    place = _place(number)
                    self._numbers[key] = (
                        adopt(f"{place}.learning_rate", rate),
                        adopt(f"{place}.step", step),
                    )
        return sources

    def _remembered(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        """Copies of what the optimiser remembers of a parameter, or of what it begins with."""
        state = self._optimiser.state.get(parameter, {})
        found = {
            ours: state[theirs].detach().clone()
            for ours, theirs in self.method.remembers.items()
            if state.get(theirs) is not None
        }
        return found or self.method.start(parameter.detach(), group)


def _place(number: int) -> str:
    """Where a group's numbers stand in the tree."""
    return "update" if number == 0 else f"update.group_{number}"


def _notes(scribe: Scribe, owner: str) -> Callable[[str, Tensor], Tensor]:
    """Names for the results of one update."""

    def note(name: str, tensor: Tensor) -> Tensor:
        return scribe.claim(tensor, f"{owner}.{name}", owner)

    return note
