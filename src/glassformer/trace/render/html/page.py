"""One page that needs nothing else: the steps of a trace, their matrices, and every cell's card.

What does not fit into `max_bytes` is left out whole, a step at a time, and the page says so.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import torch

from glassformer.cancelling import stop_if_cancelled
from glassformer.trace.evaluate import limits
from glassformer.trace.labels import Head
from glassformer.trace.precision import tolerance
from glassformer.trace.render.addresses import Addresses, all_steps
from glassformer.trace.render.colours import CIVIDIS, DIVERGING, scale_of
from glassformer.trace.render.data import little_endian
from glassformer.trace.render.files import source_place
from glassformer.trace.render.html.encoding import Encoder, encode_step
from glassformer.trace.render.words import note_in, words_in
from glassformer.trace.steps import Step
from glassformer.trace.trace import Branch, Trace

__all__ = ["MOST_BYTES", "SCRIPTS", "page_text"]

SCRIPTS = (
    "tensors.js",
    "numbers.js",
    "expressions.js",
    "writing.js",
    "state.js",
    "colours.js",
    "list.js",
    "matrix.js",
    "card.js",
    "page.js",
)
"""In this order, and in one scope: the last one draws the page."""
MOST_BYTES = 8 << 20
MOST_CELLS = 100_000
"""The arithmetic of so many cells takes some seconds to write down."""
_WEIGHTS = ("softmax", "_softmax", "_safe_softmax")
_CELL_BYTES = 32
"""A guess at what a cell's arithmetic takes, to decide before it is written."""


def page_text(
    trace: Trace,
    *,
    steps: Sequence[str] | None = None,
    lang: str = "en",
    title: str | None = None,
    max_bytes: int = MOST_BYTES,
    max_cells: int = MOST_CELLS,
) -> str:
    """The page of a trace; with `steps`, of these and what they read."""
    words, tables = words_in(lang), {name: words_in(name) for name in ("en", "zh")}
    chosen = None if steps is None else [trace[name] for name in steps]
    contents = _Contents(trace, chosen, max_bytes, max_cells)
    data = {
        "lang": lang,
        "title": title,
        "words": {name: dict(table) for name, table in tables.items()},
        "colours": {"signed": DIVERGING, "probability": CIVIDIS},
        "notes": {
            name: [note_in(table, note) for note in trace.notes] for name, table in tables.items()
        },
        "start": _start(trace, chosen).number,
        "steps": contents.steps,
        "groups": contents.groups(),
        "left": contents.left,
    }
    script = f'(() => {{\n"use strict";\n{"".join(map(_asset, SCRIPTS))}}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    parts = {
        "lang": "zh-CN" if lang == "zh" else lang,
        "title": html.escape(title or words["title"]),
        "no script": html.escape(words["no script"]),
        "style": _asset("page.css"),
        "data": _inert(data),
        "hash": digest,
        "script": script,
    }
    return _filled(_asset("page.html"), parts)


