"""What a cell's arithmetic reads, without making a cell of each of thousands of numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import numpy as np

from glassformer.trace import Cell
from glassformer.trace.cells import leaves
from glassformer.trace.evaluate import evaluate
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Entry,
    Expression,
    Lookup,
    Reduce,
    children,
    fix,
    walk,
)
from glassformer.trace.memory import View

__all__ = ["count_operands", "first_operands", "reads"]


def first_operands(expression: Expression, most: int) -> list[Cell]:
    """The first cells that an expression reads, each once, in the order of the formula."""
    found: dict[Cell, None] = {}
    for cell in leaves(expression):
        found[cell] = None
        if len(found) == most:
            break
    return list(found)


def count_operands(expression: Expression) -> int:
    """How many cells an expression reads, each counted once."""
    addresses: dict[int, list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = defaultdict(list)
    for view, places in reads(expression):
        if view.version.base is not None:  # written in place: one cell may live in two versions
            return len(set(leaves(expression)))
        at = np.array([view.offset], dtype=np.int64)
        for axis, stride in zip(places, view.strides, strict=True):
            at = np.add.outer(at, np.array(axis, dtype=np.int64) * stride).reshape(-1)
        addresses[id(view.version)].append(at * view.dtype.itemsize)
    return sum(len(np.unique(np.concatenate(parts))) for parts in addresses.values())


def reads(expression: Expression) -> Iterator[tuple[View, list[range]]]:
    """The blocks that an expression reads: a window, and places on each of its axes.

    Of a choice, the condition and the branch that was taken.
    """
    match expression:
        case Entry(view=view, index=index):
            yield view, [_places(part) for part in index]
        case Lookup(view=view, index=index, wrap=wrap):
            yield (
                view,
                [
                    _places(part if isinstance(part, int | Axis) else _looked_up(part, size, wrap))
                    for part, size in zip(index, view.shape, strict=True)
                ],
            )
            for part in children(expression):
                yield from reads(part)
        case Choose(condition=condition, yes=yes, no=no):
            yield from reads(condition)
            yield from reads(yes if evaluate(condition) else no)
        case Reduce(body=body, axes=axes) if any(
            isinstance(part, Lookup | Choose) for part in walk(body)
        ):
            for at in product(*(range(axis.size) for axis in axes)):
                letters = (axis.letter for axis in axes)
                yield from reads(fix(body, dict(zip(letters, at, strict=True))))
        case _:
            for part in children(expression):
                yield from reads(part)


def _places(part: int | Axis) -> range:
    if isinstance(part, int):
        return range(part, part + 1)
    return range(part.start, part.start + part.step * part.size, part.step)


def _looked_up(part: Expression, size: int, wrap: bool) -> int:
    place = int(evaluate(part))
    return place + size if wrap and place < 0 else place
