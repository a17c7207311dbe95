"""Expressions for the page: templates, and a few whole numbers for each cell.

The cells of a step nearly always have the same arithmetic on other operands. A step therefore
has a handful of templates, trees whose leaves say where operands lie relative to a first place;
a cell is the number of its template and those first places ("holes", in the order of the walk).

    ["n", number]                    a constant; NaN and ±∞ as strings
    ["e", step, axes]                + hole: a cell, or cells along axes [[letter, size, stride]]
    ["t", axes, [step, place, …], parts]
                                     cells that lie irregularly, one for each value of the letters
    ["l", step, parts]               + hole: a looked-up cell
                                     parts, for each axis: null or a number (fixed), a letter, or
                                     the tree of what was looked up
    ["o", operator, left, right]     ["f", name, arguments]     ["c", condition, yes, no]
    ["r", kind, body, axes, rank]    a reduction over [[letter, size]]
    ["v", dtype, body]               a cast
    ["d", symbol, body]              a part with a symbol of its own

The page walks these trees: it writes formulas, evaluates them in float64 and links operands.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from glassformer.cancelling import stop_if_cancelled
from glassformer.trace.evaluate import evaluate
from glassformer.trace.expressions import (
    Axis,
    Choose,
    Convert,
    Entry,
    Expression,
    Function,
    Lookup,
    Named,
    Number,
    Operation,
    Reduce,
    Scalar,
    fix,
)
from glassformer.trace.render.addresses import Addresses, Cells, index_of
from glassformer.trace.steps import Step

__all__ = ["Encoder", "encode_step", "packed"]

Tree = list[Any]


class Encoder:
    """Turns the expressions of a trace into templates and holes."""

    def __init__(self) -> None:
        self._addresses = Addresses()
        self._holes: list[int] = []

    def cell(self, expression: Expression) -> tuple[str, list[int]]:
        """The template, as JSON, and the holes of one cell."""
        self._holes = []
        tree = self._tree(expression, ())
        return json.dumps(tree, separators=(",", ":"), allow_nan=False), self._holes

    def _tree(self, expression: Expression, scope: tuple[Axis, ...]) -> Tree:
        match expression:
            case Number(value=value):
                return ["n", _number(value)]
            case Entry():
                return self._entry(self._addresses.of(expression))
            case Lookup():
                return self._lookup(expression, scope)
            case Operation(operator=operator, left=left, right=right):
                return ["o", operator, self._tree(left, scope), self._tree(right, scope)]
            case Function(name=name, arguments=arguments):
                return ["f", name, [self._tree(part, scope) for part in arguments]]
            case Reduce(kind=kind, body=body, axes=axes, rank=rank):
                running = [[axis.letter, axis.size] for axis in axes]
                return ["r", kind, self._tree(body, scope + axes), running, rank]
            case Choose(condition=condition, yes=yes, no=no):
                return ["c", *(self._tree(part, scope) for part in (condition, yes, no))]
            case Convert(dtype=dtype, body=body):
                return ["v", str(dtype).removeprefix("torch."), self._tree(body, scope)]
            case Named(symbol=symbol, body=body):
                return ["d", symbol, self._tree(body, ())]

    def _entry(self, cells: Cells) -> Tree:
        if cells.step is None:
            running = [list(axis) for axis in zip(cells.letters, cells.sizes, strict=True)]
            return ["t", running, [part for pair in cells.pairs for part in pair], []]
        self._holes.append(cells.base)
        axes = zip(cells.letters, cells.sizes, cells.strides, strict=True)
        return ["e", cells.step, [list(axis) for axis in axes]]

    def _lookup(self, lookup: Lookup, scope: tuple[Axis, ...]) -> Tree:
        if scope:  # the position depends on the letters: look up for each of their values
            return self._looked_up(lookup, scope)
        places = self._find(lookup)
        cells = self._addresses.of(Entry(lookup.view, places))
        self._holes.append(cells.base)
        return ["l", cells.step, self._parts(lookup, ())]

    def _parts(self, lookup: Lookup, scope: tuple[Axis, ...]) -> list[Any]:
        owner, _ = lookup.view.owner((0,) * lookup.view.ndim)
        same = owner.shape == lookup.view.shape  # the page then knows fixed positions by itself
        return [
            (None if same else part)
            if isinstance(part, int)
            else part.letter
            if isinstance(part, Axis)
            else self._tree(part, scope)
            for part in lookup.index
        ]

    def _looked_up(self, lookup: Lookup, scope: tuple[Axis, ...]) -> Tree:
        pairs: list[int] = []
        letters = [axis.letter for axis in scope]
        for at in product(*(range(axis.size) for axis in scope)):
            one = fix(lookup, dict(zip(letters, at, strict=True)))
            assert isinstance(one, Lookup)
            cells = self._addresses.of(Entry(lookup.view, self._find(one)))
            assert cells.step is not None, "one cell has one writer"
            pairs += [cells.step, cells.base]
        running = [[axis.letter, axis.size] for axis in scope]
        return ["t", running, pairs, self._parts(lookup, scope)]

    @staticmethod
    def _find(lookup: Lookup) -> tuple[int, ...]:
        """The position that a lookup finds."""
        found = []
        for part, size in zip(lookup.index, lookup.view.shape, strict=True):
            assert not isinstance(part, Axis), "no letter is left"
            place = part if isinstance(part, int) else int(evaluate(part))
            found.append(place + size if lookup.wrap and place < 0 else place)
        return tuple(found)


def _number(value: Scalar) -> Scalar | str:
    if isinstance(value, bool) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def encode_step(encoder: Encoder, step: Step) -> dict[str, Any] | None:
    """The arithmetic of all cells of a step; None where there is none to show."""
    templates: dict[str, int] = {}
    which: list[int] = []
    holes: list[int] = []
    for place in range(math.prod(step.shape)):
        stop_if_cancelled()
        index = index_of(step.shape, place)
        expression = Entry(step.view, index) if step.is_view else step.expression(index)
        if expression is None:
            return None
        template, own = encoder.cell(expression)
        which.append(templates.setdefault(template, len(templates)))
        holes += own
    return {
        "templates": [json.loads(template) for template in templates],
        "which": packed(which) if len(templates) > 1 else None,
        "holes": packed(holes),
    }


def packed(numbers: Sequence[int]) -> str:
    """Whole numbers as base64 of little-endian int32."""
    return base64.b64encode(np.asarray(numbers, dtype="<i4").tobytes()).decode("ascii")
