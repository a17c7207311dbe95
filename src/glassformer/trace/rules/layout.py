"""Numbers moved, not changed: copies, casts, joins, repeats, padding."""

from __future__ import annotations

import math
from collections.abc import Callable

from glassformer.trace.calls import Call
from glassformer.trace.expressions import Convert, Expression, Number
from glassformer.trace.memory import Index, View
from glassformer.trace.rules.operands import broadcast, cell
from glassformer.trace.rules.registry import rule

__all__: list[str] = []


def _cast(value: Expression, source: View, call: Call) -> Expression:
    """The value, converted where the copy has another dtype."""
    made = call.outputs[0]
    if made is None or made.dtype == source.dtype:
        return value
    return Convert(made.dtype, value)


@rule("clone", "contiguous", "to", "_to_copy", "type_as")
def copy(call: Call, index: Index) -> Expression:
    """The same cell of the source."""
    source = call.view(call.operator.parameters[0])
    return _cast(broadcast(source, index), source, call)


@rule("copy")
def copy_into(call: Call, index: Index) -> Expression:
    """The source's cell, written into another tensor."""
    source = call.view("src")
    return _cast(broadcast(source, index), source, call)


@rule("reshape", "flatten", "ravel")
def reshape(call: Call, index: Index) -> Expression:
    """The cell at the same place when both are read row by row."""
    source, made = call.view("self"), call.outputs[0]
    assert made is not None
    place = 0
    for size, position in zip(made.shape, index, strict=True):
        place = place * size + position
    at: list[int] = []
    for size in reversed(source.shape):
        place, position = divmod(place, size)
        at.append(position)
    return cell(source, *reversed(at))


@rule("cat", "concat", "concatenate")
def cat(call: Call, index: Index) -> Expression:
    """The cell of the piece that holds this position."""
    pieces = [piece for piece in call.views("tensors") if piece.shape != (0,)]
    axis = call.axis("dim", len(index))
    place = index[axis]
    for piece in pieces:
        if place < piece.shape[axis]:
            at = (*index[:axis], place, *index[axis + 1 :])
            return _cast(cell(piece, *at), piece, call)
        place -= piece.shape[axis]
    raise AssertionError("the index was checked against the output's shape")


@rule("stack")
def stack(call: Call, index: Index) -> Expression:
    """The cell of the piece that this position of the new axis names."""
    axis = call.axis("dim", len(index))
    piece = call.views("tensors")[index[axis]]
    return _cast(cell(piece, *index[:axis], *index[axis + 1 :]), piece, call)


@rule("repeat")
def repeat(call: Call, index: Index) -> Expression:
    """The cell at the position modulo the source's size."""
    source = call.view("self")
    places = index[len(index) - source.ndim :]
    at = [place % size for place, size in zip(places, source.shape, strict=True)]
    return cell(source, *at)


@rule("flip")
def flip(call: Call, index: Index) -> Expression:
    """The cell counted from the other end of the flipped axes."""
    source = call.view("self")
    axes = call.axes("dims", source.ndim)
    at = [
        source.shape[axis] - 1 - place if axis in axes else place
        for axis, place in enumerate(index)
    ]
    return cell(source, *at)


@rule("roll")
def roll(call: Call, index: Index) -> Expression:
    """The cell that was shifted here, round the end."""
    source = call.view("self")
    shifts, dims = call.bound["shifts"], call.bound["dims"]
    if not dims:
        return _roll_flat(source, index, int(shifts[0]))
    at = list(index)
    for shift, axis in zip(shifts, dims, strict=True):
        at[axis] = (at[axis] - shift) % source.shape[axis]
    return cell(source, *at)


def _roll_flat(source: View, index: Index, shift: int) -> Expression:
    place = 0
    for size, position in zip(source.shape, index, strict=True):
        place = place * size + position
    place = (place - shift) % math.prod(source.shape)
    at: list[int] = []
    for size in reversed(source.shape):
        place, position = divmod(place, size)
        at.append(position)
    return cell(source, *reversed(at))


@rule("constant_pad_nd")
def pad(call: Call, index: Index) -> Expression:
    """The source's cell, or the padding value outside it."""
    source, amounts = call.view("self"), call.bound["pad"]
    at = list(index)
    for place in range(len(amounts) // 2):
        at[len(index) - 1 - place] -= amounts[2 * place]
    inside = all(0 <= place < size for place, size in zip(at, source.shape, strict=True))
    return cell(source, *at) if inside else Number(call.number_of("value"))


@rule("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(call: Call, index: Index) -> Expression:
    """The source's cell; outside it, as far inside as the place is outside."""

    def mirrored(place: int, size: int) -> int:
        place = abs(place)
        return place if place < size else 2 * (size - 1) - place

    return _padded(call, index, mirrored)


@rule("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(call: Call, index: Index) -> Expression:
    """The source's cell; outside it, the nearest one."""
    return _padded(call, index, lambda place, size: min(max(place, 0), size - 1))


def _padded(call: Call, index: Index, inside: Callable[[int, int], int]) -> Expression:
    source, amounts = call.view("self"), call.bound["padding"]
    at = list(index)
    for number in range(len(amounts) // 2):
        axis = len(index) - 1 - number
        at[axis] = inside(at[axis] - amounts[2 * number], source.shape[axis])
    return cell(source, *at)
