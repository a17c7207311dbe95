"""A scatter plot with labels that do not overlap; crowded ones stand farther off, with a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.lessons.figures.canvas import Anchor, Box, Canvas, SvgDrawing, text_width
from glassformer.lessons.figures.data_charts import Axes

_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C8C8C")
"""The colour-blind-safe palette of Okabe and Ito, and grey."""
_SIZE, _RADIUS = 12.5, 5.0
_MARGIN = 56.0


@dataclass(frozen=True, slots=True)
class Point:
    """A point, its label, and the kind that sets its colour."""

    x: float
    y: float
    name: str
    kind: str


def draw_map(
    title: str, points: Sequence[Point], axes: Axes, *, width: float = 960, height: float = 640
) -> SvgDrawing:
    """All points, as many labels as fit (earlier points first), and a legend of the kinds."""
    canvas = Canvas(width, height, title)
    kinds = list(dict.fromkeys(point.kind for point in points))
    inside = Box(_MARGIN, 52, width - 2 * _MARGIN, height - 52 - _MARGIN)
    canvas.box(inside, "empty")
    _legend(canvas, kinds, inside)
    canvas.text(inside.x, inside.bottom + 26, f"{axes.across} →", size=13, role="quiet")
    canvas.turned(24, inside.y, f"{axes.up} →", size=13)
    placed = _onto(points, inside)
    taken = [Box(x - _RADIUS, y - _RADIUS, 2 * _RADIUS, 2 * _RADIUS) for x, y in placed]
    for (x, y), point in zip(placed, points, strict=True):
        colour = _PALETTE[kinds.index(point.kind) % len(_PALETTE)]
        canvas.dot(x, y, _RADIUS, fill=colour, name=point.name)
    for (x, y), point in zip(placed, points, strict=True):
        found = _free_place(x, y, point.name, taken, inside)
        if found is None and (found := _far_place(x, y, point.name, taken, inside)) is not None:
            box, _, at = found
            canvas.line((x, y), (min(max(x, box.left), box.right), box.y), width=0.7)
        if found is not None:
            box, anchor, at = found
            taken.append(box)
            canvas.text(at, box.y, point.name, size=_SIZE, anchor=anchor)
    return canvas.done()


def _onto(points: Sequence[Point], inside: Box) -> list[tuple[float, float]]:
    """The points in drawing coordinates, with a margin."""
    room = inside.grown(-24)
    xs, ys = [point.x for point in points], [point.y for point in points]
    wide, high = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    return [
        (
            room.left + room.width * (point.x - min(xs)) / wide,
            room.bottom - room.height * (point.y - min(ys)) / high,
        )
        for point in points
    ]


_FAR = tuple((dx, dy) for reach in (22.0, 34.0, 48.0, 64.0, 84.0) for dx, dy in (
    (reach, 0), (-reach, 0), (0, -reach), (0, reach), (reach, -reach), (-reach, -reach),
    (reach, reach), (-reach, reach), (2 * reach, -reach), (-2 * reach, reach),
))  # fmt: skip
"""Places farther off, joined to their points by a line."""


def _far_place(
    x: float, y: float, name: str, taken: Sequence[Box], inside: Box
) -> tuple[Box, Anchor, float] | None:
    """A free place for a label at some distance."""
    width, height = text_width(name, _SIZE), _SIZE + 2
    for dx, dy in _FAR:
        left = x + dx - (width if dx < 0 else width / 2 if dx == 0 else 0)
        box = Box(left, y + dy - height / 2, width, height)
        fits = (
            box.left > inside.left + 2 and box.right < inside.right - 2
            and box.top > inside.top + 2 and box.bottom < inside.bottom - 2
        )  # fmt: skip
        if fits and not any(_overlap(box, other) for other in taken):
            anchor: Anchor = "end" if dx < 0 else "middle" if dx == 0 else "start"
            return box, anchor, x + dx
    return None


def _free_place(
    x: float, y: float, name: str, taken: Sequence[Box], inside: Box
) -> tuple[Box, Anchor, float] | None:
    """A free place for a label beside, above or below a point."""
    width, height = text_width(name, _SIZE), _SIZE + 2
    near = _RADIUS + 4
    choices: tuple[tuple[Box, Anchor, float], ...] = (
        (Box(x + near, y - height / 2, width, height), "start", x + near),
        (Box(x - near - width, y - height / 2, width, height), "end", x - near),
        (Box(x - width / 2, y - near - height, width, height), "middle", x),
        (Box(x - width / 2, y + near, width, height), "middle", x),
        (Box(x + 4, y - near - height, width, height), "start", x + 4),
        (Box(x + 4, y + near, width, height), "start", x + 4),
        (Box(x - 4 - width, y - near - height, width, height), "end", x - 4),
        (Box(x - 4 - width, y + near, width, height), "end", x - 4),
    )
    for box, anchor, at in choices:
        fits = box.left > inside.left and box.right < inside.right
        if fits and not any(_overlap(box, other) for other in taken):
            return box, anchor, at
    return None


def _overlap(one: Box, other: Box) -> bool:
    return (
        one.left < other.right
        and other.left < one.right
        and one.top < other.bottom
        and other.top < one.bottom
    )


def _legend(canvas: Canvas, kinds: Sequence[str], inside: Box) -> None:
    x = inside.left
    for place, kind in enumerate(kinds):
        canvas.dot(x + 6, 30, 6, fill=_PALETTE[place % len(_PALETTE)])
        canvas.text(x + 18, 30, kind, size=13, anchor="start")
        x += 32 + text_width(kind, 13)
