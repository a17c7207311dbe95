"""What a cell influenced, where it mostly came from, and how two traces differ."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.tracing.arithmetic import expressions as e
from glassformer.tracing.arithmetic.float64_values import evaluate, gathered
from glassformer.tracing.capture.memory import Index, View, as_real, index_of
from glassformer.tracing.capture.operator_calls import Call, as_list
from glassformer.tracing.cell_block import Places
from glassformer.tracing.cells import Cell, leaves
from glassformer.tracing.notes import ShownAsText
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace


@dataclass(frozen=True, slots=True)
class Dependent:
    """The cells of one step that depend on a cell."""

    step: Step
    mask: Tensor
    """True where the step's cell depends on it."""

    @property
    def count(self) -> int:
        return int(self.mask.sum())

    def cells(self) -> Iterator[Cell]:
        for index in self.mask.nonzero().tolist():
            yield Cell(self.step, tuple(index))


def dependents(cell: Cell) -> list[Dependent]:
    """The cells computed directly from a cell: those that change if it does."""
    return Readers(cell.step).dependents(cell.index)


class Readers:
    """The operators that read a step; for many of its cells, they are looked up once.

    Each operator that read a cell runs again with the cell poisoned: a NaN (or another integer)
    shows up in the outputs that use it, so no operator needs a rule for this direction.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._versions = [step.view.version]
        calls = step.trace.recording.calls
        for old, new in (pair for call in calls for pair in call.writes):
            if old is self._versions[-1]:
                self._versions.append(new)
        read = {id(version) for version in self._versions}
        self._readers = [
            _CallReader(call)
            for call in calls
            if call.outputs and any(id(view.version) in read for view in call.inputs())
        ]

    def dependents(self, index: Index) -> list[Dependent]:
        address = self._step.view.address(index)
        living = set(self._lives_in(address))
        return [found for reader in self._readers for found in reader.dependents(living, address)]

    def _lives_in(self, address: int) -> Iterator[int]:
        """The versions of the storage that contain the cell, until it is overwritten."""
        for version in self._versions:
            if version is not self._versions[0]:
                owners = version.owners
                if any(o.view.find(address) is not None for o in owners):
                    return
            yield id(version)


class _CallReader:
    """A call to run again with one number of its arguments replaced."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._views = call.tensors()
        self._written = call.operator.writes_to(call.args, call.kwargs)
        self._is_small = sum(view.numel for view in self._views.values()) < _SMALL
        self._as_they_are: dict[tuple[str, ...], list[Tensor]] = {}

    def dependents(self, living: set[int], address: int) -> Iterator[Dependent]:
        """The outputs that change with the cell; an edited number depends on nothing."""
        places = {
            name: place
            for name, view in self._views.items()
            if id(view.version) in living and (place := _everywhere(view, address)) is not None
        }
        masks = self._changed(places) if places else {}
        for step in self._call.steps:
            if step.output not in masks:
                continue
            mask = masks[step.output].contiguous()
            if isinstance(step.pinned, Places):
                mask.view(-1)[torch.from_numpy(step.pinned.flat)] = False
            if bool(mask.any()):
                yield Dependent(step, mask)

    def _changed(self, places: dict[str, _Place]) -> dict[int, Tensor]:
        masks: dict[int, Tensor] = {}
        for poison in _poisons(self._views[next(iter(places))].dtype, self._call):
            outputs = self._run(places, poison)
            if outputs is None:
                continue
            for step in self._call.steps:
                before, after = step.view.tensor(), as_real(outputs[step.output])
                changed = _differs(before, after)
                if after.is_floating_point() and bool((changed & ~after.isnan()).any()):
                    # Perhaps only last digits, which differ if a product is divided among another
                    # number of threads than it was: compare with a run of the cell as it is.
                    as_it_is = self._as_it_is(places)[step.output]
                    changed = _differs(as_real(as_it_is), after)
                masks[step.output] = masks.get(step.output, torch.zeros_like(changed)) | changed
        return masks

    def _as_it_is(self, places: dict[str, _Place]) -> list[Tensor]:
        """The outputs with nothing replaced, computed like those with the cell replaced."""
        read = tuple(places)
        if read not in self._as_they_are:
            outputs = self._run(places, None)
            assert outputs is not None
            self._as_they_are[read] = outputs
        return self._as_they_are[read]

    def _run(self, places: dict[str, _Place], poison: Any) -> list[Tensor] | None:
        """The outputs with the cell replaced, or as it is if `poison` is None.

        None if the operator rejects the number.
        """

        def given(name: str, view: View) -> Tensor:
            tensor = view.tensor()
            if name in places or self._written:
                tensor = tensor.clone()
            if name in places and poison is not None:
                own = tensor[places[name]]
                tensor[places[name]] = ~own if poison == "not" else _shifted(own, poison)
            return view.given(tensor)

        call = self._call
        args, kwargs = call.mapped(given)
        written = self._written if call.unreturned else ()
        try:
            with torch.no_grad(), _one_thread(self._is_small):
                result = call.operator.run(args, kwargs)
        except (IndexError, RuntimeError):  # an id outside the table: another poison will do
            return None
        returned = as_list(result)
        unreturned = [args[at] if at < len(args) else kwargs[name] for at, name in written]
        return returned + unreturned if len(call.outputs) > len(call.unreturned) else unreturned


