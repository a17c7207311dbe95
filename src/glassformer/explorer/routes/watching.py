"""The training run that is watched."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, HTTPException, Query, Response

from glassformer.explorer.schemas import WatchInfo
from glassformer.explorer.state import Holds, State
from glassformer.explorer.watching import Watched

__all__ = ["router"]

router = APIRouter(prefix="/watch", tags=["watch"])

_BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "float32, little-endian; `X-Shape: heads,queries,keys`.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
Count = Annotated[int, Query(ge=0, lt=2**53)]


def _watched(state: State) -> Watched:
    if state.watched is None:
        raise HTTPException(404, "no training run is watched: start one with train … --watch")
    return state.watched


@router.get("")
def watch(state: Holds, since: Count = 0) -> WatchInfo | None:
    """Metrics from an offset on, and the attention pictures there are; null: none is watched."""
    return None if state.watched is None else state.watched.info(since)


@router.get("/attention", response_class=Response, responses=_BYTES)
def attention(state: Holds, update: Count, layer: Count = 0) -> Response:
    """The attention weights that one layer had after an update."""
    found = _watched(state).attention(update, layer)
    head = {"X-Shape": ",".join(map(str, found.shape)), "X-Dtype": "float32"}
    body = np.ascontiguousarray(found, dtype="<f4").tobytes()
    return Response(body, headers=head, media_type="application/octet-stream")
