"""What a cell's card says, worked out once for every format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.trace import text
from glassformer.trace.cells import Cell, leaves
from glassformer.trace.evaluate import evaluate
from glassformer.trace.expressions import Entry, Expression
from glassformer.trace.largest import largest_terms
from glassformer.trace.precision import Relation, relation
from glassformer.trace.render.files import source_place

__all__ = ["Card", "Definition", "Part", "card", "short_names"]


@dataclass(frozen=True, slots=True)
class Part:
    """A summand of a cell: its value, how it is made, and its share of all summands' sizes."""

    value: float
    symbols: str
    numbers: str
    share: float
    expression: Expression

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The operands of this summand; of a long sum's parts there may be thousands."""
        return tuple(leaves(self.expression))


@dataclass(frozen=True, slots=True)
class Definition:
    """A symbol of the formula that stands for a part (μ, m, Z)."""

    symbol: str
    symbols: str
    numbers: str
    value: float
    expression: Expression


@dataclass(frozen=True, slots=True)
class Card:
    """A cell, ready to be shown."""

    cell: Cell
    expression: Expression | None
    formula: str
    numbers: str
    definitions: tuple[Definition, ...]
    parts: tuple[Part, ...]
    """The largest summands, in their own order; none if the cell is no sum."""
    others: int
    """How many summands are not among them."""
    rest: float
    """What the others add up to."""
    recomputed: float
    difference: float
    relation: Relation
    """Between the arithmetic and the stored number; ≠ where the rule does not reproduce it."""
    place: str
    """`package/module.py:12` of the line that made it, or nothing."""
    line: str

    @property
    def is_given(self) -> bool:
        """Whether nothing was computed: a parameter, an input, a constant."""
        return self.expression is None and not self.cell.step.is_opaque

    @property
    def is_copy(self) -> bool:
        """Whether the cell is another cell, moved."""
        return isinstance(self.expression, Entry)


def short_names(cell: Cell) -> str:
    """The module path that names may leave out on this cell's card."""
    return f"{cell.step.module}." if cell.step.module else ""


def card(
    cell: Cell,
    most: int = text.MOST_TERMS,
    digits: int = 4,
    phrases: text.Phrases = text.ENGLISH,
) -> Card:
    """The card of a cell, with the `most` largest terms of a long sum."""
    expression = cell.expression
    inside = short_names(cell)

    def rename(name: str) -> str:
        return name.removeprefix(inside)

    difference = cell.difference
    parts, others, rest = _parts(cell, most, digits, phrases)
    definitions: tuple[Definition, ...] = ()
    if expression is not None:
        definitions = tuple(
            Definition(
                part.symbol,
                text.symbols(part.body, rename, phrases),
                text.numbers(part.body, digits, most, phrases=phrases),
                evaluate(part.body),
                part.body,
            )
            for part in text.definitions(expression)
        )
    return Card(
        cell=cell,
        expression=expression,
        formula="" if expression is None else text.symbols(expression, rename, phrases),
        numbers=(
            "" if expression is None else text.numbers(expression, digits, most, phrases=phrases)
        ),
        definitions=definitions,
        parts=parts,
        others=others,
        rest=rest,
        recomputed=cell.recomputed,
        difference=difference,
        relation=relation(difference, cell.step.dtype),
        place=source_place(cell.source),
        line=cell.source.text if cell.source is not None else "",
    )


def _parts(
    cell: Cell, most: int, digits: int, phrases: text.Phrases
) -> tuple[tuple[Part, ...], int, float]:
    terms, inside = cell.terms, short_names(cell)

    def rename(name: str) -> str:
        return name.removeprefix(inside)

    if len(terms) < 2:
        return (), 0, 0.0
    values = terms.values
    shown = largest_terms(values, most)
    sizes = np.abs(values[np.isfinite(values)])
    whole = float(sizes.sum()) or 1.0
    parts = tuple(
        Part(
            terms[place].value,
            text.symbols(terms[place].expression, rename, phrases),
            text.numbers(terms[place].expression, digits, most, phrases=phrases),
            min(1.0, abs(terms[place].value) / whole),
            terms[place].expression,
        )
        for place in shown
    )
    with np.errstate(invalid="ignore"):
        rest = float(np.delete(values, shown).sum())
    return parts, len(terms) - len(shown), rest
