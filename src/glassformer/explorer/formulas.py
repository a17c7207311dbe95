"""A cell's formula in LaTeX, with `Q` and `W_Q` for the steps that have a symbol."""

from __future__ import annotations

from glassformer.explorer.schemas import Language
from glassformer.explorer.symbols import short_name, symbol_of
from glassformer.trace import Cell, text
from glassformer.trace.expressions import Entry, Lookup, Named
from glassformer.trace.precision import relation
from glassformer.trace.render.cards import short_names
from glassformer.trace.render.latex_math import MathWriter, math_name, math_relation
from glassformer.trace.render.words import words_in

__all__ = ["formula_tex"]


def formula_tex(cell: Cell, language: Language) -> str:
    """`S_{0,1} = Σ …`; of what is given, its name alone."""
    symbol = symbol_of(cell.step)
    places = ",".join(map(str, cell.index))
    if symbol is None:
        short = short_name(cell.step)
        name = math_name(f"{short}[{places}]" if places else short)
    else:
        name = _indexed(symbol, places)
    expression = cell.expression
    if expression is None:
        return name
    sign = math_relation(relation(cell.difference, cell.step.dtype))
    return f"{name} {sign} {_SymbolWriter(cell, language).write(expression)}"


class _SymbolWriter(MathWriter):
    def __init__(self, cell: Cell, language: Language) -> None:
        inside = short_names(cell)
        owners = [operand.step for operand in cell.step.operands if operand.step is not None]
        titles = {step.name: short_name(step) for step in owners}  # as their panels are called
        super().__init__(
            lambda name: titles.get(name, name.removeprefix(inside)), words_in(language)
        )

    def leaf(self, expression: Entry | Lookup | Named) -> tuple[str, int]:
        written, strength = super().leaf(expression)
        if not isinstance(expression, Entry) or not expression.view.numel:
            return written, strength
        owner, _ = expression.view.owner((0,) * expression.view.ndim)
        symbol = symbol_of(owner)
        name = text.entry_name(expression, str)
        if symbol is None or not name.startswith(f"{owner.name}["):
            return written, strength
        places = name.removeprefix(f"{owner.name}[").removesuffix("]").replace(" ", "")
        return _indexed(symbol, places), strength


def _indexed(symbol: str, places: str) -> str:
    """A symbol at a place; `W_Q` with brackets, since a second index below would read as one."""
    if not places:
        return symbol
    return f"{symbol}[{places}]" if "_" in symbol else f"{{{symbol}}}_{{{places}}}"