def _start(trace: Trace, chosen: list[Step] | None) -> Step:
    """The step that the page opens on: what was chosen, the last attention weights, the output."""
    if chosen:
        return chosen[-1]
    weights = [step for step in trace.steps if step.op in _WEIGHTS and len(step.shape) > 2]
    return weights[-1] if weights else next(iter(trace.outputs.values()))


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _filled(template: str, parts: dict[str, str]) -> str:
    """The template with its `{{name}}` marks replaced, each once, in one pass."""
    pieces = template.split("{{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        filled.append(parts[name] + rest)
    return "".join(filled)


def _inert(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, nor open a comment there."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class _Contents:
    """What goes onto the page, and what is left out."""

    def __init__(
        self, trace: Trace, chosen: list[Step] | None, max_bytes: int, max_cells: int
    ) -> None:
        self._trace = trace
        self._addresses = Addresses()
        self._all = all_steps(trace)
        wanted = self._wanted(chosen)
        self.left: dict[str, Any] = {"steps": len(self._all) - len(wanted)}
        self._bytes = max_bytes
        self._cells = max_cells
        self._values = self._with_values(wanted)
        encoder = Encoder()
        explained = {step.number for step in (chosen or self._all)}
        self.steps: list[dict[str, Any] | None] = []
        missing: list[Step] = []
        for step in self._all:
            if step.number not in wanted:
                self.steps.append(None)
                continue
            entry = _facts(step)
            entry["uses"] = self._addresses.read_by(step)
            entry["values"] = self._values.get(step.number)
            if step.number in explained and (step.is_view or step.role == "activation"):
                entry["cells"] = self._arithmetic(encoder, step)
                if entry["cells"] is None and not step.is_opaque:
                    missing.append(step)
            self.steps.append(entry)
        self.left["cells"] = sum(math.prod(step.shape) for step in missing)
        self.left["cell steps"] = len(missing)

    def _wanted(self, chosen: list[Step] | None) -> set[int]:
        if chosen is None:
            return {step.number for step in self._all}
        wanted = {step.number for step in chosen}
        return wanted.union(*(self._addresses.read_by(step) for step in chosen))

    def _with_values(self, wanted: set[int]) -> dict[int, dict[str, str]]:
        """The numbers of the steps that fit: computed ones first, then small before large."""
        steps = [step for step in self._all if step.number in wanted]
        steps.sort(key=lambda step: (step.role == "parameter", step.view.numel))
        found: dict[int, dict[str, str]] = {}
        left: list[Step] = []
        for step in steps:
            stop_if_cancelled()
            kind, values = _values(step)
            if len(values) > self._bytes:
                left.append(step)
                continue
            self._bytes -= len(values)
            found[step.number] = {"kind": kind, "data": values}
        self.left["values"] = [step.name for step in left]
        self.left["numbers"] = sum(step.view.numel for step in left)
        return found

    def _arithmetic(self, encoder: Encoder, step: Step) -> dict[str, Any] | None:
        """The cells' arithmetic, if it and all numbers in it fit."""
        count = math.prod(step.shape)
        fits = count <= self._cells and count * _CELL_BYTES <= self._bytes
        if not fits or not all(number in self._values for number in self._addresses.read_by(step)):
            return None
        encoded = encode_step(encoder, step)
        self._cells -= count
        self._bytes -= len(json.dumps(encoded))
        return encoded

    def groups(self) -> dict[str, Any]:
        """The numbers of the steps by where the page lists them."""
        trace = self._trace
        return {
            "outputs": [step.number for step in trace.outputs.values()],
            "inputs": [step.number for step in trace.inputs.values()],
            "tree": _branch(trace.tree()),
            "parameters": sorted({step.number for step in trace.parameters.values()}),
            "constants": sorted({step.number for step in trace.constants.values()}),
        }


def _branch(branch: Branch) -> dict[str, Any]:
    return {
        "name": branch.name,
        "path": branch.path,
        "steps": [step.number for step in branch.steps],
        "branches": [_branch(inner) for inner in branch.branches],
    }


def _facts(step: Step) -> dict[str, Any]:
    scale = scale_of(step)
    largest, smallest = limits(step.dtype)
    return {
        "name": step.name,
        "role": step.role,
        "op": step.op,
        "module": step.module,
        "shape": list(step.shape),
        "dtype": str(step.dtype).removeprefix("torch."),
        "tolerance": tolerance(step.dtype),
        "largest": largest if math.isfinite(largest) else None,
        "smallest": smallest,
        "labels": [None if texts is None else list(map(_label, texts)) for texts in step.labels],
        "place": source_place(step.line),
        "line": step.line.text if step.line is not None else "",
        "expanded": step.expanded,
        "opaque": step.is_opaque,
        "view": step.is_view,
        "scale": None if scale is None else [scale.kind, scale.limit],
        "cells": None,
    }


def _label(text: str) -> str | dict[str, int]:
    """A position's text; of a head its number, which the page says in the reader's language."""
    return {"number": text.number} if isinstance(text, Head) else text


def _values(step: Step) -> tuple[str, str]:
    """The numbers as JavaScript holds them exactly: float32, or float64 for all else."""
    flat = step.value.reshape(-1)
    short = flat.dtype in (torch.float32, torch.float16, torch.bfloat16, torch.bool)
    numbers = flat.to(torch.float32 if short else torch.float64)
    kind = "float32" if short else "float64"
    return kind, base64.b64encode(little_endian(numbers)).decode("ascii")