_Place = tuple[int | slice, ...] | Tensor
"""An index, or a mask."""
_SMALL = 1 << 16
"""Operators on fewer numbers run on one thread: to wait for another takes longer than they do."""


@contextmanager
def _one_thread(wanted: bool) -> Iterator[None]:
    """Let torch compute on one thread, unless the program has others.

    torch gives the number to every thread that begins to compute meanwhile, for good.
    """
    before = torch.get_num_threads()
    if not wanted or before == 1 or threading.active_count() > 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _everywhere(view: View, address: int) -> _Place | None:
    """Where a cell is in a tensor: along an expanded axis, and in windows that overlap, everywhere.

    None if it is not in it.
    """
    index = view.find(address)
    if index is None:
        return None
    if view.overlaps:
        return torch.from_numpy(view.shows(address))
    places = zip(index, view.strides, strict=True)
    return tuple(slice(None) if stride == 0 else place for place, stride in places)


def _differs(before: Tensor, after: Tensor) -> Tensor:
    if before.shape != after.shape:  # a mask selects another number of cells: all may have moved
        return torch.ones(before.shape, dtype=torch.bool)
    same = before == after
    if before.dtype.is_floating_point:
        same |= before.isnan() & after.isnan()
    return ~same


def _poisons(dtype: torch.dtype, call: Call) -> list[Any]:
    """Replacements for the cell; comparisons and positions may need more than a NaN to change."""
    if dtype == torch.bool:
        return ["not"]
    if not dtype.is_floating_point:
        return [1, -1, 1_000_000, -1_000_000]
    floats = all(view is None or view.dtype.is_floating_point for view in call.outputs)
    return [math.nan] if floats else [math.nan, math.inf, -math.inf]


def _shifted(own: Tensor, poison: float) -> Tensor:
    return own + poison if isinstance(poison, int) else torch.full_like(own, poison)


def path(cell: Cell, known: dict[Cell, Cell | None] | None = None) -> list[Cell]:
    """The cell, its largest contribution, the largest contribution to that, … down to a leaf.

    `known`, kept between calls, holds the contributions already found: paths run together.
    """
    known = {} if known is None else known
    trail = [cell]
    while True:
        if trail[-1] not in known:
            known[trail[-1]] = largest_contribution(trail[-1])
        below = known[trail[-1]]
        if below is None:
            return trail
        trail.append(below)


def largest_contribution(cell: Cell) -> Cell | None:
    """The one operand that a cell mostly comes from: the first step of its `path`."""
    expression = cell.expression
    return None if expression is None else _dominant(expression, _varying(cell))


_RANK = {"activation": 0, "input": 0, "parameter": 1, "constant": 2}


def _varying(cell: Cell) -> set[int]:
    """The views that the next cell along the last axis reads elsewhere, by identity.

    Of a product of two computed numbers, that one is followed: of a score, the key, since the query
    is the same for all the keys that it is weighed against.
    """
    size = cell.step.shape[-1] if cell.step.shape else 1
    if size < 2 or cell.step.is_view:
        return set()
    last = cell.index[-1]
    neighbour = (*cell.index[:-1], last - 1 if last else 1)
    here, there = cell.expression, cell.step.expression(neighbour, unedited=True)
    if here is None or there is None:
        return set()
    return {
        id(one.view)
        for one, other in zip(e.walk(here), e.walk(there), strict=False)
        if isinstance(one, e.Entry)
        and isinstance(other, e.Entry)
        and one.view is other.view
        and one.index != other.index
    }


