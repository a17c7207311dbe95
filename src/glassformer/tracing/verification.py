"""Are the numbers shown the numbers that the arithmetic shown gives?

Cells are recomputed in float64 from the very operands and formula that a reader sees. The
difference is measured against max(|value|, Σ|terms|, largest |operand|): float32 cannot do better
where terms cancel.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from glassformer.errors import TraceError, expect_whole, stop_if_cancelled
from glassformer.tracing.arithmetic.expressions import Entry
from glassformer.tracing.arithmetic.float64_values import Evaluation, tolerance
from glassformer.tracing.capture.memory import Index
from glassformer.tracing.cells import Cell
from glassformer.tracing.notebooks import ShownAsText
from glassformer.tracing.steps import Step

if TYPE_CHECKING:
    from glassformer.tracing.trace import Trace


@dataclass(slots=True)
class RuleReport:
    """The worst cell of one rule. `excess` is its difference over what its dtype allows."""

    rule: str
    cells: int = 0
    worst: float = 0.0
    excess: float = 0.0
    cell: str = ""

    def note(self, difference: float, allowed: float, step: Step, index: Index) -> None:
        """Count one cell."""
        self.cells += 1
        if difference > self.worst or not self.cell:
            self.worst, self.cell = difference, f"{step.name}[{', '.join(map(str, index))}]"
        self.excess = max(self.excess, difference / allowed)


@dataclass(slots=True)
class Report(ShownAsText):
    """What a verification found."""

    rules: dict[str, RuleReport] = field(default_factory=dict)
    opaque: list[str] = field(default_factory=list)
    """The steps that no rule explains."""
    without_rule: int = 0
    """How many cells those steps have."""

    @property
    def cells(self) -> int:
        """How many cells were recomputed."""
        return sum(rule.cells for rule in self.rules.values())

    @property
    def worst(self) -> float:
        """The largest relative difference."""
        return max((rule.worst for rule in self.rules.values()), default=0.0)

    @property
    def worst_cell(self) -> str:
        """Where it was found."""
        worst = max(self.rules.values(), key=lambda rule: rule.worst, default=None)
        return worst.cell if worst is not None else ""

    @property
    def ok(self) -> bool:
        """Whether every cell agrees, to 1e-6 in float32."""
        return all(rule.excess <= 1 for rule in self.rules.values())

    def __str__(self) -> str:
        without = f"{self.without_rule} more have no rule" if self.opaque else "all have a rule"
        lines = [f"{self.cells} cells, worst {self.worst:.1e} at {self.worst_cell}; {without}"]
        if not self.cells:
            without = f"{self.without_rule} have no rule" if self.opaque else "nothing was computed"
            lines = [f"no cells to recompute; {without}"]
        for rule in sorted(self.rules.values(), key=lambda rule: -rule.worst):
            mark = "" if rule.excess <= 1 else "  WRONG"
            lines.append(
                f"  {rule.rule:24} {rule.cells:7} cells  {rule.worst:.1e}{mark}  {rule.cell}"
            )
        if self.opaque:
            lines.append(f"  no rule: {', '.join(self.opaque)}")
        return "\n".join(lines)


def verify(trace: Trace, sample: int | None, seed: int) -> Report:
    """Recompute cells of every step; of large steps a random part, the same for a seed."""
    if sample is not None:
        expect_whole(sample, "sample", least=0, most=None, error=TraceError)
    report = Report()
    steps = []
    for step in trace.steps:
        if step.is_opaque:
            report.opaque.append(step.name)
            report.without_rule += step.view.numel
        elif step.rule is not None and step.view.numel:
            steps.append(step)
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    for step, count in zip(steps, _shares([s.view.numel for s in steps], sample), strict=True):
        stop_if_cancelled()
        if count:
            _check(step, count, chance, report)
    return report


def _shares(sizes: list[int], sample: int | None) -> list[int]:
    """How many cells of each step: all of the small ones, equally many of the others."""
    if sample is None or sum(sizes) <= sample:
        return sizes
    shares = [0] * len(sizes)
    left, waiting = sample, len(sizes)
    for place in sorted(range(len(sizes)), key=lambda p: sizes[p]):
        shares[place] = min(sizes[place], -(-left // waiting))
        left, waiting = left - shares[place], waiting - 1
    return shares


def _check(step: Step, count: int, chance: random.Random, report: Report) -> None:
    rule = step.rule
    assert rule is not None
    entry = report.rules.setdefault(rule, RuleReport(rule))
    values = step.view.array
    chosen = sorted(chance.sample(range(step.view.numel), count))
    places = np.unravel_index(chosen, step.shape) if step.shape else ()
    for index in zip(*(axis.tolist() for axis in places), strict=True) if step.shape else [()]:
        expression = step.expression(index)
        copied = isinstance(expression, Entry)
        if expression is None or (copied and Cell(step, index).is_unwritten):
            continue  # set by an edit, or never written: it follows from nothing
        evaluation = Evaluation(expression)
        if not evaluation.is_exact:
            continue
        difference = evaluation.relative_difference(float(values[index]), step.dtype)
        entry.note(difference, tolerance(step.dtype), step, index)
