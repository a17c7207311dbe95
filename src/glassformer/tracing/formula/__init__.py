"""One formula for every reader: its symbols, its tree, and its forms as text, TeX, MathML, JSON.

card = trace["scores"][0, 1].card()
to_text(card.tree)      # Σₖ Q[0, k]·K[1, k]
to_tex(card.tree)       # \\sum_{k} Q_{0,k} \\cdot K_{1,k}
to_mathml(card.tree)
to_json(card.tree)
"""

from glassformer.tracing.formula.naming import Names, Sight, Symbol, WrittenAxis
from glassformer.tracing.formula.notation import (
    MOST_TERMS,
    Formula,
    NumberWriter,
    SymbolWriter,
    equals,
    exact_number,
    leaf_of,
    number,
    summands,
    to_json,
)
from glassformer.tracing.formula.printers import (
    escaped,
    number_to_mathml,
    number_to_tex,
    symbol_to_mathml,
    symbol_to_tex,
    to_mathml,
    to_pieces,
    to_tex,
    to_text,
)

__all__ = [
    "MOST_TERMS",
    "Formula",
    "Names",
    "NumberWriter",
    "Sight",
    "Symbol",
    "SymbolWriter",
    "WrittenAxis",
    "equals",
    "escaped",
    "exact_number",
    "leaf_of",
    "number",
    "number_to_mathml",
    "number_to_tex",
    "summands",
    "symbol_to_mathml",
    "symbol_to_tex",
    "to_json",
    "to_mathml",
    "to_pieces",
    "to_tex",
    "to_text",
]
