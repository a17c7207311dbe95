"""What changed between two traces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from glassformer.errors import TraceError
from glassformer.trace.cells import Cell
from glassformer.trace.notebooks import ShownAsText
from glassformer.trace.steps import Step
from glassformer.trace.trace import Trace

__all__ = ["Difference", "StepDifference", "diff"]


@dataclass(frozen=True, slots=True)
class StepDifference:
    """One step whose numbers differ."""

    before: Step
    after: Step
    mask: torch.Tensor
    """True where the numbers differ."""
    largest: float
    """The largest |after − before|; infinite where one is not finite and the other is."""
    cell: Cell
    """Where it is, in the second trace."""

    @property
    def name(self) -> str:
        """The step's name."""
        return self.after.name

    @property
    def changed(self) -> int:
        """How many cells differ."""
        return int(self.mask.sum())


@dataclass(frozen=True, slots=True)
class Difference(ShownAsText):
    """The steps that differ, in order, and those that only one trace has (or has in that shape)."""

    steps: list[StepDifference]
    only_before: list[str]
    only_after: list[str]

    def __str__(self) -> str:
        lines = [
            f"{step.name}: {step.changed} of {step.mask.numel()} cells, "
            f"largest {step.largest:.3g} at {step.cell.name}"
            for step in self.steps
        ]
        lines += [f"only before: {name}" for name in self.only_before]
        lines += [f"only after: {name}" for name in self.only_after]
        return "\n".join(lines) or "no difference"


def diff(before: Trace, after: Trace) -> Difference:
    """Compare two traces step by step, by name: parameters, inputs and everything computed."""
    for one in (before, after):
        if not isinstance(one, Trace):
            raise TraceError(f"two traces are compared, got {type(one).__name__}")
    first, second = _tensors(before), _tensors(after)
    shared = [n for n, step in second.items() if n in first and first[n].shape == step.shape]
    known = set(shared)
    steps = [_compare(first[name], second[name]) for name in shared]
    return Difference(
        steps=[step for step in steps if step is not None],
        only_before=[name for name in first if name not in known],
        only_after=[name for name in second if name not in known],
    )


def _tensors(trace: Trace) -> dict[str, Step]:
    steps = [*trace.parameters.values(), *trace.inputs.values(), *trace.constants.values()]
    return {step.name: step for step in [*steps, *trace.steps]}


def _may_be_unwritten(step: Step) -> bool:
    """Whether cells of a step may hold what was in the memory before: copies of `torch.empty`."""
    if step.is_unwritten or step.call is None:
        return step.is_unwritten
    if step.op == "_grouped_mm":
        return True
    versions = [view.version for view in step.call.inputs()]
    for version in versions:
        base = version.base
        if base is not None and all(known is not base for known in versions):
            versions.append(base)
    return any(owner.is_unwritten for version in versions for owner in version.owners)


def _compare(before: Step, after: Step) -> StepDifference | None:
    shared = before.view.version.storage._cdata == after.view.version.storage._cdata
    if shared or before.view.numel == 0:
        return None
    old, new = before.view.tensor(), after.view.tensor()
    mask = (old != new) & ((old == old) | (new == new))  # NaN equals NaN here
    if _may_be_unwritten(after) or _may_be_unwritten(before):
        for index in map(tuple, mask.nonzero().tolist()):
            mask[index] = not (Cell(before, index).is_unwritten or Cell(after, index).is_unwritten)
    if not bool(mask.any()):
        return None
    gap = (new.double() - old.double()).abs_().nan_to_num_(nan=torch.inf).masked_fill_(~mask, 0.0)
    # Not torch.unravel_index: it imports sympy, which takes a second.
    index = tuple(int(part) for part in np.unravel_index(int(gap.argmax()), gap.shape))
    return StepDifference(before, after, mask, float(gap.max()), Cell(after, index))
