"""Is the step that the trace shows the step that was made?

The trace computes gradients and new weights by its own derivatives and its own update. Both are
held against what autograd and the optimiser made: equal to the bit as a rule, else to rounding;
anything beyond that is an error of the trace's, and no trace is given.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glassformer.errors import TraceError
from glassformer.trace.notes import Note

__all__ = ["Agreement"]

# What rounding in another order may change, relative to the largest number of the tensor.
_GRADIENT = 1e-4
_WEIGHT = 1e-6


class Agreement:
    """The comparison of a recorded step with the one made. `notes` say what it found."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = parameters
        self._same_gradients = True
        self.notes: list[str] = []

    def compare_gradients(self, shown: Mapping[str, Tensor]) -> None:
        """The recorded gradients against those of autograd."""
        made = {name: p.grad for name, p in self._parameters.items() if p.grad is not None}
        largest = max((float(g.abs().max()) for g in made.values() if g.numel()), default=0.0)
        for name in made.keys() - shown.keys():
            if made[name].any():
                raise TraceError(f"the trace has no gradient of {name}, and autograd has")
        worst = 0.0
        for name, gradient in shown.items():
            # An unused parameter has no gradient at all, or one of zeros.
            real = made.get(name, torch.zeros_like(gradient))
            gap = _gap(gradient, real)
            scale = max(float(real.abs().max()), 1e-3 * largest) if real.numel() else 1.0
            if gap > _GRADIENT * scale:
                raise TraceError(
                    f"the recorded gradient of {name} differs from autograd's by {gap:.1e}: does "
                    "the model stop gradients on the way (detach, no_grad, its own autograd "
                    "function)? Such models are not traced in training"
                )
            worst = max(worst, gap / scale if scale else 0.0)
        self._same_gradients = worst == 0
        self._note("gradients", worst)

    def compare_weights(self, shown: Mapping[str, Tensor]) -> None:
        """The recorded new weights against those that the optimiser made."""
        worst, where = 0.0, ""
        for name, weight in shown.items():
            real = self._parameters[name].detach()
            scale = max(float(real.abs().max()), 1e-30) if real.numel() else 1.0
            gap = _gap(weight, real) / scale
            worst, where = max((worst, where), (gap, name))
        if worst > _WEIGHT and self._same_gradients:
            raise TraceError(
                f"the recorded update of {where} differs from the optimiser's by {worst:.1e}: "
                "was the optimiser changed by hooks?"
            )
        self._note("weights", worst)
        if worst > _WEIGHT:
            self.notes.append(Note("rounding"))

    def _note(self, what: str, worst: float) -> None:
        close = Note(f"close {what}", worst=f"{worst:.0e}")
        self.notes.append(Note(f"same {what}") if worst == 0 else close)


def _gap(one: Tensor, other: Tensor) -> float:
    """The largest difference; cells that are NaN, or the same infinity, in both do not differ."""
    if not one.numel():
        return 0.0
    with torch.no_grad():
        gap = (one.double() - other.double()).abs()
        gap[(one == other) | (one.isnan() & other.isnan())] = 0.0
        return float(gap.nan_to_num(nan=torch.inf).max())
