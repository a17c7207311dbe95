"""The picture of a model as a message: where things stand, and the numbers in the picture."""

from __future__ import annotations

import numpy as np

from glassformer.documents.map_layout import (
    MOST_COLUMNS,
    MapBox,
    MapColumns,
    MapLayout,
    lay_out,
)
from glassformer.explorer import schemas
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.panels import NOT_FINITE, as_base64
from glassformer.tracing import Step
from glassformer.tracing.model_map import MapTower, find_map, mean_weights, stream_stripes

N_STRIPES = 16
"""Numbers of a token's vector that its picture has."""
_SATURATED = 92.0
"""The percentile at which colours end: a few huge features would leave the others pale."""


def map_info(opened: OpenTrace) -> schemas.MapInfo:
    """The picture of a trace's model, cached."""
    with opened.lock:
        if opened.map is None:
            opened.map = _drawn(lay_out(find_map(opened.trace)))
        return opened.map


def pruned_map(info: schemas.MapInfo, wanted: set[int]) -> schemas.MapInfo:
    """The picture as if there were only some steps: a click leads to no other."""

    def kept(step: int | None) -> int | None:
        return step if step in wanted else None

    return info.model_copy(
        update={
            "boxes": [box.model_copy(update={"step": kept(box.step)}) for box in info.boxes],
            "arcs": [one.model_copy(update={"weights": kept(one.weights)}) for one in info.arcs],
        }
    )


def _drawn(layout: MapLayout) -> schemas.MapInfo:
    towers = [columns.tower for columns in layout.columns]
    return schemas.MapInfo.copy_of(
        layout,
        columns=[
            schemas.MapColumnsInfo.copy_of(one, kind=one.tower.kind, n_tokens=one.tower.n_tokens)
            for one in layout.columns
        ],
        heat=[
            _heat(box.number, towers[box.tower], box.step)
            for box in layout.boxes
            if box.kind == "stream" and box.step is not None and box.tower is not None
        ],
        arcs=[found for box in layout.boxes if (found := _arcs(box, layout.columns)) is not None],
    )


def _heat(box: int, tower: MapTower, stream: Step) -> schemas.MapHeatInfo:
    stripes = stream_stripes(tower, stream, MOST_COLUMNS, N_STRIPES)
    finite = np.isfinite(stripes)
    sizes = np.abs(stripes[finite])
    limit = float(np.percentile(sizes, _SATURATED)) if sizes.size else 0.0
    limit = limit or float(sizes.max(initial=0.0)) or 1.0
    share = np.clip(np.where(finite, stripes, 0.0) / limit, -1, 1)
    bytes_ = np.where(finite, np.rint((share + 1) / 2 * 254), NOT_FINITE)
    return schemas.MapHeatInfo(
        box=box,
        rows=stripes.shape[0],
        columns=stripes.shape[1],
        group=stream.shape[-1] / stripes.shape[1],
        limit=limit,
        data=as_base64(bytes_),
    )


def _arcs(box: MapBox, columns: list[MapColumns]) -> schemas.MapArcsInfo | None:
    if box.part is None or box.part.attention is None or box.tower is None:
        return None
    own, weights = columns[box.tower], box.part.attention.weights
    mean, n_heads = mean_weights(own.tower, weights, MOST_COLUMNS)
    return schemas.MapArcsInfo(
        box=box.number,
        weights=weights.number,
        n_heads=n_heads,
        keys=box.tower if box.kind != "cross" or own.memory is None else own.memory,
        rows=mean.shape[0],
        columns=mean.shape[1],
        data=as_base64(np.rint(np.clip(np.nan_to_num(mean), 0, 1) * 255)),
    )
