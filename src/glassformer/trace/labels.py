"""What the positions of an axis are called: the tokens of a text, the numbers of heads.

Labels are given for inputs. They reach a step along the operands: if moving one place along an
axis of the output moves one place along an axis of an operand, the two axes share their labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from glassformer.errors import TraceError, UnknownNameError
from glassformer.trace.expressions import Axis, Entry, Lookup, walk
from glassformer.trace.memory import Index, View
from glassformer.trace.steps import Step

if TYPE_CHECKING:
    from glassformer.trace.trace import Trace

__all__ = ["AxisLabels", "Head", "check_labels", "find_labels", "read_labels"]


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
    """The labels that a caller gave; refuses anything but texts by the names of inputs."""
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
        'axis_labels takes texts by the names of inputs, as in {"ids": ["I", "am"]}, '
        f"got {given!r}"
    )


def check_labels(trace: Trace) -> None:
    """Refuse labels for inputs that are not there, or as many as no axis has."""
    for name, texts in trace.recording.labels.items():
        if name not in trace.inputs:
            raise UnknownNameError("input", name, trace.inputs)
        shape = trace.inputs[name].shape
        if len(texts) not in _labelled_sizes(shape):
            raise TraceError(
                f"{len(texts)} labels were given for input {name}, "
                f"and no axis of its shape {shape} has that many positions"
            )


def _labelled_sizes(shape: Index) -> list[int]:
    """The sizes that labels may have; a batch of one needs none, so one label is a slip."""
    return [size for size in shape if size > 1] or list(shape)


def find_labels(trace: Trace, step: Step, known: dict[int, AxisLabels]) -> AxisLabels:
    """The labels of a step's axes, from those of the steps before it."""
    given = trace.recording.labels.get(step.name) if step.role == "input" else None
    if given is not None:
        axis = max(a for a, size in enumerate(step.shape) if size == len(given))
        return tuple(tuple(given) if a == axis else None for a in range(len(step.shape)))
    found = [_along(step, axis, known) for axis in range(len(step.shape))]
    if len(found) == 4 and found[1] is None and (step.expanded or step.op in _ATTENTION):
        found[1] = tuple(Head(number) for number in range(step.shape[1]))
    if step.view.pairs:
        found[-1] = ("re", "im")
    return tuple(found)


def _along(step: Step, axis: int, known: dict[int, AxisLabels]) -> tuple[str, ...] | None:
    """The labels that an operand gives to one axis of a step."""
    size = step.shape[axis]
    if size < 2 or 0 in step.shape:
        return None
    start = (0,) * len(step.shape)
    moved = tuple(int(a == axis) for a in range(len(step.shape)))
    for view, here, there in _moves(step, start, moved):
        owner, first = view.owner(here)
        other, second = view.owner(there)
        changed = [a for a, (x, y) in enumerate(zip(first, second, strict=False)) if x != y]
        if other is not owner or len(changed) != 1:
            continue
        labels = known.get(id(owner), ())
        texts = labels[changed[0]] if labels else None
        if texts is not None and len(texts) == size and second[changed[0]] == 1:
            return texts
    return None


def _moves(step: Step, start: Index, moved: Index) -> Iterator[tuple[View, Index, Index]]:
    """The operand cells that two neighbouring output cells read in the same place."""
    if step.is_view:
        yield step.view, start, moved
        return
    here, there = step.unedited_expression(start), step.unedited_expression(moved)
    if here is None or there is None:
        return
    for one, other in zip(walk(here), walk(there), strict=False):
        if not (isinstance(one, Entry | Lookup) and isinstance(other, Entry | Lookup)):
            continue
        if one.view is other.view and one.index != other.index:
            yield one.view, _whole(one), _whole(other)


def _whole(entry: Entry | Lookup) -> Index:
    """An index in numbers; a running or looked-up position counts as 0."""
    return tuple(
        part if isinstance(part, int) else part.start if isinstance(part, Axis) else 0
        for part in entry.index
    )
