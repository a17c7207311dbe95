"""A step: one tensor of a trace, with its name and how it was computed."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, SupportsIndex, overload

import torch
from torch import Tensor

from glassformer.errors import Fragment, TraceError, UnknownNameError, shown
from glassformer.tracing.arithmetic import rules
from glassformer.tracing.arithmetic.expressions import Axis, Entry, Lookup, walk
from glassformer.tracing.arithmetic.float64_values import limits
from glassformer.tracing.arithmetic.rules.rule_registry import held
from glassformer.tracing.capture.memory import Flat, Index, View
from glassformer.tracing.capture.operator_calls import COPIES, Call
from glassformer.tracing.cell_block import CellBlock, Numbers, select
from glassformer.tracing.cells import Cell
from glassformer.tracing.notes import notebook_markdown

if TYPE_CHECKING:
    from glassformer.tracing.arithmetic.expressions import Expression
    from glassformer.tracing.capture.source_lines import Line
    from glassformer.tracing.trace import Trace


Role = Literal["parameter", "input", "activation", "constant"]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that a step was computed from: the argument's name, the window, and its writer."""

    argument: str
    view: View
    step: Step | None
    """The step that wrote it; None if several did, or if it is empty."""

    @property
    def shape(self) -> Index:
        return self.view.shape

    @property
    def value(self) -> Tensor:
        """The numbers, in the shape that the operator read."""
        return self.view.tensor_on_cpu().clone()


