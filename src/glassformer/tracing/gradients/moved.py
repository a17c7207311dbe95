"""Why a weight moved: the few cells of a training step that say it, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.errors import UnknownNameError
from glassformer.tracing.capture.memory import Index
from glassformer.tracing.cells import Cell
from glassformer.tracing.formula import number
from glassformer.tracing.notebooks import ShownAsText
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace

# In the order of the arithmetic; an optimiser has some of them.
_SHARED = (
    "learning_rate", "step", "bias_correction_1", "bias_correction_2", "rate", "step_size",
    "share_of_new", "share_kept",
)  # fmt: skip
_OWN = (
    "turned_gradient", "gradient_with_decay", "step_size", "decayed_weight", "first_moment",
    "second_moment", "largest_second_moment", "sum_of_squares", "row_variance", "column_variance",
    "variance", "corrected_deviation", "reciprocal_deviation", "divisor", "scaled_gradient",
    "velocity", "direction", "orthogonal", "clipped_step_size", "change",
)  # fmt: skip
_REMEMBERED = (
    "velocity", "first_moment", "second_moment", "largest_second_moment", "sum_of_squares",
    "row_variance", "column_variance", "variance",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Move(ShownAsText):
    """One weight before and after a step, and the cells that explain it."""

    before: Cell
    gradient: Cell
    after: Cell
    remembered: dict[str, Cell]
    """What the optimiser knew of this weight: its moments or its velocity."""
    shared: dict[str, Cell]
    """The numbers that all weights share: learning rate, bias corrections, step size."""
    steps: dict[str, Cell]
    """What was computed for this weight, in order."""

    def __str__(self) -> str:
        change = float(self.after.value) - float(self.before.value)
        lines = [
            f"{self.before.name}: {number(self.before.value)} → {number(self.after.value)} "
            f"({change:+.4g})",
            f"  gradient = {number(self.gradient.value)}: {self.gradient.formula}",
        ]
        lines += [f"  {name} before = {number(c.value)}" for name, c in self.remembered.items()]
        for name, cell in (self.shared | self.steps | {"new weight": self.after}).items():
            arithmetic = f" = {cell.numbers}" if cell.expression is not None else ""
            lines.append(f"  {name}{arithmetic} = {number(cell.value)}")
        return "\n".join(lines)


def why_moved(trace: Trace, parameter: str, index: int | tuple[int, ...]) -> Move:
    """Why one weight of a traced training step has the value that it has after the step."""
    moved = {name.removeprefix("update.").removesuffix(".weight") for name in _ends(trace)}
    if parameter not in moved:
        raise UnknownNameError("parameter that moved", parameter, moved)
    own = f"update.{parameter}"
    place = trace[parameter].full_index(index)

    def cells(owner: str, names: tuple[str, ...]) -> dict[str, Cell]:
        known = [trace[f"{owner}.{name}"] for name in names if f"{owner}.{name}" in trace]
        return {step.name.rpartition(".")[2]: step[_place(step, place)] for step in known}

    return Move(
        before=trace[parameter][index],
        gradient=trace[f"gradients.{parameter}"][index],
        after=trace[f"{own}.weight"][index],
        remembered=cells(f"state.{parameter}", _REMEMBERED),
        shared=cells("update", _SHARED),
        steps=cells(own, _OWN),
    )


def _place(step: Step, index: Index) -> Index:
    """A parameter's cell in a step that has one number for all of it, or for a row or column."""
    if not step.shape:
        return ()
    return tuple(i if size > 1 else 0 for i, size in zip(index, step.shape, strict=True))


def _ends(trace: Trace) -> list[str]:
    """The names of the new weights."""
    return [
        step.name
        for step in trace.steps
        if step.name.startswith("update.") and step.name == f"{step.module}.weight"
    ]
