"""One formula for every reader: its symbols, its tree, and its forms as text, TeX, MathML, JSON.

card = trace["scores"][0, 1].card()
to_text(card.symbols)      # Σₖ Q[0, k]·K[1, k]
to_tex(card.symbols)       # \\sum_{k} Q_{0,k} \\cdot K_{1,k}
to_mathml(card.symbols)
to_json(card.symbols)
"""

from glassformer.tracing.formula.mathml import number_to_mathml, symbol_to_mathml, to_mathml
from glassformer.tracing.formula.naming import Names, Sight, Symbol, WrittenAxis
from glassformer.tracing.formula.notation import (
    MOST_TERMS,
    Formula,
    SymbolWriter,
    cell_text,
    equals,
    in_numbers,
    in_symbols,
    leaf_of,
    summands,
    to_json,
)
from glassformer.tracing.formula.tex import escaped, number_to_tex, symbol_to_tex, to_tex
from glassformer.tracing.formula.text import ENGLISH, Phrases, number, to_pieces, to_text

__all__ = [
    "ENGLISH",
    "MOST_TERMS",
    "Formula",
    "Names",
    "Phrases",
    "Sight",
    "Symbol",
    "SymbolWriter",
    "WrittenAxis",
    "cell_text",
    "equals",
    "escaped",
    "in_numbers",
    "in_symbols",
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
