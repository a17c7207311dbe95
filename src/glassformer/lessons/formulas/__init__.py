"""The formula language of worked examples: `softmax(scores / sqrt(d_k)) @ values`.

    tree = parse("softmax(scores / sqrt(columns(keys))) @ values")
    evaluate(tree, {"scores": exactly([[2, 4]]), …}).mid

Read `tree` and `parser` (what can be written), `values` and `intervals` (numbers with bounds),
`functions` (what can be called), then `evaluate`. A formula is parsed by us and never run as
Python. This package knows neither examples nor audits.
"""

from glassformer.lessons.formulas.evaluate import evaluate
from glassformer.lessons.formulas.functions import FUNCTIONS
from glassformer.lessons.formulas.grammar import parse
from glassformer.lessons.formulas.terms import FormulaError
from glassformer.lessons.formulas.terms import Node, names_of, show
from glassformer.lessons.formulas.values import Mask, Numbers, Value, Words, exactly

__all__ = [
    "FUNCTIONS",
    "FormulaError",
    "Mask",
    "Node",
    "Numbers",
    "Value",
    "Words",
    "evaluate",
    "exactly",
    "names_of",
    "parse",
    "show",
]
