"""Right digits that owe their last places to a rounding: worth a remark, not a verdict.

Six decimals computed from weights of four agree with any other six that the unprinted digits of
their inputs allow. But if rounding a value first gives every printed digit, and not rounding does
not, then that is what was done, and the last digits mean nothing.
"""

from __future__ import annotations

import numpy as np

from glassformer.lessons.auditing.recompute import FromPrint
from glassformer.lessons.auditing.search import Committed, Explanation
from glassformer.lessons.auditing.slips import Scene, anywhere
from glassformer.lessons.auditing.slips.catalogue import ROUNDING
from glassformer.lessons.auditing.slips.printing import rounded_before_use
from glassformer.lessons.example import Digits, Step
from glassformer.lessons.formulas import FormulaError
from glassformer.lessons.formulas.evaluate import Work, WorkSpentError
from glassformer.lessons.formulas.terms import Node
from glassformer.lessons.formulas.values import Numbers, Value

__all__ = ["rounding_behind"]

_FEWEST = 6  # cells that must differ before and agree after: fewer could be chance


def rounding_behind(from_print: FromPrint, step: Step, work: Work) -> Explanation | None:
    """The rounding that gives every printed digit, where taking inputs as printed does not.

    When the work for remarks is done there are none: nothing follows from one that is missing.
    """
    digits, tree = step.printed, from_print.trees[step.id]
    if not isinstance(digits, Digits) or digits.values.size < _FEWEST:
        return None

    rewritten = from_print.rewritten(step, work)

    def faces(node: Node) -> Value:
        return rewritten.faces.value(node)

    def misses(node: Node) -> int:
        try:
            value = faces(node)
        except FormulaError:
            return digits.values.size
        if not isinstance(value, Numbers) or value.shape != digits.values.shape:
            return digits.values.size
        off = np.abs(value.mid - digits.values) > digits.half * (1 + 1e-6) + 1e-12
        return int((off & digits.shown).sum())

    try:
        if misses(tree) < _FEWEST:
            return None
        titles = {other.id: other.title for other in from_print.example.steps}
        scene = Scene(step, from_print.computed[step.id], digits, {}, faces, titles)
        for change in anywhere(rounded_before_use)(tree, scene):
            if misses(change.tree) == 0:
                return Explanation((Committed(ROUNDING.kind, ROUNDING.name, change.detail),))
    except WorkSpentError:
        pass
    return None
