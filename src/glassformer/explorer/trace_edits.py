"""Edits: each makes a new trace, the old one is kept for undo; some read from other runs."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from glassformer.errors import GlassformerError, InputError
from glassformer.experiments.intervention import StepPart, mean_over_positions, numbers_of
from glassformer.explorer.cell_cards import cell_ref
from glassformer.explorer.model_list import Models
from glassformer.explorer.open_traces import OpenTrace, Store
from glassformer.explorer.panels import Window
from glassformer.explorer.schemas import Changes, Edit, StepChange
from glassformer.tracing import Cell, Step, Trace, diff
from glassformer.tracing.capture.memory import View
from glassformer.tracing.cell_block import CellBlock, select
from glassformer.tracing.notes import Note

_RERUN = ("another number", "another shape")
"""Kinds of notes saying that an edit changed control flow, so that the model was rerun."""


def edit_trace(opened: OpenTrace, wanted: list[Edit], runs: OtherRuns) -> OpenTrace:
    """A new trace with these numbers set and everything downstream recomputed."""
    resolved = _without_repeats([_resolved(opened.trace, edit) for edit in wanted])
    edited = edited_run(opened.trace, resolved, runs)
    return OpenTrace(
        edited,
        opened.model,
        opened.task,
        opened.text,
        opened.target,
        loaded=opened.loaded,
        reading=opened.reading,
        edits=(*opened.edits, *resolved),
        parent=opened.id,
        first=opened.root,
        reran=any(isinstance(note, Note) and note.kind in _RERUN for note in edited.notes),
    )


def edited_run(trace: Trace, edits: list[Edit], runs: OtherRuns) -> Trace:
    """The run with these numbers set; where regions overlap, the later edit counts."""
    values: dict[CellBlock, Tensor | float] = {}
    for edit in edits:
        parts = _parts(trace, edit)
        values.update(zip(parts, _new_values(trace, edit, parts, runs), strict=True))
    return _apply(trace, values)


def _without_repeats(edits: list[Edit]) -> list[Edit]:
    """Of two edits of the same cell or region, the last."""
    return list({(edit.step, tuple(edit.index)): edit for edit in edits}.values())


def _resolved(trace: Trace, edit: Edit) -> Edit:
    """The edit of a cell in terms of the step that wrote it, with the old value."""
    if None in edit.index or (not edit.index and edit.step not in trace):
        _parts(trace, edit)  # refused here if there is no such region
        return edit.model_copy(update={"before": None})
    cell = trace[edit.step][tuple(edit.index)]
    assert isinstance(cell, Cell)
    told = {"step": cell.step.name, "index": list(cell.index), "before": cell.value}
    return Edit(**edit.model_dump() | told)


def _parts(trace: Trace, edit: Edit) -> list[CellBlock]:
    """What an edit sets: a cell, a region of a step, or what a module adds to the stream."""
    if not edit.index and edit.step not in trace:
        return StepPart(edit.step).find(trace)
    index = tuple(slice(None) if at is None else at for at in edit.index)
    return [select(trace[edit.step], index)]


def _new_values(
    trace: Trace, edit: Edit, parts: list[CellBlock], runs: OtherRuns
) -> list[Tensor | float]:
    match edit.to:
        case "mean":
            return [mean_over_positions(part, [trace]) for part in parts]
        case "data":
            over = [run.trace for run in runs.examples()]
            return [mean_over_positions(part, over) for part in parts]
        case "other":
            if edit.text is None:
                raise InputError("numbers of another run need its text")
            theirs = _parts(runs.over(edit.text).trace, edit)
            return [numbers_of(one, part) for one, part in zip(theirs, parts, strict=True)]
        case "value":
            return [_scalar(part.step, edit.value) for part in parts]


def _scalar(step: Step, value: float) -> float | int:
    if step.dtype.is_floating_point:
        return value
    if not math.isfinite(value) or value != int(value):
        raise InputError(
            "{name} holds whole numbers: {value} cannot stand there", name=step.name, value=value
        )
    return int(value)


def _apply(trace: Trace, values: dict[CellBlock, Tensor | float]) -> Trace:
    try:
        return trace.edit(values)
    except GlassformerError:
        raise
    except (IndexError, OverflowError, RuntimeError, ValueError) as error:
        # An id outside the vocabulary, an impossible size: the operator itself refuses.
        first = str(error).partition("\n")[0]
        raise InputError(
            "the model cannot compute with this number: {reason}", reason=first
        ) from None


def changes_of(opened: OpenTrace) -> Changes:
    """The steps whose numbers differ from the trace before any edit."""
    if opened.first is None:
        return Changes(steps=[])
    return Changes(
        steps=[
            StepChange.copy_of(
                step,
                step=step.after.number,
                total=step.mask.numel(),
                cell=cell_ref(step.cell),
            )
            for step in diff(opened.first.trace, opened.trace).steps
        ]
    )


def changed_cells(opened: OpenTrace, shown: Window) -> npt.NDArray[np.uint8]:
    """1 where a window differs from the trace before any edit; NaN equals NaN."""
    found = shown.numbers(shown.view)
    if opened.first is None:
        return np.zeros(found.shape, np.uint8)
    before = _before(opened.first.trace, shown)
    if before is None or before.shape != shown.view.shape:
        return np.ones(found.shape, np.uint8)
    old = shown.numbers(before)
    same = (found == old) | ((found != found) & (old != old))
    return np.ascontiguousarray(~same, dtype=np.uint8)


def _before(first: Trace, shown: Window) -> View | None:
    """The same tensor in the original trace; None if it has none, after another control flow."""
    if shown.step.name not in first:
        return None
    old = first[shown.step.name]
    if shown.operand is None:
        return old.view
    return old.operands[shown.operand].view if shown.operand < len(old.operands) else None


class OtherRuns:
    """Runs of an open trace's model over other texts; they stay open inside a `with` block.

    A run is kept in the store like any other, so that the next question finds it there.
    """

    def __init__(self, models: Models, store: Store, opened: OpenTrace) -> None:
        self._models = models
        self._store = store
        self._opened = opened
        self._held = ExitStack()

    def over(self, text: str) -> OpenTrace:
        """The model's run over a text."""
        name, loaded = self._opened.model, self._opened.loaded
        found = self._store.find(name, text)
        if found is None:
            found = self._store.add(self._models.run(name, text, loaded=loaded)).id
        return self._held.enter_context(self._store.use(found))

    def examples(self) -> list[OpenTrace]:
        """The runs over the example texts on the model's card."""
        texts = [text for card in self._models.cards if card.name == self._opened.model
                 for text in card.examples if card.trace is None]  # fmt: skip
        if not texts:
            raise InputError(
                "{model} has no example texts to take a mean over", model=self._opened.model
            )
        return [self.over(text) for text in texts]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
