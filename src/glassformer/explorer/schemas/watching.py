"""A training run that is watched."""

from __future__ import annotations

from typing import Literal

from glassformer.explorer.schemas.base import Message

__all__ = ["WatchInfo", "WatchLayer"]


class WatchLayer(Message):
    """One attention layer of a watched model, over the text that its pictures show."""

    part: Literal["encoder", "decoder", "cross"]
    layer: int
    n_heads: int
    queries: list[str]
    """The tokens that attend."""
    keys: list[str]
    """The tokens that are attended to."""


class WatchInfo(Message):
    """A training run: its metrics from an offset on, and the attention pictures there are."""

    recipe: str
    state: Literal["running", "finished", "stopped"]
    total: int | None
    """Updates of the whole run, once they are known."""
    metrics: list[dict[str, float | int | str | None]]
    next: int
    """The offset to ask for next; smaller than the one given: these are all metrics, anew."""
    snapshots: list[int]
    """The updates at which attention was kept; `…/attention` answers the numbers of one."""
    layers: list[WatchLayer]
    """What `…/attention?layer=` counts."""
