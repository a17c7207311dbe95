"""Does the trace of a training step show the step that was actually made?

The trace computes gradients operator by operator, and new weights by updates of its own. Both are
compared with those of `backward()` and the optimiser: usually they are bitwise equal, else equal up
to rounding; anything else is an error that names its cause, and no trace is returned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from glassformer.errors import Fragment, TraceError
from glassformer.tracing.capture.memory import as_real, gaps
from glassformer.tracing.gradients.backward import Backward
from glassformer.tracing.notes import Note

# The rounding error of another summation order, relative to the maximum of a float32 tensor.
_GRADIENT = 1e-4
# New weights come from the same gradients by the same operators: a few roundings.
_WEIGHT_ROUNDINGS = 8
# A difference of new weights is reported if it exceeds this share of the tensor's largest change.
_NOTABLE = 1e-3
_LISTED = 3


class Agreement:
    """Compares a recorded step with the actual one; `notes` hold the result.

    Each operator rounds to its dtype. These errors are independent, so that over n operators they
    grow to √n · ε (`rounding`), which matters where shorter dtypes are computed with: under
    autocast, the gradients of float32 parameters are only as exact as bfloat16.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        optimiser: str,
        backward: Backward,
        recorded: Tensor,
        loss: Tensor,
    ) -> None:
        """Before `loss.backward()`, which frees autograd's graph; `recorded` is the other loss."""
        self._parameters = parameters
        self._optimiser = optimiser
        self._backward = backward
        self._rounding = backward.rounding
        self._loss, self._recorded = loss.detach().clone(), recorded
        self._nodes = list(_graph(loss))
        self._before = {name: as_real(p.detach()).clone() for name, p in parameters.items()}
        self._largest = 0.0
        self._doubtful: dict[str, Tensor] = {}
        """By parameter, the cells whose gradients agree in few digits only."""
        self._same_gradients = True
        self.notes: list[str] = []

    def compare_gradients(self, shown: Mapping[str, Tensor]) -> None:
        """Compare the recorded gradients with autograd's."""
        made = {n: as_real(p.grad) for n, p in self._parameters.items() if p.grad is not None}
        self._largest = max(map(_largest, made.values()), default=0.0)
        for name in made.keys() - shown.keys():
            if made[name].any():
                gap = _largest(made[name])
                raise self._without(name, gap)
        worst, where = 0.0, ""
        for name, gradient in shown.items():
            # An unused parameter has no gradient, or a zero gradient.
            real = made.get(name, torch.zeros_like(gradient))
            apart, size = gaps(gradient, real), _largest(real)
            gap = _largest(apart)
            share = max(_GRADIENT, self._rounding)
            if gap > share * size and gap > self._lost_by_cancelling:
                raise self._another(name, gap, size)
            self._same_gradients &= gap == 0
            self._doubtful[name] = apart > share * real.detach().abs()
            if 0 < gap <= share * size:
                worst, where = max((worst, where), (gap / size, name))
        if self._same_gradients:
            self.notes.append(Note("same gradients"))
        elif worst:
            self.notes.append(Note("close gradients", worst=f"{worst:.0e}", name=where))

    @cached_property
    def _lost_by_cancelling(self) -> float:
        """The rounding error of a sum whose terms cancel (a bias before a batch norm).

        The terms are at most as large as the largest gradient, and as many as its cells.
        """
        parts = [part for part in self._backward.contributions if part.numel()]
        largest = max((_largest(part.nan_to_num(0, 0, 0)) for part in parts), default=0.0)
        terms = max((part.numel() for part in parts), default=1)
        return self._rounding * math.sqrt(terms) * largest

    def compare_weights(self, shown: Mapping[str, Tensor], rescales: bool) -> None:
        """Compare the recorded new weights with the optimiser's; `rescales` as in `UpdateRule`."""
        worst, where, same = 0.0, "", True
        lost: dict[str, float] = {}
        for name, weight in shown.items():
            real, doubtful = as_real(self._parameters[name].detach()), self._doubtful[name]
            apart, change = gaps(weight, real), _largest(gaps(real, self._before[name]))
            gap = _largest(apart)
            same &= gap == 0
            if self._same_gradients and gap > _WEIGHT_ROUNDINGS * torch.finfo(real.dtype).eps * max(
                _largest(real), change
            ):
                raise TraceError(
                    "the recorded update of {name} differs from the optimiser's by {gap:.1e}: was "
                    "the optimiser changed by hooks?",
                    name=name,
                    gap=gap,
                )
            sound = _largest(apart[~doubtful])
            if sound:
                worst, where = max((worst, where), (sound / max(change, sound), name))
            if (unsure := _largest(apart[doubtful])) > _NOTABLE * change:
                lost[name] = unsure
        if same:
            self.notes.append(Note("same weights"))
        elif worst:
            self.notes.append(Note("close weights", worst=f"{worst:.0e}", name=where))
        if lost:
            self.notes.append(self._lost_digits(lost, rescales))

    def _lost_digits(self, lost: dict[str, float], rescales: bool) -> Note:
        """The note on updates from gradients that lost digits to rounding."""
        names = list(lost)
        made = {name: self._parameters[name].grad for name in names}
        sizes = [
            _largest(as_real(g)[self._doubtful[name]]) for name, g in made.items() if g is not None
        ]
        others = f", … ({len(names)})" if len(names) > _LISTED else ""
        said = {
            "names": ", ".join(names[:_LISTED]) + others,
            "size": f"{max(sizes, default=0.0):.0e}",
            "largest": f"{self._largest:.0e}",
        }
        if not rescales:
            return Note("rounding", **said)
        gap = f"{max(lost.values()):.0e}"
        return Note("rounding steps", **said, optimiser=self._optimiser, gap=gap)

    # --- reasons ---
    # Why a gradient differs: looked for in autograd's graph and in the recording.

    def _without(self, name: str, size: float) -> TraceError:
        """The error for a gradient that only autograd has."""
        if not self._backward.drawn:
            return self._another(name, size, size)
        return TraceError(
            "autograd has a gradient of {name}, the trace has none: it comes through {operators}, "
            "whose random numbers the trace takes as given",
            name=name, operators=self._backward.drawn,
        )  # fmt: skip

    def _another(self, name: str, gap: float, size: float) -> TraceError:
        """The error for a gradient that differs by more than rounding."""
        if self._is_another_run():
            return TraceError(
                "the model ran twice and computed a loss of {first:.6g}, then {second:.6g}, so the "
                "gradients of the two runs differ: it keeps a state, or draws random numbers "
                "outside torch",
                first=float(self._recorded), second=float(self._loss),
            )  # fmt: skip
        return TraceError(
            "the recorded gradient of {name} differs from autograd's by {gap:.1e} (its largest is "
            "{size:.1e}): {reason}",
            name=name, gap=gap, size=size, reason=self._cause(self._parameters[name]),
        )  # fmt: skip

    def _is_another_run(self) -> bool:
        """Whether the loss itself differs by more than rounding."""
        apart = abs(float(self._loss) - float(self._recorded))
        rounding = max(math.sqrt(torch.finfo(self._loss.dtype).eps), self._rounding)
        return apart > rounding * max(abs(float(self._loss)), 1e-6)

    def _cause(self, parameter: Tensor) -> Fragment:
        nodes = {str(node.name()): isinstance(node, BackwardCFunction) for node in self._nodes}
        own = sorted(name.removesuffix("Backward") for name, written in nodes.items() if written)
        if parameter._backward_hooks or "BackwardHookFunction" in own:
            return Fragment.of("a hook changes it")
        if own:
            return Fragment.of(
                "the model has an autograd function of its own, {functions}, whose backward is not "
                "the derivative of what its forward computes",
                functions=", ".join(own),
            )
        if any(map(_is_bare_ctc, self._nodes)):
            return Fragment.of(
                "torch's ctc_loss computes its gradient as if its input came from log_softmax, "
                "which it does not here; apply log_softmax before the loss"
            )
        if self._backward.differentiates:
            return Fragment.of(
                "the model computes gradients itself, and the trace then does not follow its "
                "detach and no_grad"
            )
        return Fragment.of(
            "a hook on a tensor may change a part of it, or rounding decides between two slopes at "
            "a kink"
        )


def _largest(tensor: Tensor) -> float:
    """The largest absolute value of a tensor."""
    return float(tensor.detach().abs().max()) if tensor.numel() else 0.0


def _graph(loss: Tensor) -> Iterator[Any]:
    """The nodes of autograd's graph of a loss."""
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [parent for parent, _ in node.next_functions]


_REARRANGING = ("Transpose", "Permute", "View", "Clone", "UnsafeView", "Squeeze", "Unsqueeze")


def _is_bare_ctc(node: Any) -> bool:
    """Whether this is a CTC loss of something else than a log_softmax."""
    if not str(node.name()).startswith("CtcLoss"):
        return False
    before = node.next_functions[0][0]
    while before is not None and str(before.name()).startswith(_REARRANGING):
        before = before.next_functions[0][0]
    return before is None or not str(before.name()).startswith("LogSoftmax")
