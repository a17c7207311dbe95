"""Edits: each makes a new trace; the old one is kept for undo."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from glassformer.errors import GlassformerError, InputError
from glassformer.explorer.cell_cards import cell_ref
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.panels import operand_of
from glassformer.explorer.schemas import Changes, Edit, StepChange
from glassformer.tracing import Step, Trace, diff
from glassformer.tracing.capture.memory import View
from glassformer.tracing.notes import Note

Cells = npt.NDArray[np.generic]

_RERUN = ("another number", "another shape")
"""Kinds of notes saying that an edit changed control flow, so that the model was rerun."""


def edit_trace(opened: OpenTrace, wanted: list[Edit]) -> OpenTrace:
    """A new trace with these numbers set and everything downstream recomputed."""
    resolved = [_resolved(opened.trace, edit) for edit in wanted]
    edits = {(edit.step, tuple(edit.index)): edit for edit in resolved}  # the last one wins
    values = {place: _scalar(opened.trace, edit) for place, edit in edits.items()}
    edited = _apply(opened.trace, values)
    return OpenTrace(
        edited,
        opened.model,
        opened.task,
        opened.text,
        opened.target,
        loaded=opened.loaded,
        reading=opened.reading,
        edits=(*opened.edits, *edits.values()),
        parent=opened.id,
        first=opened.root,
        reran=any(isinstance(note, Note) and note.kind in _RERUN for note in edited.notes),
    )


def _resolved(trace: Trace, edit: Edit) -> Edit:
    """The edit in terms of the step that wrote the cell, with the old value."""
    cell = trace[edit.step][tuple(edit.index)]
    return Edit(
        step=cell.step.name,
        index=list(cell.index),
        value=edit.value,  # JSON's 1e999 is infinite
        before=cell.value,
    )


def _scalar(trace: Trace, edit: Edit) -> float | int:
    value = edit.value
    if trace[edit.step].dtype.is_floating_point:
        return value
    if not math.isfinite(value) or value != int(value):
        raise InputError(f"{edit.step} holds whole numbers: {edit.value} cannot stand there")
    return int(value)


def _apply(trace: Trace, values: dict[tuple[str, tuple[int, ...]], float | int]) -> Trace:
    try:
        return trace.edit(values)
    except GlassformerError:
        raise
    except (IndexError, OverflowError, RuntimeError, ValueError) as error:
        # An id outside the vocabulary, an impossible size: the operator itself refuses.
        first = str(error).partition("\n")[0]
        raise InputError(f"the model cannot compute with this number: {first}") from None


def changes_of(opened: OpenTrace) -> Changes:
    """The steps whose numbers differ from the trace before any edit."""
    if opened.first is None:
        return Changes(steps=[])
    return Changes(
        steps=[
            StepChange(
                step=step.after.number,
                changed=step.changed,
                total=step.mask.numel(),
                largest=step.largest,
                cell=cell_ref(step.cell),
            )
            for step in diff(opened.first.trace, opened.trace).steps
        ]
    )


def changed_cells(
    opened: OpenTrace, number: int, operand: int | None, cut: Callable[[View], Cells]
) -> npt.NDArray[np.uint8]:
    """1 where a window, taken by `cut`, differs from the trace before any edit; NaN equals NaN."""
    now = _view(opened, number, operand)
    found = cut(now)
    if opened.first is None:
        return np.zeros(found.shape, np.uint8)
    before = _view_before(opened.first, opened.step(number), operand)
    if before is None or before.shape != now.shape:
        return np.ones(found.shape, np.uint8)
    old = cut(before)
    same = (found == old) | ((found != found) & (old != old))
    return np.ascontiguousarray(~same, dtype=np.uint8)


def _view(opened: OpenTrace, number: int, operand: int | None) -> View:
    step = opened.step(number)
    return step.view if operand is None else operand_of(step, operand).view


def _view_before(first: OpenTrace, step: Step, operand: int | None) -> View | None:
    """The same step in the original trace; None if an edit changed control flow and it has none."""
    if step.name not in first.trace:
        return None
    old = first.trace[step.name]
    if operand is None:
        return old.view
    return old.operands[operand].view if operand < len(old.operands) else None
