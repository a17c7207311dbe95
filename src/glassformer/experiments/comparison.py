"""Two runs step by step: where they part, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import TraceError, UnknownNameError
from glassformer.experiments.charts import bars
from glassformer.experiments.result import Result
from glassformer.picture import Picture
from glassformer.tracing import Cell, Step, Trace

Aligned = tuple[list[int], list[int]]
"""Positions of the one run, and those of the other that belong to them."""


@dataclass(frozen=True, slots=True)
class ComparedStep:
    """One step as two runs have it."""

    one: Step
    other: Step
    size: float
    """The root mean square of the difference, over that of the first run's numbers; of ids and
    masks the share of cells that differ."""
    largest: float
    """The largest |other − one|; infinite where only one of the two is finite."""
    changed: int
    compared: int
    """How many cells have a partner in the other run."""
    cells: tuple[Cell, Cell]
    """Where the difference is largest, in each of the runs."""

    @property
    def name(self) -> str:
        return self.one.name


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Result):
    """The steps that differ, largest differences first, and those that cannot be compared."""

    kind: ClassVar[str] = "comparison"
    measured: None = field(default=None, init=False, repr=False)

    steps: tuple[ComparedStep, ...]
    same: tuple[str, ...]
    """Steps with the same numbers in both runs."""
    unaligned: tuple[str, ...]
    """Steps that only one run has, that have shapes between which no axis tells the way, or of
    which no position has a partner."""
    is_partial: bool = False
    """Whether the texts have different lengths, so that only the tokens of both are compared."""

    def cell(self, step: int | str) -> tuple[Cell, Cell]:
        """Where a step differs most: the cell of each run."""
        if isinstance(step, int):
            return self.steps[step].cells
        by_name = {compared.name: compared for compared in self.steps}
        if step not in by_name:
            raise UnknownNameError("step that differs", step, by_name)
        return by_name[step].cells

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "step": found.name,
                "size": found.size,
                "largest": found.largest,
                "at": str(list(found.cells[0].index)),
                "before": float(found.cells[0].value),
                "after": float(found.cells[1].value),
                "changed": found.changed,
                "compared": found.compared,
            }
            for found in self.steps
        ]

    def in_order(self) -> list[ComparedStep]:
        """The steps that differ in the order in which they were computed: the first is where the
        runs part."""
        return sorted(self.steps, key=lambda found: found.one.number)

    def facts(self) -> dict[str, Any]:
        return {"steps": len(self.steps), "same": len(self.same), "unaligned": list(self.unaligned)}

    def plot(self, language: str = "en") -> Picture:
        names = [found.name for found in self.steps]
        return bars(self.title(language), names, [found.size for found in self.steps])


def compare(one: Trace, other: Trace) -> Comparison:
    """Two texts, a run and its edit, or two checkpoints of one training run, step by step.

    Steps are aligned by name. Where the runs have texts of different lengths, their positions are
    aligned by their tokens: what stands in one text alone has no partner and is left out.
    """
    for run in (one, other):
        if not isinstance(run, Trace):
            raise TraceError(
                "two traces are compared, got {found}: a model is traced with trace(model, …)",
                found=type(run).__name__,
            )
        run.check_open()
    first, second = _tensors(one), _tensors(other)
    lengths = _lengths(one, other)
    different, same = [], []
    unaligned = [name for name in first if name not in second]
    unaligned += [name for name in second if name not in first]
    for name in first:
        if name not in second:
            continue
        axes = _axes(first[name], second[name], lengths)
        if axes is None or any(aligned is not None and not aligned[0] for aligned in axes):
            unaligned.append(name)
            continue
        found = _compared(first[name], second[name], axes)
        if found is None:
            same.append(name)
        else:
            different.append(found)
    if not different and not same:
        raise TraceError(
            "the runs have no step in common: they are of two models ({one} and {other})",
            one=one.steps[-1].name,
            other=other.steps[-1].name,
        )
    different.sort(key=lambda found: -found.size)
    return Comparison(tuple(different), tuple(same), tuple(unaligned), bool(lengths))


def _tensors(trace: Trace) -> dict[str, Step]:
    given = [*trace.inputs.values(), *trace.parameters.values()]
    return {step.name: step for step in [*given, *trace.steps] if step.view.numel}


def _lengths(one: Trace, other: Trace) -> dict[tuple[int, int], Aligned]:
    """For each pair of lengths that an input has in the runs, the positions with equal tokens."""
    found: dict[tuple[int, int], Aligned] = {}
    for name, step in one.inputs.items():
        partner = other.inputs.get(name)
        if partner is None or step.dtype.is_floating_point or len(step.shape) == 0:
            continue
        sizes = (step.shape[-1], partner.shape[-1])
        if len(partner.shape) == len(step.shape) and sizes[0] != sizes[1]:
            ids = [run.value.reshape(-1, run.shape[-1])[0].tolist() for run in (step, partner)]
            found.setdefault(sizes, _matching(*ids))
    return found


def _matching(one: Sequence[Any], other: Sequence[Any]) -> Aligned:
    """The longest runs of equal tokens, in order."""
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    pairs = [(block.a + at, block.b + at) for block in blocks for at in range(block.size)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _axes(
    one: Step, other: Step, lengths: dict[tuple[int, int], Aligned]
) -> list[Aligned | None] | None:
    """For each axis the positions that belong together, None for all; None if there is no way."""
    if len(one.shape) != len(other.shape):
        return None
    axes: list[Aligned | None] = []
    for axis, sizes in enumerate(zip(one.shape, other.shape, strict=True)):
        if sizes[0] == sizes[1]:
            axes.append(None)
            continue
        if sizes not in lengths:
            return None
        labels = one.labels[axis], other.labels[axis]
        by_label = labels[0] is not None and labels[1] is not None
        axes.append(_matching(*labels) if by_label else lengths[sizes])  # type: ignore[arg-type]
    return axes


def _compared(one: Step, other: Step, axes: list[Aligned | None]) -> ComparedStep | None:
    """How far cells that have a partner are apart; None if they are equal."""
    old = _chosen(one.view.tensor_on_cpu(), axes, 0)
    new = _chosen(other.view.tensor_on_cpu(), axes, 1)
    if torch.equal(old, new):
        return None
    old, new = old.double(), new.double()
    same = (old == new) | (old.isnan() & new.isnan())
    if bool(same.all()):
        return None
    gap = (new - old).abs().nan_to_num(nan=torch.inf).masked_fill(same, 0.0)
    at = tuple(int(place) for place in np.unravel_index(int(gap.argmax()), gap.shape))
    scale = float(old[old.isfinite()].square().mean().sqrt()) if old.isfinite().any() else 0.0
    size = float(gap.square().mean().sqrt()) / scale if scale else torch.inf
    if not one.dtype.is_floating_point:
        size = float((~same).double().mean())
    return ComparedStep(
        one,
        other,
        size,
        float(gap.max()),
        int((~same).sum()),
        gap.numel(),
        (Cell(one, _place(at, axes, 0)), Cell(other, _place(at, axes, 1))),
    )


def _chosen(tensor: Tensor, axes: list[Aligned | None], side: int) -> Tensor:
    for axis, aligned in enumerate(axes):
        if aligned is not None:
            tensor = tensor.index_select(axis, torch.tensor(aligned[side], dtype=torch.long))
    return tensor


def _place(at: tuple[int, ...], axes: list[Aligned | None], side: int) -> tuple[int, ...]:
    return tuple(
        place if aligned is None else aligned[side][place]
        for place, aligned in zip(at, axes, strict=True)
    )
