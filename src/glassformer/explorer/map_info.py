"""The picture of a model as a message: where things stand, and the numbers in the picture."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from glassformer.documents.map_layout import (
    MOST_COLUMNS,
    ArrowKind,
    BoxKind,
    MapBox,
    MapColumns,
    MapLayout,
    lay_out,
)
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.panels import NOT_FINITE, as_base64
from glassformer.explorer.schemas import Message, StepNumber
from glassformer.tracing import Step
from glassformer.tracing.model_map import (
    MapTower,
    TowerKind,
    find_map,
    mean_weights,
    stream_stripes,
)

N_STRIPES = 16
"""Numbers of a token's vector that its picture has."""
_SATURATED = 92.0
"""The percentile at which colours end: a few huge features would leave the others pale."""


Pixels = Annotated[float, AfterValidator(lambda length: round(length, 2))]


class MapBoxInfo(Message):
    """A box of the model's picture, in pixels at zoom 1; `parent` is the box around it."""

    kind: BoxKind
    parent: int | None
    x: Pixels
    y: Pixels
    width: Pixels
    height: Pixels
    name: str
    step: StepNumber
    """Where a click leads."""
    tower: int | None
    layer: int | None
    n_more: int
    """Steps of a part that have no box."""


class MapArrowInfo(Message):
    """A way between two boxes, by their places."""

    kind: ArrowKind
    source: int
    target: int
    points: list[tuple[Pixels, Pixels]]


class MapColumnsInfo(Message):
    """The tokens of a tower: the centre of the first column and the distance to the next."""

    kind: TowerKind
    x: Pixels
    pitch: float
    texts: list[str]
    n_tokens: int
    """Also those without a column."""


class MapHeatInfo(Message):
    """The numbers of the residual stream in a box: `rows` × `columns` bytes, base64.

    A row is a token. A byte is the largest number in size of a group of neighbouring features: 0
    is −limit, 254 the limit; 255 marks NaN and infinities.
    """

    box: int
    rows: int
    columns: int
    group: float
    """How many features a column stands for."""
    limit: float
    data: str


class MapArcsInfo(Message):
    """The attention weights of a box, mean over heads: `rows` × `columns` bytes, 255 is 1."""

    box: int
    weights: int | None
    """The step with the weights of each head; None if a saved page lacks it."""
    n_heads: int
    keys: int
    """The tower whose tokens are the keys."""
    rows: int
    columns: int
    data: str


class MapInfo(Message):
    """A model as a picture: towers of blocks, or a plain graph."""

    width: Pixels
    height: Pixels
    boxes: list[MapBoxInfo]
    arrows: list[MapArrowInfo]
    columns: list[MapColumnsInfo]
    """For each tower; a plain graph has none."""
    heat: list[MapHeatInfo]
    arcs: list[MapArcsInfo]


def map_info(opened: OpenTrace) -> MapInfo:
    """The picture of a trace's model, cached."""
    with opened.lock:
        if opened.map is None:
            opened.map = _drawn(lay_out(find_map(opened.trace)))
        return opened.map


def pruned_map(info: MapInfo, wanted: set[int]) -> MapInfo:
    """The picture as if there were only some steps: a click leads to no other."""

    def kept(step: int | None) -> int | None:
        return step if step in wanted else None

    return info.model_copy(
        update={
            "boxes": [box.model_copy(update={"step": kept(box.step)}) for box in info.boxes],
            "arcs": [one.model_copy(update={"weights": kept(one.weights)}) for one in info.arcs],
        }
    )


def _drawn(layout: MapLayout) -> MapInfo:
    towers = [columns.tower for columns in layout.columns]
    return MapInfo.copy_of(
        layout,
        columns=[
            MapColumnsInfo.copy_of(one, kind=one.tower.kind, n_tokens=one.tower.n_tokens)
            for one in layout.columns
        ],
        heat=[
            _heat(box.number, towers[box.tower], box.step)
            for box in layout.boxes
            if box.kind == "stream" and box.step is not None and box.tower is not None
        ],
        arcs=[found for box in layout.boxes if (found := _arcs(box, layout.columns)) is not None],
    )


def _heat(box: int, tower: MapTower, stream: Step) -> MapHeatInfo:
    stripes = stream_stripes(tower, stream, MOST_COLUMNS, N_STRIPES)
    finite = np.isfinite(stripes)
    sizes = np.abs(stripes[finite])
    limit = float(np.percentile(sizes, _SATURATED)) if sizes.size else 0.0
    limit = limit or float(sizes.max(initial=0.0)) or 1.0
    share = np.clip(np.where(finite, stripes, 0.0) / limit, -1, 1)
    bytes_ = np.where(finite, np.rint((share + 1) / 2 * 254), NOT_FINITE)
    return MapHeatInfo(
        box=box,
        rows=stripes.shape[0],
        columns=stripes.shape[1],
        group=stream.shape[-1] / stripes.shape[1],
        limit=limit,
        data=as_base64(bytes_),
    )


def _arcs(box: MapBox, columns: list[MapColumns]) -> MapArcsInfo | None:
    if box.part is None or box.part.attention is None or box.tower is None:
        return None
    own, weights = columns[box.tower], box.part.attention.weights
    mean, n_heads = mean_weights(own.tower, weights, MOST_COLUMNS)
    return MapArcsInfo(
        box=box.number,
        weights=weights.number,
        n_heads=n_heads,
        keys=box.tower if box.kind != "cross" or own.memory is None else own.memory,
        rows=mean.shape[0],
        columns=mean.shape[1],
        data=as_base64(np.rint(np.clip(np.nan_to_num(mean), 0, 1) * 255)),
    )
