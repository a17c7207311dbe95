"""Boxes of a graph without cycles, in layers: everything is above what it was computed from.

The method of Sugiyama, Tagawa and Toda (1981): the layer of a box is its longest way from a source;
an edge over several layers passes each of them in a place of its own; a layer is ordered by the
mean place of its neighbours, several times up and down. Coordinates then pull each box to its
neighbours as far as the boxes beside it allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Point = tuple[float, float]
_SWEEPS = 8
_LANE = 8.0
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
        spots.append(_Spot(layer, _LANE, 0.0, [], []))
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
