"""Is the step that the trace shows the step that was made?

The trace computes gradients and new weights by its own derivatives and its own update. Both are
held against what autograd and the optimiser made: equal to the bit as a rule, else to rounding;
anything beyond that is an error of the trace's, and no trace is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from glassformer.errors import TraceError
from glassformer.trace.calls import Call
from glassformer.trace.notes import Note

# What rounding in another order may change, relative to the largest number of a float32 tensor.
_GRADIENT = 1e-4
# Weights are made from the same gradients by the same operators: a few roundings.
_WEIGHT_ROUNDINGS = 8
# From which share of a tensor's largest change on a difference of new weights is named.
_NOTABLE = 1e-3
_LISTED = 3


class Agreement:
    """The comparison of a recorded step with the one made. `notes` say what it found.

    Each operator on the way rounds to its dtype. These errors are independent, so that over n
    operators they grow to √n · ε: the measure for the shorter dtypes, where ε is large.
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], optimiser: str, made: Sequence[Call]
    ) -> None:
        self._parameters = parameters
        self._optimiser = optimiser
        self._made = made
        self._cancelled: float | None = None
        self._before = {name: p.detach().clone() for name, p in parameters.items()}
        self._largest = 0.0
        self._doubtful: dict[str, Tensor] = {}
        """The cells whose gradients have few digits in common, by parameter."""
        self._same_gradients = True
        self.notes: list[str] = []

    def compare_gradients(self, shown: Mapping[str, Tensor]) -> None:
        """The recorded gradients against those of autograd."""
        made = {name: p.grad for name, p in self._parameters.items() if p.grad is not None}
        self._largest = max(map(_largest, made.values()), default=0.0)
        for name in made.keys() - shown.keys():
            if made[name].any():
                raise TraceError(f"the trace has no gradient of {name}, and autograd has")
        worst, where = 0.0, ""
        for name, gradient in shown.items():
            # An unused parameter has no gradient at all, or one of zeros.
            real = made.get(name, torch.zeros_like(gradient))
            gaps, size = _gaps(gradient, real), _largest(real)
            gap = _largest(gaps)
            share = max(_GRADIENT, self._rounding_of(gradient.dtype))
            if gap > share * size and gap > self._lost_by_cancelling(gradient.dtype):
                raise TraceError(
                    f"the recorded gradient of {name} differs from autograd's by {gap:.1e} (its "
                    f"largest is {size:.1e}), more than rounding can: autograd's is not the "
                    "derivative of what was recorded. That is so after detach or no_grad, in an "
                    "autograd function of the model's own, and of ctc_loss without a log_softmax "
                    "before it; such models are not traced in training"
                )
            self._same_gradients &= gap == 0
            self._doubtful[name] = gaps > share * real.detach().abs()
            if 0 < gap <= share * size:
                worst, where = max((worst, where), (gap / size, name))
        if self._same_gradients:
            self.notes.append(Note("same gradients"))
        elif worst:
            self.notes.append(Note("close gradients", worst=f"{worst:.0e}", name=where))

    def _rounding_of(self, dtype: torch.dtype) -> float:
        return torch.finfo(dtype).eps * math.sqrt(len(self._made))

    def _lost_by_cancelling(self, dtype: torch.dtype) -> float:
        """What remains of a sum whose terms cancel (a bias before a batch norm): their rounding.

        The terms are as large as the largest gradient on the way, and as many as its cells.
        """
        if self._cancelled is None:
            made = [v for c in self._made for v in c.outputs if v is not None and v.numel]
            views = [view for view in made if view.dtype.is_floating_point]
            largest = max(
                (_largest(view.tensor().nan_to_num(0, 0, 0)) for view in views), default=0
            )
            terms = max((view.numel for view in views), default=1)
            self._cancelled = math.sqrt(terms) * largest
        return self._rounding_of(dtype) * self._cancelled

    def compare_weights(self, shown: Mapping[str, Tensor], rescales: bool) -> None:
        """The recorded new weights against those that the optimiser made.

        `rescales`: whether the optimiser's steps keep their size however small the gradient is.
        """
        worst, where, same = 0.0, "", True
        rounding: dict[str, float] = {}
        for name, weight in shown.items():
            real, doubtful = self._parameters[name].detach(), self._doubtful[name]
            gaps, change = _gaps(weight, real), _largest(_gaps(real, self._before[name]))
            gap = _largest(gaps)
            same &= gap == 0
            if self._same_gradients and gap > _WEIGHT_ROUNDINGS * torch.finfo(real.dtype).eps * max(
                _largest(real), change
            ):
                raise TraceError(
                    f"the recorded update of {name} differs from the optimiser's by {gap:.1e}: "
                    "was the optimiser changed by hooks?"
                )
            sound = _largest(gaps[~doubtful])
            if sound:
                worst, where = max((worst, where), (sound / max(change, sound), name))
            if gap > _NOTABLE * change:
                rounding[name] = gap
        if same:
            self.notes.append(Note("same weights"))
        elif worst:
            self.notes.append(Note("close weights", worst=f"{worst:.0e}", name=where))
        if rounding:
            self.notes.append(self._rounding(rounding, rescales))

    def _rounding(self, gaps: dict[str, float], rescales: bool) -> Note:
        """What to say of updates by gradients that lost digits to rounding."""
        names = list(gaps)
        made = {name: self._parameters[name].grad for name in names}
        sizes = [_largest(g[self._doubtful[name]]) for name, g in made.items() if g is not None]
        others = f", … ({len(names)})" if len(names) > _LISTED else ""
        said = {
            "names": ", ".join(names[:_LISTED]) + others,
            "size": f"{max(sizes, default=0.0):.0e}",
            "largest": f"{self._largest:.0e}",
        }
        if not rescales:
            return Note("rounding", **said)
        gap = f"{max(gaps.values()):.0e}"
        return Note("rounding steps", **said, optimiser=self._optimiser, gap=gap)


def _largest(tensor: Tensor) -> float:
    """The largest number of a tensor, without its sign."""
    return float(tensor.detach().abs().max()) if tensor.numel() else 0.0


def _gaps(one: Tensor, other: Tensor) -> Tensor:
    """The differences; cells that are NaN, or the same infinity, in both do not differ."""
    with torch.no_grad():
        gaps = (one.double() - other.double()).abs()
        gaps[(one == other) | (one.isnan() & other.isnan())] = 0.0
        return gaps.nan_to_num(nan=torch.inf)
