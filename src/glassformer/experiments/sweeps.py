"""One intervention for each layer and position, or each layer and head: a map of what matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.experiments.intervention import ablate, patch
from glassformer.tracing import Cell, Trace

Measure = Callable[[Trace], Cell]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A number for each layer and each position (or head): the measure after the intervention."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Tensor
    """(layers, positions or heads)."""
    before: float
    """The measure in the run itself."""
    _again: Callable[[int, int], Trace] = field(repr=False, compare=False)
    _measure: Measure = field(repr=False, compare=False)

    @property
    def effects(self) -> Tensor:
        """What each intervention changed."""
        return self.values - self.before

    def trace(self, row: int, column: int) -> Trace:
        """The run after one of the interventions, computed again."""
        return self._again(row, column)

    def cell(self, row: int, column: int) -> Cell:
        """A number of the table as a cell of its run."""
        return self._measure(self.trace(row, column))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "before": self.before,
            "values": self.values.tolist(),
        }

    def table(self) -> list[dict[str, Any]]:
        """One row for each number, as a data frame takes it."""
        return [
            {"layer": row, "place": column, "value": float(self.values[i, j])}
            for i, row in enumerate(self.rows)
            for j, column in enumerate(self.columns)
        ]


def sweep(
    trace: Trace,
    other: Trace | None = None,
    *,
    over: str = "position",
    stage: str | None = None,
    measure: Measure,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Every layer by every position (or head), one at a time.

    With `other`, the part is taken from that run (activation patching), else it is switched off.
    `over="position"` acts on `resid_pre`, `over="head"` on the context of each head, unless `stage`
    names another. `measure` picks the cell to look at in a run: `lambda t: t["logits"][-1, 7]`.
    """
    if over not in ("position", "head"):
        raise TraceError(f'over is "position" or "head", got {over!r}')
    wanted = stage or ("resid_pre" if over == "position" else "context")
    layers = [name for name in trace.stages if name.rpartition(".")[2] == wanted]
    if not layers:
        raise TraceError(f"this trace has no stage {wanted}; it has {_stages(trace)}")
    axis = -2 if over == "position" else -3
    n_places = trace.stages[layers[0]].shape[axis]

    def run(row: int, column: int) -> Trace:
        head, position = (column, None) if over == "head" else (None, column)
        if other is None:
            return ablate(trace, layers[row], head=head, position=position)
        return patch(trace, other, layers[row], head=head, position=position)

    values = torch.empty(len(layers), n_places, dtype=torch.float64)
    for row in range(len(layers)):
        for column in range(n_places):
            with run(row, column) as changed:
                values[row, column] = float(measure(changed).value)
            if progress is not None:
                progress(row * n_places + column + 1, values.numel())
    labels = trace.stages[layers[0]].labels[axis]
    columns = labels if labels is not None else tuple(str(at) for at in range(n_places))
    return Sweep(tuple(layers), tuple(columns), values, float(measure(trace).value), run, measure)


def _stages(trace: Trace) -> str:
    return ", ".join(sorted({name.rpartition(".")[2] for name in trace.stages})) or "none"
