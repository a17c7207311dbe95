"""What an experiment asks about: one number of a trace, or how far one is above another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from glassformer.errors import TraceError, expect
from glassformer.tracing import Cell, Trace


@dataclass(frozen=True, slots=True)
class CellDifference:
    """One cell less another of the same trace: how much a model prefers one word to another."""

    cell: Cell
    less: Cell

    @property
    def name(self) -> str:
        return f"{self.cell.name} − {self.less.name}"

    @property
    def value(self) -> float:
        return float(self.cell.value) - float(self.less.value)

    def explain(self, depth: int = 1) -> str:
        """The arithmetic of both cells."""
        return f"{self.cell.explain(depth)}\n\n{self.less.explain(depth)}"


Measured: TypeAlias = Cell | CellDifference


def difference(cell: Cell, less: Cell) -> CellDifference:
    """The difference of two cells, which experiments take wherever they take a cell."""
    for one in (cell, less):
        expect(one, Cell, "two cells, t[name][0, 1]", TraceError)
    if cell.step.trace is not less.step.trace:
        raise TraceError(
            "{name} and {other} are cells of two traces: a difference is within one run; "
            "compare(…) holds two runs against each other",
            name=cell.name,
            other=less.name,
        )
    return CellDifference(cell, less)


def signed_cells(measured: Measured) -> list[tuple[float, Cell]]:
    """The cells that make the number, each with its sign."""
    if isinstance(measured, CellDifference):
        return [(1.0, measured.cell), (-1.0, measured.less)]
    if not isinstance(measured, Cell):
        raise TraceError(
            "what is asked about is a cell, t[name][0, 1], or a difference of two, got {found}",
            found=type(measured).__name__,
        )
    return [(1.0, measured)]


def label_of(measured: Measured) -> str | None:
    """The word or class that the last index of a cell stands for."""
    if isinstance(measured, CellDifference) or not measured.index:
        return None
    labels = measured.step.labels[-1]
    return None if labels is None else labels[measured.index[-1]]


def labelled_name(measured: Measured) -> str:
    """Its name with the word or class that it is about: `logits[0, 684] “Der”`."""
    if isinstance(measured, CellDifference):
        return f"{labelled_name(measured.cell)} − {labelled_name(measured.less)}"
    label = label_of(measured)
    return measured.name if label is None else f"{measured.name} “{label}”"


def trace_of(measured: Measured) -> Trace:
    return signed_cells(measured)[0][1].step.trace


def same_in(measured: Measured, run: Trace) -> Measured:
    """The number at the same place of another run."""
    found = [run[cell.step.name][cell.index] for _, cell in signed_cells(measured)]
    return found[0] if len(found) == 1 else CellDifference(*found)


def value_in(measured: Measured, run: Trace) -> float:
    return float(same_in(measured, run).value)
