"""What a cell influenced, where it mostly came from, and how two traces differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.tracing.arithmetic.expressions import (
    Choose,
    Entry,
    Expression,
    Function,
    Lookup,
    Number,
    Operation,
    Reduce,
    walk,
)
from glassformer.tracing.arithmetic.float64_values import evaluate, gathered
from glassformer.tracing.capture.memory import Version, View, as_real
from glassformer.tracing.capture.operator_calls import Call, as_list
from glassformer.tracing.cell_block import Places
from glassformer.tracing.cells import Cell, leaves
from glassformer.tracing.notes import ShownAsText
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace

if TYPE_CHECKING:
    from glassformer.tracing.steps import Step


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
    """The cells computed directly from a cell: those that change if it does.

    Each operator that read the cell runs again with the cell poisoned: a NaN (or another integer)
    shows up in the outputs that use it, so no operator needs a rule for this direction.
    """
    found: list[Dependent] = []
    address, dtype = cell.step.view.address(cell.index), cell.step.dtype
    living = {id(version) for version in _lives_in(cell, address)}
    for call in cell.step.trace.recording.calls:
        if call.outputs and any(
            id(view.version) in living and view.find(address, dtype) is not None
            for view in call.inputs()
        ):
            found.extend(_reached(call, living, address, dtype))
    return found


def _lives_in(cell: Cell, address: int) -> Iterator[Version]:
    """The versions of the storage that contain the cell, until it is overwritten."""
    version = cell.step.view.version
    yield version
    for call in cell.step.trace.recording.calls:
        for old, new in call.writes:
            if old is version:
                hit = any(s.view.find(address, cell.step.dtype) is not None for s in new.owners)
                if hit:
                    return
                version = new
                yield version


def _reached(call: Call, living: set[int], address: int, dtype: torch.dtype) -> Iterator[Dependent]:
    """The outputs of a call that change with the cell; an edited number depends on nothing."""
    masks: dict[int, Tensor] = {}
    for poison in _poisons(dtype, call):
        outputs = _run_poisoned(call, living, address, dtype, poison)
        if outputs is None:
            continue
        for step in call.steps:
            before, after = step.view.tensor(), as_real(outputs[step.output])
            changed = _differs(before, after)
            if after.is_floating_point() and bool((changed & ~after.isnan()).any()):
                # Perhaps only last digits, which differ if a product is divided among another
                # number of threads than it was: compare with a run of the cell as it is.
                as_it_is = _run_poisoned(call, living, address, dtype, None)
                assert as_it_is is not None
                changed = _differs(as_real(as_it_is[step.output]), after)
            masks[step.output] = masks.get(step.output, torch.zeros_like(changed)) | changed
    for step in call.steps:
        if step.output not in masks:
            continue
        mask = masks[step.output].contiguous()
        if isinstance(step.pinned, Places):
            mask.view(-1)[torch.from_numpy(step.pinned.flat)] = False
        if bool(mask.any()):
            yield Dependent(step, mask)


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


def _run_poisoned(
    call: Call, living: set[int], address: int, dtype: torch.dtype, poison: Any
) -> list[Tensor] | None:
    """The call's outputs with the cell replaced, or as it is if `poison` is None.

    None if the operator rejects the number.
    """

    def given(_name: str, view: View) -> Tensor:
        tensor = view.tensor().clone()
        at = view.find(address, dtype) if id(view.version) in living else None
        if at is not None and poison is not None:
            # Along an expanded axis, the cell appears at every position.
            places = tuple(
                slice(None) if stride == 0 else place
                for place, stride in zip(at, view.strides, strict=True)
            )
            own = tensor[places]
            tensor[places] = ~own if poison == "not" else _shifted(own, poison)
        return view.given(tensor)

    args, kwargs = call.mapped(given)
    written = call.operator.writes_to(args, kwargs) if call.unreturned else ()
    try:
        with torch.no_grad():
            result = call.operator.run(args, kwargs)
    except (IndexError, RuntimeError):  # an id outside the table: another poison will do
        return None
    returned = as_list(result)
    unreturned = [args[at] if at < len(args) else kwargs[name] for at, name in written]
    return returned + unreturned if len(call.outputs) > len(call.unreturned) else unreturned


def _shifted(own: Tensor, poison: float) -> Tensor:
    return own + poison if isinstance(poison, int) else torch.full_like(own, poison)


def path(cell: Cell) -> list[Cell]:
    """The cell, its largest contribution, the largest contribution to that, … down to a leaf."""
    trail = [cell]
    while (expression := trail[-1].expression) is not None:
        below = _dominant(expression, _varying(trail[-1]))
        if below is None:
            break
        trail.append(below)
    return trail


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
        for one, other in zip(walk(here), walk(there), strict=False)
        if isinstance(one, Entry)
        and isinstance(other, Entry)
        and one.view is other.view
        and one.index != other.index
    }


def _dominant(expression: Expression, varying: set[int]) -> Cell | None:
    """The operand that a value mostly comes from."""
    match expression:
        case Entry() | Lookup():
            cells = list(leaves(expression))
            # For an embedding, follow the token that selected the row, not the table.
            tokens = (cell for cell in cells[1:] if path(cell)[-1].role == "input")
            return next(tokens, cells[0])
        case Number():
            return None
        case Choose(condition=condition, yes=yes, no=no):
            chosen = _dominant(yes if evaluate(condition) else no, varying)
            return chosen or _dominant(condition, varying)
        case Reduce(kind=kind):
            values = gathered(expression)
            place = _extreme(values, kind)
            return _dominant(expression.term(place), varying)
        case Operation(operator="+" | "-", left=left, right=right):
            sides = sorted((left, right), key=lambda side: -_size(side))
            return _best([_dominant(side, varying) for side in sides], constants_last=True)
        case Operation(operator="/" | "^", left=left, right=right):
            return _dominant(left, varying) or _dominant(right, varying)
        case Operation(left=left, right=right):
            sides = sorted((left, right), key=lambda side: not _reads(side, varying))
            return _best([_dominant(side, varying) for side in sides], constants_last=False)
        case Function(name="max" | "min", arguments=arguments):
            value = evaluate(expression)
            equal = [part for part in arguments if evaluate(part) == value]
            found = [_dominant(part, varying) for part in (*equal, *arguments)]
            return next((below for below in found if below is not None), None)
        case _:
            parts = [_dominant(part, varying) for part in expression.parts]
            return _best(parts, constants_last=False)


def _reads(expression: Expression, views: set[int]) -> bool:
    return any(isinstance(part, Entry) and id(part.view) in views for part in walk(expression))


def _extreme(values: np.ndarray[Any, np.dtype[np.float64]], kind: str) -> int:
    if kind in ("min", "argmin", "smallest", "place smallest"):
        return int(np.argmin(values))
    sizes = values if kind in ("max", "argmax", "largest", "place largest") else np.abs(values)
    return int(np.argmax(np.nan_to_num(sizes, nan=np.inf)))


def _size(expression: Expression) -> float:
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
        if cell.step.trace.is_fixed(cell.step) or _is_counted(cell.step):
            return _RANK["constant"]
        return 0 if constants_last else _RANK[cell.role]

    return min(found, key=rank)


_COUNTED: WeakKeyDictionary[Trace, set[int]] = WeakKeyDictionary()


def _is_counted(step: Step) -> bool:
    """Whether a step only says which positions there are: masks and counts, made from ids alone."""
    trace = step.trace
    if trace not in _COUNTED:
        counted = {id(one) for one in trace.inputs.values() if not one.dtype.is_floating_point}
        for one in trace.steps:
            read = one.call.inputs() if one.call is not None else []
            owners = [owner for view in read for owner in _all_owners(view)]
            if owners and all(id(o) in counted or trace.is_fixed(o) for o in owners):
                counted.add(id(one))
        _COUNTED[trace] = counted - {id(one) for one in trace.inputs.values()}
    return id(step) in _COUNTED[trace]


def _all_owners(view: View) -> Iterator[Step]:
    version: Version | None = view.version
    while version is not None:
        yield from version.owners
        version = version.base


def fixed_steps(steps: Iterable[Step]) -> set[int]:
    """The steps, by identity, that depend on no parameter and no input."""
    fixed: set[int] = set()

    def is_fixed(view: View) -> bool:
        return all(id(owner) in fixed for owner in _all_owners(view))

    for step in steps:
        computed = step.call is not None and step.role == "activation"
        inputs = step.call.inputs() if step.call is not None else []
        if step.role == "constant" or (computed and all(map(is_fixed, inputs))):
            fixed.add(id(step))
    return fixed


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


@dataclass(frozen=True, slots=True)
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
            raise TraceError(f"diff compares two traces, got {type(one).__name__}")
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
    versions = [view.version for view in step.call.inputs()]
    for version in versions:
        base = version.base
        if base is not None and all(known is not base for known in versions):
            versions.append(base)
    return any(owner.is_unwritten for version in versions for owner in version.owners)


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
    # Not torch.unravel_index: it imports sympy, which takes a second.
    index = tuple(int(part) for part in np.unravel_index(int(gap.argmax()), gap.shape))
    return StepDifference(before, after, mask, float(gap.max()), Cell(after, index))
