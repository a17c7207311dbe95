"""The formula language of worked examples: `softmax(scores / sqrt(d_k)) @ values`.

    tree = parse("softmax(scores / sqrt(columns(keys))) @ values")
    evaluate(tree, {"scores": exactly([[2, 4]]), …}).mid

Read `tree` and `parser` (what can be written), `values` and `intervals` (numbers with bounds),
`functions` (what can be called), then `evaluate`. A formula is parsed by us and never run as
Python. This package knows neither examples nor audits.
"""

from glassformer.lessons.formulas.bounds import Mask, Numbers, Value, Words, exactly
from glassformer.lessons.formulas.evaluator import evaluate
from glassformer.lessons.formulas.grammar import parse
from glassformer.lessons.formulas.library import FUNCTIONS
from glassformer.lessons.formulas.terms import FormulaError, Node, names_of, show

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
