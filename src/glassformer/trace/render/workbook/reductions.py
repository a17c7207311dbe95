"""Reductions over ranges: SUMPRODUCT and its relatives."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.trace.expressions import Reduce
from glassformer.trace.render.workbook.pieces import (
    ADD,
    ATOM,
    COMPARE,
    MULTIPLY,
    InexpressibleError,
    Piece,
    value,
)

__all__ = ["gather", "needs_array"]

_WRITTEN_OUT = 16
"""Up to so many products of a row with a column are written out, since that reads better."""


def gather(reduce: Reduce, factors: Sequence[Piece]) -> Piece | None:
    """A reduction of range pieces; None if it has to be written out term by term."""
    shapes = {shape for factor in factors for shape in factor.shapes}
    if reduce.kind == "sum":
        return _sum(reduce, factors, shapes)
    (body,) = factors
    if len(shapes) != 1:
        return None
    text = value(body)
    match reduce.kind:
        case "max" | "min" | "product" if body.is_range:
            return Piece(f"{reduce.kind.upper()}({text})", ATOM)
        case "any":
            return Piece(f"SUMPRODUCT(--({value(body, ADD)}<>0))>0", COMPARE, True)
        case "all":
            return Piece(f"SUMPRODUCT(--({value(body, ADD)}=0))=0", COMPARE, True)
        case _ if body.is_range:
            (shape,) = shapes
            return _ranked(reduce, text, shape)
        case _:
            return None


def _sum(reduce: Reduce, factors: Sequence[Piece], shapes: set[tuple[int, int]]) -> Piece | None:
    if len(shapes) == 1:
        if all(factor.is_range for factor in factors):
            function = "SUM" if len(factors) == 1 else "SUMPRODUCT"
            return Piece(f"{function}({','.join(factor.text for factor in factors)})", ATOM)
        return Piece(f"SUMPRODUCT({'*'.join(value(f, MULTIPLY) for f in factors)})", ATOM)
    turned = len(shapes) == 2 and len({tuple(sorted(shape)) for shape in shapes}) == 1
    (size,) = {rows * columns for rows, columns in shapes} if turned else {0}
    if not turned or size <= _WRITTEN_OUT or len(reduce.axes) != 1:
        return None
    return _inner_product(factors)


def _inner_product(factors: Sequence[Piece]) -> Piece | None:
    """A long row times a long column; the turned column makes it an array formula."""
    if not all(factor.is_range for factor in factors):
        return None
    texts = [
        factor.text if next(iter(factor.shapes))[0] == 1 else f"TRANSPOSE({factor.text})"
        for factor in factors
    ]
    return Piece(f"SUMPRODUCT({','.join(texts)})", ATOM)


def _ranked(reduce: Reduce, text: str, shape: tuple[int, int]) -> Piece:
    """The cell of a given rank in a range, or its place."""
    rank = reduce.rank + 1
    match reduce.kind:
        case "argmax" | "argmin" | "last argmax" | "last argmin":
            extreme = f"{'MAX' if reduce.kind.endswith('max') else 'MIN'}({text})"
            if 1 in shape and not reduce.kind.startswith("last"):
                return Piece(f"MATCH({extreme},{text},0)-1", ADD)
            end = "LARGE" if reduce.kind.startswith("last") else "SMALL"
            return Piece(f"{end}(IF({text}={extreme},{_places(text, shape)}),1)", ATOM)
        case "largest":
            return Piece(f"LARGE({text},{rank})", ATOM)
        case "smallest":
            return Piece(f"SMALL({text},{rank})", ATOM)
        case "place largest" | "place smallest":
            larger = reduce.kind == "place largest"
            chosen = f"{'LARGE' if larger else 'SMALL'}({text},{rank})"
            before = f"SUMPRODUCT(--({text}{'>' if larger else '<'}{chosen}))"
            # Of the places that hold the chosen number, the one as far on as its rank among
            # equals: as in torch, the earlier of two equal cells comes first.
            equals = f"IF({text}={chosen},{_places(text, shape)})"
            return Piece(f"SMALL({equals},{rank}-{before})", ATOM)
        case _:
            raise InexpressibleError(f"a spreadsheet has no {reduce.kind}")


def _places(text: str, shape: tuple[int, int]) -> str:
    """For each cell of a range its place, counted row by row."""
    return f"(ROW({text})-MIN(ROW({text})))*{shape[1]}+COLUMN({text})-MIN(COLUMN({text}))"


def needs_array(formula: str) -> bool:
    """Whether a formula must be entered as an array formula to work in every program."""
    return any(mark in formula for mark in ("TRANSPOSE(", "SMALL(IF(", "LARGE(IF("))
