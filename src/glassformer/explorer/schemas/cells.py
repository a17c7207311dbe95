"""One number: its card, its terms, where it came from and what came of it."""

from __future__ import annotations

from glassformer.explorer.schemas.base import Message, Number
from glassformer.explorer.schemas.traces import CellRef, SourceInfo

__all__ = [
    "CardInfo",
    "DefinitionInfo",
    "DependentInfo",
    "Piece",
    "PrecisionInfo",
    "Region",
    "SumInfo",
    "TermInfo",
    "TermPage",
]


class Region(Message):
    """A block of cells to outline in a panel, ends included."""

    operand: int | None
    """An operand of the step, or None: the step itself."""
    step: int | None
    lead: list[int]
    rows: tuple[int, int]
    columns: tuple[int, int]


class Piece(Message):
    """A piece of arithmetic in numbers; an operand is a link."""

    text: str
    cell: CellRef | None = None


class TermInfo(Message):
    """One summand."""

    value: Number
    symbols: str
    numbers: str
    pieces: list[Piece]
    """`numbers`, cut at its operands."""
    share: float
    """Its part of the sum of all sizes."""
    cells: list[CellRef]


class TermPage(Message):
    """Some of the summands of a cell."""

    total: int
    offset: int
    terms: list[TermInfo]


class DefinitionInfo(Message):
    """A symbol of a formula that stands for a part: μ, σ, Z."""

    symbol: str
    symbols: str
    numbers: str
    pieces: list[Piece]
    value: Number


class SumInfo(Message):
    """A long sum at a glance."""

    n_terms: int
    shown: list[TermInfo]
    others: int
    rest: Number
    positive: Number
    negative: Number
    share: float
    """What the shown ones are of the sum of all sizes."""
    factors: list[list[Number]]
    """For a dot product of up to 4,096 terms its two rows of numbers; otherwise none."""
    products: list[Number]


class PrecisionInfo(Message):
    """The same cell computed at several precisions."""

    float64: Number
    float32: Number
    bfloat16: Number
    rounded: Number
    decimals: int


class CardInfo(Message):
    """Everything about a cell."""

    cell: CellRef
    exact: str
    """Nine digits: enough to restore a float32."""
    formula: str
    tex: str
    numbers: str
    pieces: list[Piece]
    """`numbers`, cut at its operands."""
    definitions: list[DefinitionInfo]
    sum: SumInfo | None
    recomputed: Number
    difference: Number
    reproduced: bool
    """Whether the arithmetic gives the stored number, up to the rounding of its dtype."""
    precisions: PrecisionInfo | None
    operands: list[CellRef]
    """The first of them."""
    n_operands: int
    regions: list[Region]
    """Where the operands stand in the equation's panels."""
    source: SourceInfo | None
    is_given: bool
    """A parameter, an input, a constant, or a number set by an edit."""
    is_edited: bool
    before: Number | None
    """Its value before the edits, where it differs."""


class DependentInfo(Message):
    """A step that was made from a cell."""

    step: int
    name: str
    count: int
    cells: list[CellRef]
    regions: list[Region]
