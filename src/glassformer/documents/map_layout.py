"""Where everything of a model's picture stands: boxes inside boxes, and the ways of the arrows.

Units are pixels at zoom 1; y grows downwards, and the picture is read upwards: the tokens are at
the bottom, the answer is on top. A tower has two halves. On the left each part is a box with its
steps inside; on the right each token has a column: the residual stream as rows of numbers, and
between the rows what attention moves from column to column. A tower of many blocks would be a thin
strip: it stands in pieces, side by side, each on its own tokens. All details have their place from
the start; the page decides by the zoom which of them can be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Literal

import numpy as np

from glassformer.tracing.model_map import (
    FlowNode,
    MapBlock,
    MapPart,
    MapTower,
    ModelMap,
    StepFlow,
    edges_between,
)
from glassformer.tracing.steps import Step

BoxKind = Literal[
    "tower", "block", "tokens", "embedding", "norm", "attention", "cross", "feed_forward",
    "experts", "parallel", "mixer", "head", "answer", "stream", "step", "group",
]  # fmt: skip
ArrowKind = Literal["flow", "residual", "memory"]

MOST_COLUMNS = 48
"""Tokens that get a column; later ones are counted."""
MOST_CHIPS = 40
"""Steps that a part shows; later ones are counted."""
MOST_BOXES = 6_000
CHIP = (56.0, 34.0)
_CHIP_GAP, _CHIP_BETWEEN = 8.0, 18.0
_NAME = 150.0
"""The width that the name of a part has, to the left of its steps."""
_INSIDE = 420.0
"""The width that its steps have."""
_LABEL = 24.0
_PAD = 12.0
_GAP = 8.0
_STREAM = 22.0
_LANE = 40.0
"""Beside the columns, for the arrows around the parts."""
_APART = 150.0
"""Between two towers, for the arrows from one to the other."""
_SCREEN = (1392.0, 620.0)
"""The room that a page has for the picture: towers are cut into pieces to be drawn larger in it."""
_LEAST_BLOCKS = 2
"""Of a piece of a tower."""
_NEARLY = 0.9
"""A picture that can be drawn nearly as large as another and has fewer pieces is the better one."""
_HEIGHTS = {"attention": 112.0, "cross": 124.0, "norm": 30.0, "parallel": 112.0}
_MOST_LAYERS = 14
"""Longer chains of steps are written in lines, as text is."""


@dataclass(slots=True)
class MapBox:
    """A thing in the picture; `parent` is the number of the box around it."""

    number: int
    kind: BoxKind
    parent: int | None
    x: float
    y: float
    width: float
    height: float
    name: str = ""
    step: Step | None = None
    """Where a click leads."""
    layer: int | None = None
    tower: int | None = None
    part: MapPart | None = None
    n_more: int = 0
    """Steps that had no room."""


@dataclass(frozen=True, slots=True)
class MapArrow:
    """A way from box to box."""

    kind: ArrowKind
    source: int
    target: int
    points: list[Point]


@dataclass(frozen=True, slots=True)
class MapColumns:
    """The columns of a tower, or of a piece of one: the centre of the first, the distance, texts.

    `memory` is the place of those that its cross-attention looks at.
    """

    tower: MapTower
    x: float
    pitch: float
    texts: list[str]
    memory: int | None = None


@dataclass(slots=True)
class MapLayout:
    """The whole picture, from (0, 0) to (width, height)."""

    width: float = 0.0
    height: float = 0.0
    boxes: list[MapBox] = field(default_factory=list)
    arrows: list[MapArrow] = field(default_factory=list)
    columns: list[MapColumns] = field(default_factory=list)


def lay_out(found: ModelMap) -> MapLayout:
    """The picture of a model."""
    drawing = _Drawing()
    if found.flow is not None:
        drawing.add_flow(found.flow)
        return drawing.finished()
    deepest = max((len(tower.blocks) for tower in found.towers), default=0)
    whole = drawing.with_towers(found.towers, max(1, deepest))
    if deepest < 2 * _LEAST_BLOCKS:
        return whole
    pieces = _best_pieces(found.towers, [box for box in whole.boxes if box.kind == "tower"])
    return whole if pieces == 1 else _Drawing().with_towers(found.towers, ceil(deepest / pieces))


def _best_pieces(towers: list[MapTower], whole: list[MapBox]) -> int:
    """How many pieces the deepest tower has in the picture that can be drawn largest."""
    deepest = max(len(tower.blocks) for tower in towers)

    def zoom(pieces: int) -> float:
        each = ceil(deepest / pieces)
        counts = [max(1, ceil(len(tower.blocks) / each)) for tower in towers]
        width = sum(n * (box.width + _APART) for n, box in zip(counts, whole, strict=True))
        height = max(box.height / n for n, box in zip(counts, whole, strict=True))
        return min(_SCREEN[0] / width, _SCREEN[1] / height)

    zooms = [zoom(pieces) for pieces in range(1, deepest // _LEAST_BLOCKS + 1)]
    return 1 + next(at for at, one in enumerate(zooms) if one >= _NEARLY * max(zooms))


class _Drawing:
    """Draws upwards from y = 0; `finished` moves everything into the picture."""

    def __init__(self) -> None:
        self._layout = MapLayout()
        self._boxes = self._layout.boxes

    def _box(
        self, kind: BoxKind, parent: int | None, x: float, top: float, width: float, height: float
    ) -> MapBox:
        box = MapBox(len(self._boxes), kind, parent, x, top, width, height)
        self._boxes.append(box)
        return box

    def finished(self) -> MapLayout:
        layout, boxes = self._layout, self._boxes
        if not boxes:
            return layout
        left, top = min(box.x for box in boxes), min(box.y for box in boxes)
        for box in boxes:
            box.x, box.y = box.x - left, box.y - top
        layout.arrows = [
            replace(arrow, points=[(x - left, y - top) for x, y in arrow.points])
            for arrow in layout.arrows
        ]
        layout.columns = [replace(one, x=one.x - left) for one in layout.columns]
        layout.width = max(box.x + box.width for box in boxes)
        layout.height = max(box.y + box.height for box in boxes)
        return layout

    # --- towers ---

    def with_towers(self, towers: list[MapTower], most_blocks: int) -> MapLayout:
        """All towers, in pieces of at most `most_blocks` blocks."""
        x = 0.0
        last: list[int] = []
        """Of each tower the place of its last piece."""
        for tower in towers:
            stream: MapBox | None = None
            for first in range(0, max(1, len(tower.blocks)), most_blocks):
                end = first + most_blocks
                is_last = tower is towers[-1] and end >= len(tower.blocks)
                x, stream = self._piece(tower, range(first, end), x, stream, is_last)
                x += _APART
            last.append(len(self._layout.columns) - 1)
        self._layout.columns = [
            one if one.tower.memory is None else replace(one, memory=last[one.tower.memory])
            for one in self._layout.columns
        ]
        self._add_memories()
        return self.finished()

    def _piece(
        self, tower: MapTower, layers: range, x: float, before: MapBox | None, is_last: bool
    ) -> tuple[float, MapBox]:
        """Some blocks of a tower; the right edge, and the stream that leaves the last of them.

        It goes on from the stream `before`, or begins with the embedding.
        """
        place = len(self._layout.columns)
        texts = tower.tokens[:MOST_COLUMNS]
        pitch = _pitch(len(texts))
        first = x + 2 * _PAD + _NAME + _INSIDE + _LANE + pitch / 2
        right = first - pitch / 2 + pitch * len(texts) + _LANE + _PAD
        self._layout.columns.append(MapColumns(tower, first, pitch, texts))
        whole = self._box("tower", None, x, 0.0, right - x, 0.0)
        whole.name, whole.tower = tower.kind, place
        rise = _Rise(self, place, x + _PAD, right - _PAD)
        y = rise.row("tokens", whole.number, -_PAD, 30.0, _given(tower)).y
        if before is None and tower.embedding.steps:
            y = rise.part(tower.embedding, whole.number, y - _GAP).y
        start = tower.start if before is None else before.step
        stream = rise.row("stream", whole.number, y - _GAP, _STREAM, start)
        if before is not None:
            self._go_on(before, stream)
        y = stream.y
        for layer, block in list(enumerate(tower.blocks))[layers.start : layers.stop]:
            y, stream = self._block(rise, whole.number, layer, block, y, stream)
        if layers.stop >= len(tower.blocks) and tower.head.steps:
            y = rise.part(tower.head, whole.number, y - _GAP).y
        if is_last:
            last = tower.head.steps[-1] if tower.head.steps else stream.step
            y = rise.row("answer", whole.number, y - _GAP, 44.0, last).y
        whole.y = y - _PAD
        whole.height = -whole.y
        return right, stream

    def _go_on(self, stream: MapBox, after: MapBox) -> None:
        """From the top of a piece of a tower to the bottom of the next one."""
        right, middle = stream.x + stream.width + _PAD, stream.y + stream.height / 2
        gap, low = right + _APART / 4, after.y + after.height / 2
        points = [(right, middle), (gap, middle), (gap, low), (after.x - _PAD, low)]
        self._layout.arrows.append(MapArrow("flow", stream.number, after.number, points))

    def _block(
        self, rise: _Rise, parent: int, layer: int, block: MapBlock, below: float, stream: MapBox
    ) -> tuple[float, MapBox]:
        """The parts of a block; the top of it, and the stream that leaves it."""
        bottom = below - _GAP
        around = self._box("block", parent, rise.left, 0.0, rise.right - rise.left, 0.0)
        around.name, around.layer, around.tower = block.path, layer, rise.tower
        inner = _Rise(self, rise.tower, rise.left + _PAD / 2, rise.right - _PAD / 2)
        y = bottom - _PAD / 2
        for part in block.parts:
            box = inner.part(part, around.number, y)
            box.layer = layer
            y = box.y - _GAP
            if part.total is not None:
                after = inner.row("stream", around.number, y, _STREAM, part.total)
                after.layer = layer
                self._skip(stream, after)
                y, stream = after.y - _GAP, after
        around.y = y - _LABEL + _GAP
        around.height = bottom - around.y
        return around.y, stream

    def _skip(self, stream: MapBox, after: MapBox) -> None:
        """The residual connection: around a part, on the right."""
        x = min(stream.x + stream.width, after.x + after.width) - _LANE + _PAD / 2
        low, high = stream.y + stream.height / 2, after.y + after.height / 2
        points = [(x, low), (x + 26, low), (x + 26, high), (x + 14, high)]
        self._layout.arrows.append(MapArrow("residual", stream.number, after.number, points))

    def _add_memories(self) -> None:
        """Arrows from the top of the encoder to each cross-attention of the decoder."""
        around = {box.tower: box for box in self._boxes if box.kind == "tower"}
        above = min((box.y for box in self._boxes), default=0.0) - _APART / 4
        for box in self._boxes:
            if box.kind != "cross" or box.tower is None:
                continue
            memory = self._layout.columns[box.tower].memory
            if memory is None:
                continue
            rows = [one for one in self._boxes if one.tower == memory]
            ends = [one for one in rows if one.kind == "head"]
            top = (ends or [one for one in rows if one.kind == "stream"])[-1]
            y, right = top.y + top.height / 2, around[memory].x + around[memory].width
            middle, bus = box.y + box.height / 2, around[box.tower].x - _APART / 2
            points = [(right, y), (right + _APART / 2, y)]
            if box.tower != memory + 1:  # over the pieces between them
                points += [(right + _APART / 2, above), (bus, above)]
            points += [(bus, middle), (box.x, middle)]
            self._layout.arrows.append(MapArrow("memory", top.number, box.number, points))

    # --- steps inside a part ---

    def add_steps(self, part: MapBox, steps: list[Step], width: float, indent: float) -> None:
        """The steps of a part as boxes that stand on its bottom edge."""
        shown = steps[:MOST_CHIPS] if len(self._boxes) < MOST_BOXES else []
        part.n_more = len(steps) - len(shown)
        if not shown:
            return
        plan, scale = _arranged(shown, width)
        bottom = part.y + part.height - _PAD / 2
        if indent > _PAD:  # beside the name: in the middle
            bottom = part.y + (part.height + plan.height * scale) / 2
        chips: list[MapBox] = []
        for step, (along, across) in zip(shown, plan.centres, strict=True):
            chip_width, chip_height = CHIP[0] * scale, CHIP[1] * scale
            x = part.x + indent + along * scale - chip_width / 2
            y = bottom - plan.height * scale + across * scale - chip_height / 2
            chip = self._box("step", part.number, x, y, chip_width, chip_height)
            chip.step, chip.tower, chip.layer = step, part.tower, part.layer
            chip.name = step.trace.naming.short(step)
            chips.append(chip)
        edges = edges_between([[step] for step in shown])
        for (low, high), way in zip(edges, plan.ways, strict=False):  # none in lines
            origin = (part.x + indent, bottom - plan.height * scale)
            points = [(origin[0] + a * scale, origin[1] + b * scale) for a, b in way]
            ends = _sideways(points, CHIP[0] * scale / 2)
            self._layout.arrows.append(
                MapArrow("flow", chips[low].number, chips[high].number, ends)
            )

    # --- a graph without towers ---

    def add_flow(self, flow: StepFlow) -> None:
        """All nodes in layers, from the inputs at the bottom upwards."""
        sizes = [_flow_size(node) for node in flow.nodes]
        plan = layered(sizes, flow.edges, gap=36.0, between=32.0)
        made: list[MapBox] = []
        for node, (width, height), (x, y) in zip(flow.nodes, sizes, plan.centres, strict=True):
            box = self._box(
                "group" if node.is_group else "step",
                None, x - width / 2, -y - height / 2, width, height,
            )  # fmt: skip
            box.name, box.step = node.path, node.steps[-1]
            made.append(box)
            if node.is_group:
                self.add_steps(box, node.steps, width - 2 * _PAD, _PAD)
        for (low, high), way in zip(flow.edges, plan.ways, strict=True):
            points = [(x, -y) for x, y in way]
            points[0] = (points[0][0], made[low].y)
            points[-1] = (points[-1][0], made[high].y + made[high].height)
            self._layout.arrows.append(
                MapArrow("flow", made[low].number, made[high].number, points)
            )


@dataclass(frozen=True, slots=True)
class _Rise:
    """The rows of a tower between its edges."""

    drawing: _Drawing
    tower: int
    left: float
    right: float

    def row(
        self, kind: BoxKind, parent: int, bottom: float, height: float, step: Step | None
    ) -> MapBox:
        """A row as wide as the tower, that stands on `bottom`."""
        width = self.right - self.left
        box = self.drawing._box(kind, parent, self.left, bottom - height, width, height)
        box.step, box.tower = step, self.tower
        return box

    def part(self, part: MapPart, parent: int, bottom: float) -> MapBox:
        """A part with its steps."""
        plan, scale = _arranged(part.steps[:MOST_CHIPS], _INSIDE)
        height = max(_HEIGHTS.get(part.kind, 56.0), plan.height * scale + _PAD)
        box = self.row(part.kind, parent, bottom, height, part.steps[-1] if part.steps else None)
        box.part = part
        self.drawing.add_steps(box, part.steps, _INSIDE, _NAME)
        return box


def _given(tower: MapTower) -> Step | None:
    """The ids or the vectors that a tower starts from."""
    if not tower.embedding.steps:
        return tower.start
    inputs = [o.step for step in tower.embedding.steps for o in step.operands]
    return next((step for step in inputs if step is not None and step.role == "input"), None)


def _pitch(n_columns: int) -> float:
    for most, pitch in ((10, 84.0), (16, 68.0), (28, 48.0)):
        if n_columns <= most:
            return pitch
    return 32.0


def _flow_size(node: FlowNode) -> tuple[float, float]:
    if not node.is_group:
        return (132.0, 48.0)
    plan, scale = _arranged(node.steps[:MOST_CHIPS], 220.0)
    return (220.0 + 2 * _PAD, max(64.0, _LABEL + plan.height * scale + _PAD))


def _arranged(steps: list[Step], width: float) -> tuple[Layered, float]:
    """Steps from left to right, in layers or in lines, and the scale at which they fit `width`."""
    if not steps:
        return Layered([], [], 0.0, 0.0), 1.0
    plan = _plan(len(steps), tuple(edges_between([[step] for step in steps])))
    return plan, min(1.0, width / plan.width)


@lru_cache(maxsize=256)
def _plan(n: int, edges: tuple[tuple[int, int], ...]) -> Layered:
    """The layout of a part's steps; the parts of a model are mostly alike."""
    if max(layers_of(n, list(edges))) >= _MOST_LAYERS:
        return _in_lines(n)
    # Layered from below upwards, then turned: across becomes y.
    turned = layered([CHIP[::-1]] * n, list(edges), _CHIP_GAP, _CHIP_BETWEEN)
    return Layered(
        [(y, x) for x, y in turned.centres],
        [[(y, x) for x, y in way] for way in turned.ways],
        turned.height,
        turned.width,
    )


