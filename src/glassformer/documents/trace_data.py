"""A whole trace as JSON: names, shapes, lines, edges, and every number bit for bit.

    {
      "schema": "glassformer-trace/1",
      "notes": ["…"],
      "outputs": {"output": "logits"},              names of results, and the tensors they are
      "tensors": [                                  sources first, then steps in order, then views
        {
          "name": "scores", "aliases": [],          other names of the same tensor (tied weights)
          "role": "activation",                     parameter | input | constant | activation
          "op": "matmul", "module": "", "stage": "scores" | null,
          "view": false, "expanded": false, "opaque": false,
          "shape": [1, 3, 3], "dtype": "float32",
          "labels": [null, ["I", "am"], null],      for each axis its texts, or null
          "source": {"file": "package/model.py", "line": 12, "text": "scores = q @ k"} | null,
          "unwritten": [3, 4],                      places of memory that nothing has written to
          "values": {"encoding": "list", "data": [0.5, …]}                  up to 64 finite numbers
                  | {"encoding": "base64", "data": "…"}                     raw, little-endian
        }
      ],
      "edges": [{"from": "queries", "to": "scores", "argument": "self"}],
      "cells": [ … ]                                asked for: what `Cell.to_dict()` gives
    }

Values stand row by row. In base64 they are the bytes of the dtype named (bfloat16: two bytes,
bool: one). A reader must refuse a schema whose number after the slash it does not know; new keys
may appear without a new number.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.documents.addresses import Addresses, all_steps
from glassformer.documents.heat_maps import unwritten_places
from glassformer.errors import TraceError, stop_if_cancelled
from glassformer.tracing.capture.source_lines import source_parts
from glassformer.tracing.cells import Cell
from glassformer.tracing.steps import Step
from glassformer.tracing.trace import Trace

SCHEMA = "glassformer-trace/1"
_LISTED = 64
MOST_BYTES = 1 << 30


def trace_data(
    trace: Trace,
    *,
    steps: Sequence[str] | None = None,
    cells: Iterable[Cell] = (),
    depth: int = 1,
    max_bytes: int = MOST_BYTES,
) -> dict[str, Any]:
    """A trace as plain data; `cells` are explained too, `depth` levels of operands down.

    With `steps`, the tensors are these and what they read.
    """
    addresses = Addresses()
    known = all_steps(trace)
    kept = _chosen(trace, steps, addresses)
    tensors = [step for step in known if step.number in kept]
    size = sum(step.view.numel * step.dtype.itemsize for step in tensors)
    if size > max_bytes:
        raise TraceError(
            "the trace holds {size:,} bytes of numbers, more than max_bytes = "
            "{max_bytes:,}; trace a shorter input, or raise max_bytes",
            size=size,
            max_bytes=max_bytes,
        )
    names: dict[int, list[str]] = {}
    for name in trace.names:
        names.setdefault(trace[name].number, []).append(name)
    return {
        "schema": SCHEMA,
        "notes": list(trace.notes),
        "outputs": {n: step.name for n, step in trace.outputs.items() if step.number in kept},
        "tensors": [_tensor(step, names[step.number]) for step in tensors],
        "edges": [
            {"from": known[writer].name, "to": step.name, "argument": operand.argument}
            for step in tensors
            for operand in step.operands
            for writer in addresses.writers(operand.view)
            if writer in kept
        ],
        "cells": [cell.to_dict(depth) for cell in cells],
    }


def json_text(data: dict[str, Any], indent: int | None = None) -> str:
    """Strict JSON: NaN and infinities as strings."""
    return json.dumps(_strict(data), ensure_ascii=False, allow_nan=False, indent=indent)


NotFinite = Literal["NaN", "Infinity", "-Infinity"]


def json_number(number: float) -> float | NotFinite:
    """A number; the three that JSON lacks as strings."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, dict):
        return {key: _strict(part) for key, part in value.items()}
    return [_strict(part) for part in value] if isinstance(value, list | tuple) else value


def _chosen(trace: Trace, names: Sequence[str] | None, addresses: Addresses) -> set[int]:
    """The numbers of the steps to keep: those named and those they read."""
    if names is None:
        return {step.number for step in all_steps(trace)}
    steps = [trace[name] for name in names]
    kept = {step.number for step in steps}
    return kept.union(*(addresses.read_by(step) for step in steps))


def _tensor(step: Step, names: Sequence[str]) -> dict[str, Any]:
    stop_if_cancelled()
    return {
        "name": step.name,
        "aliases": [name for name in names if name != step.name],
        "role": step.role,
        "op": step.op,
        "module": step.module,
        "view": step.is_view,
        "stage": step.stage,
        "expanded": step.expanded,
        "opaque": step.is_opaque,
        "shape": list(step.shape),
        "dtype": str(step.dtype).removeprefix("torch."),
        "labels": [None if labels is None else list(labels) for labels in step.labels],
        "source": source_parts(step.line),
        "unwritten": unwritten_places(step),
        "values": encode(step.value),
    }


def encode(tensor: Tensor) -> dict[str, Any]:
    """Encode a tensor: a short finite one as a list, others as base64 of their bytes."""
    flat = tensor.detach().contiguous().reshape(-1)
    plain = flat.dtype in (torch.float32, torch.float64) or not flat.dtype.is_floating_point
    if plain and flat.numel() <= _LISTED and bool(flat.isfinite().all()):
        return {"encoding": "list", "data": flat.tolist()}
    return {"encoding": "base64", "data": base64.b64encode(little_endian(flat)).decode("ascii")}


def little_endian(flat: Tensor) -> bytes:
    """The little-endian bytes of a one-dimensional tensor."""
    if not flat.numel():
        return b""
    return _swapped(flat.contiguous().view(torch.uint8), flat.dtype.itemsize).numpy().tobytes()


def _swapped(raw: Tensor, itemsize: int) -> Tensor:
    """Convert between native and little-endian byte order; a no-op on most machines."""
    return raw.reshape(-1, itemsize).flip(1).reshape(-1) if sys.byteorder == "big" else raw
