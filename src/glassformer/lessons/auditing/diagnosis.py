"""Numbers that are no softmax: what committing slips and checking cells one by one both miss.

A softmax has marks of its own. It sums to one, and the ratio of two weights is e to the difference
of their scores, whatever the scores that are not printed may be.
"""

from __future__ import annotations

import numpy as np

from glassformer.lessons.auditing.recompute import FromPrint
from glassformer.lessons.auditing.search import Committed, Explanation
from glassformer.lessons.example import Bilingual, Digits, Step
from glassformer.lessons.formulas.tree import Call, Number
from glassformer.lessons.formulas.values import Array, Numbers

__all__ = ["not_a_softmax"]


def not_a_softmax(from_print: FromPrint, step: Step) -> Explanation | None:
    """Which mark of a softmax the printed numbers lack."""
    tree = from_print.trees[step.id]
    if not isinstance(tree, Call) or tree.function != "softmax":
        return None
    digits = step.printed
    scores = from_print.evaluate(tree.arguments[0])
    if not isinstance(digits, Digits) or not isinstance(scores, Numbers):
        return None
    if scores.shape != digits.values.shape or not scores.shape:
        return None
    axis = tree.keyword("axis") or Number(-1)
    if not isinstance(axis, Number):  # computed: which one it is would have to be worked out
        return None
    along = int(axis.value)
    found = [part for part in (_sum(digits, along), _ratio(digits, scores, along)) if part]
    if not found:
        return None
    detail = Bilingual("; ".join(part.en for part in found), "；".join(part.zh for part in found))
    name = Bilingual("a softmax that is not one", "并非真正的 softmax")
    return Explanation((Committed("not_softmax", name, detail),))


def _sum(digits: Digits, axis: int) -> Bilingual | None:
    """A sum that is not one, beyond what rounding can do."""
    values = np.moveaxis(digits.values, axis, -1).reshape(-1, digits.values.shape[axis])
    half = np.moveaxis(digits.half, axis, -1).reshape(values.shape)
    for row, slack in zip(values, half, strict=True):
        known = ~np.isnan(row)
        total, room = row[known].sum(), slack[known].sum() + 1e-9
        if total - room > 1 or (known.all() and total + room < 1):
            return Bilingual(f"the sum is {total:.4g}, not 1", f"总和为 {total:.4g}，不是 1")
    return None


def _ratio(digits: Digits, scores: Numbers, axis: int) -> Bilingual | None:
    """Two weights whose ratio no softmax of these scores can have; the most telling pair.

    least_i / most_j must not exceed e^(high_i − low_j). Both sides fall apart into a part of i and
    a part of j, so the worst pair is the worst i and the worst j: no table of pairs is needed.
    """
    weights, half = _lines(digits.values, axis), _lines(digits.half, axis)
    low, high, mid = (_lines(part, axis) for part in (scores.low, scores.high, scores.mid))
    worst, pair = 1e-9, None
    for line, row in enumerate(weights):
        known = np.flatnonzero(~np.isnan(row) & np.isfinite(mid[line]))
        if not known.size:
            continue
        least, most = np.maximum(row - half[line], 0)[known], (row + half[line])[known]
        too_large = np.log(least) - high[line][known]
        too_small = low[line][known] - np.log(np.maximum(most, 1e-300))
        first, second = int(np.argmax(too_large)), int(np.argmax(too_small))
        excess = too_large[first] + too_small[second]
        if excess > worst:
            worst = float(excess)
            pair = (line, int(known[first]), int(known[second]))
    if pair is None:
        return None
    line, i, j = pair
    a, b, p, q = mid[line][i], mid[line][j], weights[line][i], weights[line][j]
    return Bilingual(
        f"scores {a:g} and {b:g} get {p:g} and {q:g}", f"分数 {a:g} 与 {b:g} 得到 {p:g} 与 {q:g}"
    )


def _lines(values: Array, axis: int) -> Array:
    return np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