def _in_lines(n: int) -> Layered:
    columns = min(n, 10)
    pitch = (CHIP[0] + _CHIP_GAP, CHIP[1] + _CHIP_GAP)
    centres = [
        (CHIP[0] / 2 + at % columns * pitch[0], CHIP[1] / 2 + at // columns * pitch[1])
        for at in range(n)
    ]
    lines = -(-n // columns)
    return Layered(centres, [], columns * pitch[0] - _CHIP_GAP, lines * pitch[1] - _CHIP_GAP)


def _sideways(points: list[Point], half: float) -> list[Point]:
    """A way from the right edge of its first box to the left edge of its last."""
    (x, y), (end_x, end_y) = points[0], points[-1]
    return [(x + half, y), *points[1:-1], (end_x - half, end_y)]


# --- layers ---
# Boxes of a graph without cycles, in layers: everything is above what it was computed from.
#
# The method of Sugiyama, Tagawa and Toda (1981): the layer of a box is its longest way from a
# source; an edge over several layers passes each of them in a place of its own; a layer is ordered
# by the mean place of its neighbours, several times up and down. Coordinates then pull each box to
# its neighbours as far as the boxes beside it allow.


Point = tuple[float, float]
_SWEEPS = 8
_PASSAGE = 8.0
"""The width of a place that an edge passes a layer in."""


@dataclass(frozen=True, slots=True)
class Layered:
    """For each box its centre, for each edge its way; layers go along y, upwards from 0."""

    centres: list[Point]
    ways: list[list[Point]]
    width: float
    height: float


@dataclass(slots=True)
class _Spot:
    """A box, or the place where an edge passes a layer."""

    layer: int
    width: float
    height: float
    below: list[int]
    above: list[int]
    x: float = 0.0


def layered(
    sizes: list[tuple[float, float]],
    edges: list[tuple[int, int]],
    gap: float,
    between: float,
) -> Layered:
    """Lay out boxes of these sizes: `gap` between neighbours, `between` between layers."""
    layers = layers_of(len(sizes), edges)
    spots = [_Spot(at, *size, [], []) for at, size in zip(layers, sizes, strict=True)]
    chains = [_chain(spots, low, high) for low, high in edges]
    rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for number, spot in enumerate(spots):
        rows[spot.layer].append(number)
    _order(rows, spots)
    _place(rows, spots, gap)
    heights = [max((spots[one].height for one in row), default=0.0) for row in rows]
    starts = np.cumsum([0.0, *(height + between for height in heights)])
    middles = [start + height / 2 for start, height in zip(starts, heights, strict=False)]
    left = min((spot.x - spot.width / 2 for spot in spots), default=0.0)
    right = max((spot.x + spot.width / 2 for spot in spots), default=0.0)

    def at(number: int) -> Point:
        return (spots[number].x - left, float(middles[spots[number].layer]))

    return Layered(
        [at(number) for number in range(len(sizes))],
        [[at(number) for number in chain] for chain in chains],
        right - left,
        float(starts[-1]) - between if rows else 0.0,
    )


def layers_of(n: int, edges: list[tuple[int, int]]) -> list[int]:
    """The longest way from a source to each box; boxes are numbered in the order they ran.

    A source goes as high as its first reader allows, so that its edges are short.
    """
    layers = [0] * n
    for low, high in sorted(edges, key=lambda edge: edge[1]):
        layers[high] = max(layers[high], layers[low] + 1)
    has_sources = {high for _, high in edges}
    for source in range(n):
        readers = [layers[high] for low, high in edges if low == source]
        if source not in has_sources and readers:
            layers[source] = max(0, min(readers) - 1)
    return layers


def _chain(spots: list[_Spot], low: int, high: int) -> list[int]:
    """The spots that an edge goes through, with one for each layer between its ends."""
    chain = [low]
    for layer in range(spots[low].layer + 1, spots[high].layer):
        spots.append(_Spot(layer, _PASSAGE, 0.0, [], []))
        chain.append(len(spots) - 1)
    chain.append(high)
    for one, other in pairwise(chain):
        spots[one].above.append(other)
        spots[other].below.append(one)
    return chain


def _order(rows: list[list[int]], spots: list[_Spot]) -> None:
    places = {one: place for row in rows for place, one in enumerate(row)}

    def mean(one: int, neighbours: list[int]) -> float:
        return sum(places[n] for n in neighbours) / len(neighbours) if neighbours else places[one]

    best, fewest = [list(row) for row in rows], _crossings(rows, spots, places)
    for sweep in range(_SWEEPS):
        is_up = sweep % 2 == 0
        for row in rows if is_up else rows[::-1]:
            side = {one: spots[one].below if is_up else spots[one].above for one in row}
            row.sort(key=lambda one: mean(one, side[one]))
            places.update({one: place for place, one in enumerate(row)})
        found = _crossings(rows, spots, places)
        if found < fewest:
            best, fewest = [list(row) for row in rows], found
    rows[:] = best


def _crossings(rows: list[list[int]], spots: list[_Spot], places: dict[int, int]) -> int:
    """How often edges between neighbouring layers cross."""
    count = 0
    for row in rows:
        ends = [(places[one], places[high]) for one in row for high in spots[one].above]
        count += sum(
            1 for at, (a, b) in enumerate(ends) for c, d in ends[at + 1 :] if (a - c) * (b - d) < 0
        )
    return count


def _place(rows: list[list[int]], spots: list[_Spot], gap: float) -> None:
    for row in rows:
        _spread(row, spots, [0.0] * len(row), gap)
    for sweep in range(_SWEEPS):
        is_up = sweep % 2 == 0
        for row in rows if is_up else rows[::-1]:
            wanted = []
            for one in row:
                near = (spots[one].below if is_up else spots[one].above) or [one]
                wanted.append(float(np.median([spots[n].x for n in near])))
            _spread(row, spots, wanted, gap)


def _spread(row: list[int], spots: list[_Spot], wanted: list[float], gap: float) -> None:
    """Put a row as near as possible to where its boxes want to be, without overlap.

    Pool adjacent violators: boxes that would overlap form a group around the mean of their wishes.
    """
    offsets = [0.0]
    for one, other in pairwise(row):
        offsets.append(offsets[-1] + (spots[one].width + spots[other].width) / 2 + gap)
    groups: list[tuple[float, int]] = []
    for wish, offset in zip(wanted, offsets, strict=True):
        mean, count = wish - offset, 1
        while groups and groups[-1][0] > mean:
            before, size = groups.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        groups.append((mean, count))
    starts = [mean for mean, count in groups for _ in range(count)]
    for one, start, offset in zip(row, starts, offsets, strict=True):
        spots[one].x = start + offset