class Step(Numbers):
    """One tensor of a trace: a parameter, an input, a constant, or an operator's output.

    `step[i, j]` is one of its cells; a leading batch index of size 1 may be left out.
    """

    __slots__ = (
        "_operands",
        "call",
        "dtype",
        "expanded",
        "is_view",
        "line",
        "module",
        "name",
        "number",
        "op",
        "output",
        "pinned",
        "role",
        "shape",
        "trace",
        "view",
    )

    def __init__(
        self,
        trace: Trace,
        name: str,
        view: View,
        role: Role,
        *,
        module: str = "",
        call: Call | None = None,
        output: int = 0,
        line: Line | None = None,
        is_view: bool = False,
        pinned: AbstractSet[Index] = frozenset(),
    ) -> None:
        self.trace = trace
        self.name = name
        self.view = view
        self.shape: Index = view.shape
        self.dtype: torch.dtype = view.dtype
        self.role: Role = role
        self.module = module
        self.call = call
        self.op: str = call.operator.name if call is not None else role
        """The operator that computed it; its role if none did."""
        self.expanded: bool = call is not None and call.expanded
        """Whether it is part of a fused operator that the trace expanded."""
        self.output = output
        self.line = line
        self.is_view = is_view
        self.pinned = pinned
        self.number = -1
        self._operands: tuple[Operand, ...] | None = None

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.shape)) or "one number"
        return f"<step {self.name}: {self.op}, {shape}, {self.role}>"

    def _repr_markdown_(self) -> str:
        """In a notebook: its numbers as a table, with the formula."""
        return notebook_markdown(self)

    @property
    def rule(self) -> str | None:
        """The rule that explains its cells; None if it is given or opaque."""
        rule = rules.of_call(self.call, self.output) if self.call is not None else None
        return rule.name if rule is not None else None

    @property
    def tolerance(self) -> float:
        """The largest relative difference at which a rule still reproduces one of its numbers.

        Where it is exceeded, nothing prints "=" between the arithmetic and the stored number.
        """
        sums = self.dtype_of_sums or self.dtype
        return max(limits(self.dtype).tolerance, limits(sums).tolerance)

    @property
    def dtype_of_sums(self) -> torch.dtype | None:
        """Of a sum that is rounded after every addition: to what. Else None."""
        rule = rules.of_call(self.call, self.output) if self.call is not None else None
        if rule is None or not rule.sums_like or not self.dtype.is_floating_point:
            return None
        assert self.call is not None
        return self.call.view(rule.sums_like).dtype

    @property
    def is_opaque(self) -> bool:
        """Whether it was computed from other tensors by an operator without a rule."""
        computed = self.call is not None and self.role == "activation"
        return computed and self.rule is None and self.view.numel > 0

    @property
    def is_main(self) -> bool:
        """Whether a reader should see it: no copy, reshape, or making of a mask or positions."""
        if self.role in ("parameter", "input"):
            return True
        counts = self.dtype.is_floating_point and not self.is_view and self.op not in COPIES
        return counts and not self.trace.is_fixed(self)

    @property
    def is_unwritten(self) -> bool:
        """Whether it is uninitialised memory (`torch.empty`), which has no meaningful numbers."""
        return self.call is not None and rules.is_unwritten(self.call.operator)

    @property
    def value(self) -> Tensor:
        """A copy of its numbers on the CPU: writing to it does not change the trace."""
        return self.view.tensor_on_cpu().clone()

    @property
    def stage(self) -> str | None:
        """Its role in any Transformer (`scores`, `resid_mid`), if the structure shows it."""
        return self.trace.found_stages.of_step.get(id(self))

    @property
    def labels(self) -> AxisLabels:
        """For each axis the labels of its positions (token texts, head numbers), or None."""
        known = self.trace.found_labels
        if id(self) not in known:  # a part of a step, which only has a stage
            known[id(self)] = find_labels(self.trace, self, known)
        return known[id(self)]

    def token_labels(self, axis: int) -> tuple[str, ...] | None:
        """The labels of an axis of tokens; a text of one token has its label at the input only."""
        labels = self.labels[axis]
        if labels is None and self.shape[axis] == 1:
            given = {texts for source in self.trace.inputs.values() for texts in source.labels}
            single = [texts for texts in given if texts is not None and len(texts) == 1]
            return single[0] if len(single) == 1 else None
        return labels

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The tensors it was computed from, by the operator's argument names."""
        if self._operands is None:
            found = []
            for argument, value in self.call.bound.items() if self.call is not None else ():
                if isinstance(value, View):
                    found.append(Operand(argument, value, _sole_owner(value)))
                elif isinstance(value, list | tuple):
                    views = ((n, part) for n, part in enumerate(value) if isinstance(part, View))
                    found += [Operand(f"{argument}.{n}", v, _sole_owner(v)) for n, v in views]
            self._operands = tuple(found)
        return self._operands

    def expression(self, index: Index, *, unedited: bool = False) -> Expression | None:
        """The arithmetic of one cell; None if it is given, opaque, unwritten or set by an edit.

        `unedited`: the operator's arithmetic, even if an edit has set the cell's value.
        """
        if self.call is None or (index in self.pinned and not unedited):
            return None
        rule = rules.of_call(self.call, self.output)
        if rule is None:
            return None
        built = rule.build(self.call, index)
        if built is None or self.dtype.is_floating_point:
            return built
        return held(built, self.dtype)

    @overload
    def __getitem__(self, index: SupportsIndex | str | tuple[SupportsIndex | str, ...]) -> Cell: ...

    @overload
    def __getitem__(self, index: object) -> Cell | CellBlock: ...

    def __getitem__(self, index: object) -> Cell | CellBlock:
        """A cell, or a part of the step; a position may be given by its label: `[-1, "happy"]`."""
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, str) for part in parts):
            index = self._numbered(parts)
        place = self.full_index(index)
        if place is None:
            return select(self, index)
        return Cell(*self.view.owner(place)) if self.is_view else Cell(self, place)

    def _numbered(self, parts: tuple[object, ...]) -> tuple[object, ...]:
        """An index with the labels in it replaced by their positions."""
        all_the_rest = next((at for at, part in enumerate(parts) if part is ...), 0)
        return tuple(
            self._labelled_place(at if at < all_the_rest else at - len(parts), part)
            if isinstance(part, str)
            else part
            for at, part in enumerate(parts)
        )

    def _labelled_place(self, axis: int, label: str) -> int:
        labels = self.labels[axis] if -axis <= len(self.shape) else None
        count = (labels or ()).count(label)
        if labels is None or not count:
            raise UnknownNameError("label", label, labels or ())
        if count > 1:
            raise TraceError(
                "{label!r} stands {count} times on this axis of {name}: give its position by "
                "number",
                label=label,
                count=count,
                name=self.name,
            )
        return labels.index(label)

    def block(self, places: Flat) -> CellBlock:
        """Some of its cells, by their flat positions."""
        return CellBlock(self, places, (None,) * places.ndim)

    def full_index(self, index: object) -> Index | None:
        """The complete index: leading axes of size 1 added, negative positions resolved.

        None where the index is not of whole numbers (also numpy's or torch's), but a slice.
        """
        parts = index if isinstance(index, tuple | list) else (index,)
        try:
            given = tuple(map(operator.index, parts))
        except TypeError:
            return None
        if any(isinstance(part, bool) for part in parts):
            return None
        missing = len(self.shape) - len(given)
        if missing > 0 and all(size == 1 for size in self.shape[:missing]):
            given = (0,) * missing + given
        fits = len(given) == len(self.shape) and all(
            -size <= place < size for place, size in zip(given, self.shape, strict=True)
        )
        if not fits and not parts:
            raise TraceError(
                "{name} holds {shape} numbers: ask for one of them, such as {name}[{first}]",
                name=self.name,
                shape="×".join(map(str, self.shape)),
                first=", ".join("0" * len(self.shape)),
            )
        if not fits:
            asked = ", ".join(map(str, index)) if isinstance(index, tuple) else index
            axes = len(self.shape)
            raise TraceError(
                "{name} has no cell [{asked}]: its shape is {shape}"
                if len(given) == axes
                else "{name} has no cell [{asked}]: its shape is {shape}, so a cell has {indices}",
                name=self.name,
                asked=asked,
                shape=tuple(self.shape),
                indices=Fragment.of("1 index") if axes == 1 else Fragment.of("{n} indices", n=axes),
            )
        return tuple(
            place + size if place < 0 else place
            for place, size in zip(given, self.shape, strict=True)
        )


