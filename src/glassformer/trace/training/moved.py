"""Why a weight moved: the few cells of a training step that say it, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.errors import UnknownNameError
from glassformer.trace.cells import Cell
from glassformer.trace.notebooks import ShownAsText
from glassformer.trace.text import number
from glassformer.trace.trace import Trace

__all__ = ["Move", "why_moved"]

# In the order of the arithmetic; an optimiser has some of them.
_SHARED = (
    "learning_rate", "step", "bias_correction_1", "bias_correction_2", "step_size", "share_kept",
)  # fmt: skip
_OWN = (
    "gradient_with_decay", "decayed_weight", "velocity", "direction", "first_moment",
    "second_moment", "corrected_deviation", "divisor", "change",
)  # fmt: skip
_REMEMBERED = ("velocity", "first_moment", "second_moment")


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

    def cells(owner: str, names: tuple[str, ...]) -> dict[str, Cell]:
        known = [name for name in names if f"{owner}.{name}" in trace]
        return {
            name: step[index] if (step := trace[f"{owner}.{name}"]).shape else step[()]
            for name in known
        }

    return Move(
        before=trace[parameter][index],
        gradient=trace[f"gradients.{parameter}"][index],
        after=trace[f"{own}.weight"][index],
        remembered=cells(f"state.{parameter}", _REMEMBERED),
        shared=cells("update", _SHARED),
        steps=cells(own, _OWN),
    )


def _ends(trace: Trace) -> list[str]:
    """The names of the new weights."""
    return [
        step.name
        for step in trace.steps
        if step.name.startswith("update.") and step.name == f"{step.module}.weight"
    ]
