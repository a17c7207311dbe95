"""The formula language of worked examples: `softmax(scores / sqrt(d_k)) @ values`.

    tree = parse("softmax(scores / sqrt(columns(keys))) @ values")
    evaluate(tree, {"scores": exactly([[2, 4]]), …}).mid

Read `grammar` (the syntax), `terms` (the graph it is parsed into), `bounds` and `affine` (what is
known about a number), `formula_functions` (what can be called) and `evaluator`. Python parses a
formula and never runs it. This package knows neither examples nor audits.
"""

from glassformer.audit.formulas.bounds import BoundedNumbers, Mask, Value, WordList, exactly
from glassformer.audit.formulas.evaluator import evaluate
from glassformer.audit.formulas.formula_functions import FUNCTIONS
from glassformer.audit.formulas.grammar import parse
from glassformer.audit.formulas.terms import FormulaError, Node, names_of, show

__all__ = [
    "FUNCTIONS",
    "BoundedNumbers",
    "FormulaError",
    "Mask",
    "Node",
    "Value",
    "WordList",
    "evaluate",
    "exactly",
    "names_of",
    "parse",
    "show",
]