def _sole_owner(view: View) -> Step | None:
    """The step that wrote all of a view (checked at its corners), or None."""
    if view.numel == 0:
        return None
    version = view.version
    if version.base is None and len(version.owners) == 1:
        return version.owners[0]
    ends = itertools.product(*({0, size - 1} for size in view.shape))
    owners = {id(step): step for step, _ in map(view.owner, ends)}
    return next(iter(owners.values())) if len(owners) == 1 else None


# --- labels ---
# What the positions of an axis are called: the tokens of a text, the numbers of heads.
#
# Labels are given for inputs (tokens), for parameters (the vocabulary of an embedding table's rows)
# and for outputs (class names). They reach a step along the operands: if moving one place along an
# axis of the output moves one place along an axis of an operand, the two axes share their labels.


class Head(str):
    """The label of a head: `head 2`. Its number is kept, for other languages."""

    __slots__ = ("number",)

    number: int

    def __new__(cls, number: int) -> Self:
        """The label in English, as text."""
        label = super().__new__(cls, f"head {number}")
        label.number = number
        return label


AxisLabels = tuple[tuple[str, ...] | None, ...]
_ATTENTION = ("matmul", "softmax", "_safe_softmax")


def read_labels(given: object) -> Mapping[str, Sequence[str]]:
    """The labels that a caller gave; refuses anything but texts by the names of tensors."""
    if given is None:
        return {}
    if isinstance(given, Mapping) and all(
        isinstance(name, str)
        and isinstance(texts, Sequence)
        and all(isinstance(text, str) for text in texts)
        for name, texts in given.items()
    ):
        return given
    raise TraceError(
        'axis_labels takes texts by the names of inputs, as in {{"ids": ["I", "am"]}}, got {value}',
        value=shown(given),
    )


def check_labels(trace: Trace) -> None:
    """Refuse labels for tensors that are not there, or as many as no axis has."""
    for name, texts in trace.recording.labels.items():
        role, step = next(
            ((role, table[name]) for role, table in _labelled(trace).items() if name in table),
            ("", None),
        )
        if step is None:
            raise UnknownNameError("input or output", name, [*trace.inputs, *trace.outputs])
        # A batch of one needs no labels, so that one label is a slip.
        if len(texts) not in ([size for size in step.shape if size > 1] or step.shape):
            raise TraceError(
                "{count} labels were given for {what} {name}, and no axis of its shape {shape} has "
                "that many positions",
                count=len(texts),
                what=role,
                name=name,
                shape=step.shape,
            )


def _labelled(trace: Trace) -> dict[str, dict[str, Step]]:
    return {"input": trace.inputs, "parameter": trace.parameters, "output": trace.outputs}


