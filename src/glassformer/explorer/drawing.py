"""The panels of an equation: a step, and its operands in the shape in which the operator saw them.

Which slice of an operand belongs to a slice of the step is read off the arithmetic of the slice's
first cell; which labels its axes have, off the steps that wrote its cells.
"""

from __future__ import annotations

from glassformer.explorer.scales import scale_info
from glassformer.explorer.schemas import PanelInfo, StepInfo, TraceInfo
from glassformer.trace import Operand, Step
from glassformer.trace.expressions import Axis, Entry, Lookup, walk
from glassformer.trace.formula import symbol_to_tex
from glassformer.trace.memory import Index, View

__all__ = ["PanelMaker"]


class PanelMaker:
    """Panels for one slice of a step."""

    def __init__(self, info: TraceInfo, step: Step, lead: Index) -> None:
        self._info = info
        self._step = step
        self._lead = lead
        self._operands = step.operands
        self._names = step.trace.naming
        self._sight = self._names.sight(step)

    def own(self) -> PanelInfo:
        """The step itself."""
        told = self._info.steps[self._step.number]
        rows, columns = _last_two(told)
        return PanelInfo(
            step=told.number,
            operand=None,
            title=told.short,
            symbol=self._symbol(self._step),
            shape=told.shape,
            lead=list(self._lead),
            rows=rows,
            columns=columns,
            transposed=False,
            role=told.role,
            scale=told.scale,
        )

    def operand(self, place: int | None, transposed: bool = False) -> PanelInfo:
        """An operand by its place; `transposed`: the formula has it turned over."""
        assert place is not None
        operand = self._operands[place]
        owner = operand.step
        told = None if owner is None else self._info.steps[owner.number]
        down, across = _axes(operand)
        symbol = None if owner is None else self._symbol(self._seen(operand.view, owner))
        if symbol is not None and (transposed or _is_turned(operand, down, across)):
            symbol = rf"{symbol}^\top"
        return PanelInfo(
            step=None if owner is None else owner.number,
            operand=place,
            title=operand.argument if owner is None else self._names.short(owner),
            symbol=symbol,
            shape=list(operand.view.shape),
            lead=list(self._operand_lead(operand)),
            rows=None if told is None or down is None else told.labels[down],
            columns=None if told is None or across is None else told.labels[across],
            transposed=transposed,
            role="activation" if owner is None else owner.role,
            scale=scale_info(self._step) if told is None else told.scale,
        )

    def _seen(self, view: View, owner: Step) -> Step:
        """The step under whose symbol an operand stands: of a packed projection, its part."""
        return self._names.find(view, (0,) * view.ndim)[0] if view.numel else owner

    def _symbol(self, step: Step) -> str | None:
        """In LaTeX; None where it is the name."""
        symbol = self._sight.symbol(step)
        return None if str(symbol) == self._names.short(step) else symbol_to_tex(symbol)

    def _operand_lead(self, operand: Operand) -> Index:
        """The slice of the operand that the step's slice reads first."""
        n_lead = max(0, len(operand.view.shape) - 2)
        if n_lead == 0 or operand.view.numel == 0 or 0 in self._step.shape:
            return (0,) * n_lead
        corner = (*self._lead, *(0 for _ in self._step.shape[len(self._lead) :]))
        expression = self._step.unedited_expression(corner)
        for part in walk(expression) if expression is not None else ():
            if isinstance(part, Entry | Lookup) and part.view is operand.view:
                whole = [
                    p if isinstance(p, int) else p.start if isinstance(p, Axis) else 0
                    for p in part.index
                ]
                return tuple(whole[:n_lead])
        return _broadcast_lead(operand.view.shape, self._lead)


def _broadcast_lead(shape: Index, lead: Index) -> Index:
    """By counting from the right, as operators that broadcast do."""
    sizes = shape[:-2]
    padded = (0,) * max(0, len(sizes) - len(lead)) + lead[max(0, len(lead) - len(sizes)) :]
    return tuple(min(place, size - 1) for place, size in zip(padded, sizes, strict=True))


def _axes(operand: Operand) -> tuple[int | None, int | None]:
    """The axes of the step that wrote an operand along which its rows and columns run."""
    view = operand.view
    if operand.step is None or view.numel == 0:
        return None, None
    return _axis_of(view, len(view.shape) - 2), _axis_of(view, len(view.shape) - 1)


def _axis_of(view: View, axis: int) -> int | None:
    """The one axis of the writer that a move along an axis of the view changes, if it is whole."""
    if axis < 0 or view.shape[axis] < 2 or view.strides[axis] == 0:
        return None
    owner, first = view.owner((0,) * len(view.shape))
    other, moved = view.owner(tuple(int(a == axis) for a in range(len(view.shape))))
    if other is not owner:
        return None
    changed = [a for a, (x, y) in enumerate(zip(first, moved, strict=True)) if x != y]
    whole = len(changed) == 1 and owner.shape[changed[0]] == view.shape[axis]
    return changed[0] if whole else None


def _is_turned(operand: Operand, down: int | None, across: int | None) -> bool:
    """Whether the operator saw the rows of what was written as columns."""
    if operand.step is None or across is None:
        return False
    if down is not None:
        return across < down
    return len(operand.step.shape) > 1 and across == len(operand.step.shape) - 2


def _last_two(told: StepInfo) -> tuple[int | None, int | None]:
    if not told.shape:
        return None, None
    return (told.labels[-2] if len(told.shape) > 1 else None), told.labels[-1]
