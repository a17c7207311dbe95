"""How a document writes a cell's arithmetic: the one place that asks the writers of formulas.

A `Notation` gives the same formula as text, TeX and MathML. `CardNotation` names cells as the trace
does; lessons have a notation of their own, which counts from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

from glassformer.trace import Cell, text
from glassformer.trace.render.cards import Card, card, short_names
from glassformer.trace.render.latex_math import (
    MathWriter,
    NumbersWriter,
    math_name,
    math_number,
    math_relation,
    math_symbol,
)
from glassformer.trace.render.words import Words, phrases_in, words_in

_LONGEST_LINE = 88


@dataclass(frozen=True, slots=True)
class SymbolDefinition:
    """A symbol that stands for a part of the formula: m, Z, μ."""

    symbol: str
    symbols: str
    numbers: str
    value: str


@dataclass(frozen=True, slots=True)
class WrittenFormula:
    """A cell's arithmetic as plain text."""

    name: str
    symbols: str
    numbers: str
    value: str
    definitions: tuple[SymbolDefinition, ...]
    relation: str = "="

    def lines(self, words: Words) -> list[str]:
        """Symbols, numbers, value, one below another; then what the symbols stand for."""
        lines = [f"{self.name} {self.relation} {self.symbols}"]
        lines += _ending(self.numbers, self.value, self.relation)
        for place, part in enumerate(self.definitions):
            lead = f"{words['where']} " if place == 0 else ""
            lines.append(f"{lead}{part.symbol} = {part.symbols}")
            lines += _ending(part.numbers, part.value, "=")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """As data."""
        return {
            "name": self.name,
            "symbols": self.symbols,
            "numbers": self.numbers,
            "value": self.value,
            "where": [
                {"symbol": d.symbol, "symbols": d.symbols, "numbers": d.numbers, "value": d.value}
                for d in self.definitions
            ],
        }


def _ending(numbers: str, value: str, relation: str) -> list[str]:
    if numbers == value:
        return [f"  {relation} {value}"]
    whole = f"  {relation} {numbers} {relation} {value}"
    if len(whole) <= _LONGEST_LINE:
        return [whole]
    return [f"  {relation} {numbers}", f"  {relation} {value}"]


class Notation(Protocol):
    """A way of writing formulas."""

    def text(self, cell: Cell) -> WrittenFormula:
        """Plain text."""

    def tex(self, cell: Cell, words: Words) -> tuple[str, ...]:
        """Lines of TeX mathematics; one that continues the line above begins with its sign."""

    def mathml(self, cell: Cell, words: Words) -> str:
        """HTML with MathML in it."""


@dataclass(frozen=True, slots=True)
class CardNotation:
    """The trace's own names, without the module that the cell belongs to."""

    digits: int = 4
    terms: int = text.MOST_TERMS
    language: str = "en"
    made: Card | None = None
    """The card of the one cell that is written, where it was made already."""

    def card(self, cell: Cell) -> Card:
        """What the cell's card says."""
        if self.made is not None and self.made.cell == cell:
            return self.made
        return card(cell, self.terms, self.digits, phrases_in(words_in(self.language)))

    def text(self, cell: Cell) -> WrittenFormula:
        """Plain text."""
        shown = self.card(cell)
        definitions = tuple(
            SymbolDefinition(d.symbol, d.symbols, d.numbers, text.number(d.value, self.digits))
            for d in shown.definitions
        )
        return WrittenFormula(
            cell.name.removeprefix(short_names(cell)),
            shown.formula,
            shown.numbers,
            text.number(cell.value, self.digits),
            definitions,
            shown.relation,
        )

    def tex(self, cell: Cell, words: Words) -> tuple[str, ...]:
        """TeX mathematics."""
        shown, inside = self.card(cell), short_names(cell)
        assert shown.expression is not None
        symbols = MathWriter(lambda full: full.removeprefix(inside), words)
        numbers = NumbersWriter(words, self.digits, self.terms)
        sign, value = math_relation(shown.relation), math_number(cell.value, self.digits)
        name = math_name(cell.name.removeprefix(inside))
        lines = [f"{name} {sign} {symbols.write(shown.expression)}"]
        in_numbers = numbers.write(shown.expression)
        middle = "" if in_numbers == value else f"{sign} {in_numbers} "
        lines.append(f"{middle}{sign} {value}")
        for part in shown.definitions:
            lines.append(f"{math_symbol(part.symbol)} = {symbols.write(part.expression)}")
            last = math_number(part.value, self.digits)
            lines.append(f"= {numbers.write(part.expression)} = {last}")
        return tuple(lines)

    def mathml(self, cell: Cell, words: Words) -> str:
        """The plain text, line by line: the trace has no MathML of its own yet."""
        return f"<pre>{escape(chr(10).join(self.text(cell).lines(words)))}</pre>"
