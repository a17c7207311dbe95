"""One rule per operator, by family. Importing this package fills the table of `rule_registry`."""

from __future__ import annotations

from functools import cache

from glassformer.tracing.arithmetic.rules import (  # noqa: F401 - they register their rules
    indexing,
    normalisation,
    rule_formulas,
    shapes_and_moves,
    sums,
    windows,
)
from glassformer.tracing.arithmetic.rules.rule_registry import find, is_given, is_unwritten, of_call
from glassformer.tracing.capture.operator_calls import Operator

__all__ = ["find", "is_given", "is_unwritten", "must_decompose", "of_call"]

_VIEWS_BY_NUMBERS = frozenset(["narrow.Tensor", "tensor_split.tensor_indices_or_sections"])
"""Views whose place depends on the numbers of a tensor, which an edit may change."""
_CONJUGATES = frozenset(["adjoint", "matrix_H", "mH"])
"""Views whose complex numbers torch conjugates only when they are read."""


@cache
def must_decompose(operator: Operator, is_complex: bool = False) -> bool:
    """Whether to run an operator as the smaller operators it is made of, since it has no rule.

    Operators that may return a view, or that return no tensor, run whole, but for conjugate
    transposes, whose numbers are others than those they show, and `_VIEWS_BY_NUMBERS`. Those
    that draw random numbers (dropout) are decomposed, so that only the draw itself stays
    unexplained.
    """
    if operator.name in _CONJUGATES:
        return is_complex
    if operator.full_name in _VIEWS_BY_NUMBERS:
        return True
    if operator.random:
        return bool(operator.func._can_decompose())
    returns = operator.func._schema.returns
    views = any(item.alias_info is not None and not item.alias_info.is_write for item in returns)
    tensors = any("Tensor" in str(item.type) for item in returns)
    unexplained = find(operator, is_complex=is_complex) is None
    return tensors and not views and not is_given(operator) and unexplained