def find_labels(trace: Trace, step: Step, known: dict[int, AxisLabels]) -> AxisLabels:
    """The labels of a step's axes, from those of the steps before it."""
    given = _given_labels(trace, step)
    if given is not None and step.role in ("input", "parameter"):
        return tuple(given[1] if a == given[0] else None for a in range(len(step.shape)))
    read = _cells_read(step, (0,) * len(step.shape)) if 0 not in step.shape else []
    start = [(view, *view.owner(at)) for view, at in read]
    found = [_along(step, axis, start, known) for axis in range(len(step.shape))]
    if given is not None:
        found[given[0]] = given[1]
    is_product = step.expanded or step.op in _ATTENTION
    if len(found) == 4 and found[1] is None and is_product and not _is_turned(trace, step):
        found[1] = tuple(Head(number) for number in range(step.shape[1]))
    if step.view.pairs:
        found[-1] = ("re", "im")
    return tuple(found)


def _is_turned(trace: Trace, step: Step) -> bool:
    """Whether the stages show a step with its axes in another order: the heads not second."""
    shown = (
        one for attention in trace.found_stages.attentions for one in attention.stages.values()
    )
    return any(one.is_view and one.view.version is step.view.version for one in shown)


def _given_labels(trace: Trace, step: Step) -> tuple[int, tuple[str, ...]] | None:
    """The labels that a caller gave, and their axis: of a parameter the first that fits."""
    for name, texts in trace.recording.labels.items():
        if any(table.get(name) is step for table in _labelled(trace).values()):
            fitting = [axis for axis, size in enumerate(step.shape) if size == len(texts)]
            axis = fitting[0] if step.role == "parameter" else fitting[-1]
            return axis, tuple(texts)
    return None


def _along(
    step: Step, axis: int, start: list[tuple[View, Step, Index]], known: dict[int, AxisLabels]
) -> tuple[str, ...] | None:
    """The labels that an operand gives to one axis of a step; `start` is what its first cell reads.

    An operand does so if its cell moves by one place when the output cell does, from the first to
    the last: not backwards, as `flip` reads, and not on to another operand, as in `cat`. A single
    head, where nothing moves, is that of an operand of the same shape.
    """
    size = step.shape[axis]
    if size == 1:
        same = (known.get(id(owner)) for _, owner, _ in start if owner.shape == step.shape)
        found = (labels[axis] for labels in same if labels)
        return next((texts for texts in found if texts and isinstance(texts[0], Head)), None)
    fitting = [
        any(texts is not None and len(texts) == size for texts in known.get(id(owner), ()))
        for _, owner, _ in start
    ]
    if not any(fitting):
        return None
    moved = _cells_read(step, tuple(int(a == axis) for a in range(len(step.shape))))
    for fits, (view, owner, first), (moved_view, there) in zip(fitting, start, moved, strict=False):
        if not fits or view is not moved_view:
            continue
        other, second = view.owner(there)
        changed = [a for a, (x, y) in enumerate(zip(first, second, strict=False)) if x != y]
        along = [(first[a], second[a]) for a in changed]
        if other is owner and along == [(0, 1)]:
            texts = known[id(owner)][changed[0]]
            end = tuple(size - 1 if a == changed[0] else at for a, at in enumerate(first))
            if texts is not None and len(texts) == size and _reads(step, axis, owner, end):
                return texts
    return None


def _reads(step: Step, axis: int, owner: Step, end: Index) -> bool:
    """Whether the last cell along an axis reads a certain cell of an operand."""
    last = tuple(step.shape[axis] - 1 if a == axis else 0 for a in range(len(step.shape)))
    read = (view.owner(at) for view, at in _cells_read(step, last))
    return any(other is owner and place == end for other, place in read)


def _cells_read(step: Step, index: Index) -> list[tuple[View, Index]]:
    """The operand cells that an output cell reads; a running or looked-up position counts as 0."""
    if step.is_view:
        return [(step.view, index)]
    expression = step.expression(index, unedited=True)
    return [
        (part.view, tuple([_first(at) for at in part.index]))
        for part in (walk(expression) if expression is not None else ())
        if isinstance(part, Entry | Lookup)
    ]


def _first(part: int | Axis | Expression) -> int:
    return part if isinstance(part, int) else part.start if isinstance(part, Axis) else 0