def _dominant(expression: e.Expression, varying: set[int]) -> Cell | None:
    """The operand that a value mostly comes from."""
    match expression:
        case e.Entry() | e.Lookup():
            cells = list(leaves(expression))
            # For an embedding, follow the token that selected the row, not the table.
            tokens = (cell for cell in cells[1:] if path(cell)[-1].role == "input")
            return next(tokens, cells[0])
        case e.Number():
            return None
        case e.Choose(condition=condition, yes=yes, no=no):
            chosen = _dominant(yes if evaluate(condition) else no, varying)
            return chosen or _dominant(condition, varying)
        case e.Reduce(kind=kind):
            values = gathered(expression)
            place = _extreme(values, kind)
            return _dominant(expression.term(place), varying)
        case e.Operation(operator="+" | "-", left=left, right=right):
            sides = sorted((left, right), key=lambda side: -_size(side))
            return _best([_dominant(side, varying) for side in sides], constants_last=True)
        case e.Operation(operator="/" | "^", left=left, right=right):
            return _dominant(left, varying) or _dominant(right, varying)
        case e.Operation(left=left, right=right):
            sides = sorted((left, right), key=lambda side: not _reads(side, varying))
            return _best([_dominant(side, varying) for side in sides], constants_last=False)
        case e.Function(name="max" | "min", arguments=arguments):
            value = evaluate(expression)
            equal = [part for part in arguments if evaluate(part) == value]
            found = [_dominant(part, varying) for part in (*equal, *arguments)]
            return next((below for below in found if below is not None), None)
        case _:
            parts = [_dominant(part, varying) for part in expression.parts]
            return _best(parts, constants_last=False)


def _reads(expression: e.Expression, views: set[int]) -> bool:
    return any(isinstance(part, e.Entry) and id(part.view) in views for part in e.walk(expression))


def _extreme(values: np.ndarray[Any, np.dtype[np.float64]], kind: str) -> int:
    if kind in ("min", "argmin", "smallest", "place smallest"):
        return int(np.argmin(values))
    sizes = values if kind in ("max", "argmax", "largest", "place largest") else np.abs(values)
    return int(np.argmax(np.nan_to_num(sizes, nan=np.inf)))


def _size(expression: e.Expression) -> float:
    size = abs(evaluate(expression))
    return math.inf if math.isnan(size) else size


def _best(cells: list[Cell | None], constants_last: bool) -> Cell | None:
    """The operand to follow: a computed one rather than a parameter or constant.

    Among summands (already sorted by size), only constants come last. A tensor computed from
    constants alone (sinusoids) counts as a constant, and so do masks and counts.
    """
    found = [cell for cell in cells if cell is not None]
    if not found:
        return None

    def rank(cell: Cell) -> int:
        if cell.step.trace.is_fixed(cell.step) or id(cell.step) in cell.step.trace.counted:
            return _RANK["constant"]
        return 0 if constants_last else _RANK[cell.role]

    return min(found, key=rank)


# --- the difference of two traces ---


@dataclass(frozen=True, slots=True)
class StepDifference:
    """One step whose numbers differ."""

    before: Step
    after: Step
    mask: torch.Tensor
    """True where the numbers differ."""
    largest: float
    """The largest |after − before|; infinite if only one of the two is finite."""
    cell: Cell
    """Where it occurs, in the second trace."""

    @property
    def name(self) -> str:
        return self.after.name

    @property
    def changed(self) -> int:
        return int(self.mask.sum())


@dataclass(frozen=True, slots=True, repr=False)
class Difference(ShownAsText):
    """The steps that differ, in order, and those that only one trace has (with that shape)."""

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
            raise TraceError("diff compares two traces, got {kind}", kind=type(one).__name__)
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
    """Whether cells of a step may be uninitialised memory: copies of `torch.empty`."""
    if step.is_unwritten or step.call is None:
        return step.is_unwritten
    if step.op == "_grouped_mm":
        return True
    return any(owner.is_unwritten for view in step.call.inputs() for owner in view.owners())


def _compare(before: Step, after: Step) -> StepDifference | None:
    shared = before.view.version.shares_numbers(after.view.version)
    if shared or before.view.numel == 0:
        return None
    old, new = before.view.tensor_on_cpu(), after.view.tensor_on_cpu()
    mask = (old != new) & ((old == old) | (new == new))  # NaN equals NaN here
    if _may_be_unwritten(after) or _may_be_unwritten(before):
        for index in map(tuple, mask.nonzero().tolist()):
            mask[index] = not (Cell(before, index).is_unwritten or Cell(after, index).is_unwritten)
    if not bool(mask.any()):
        return None
    gap = (new.double() - old.double()).abs_().nan_to_num_(nan=torch.inf).masked_fill_(~mask, 0.0)
    index = index_of(int(gap.argmax()), gap.shape)
    return StepDifference(before, after, mask, float(gap.max()), Cell(after, index))
