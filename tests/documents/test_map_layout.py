"""The picture of a model: everything has room, nothing lies on something else."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.documents.map_layout import MOST_CHIPS, MapBox, MapLayout, lay_out, layered
from glassformer.tracing import trace
from glassformer.tracing.model_map import find_map
from tests.tracing.mapped_models import NAMES, traced

SLACK = 1e-6
"""Of sums of some hundred lengths up to 10,000, in float64."""


def overlap(one: MapBox, other: MapBox) -> bool:
    return (
        one.x + one.width > other.x + SLACK
        and other.x + other.width > one.x + SLACK
        and one.y + one.height > other.y + SLACK
        and other.y + other.height > one.y + SLACK
    )


def is_inside(one: MapBox, around: MapBox) -> bool:
    return (
        one.x >= around.x - SLACK
        and one.y >= around.y - SLACK
        and one.x + one.width <= around.x + around.width + SLACK
        and one.y + one.height <= around.y + around.height + SLACK
    )


def picture(name: str) -> MapLayout:
    return lay_out(find_map(traced(name)))


@pytest.mark.parametrize("name", NAMES)
def test_boxes_beside_each_other_do_not_overlap_and_stay_in_the_box_around_them(name: str) -> None:
    layout = picture(name)
    by_parent: dict[int | None, list[MapBox]] = {}
    for box in layout.boxes:
        by_parent.setdefault(box.parent, []).append(box)
        assert min(box.width, box.height) > 0
        assert box.parent is None or is_inside(box, layout.boxes[box.parent])
        assert 0 <= box.x <= layout.width - box.width + SLACK
        assert 0 <= box.y <= layout.height - box.height + SLACK
    for beside in by_parent.values():
        clash = [(a.name, b.name) for a, b in combinations(beside, 2) if overlap(a, b)]
        assert not clash


@pytest.mark.parametrize("name", NAMES)
def test_every_step_of_a_part_has_a_box_or_is_counted(name: str) -> None:
    boxes = picture(name).boxes
    for box in boxes:
        if box.part is None:
            continue
        inside = [one.step for one in boxes if one.parent == box.number]
        assert len(inside) + box.n_more == len(box.part.steps)
        assert len(inside) <= MOST_CHIPS
        assert [s.number for s in inside if s] == [s.number for s in box.part.steps][: len(inside)]


def test_a_tower_is_read_upwards() -> None:
    layout = picture("ours: translator")
    for tower in (box for box in layout.boxes if box.kind == "tower"):
        blocks = [box for box in layout.boxes if box.kind == "block" and box.parent == tower.number]
        assert [box.layer for box in sorted(blocks, key=lambda box: -box.y)] == [0, 1, 2]
        ends = {box.kind: box for box in layout.boxes if box.parent == tower.number}
        assert ends["tokens"].y > ends["embedding"].y > blocks[-1].y > ends["head"].y
    answers = [box for box in layout.boxes if box.kind == "answer"]
    assert [box.tower for box in answers] == [1]  # the decoder's


def test_arrows_begin_and_end_at_their_boxes() -> None:
    layout = picture("ours: translator")
    memory = [arrow for arrow in layout.arrows if arrow.kind == "memory"]
    crosses = [box.number for box in layout.boxes if box.kind == "cross"]
    assert [arrow.target for arrow in memory] == crosses
    for arrow in memory:
        target = layout.boxes[arrow.target]
        assert arrow.points[-1] == (target.x, target.y + target.height / 2)
        assert layout.boxes[arrow.source].tower == 0
    residual = [arrow for arrow in layout.arrows if arrow.kind == "residual"]
    assert len(residual) == 3 * 2 + 3 * 3
    for arrow in residual:
        assert layout.boxes[arrow.source].y > layout.boxes[arrow.target].y


def test_a_deep_tower_stands_in_pieces_each_on_its_tokens() -> None:
    """As one strip it would be drawn half as large."""
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 12)
    with trace(model.eval(), torch.rand(1, 5, 8)) as deep:
        layout = lay_out(find_map(deep))
        towers = [box for box in layout.boxes if box.kind == "tower"]
        assert len(towers) == len(layout.columns) > 1
        blocks = [
            [box.layer for box in layout.boxes if box.kind == "block" and box.parent == one.number]
            for one in towers
        ]
        assert [layer for inside in blocks for layer in inside] == list(range(12))
        assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
        assert all(one.x + one.width < other.x for one, other in pairwise(towers))
        kinds = [{box.kind for box in layout.boxes if box.parent == one.number} for one in towers]
        assert all({"tokens", "stream"} <= found for found in kinds)
        assert [("answer" in found) for found in kinds] == [False] * (len(towers) - 1) + [True]
        onward = [
            (layout.boxes[arrow.source], layout.boxes[arrow.target])
            for arrow in layout.arrows
            if layout.boxes[arrow.source].tower != layout.boxes[arrow.target].tower
        ]
        assert [source.step is target.step for source, target in onward] == [True] * (
            len(towers) - 1
        )


@pytest.mark.parametrize("seed", range(6))
def test_layers_go_upwards_and_keep_their_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    pairs = {tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(2 * n)}
    edges = [(int(a), int(b)) for a, b in sorted(pairs)]
    sizes = [(float(w), float(h)) for w, h in rng.uniform(10, 80, (n, 2))]
    plan = layered(sizes, edges, gap=7.0, between=11.0)
    for low, high in edges:
        rise = plan.centres[high][1] - plan.centres[low][1]
        assert rise >= (sizes[low][1] + sizes[high][1]) / 2 + 11.0 - SLACK
    for one, other in combinations(range(n), 2):
        (x, y), (to_x, to_y) = plan.centres[one], plan.centres[other]
        beside = abs(x - to_x) >= (sizes[one][0] + sizes[other][0]) / 2 + 7.0 - SLACK
        above = abs(y - to_y) >= (sizes[one][1] + sizes[other][1]) / 2 + 11.0 - SLACK
        assert beside or above
    for (low, high), way in zip(edges, plan.ways, strict=True):
        assert (way[0], way[-1]) == (plan.centres[low], plan.centres[high])
        assert all(a[1] < b[1] for a, b in pairwise(way))


def test_an_edge_over_a_layer_passes_beside_its_boxes() -> None:
    plan = layered([(40.0, 20.0)] * 3, [(0, 1), (1, 2), (0, 2)], gap=5.0, between=10.0)
    passing = plan.ways[2][1]
    middle = plan.centres[1]
    assert passing[1] == middle[1]
    assert abs(passing[0] - middle[0]) >= 20.0 + 5.0
