"""Windows that slide over an axis: what convolutions and pooling have in common."""

from __future__ import annotations

from glassformer.trace.expressions import Axis

__all__ = ["each", "window"]


def each(value: list[int] | int, axis: int) -> int:
    """A setting for one axis; a single number serves all."""
    if isinstance(value, int):
        return value
    return value[axis] if len(value) > 1 else value[0]


def window(letter: str, start: int, length: int, size: int, dilation: int = 1) -> tuple[Axis, Axis]:
    """The positions of an axis of `size` under a window, and the window's own there.

    A window may begin before the axis and end beyond it: what lies there is padding.
    """
    inside = [place for place in range(length) if 0 <= start + place * dilation < size]
    first = inside[0] if inside else 0
    under = Axis(letter, len(inside), start=start + first * dilation, step=dilation)
    return under, Axis(letter, len(inside), start=first)
