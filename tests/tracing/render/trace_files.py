"""A reader of the JSON of a trace, from the format's description alone."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.documents.trace_data import SCHEMA


@dataclass(frozen=True)
class TensorData:
    role: str
    op: str
    module: str
    labels: tuple[tuple[str, ...] | None, ...]
    value: Tensor


@dataclass(frozen=True)
class TraceFile:
    """`file["scores"].value` is a tensor."""

    tensors: dict[str, TensorData]
    outputs: dict[str, str]
    cells: list[dict[str, Any]]

    def __getitem__(self, name: str) -> TensorData:
        return self.tensors[name]


def read_json(path: object) -> TraceFile:
    assert isinstance(path, Path)
    data = json.loads(path.read_text("utf-8"))
    assert data["schema"] == SCHEMA
    tensors: dict[str, TensorData] = {}
    for item in data["tensors"]:
        labels = tuple(None if axis is None else tuple(axis) for axis in item["labels"])
        value = decode(item["values"], item["dtype"], item["shape"])
        read = TensorData(item["role"], item["op"], item["module"], labels, value)
        tensors |= dict.fromkeys([item["name"], *item["aliases"]], read)
    return TraceFile(tensors, data["outputs"], data["cells"])


def decode(values: dict[str, Any], dtype: str, shape: list[int]) -> Tensor:
    kind = getattr(torch, dtype)
    if values["encoding"] == "list":
        return torch.tensor(values["data"], dtype=kind).reshape(shape)
    assert values["encoding"] == "base64"
    raw = bytearray(base64.b64decode(values["data"], validate=True))
    if not raw:
        return torch.empty(shape, dtype=kind)
    assert len(raw) == math.prod(shape) * kind.itemsize
    return torch.frombuffer(raw, dtype=torch.uint8).view(kind).reshape(shape).clone()
