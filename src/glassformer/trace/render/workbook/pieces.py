"""Pieces of a formula: the text, how tightly it binds, and whether it is true or false."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ADD",
    "ATOM",
    "COMPARE",
    "MULTIPLY",
    "POWER",
    "InexpressibleError",
    "Piece",
    "truth",
    "value",
]

COMPARE, ADD, MULTIPLY, POWER, ATOM = 1, 3, 4, 5, 9


class InexpressibleError(Exception):
    """Arithmetic that no formula can hold: the step then stands as numbers, with this reason."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a formula."""

    text: str
    strength: int
    is_truth: bool = False
    """Whether it yields TRUE or FALSE."""
    shapes: frozenset[tuple[int, int]] = frozenset()
    """The rows and columns of the ranges in it: computed together, they must agree."""
    is_range: bool = False
    """Whether it is a range and nothing else."""


def value(piece: Piece, outer: int = 0) -> str:
    """The piece as a number, in brackets where it binds weaker than what stands around it."""
    if piece.is_truth:
        return f"--({piece.text})" if piece.shapes else f"IF({piece.text},1,0)"
    return f"({piece.text})" if piece.strength < outer else piece.text


def truth(piece: Piece) -> str:
    """The piece as a condition."""
    if piece.is_truth:
        return piece.text
    return f"{value(piece, COMPARE + 1)}<>0"
