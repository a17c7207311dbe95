"""Every step computed twice: from what is printed before it, and end to end from what is given.

From print, a number that was printed stands for a range. How wide? Its author may have gone on with
the printed digits, or with the full ones behind them. So a right number ranges from the printed
digits to what the formula gives; a wrong one over all that its digits may stand for. Where nothing
is printed the formula's own value goes on, rounded to the step's decimals or not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glassformer.errors import ConfigError
from glassformer.lessons.auditing.compare import overlap
from glassformer.lessons.example import Digits, Example, Step
from glassformer.lessons.formulas import FormulaError, evaluate
from glassformer.lessons.formulas.functions import round_half_up, write_out
from glassformer.lessons.formulas.tree import Call, Name, Node, Number, Partly, replace_all
from glassformer.lessons.formulas.values import Numbers, Value, Words, exactly

__all__ = ["EndToEnd", "FromPrint"]


class FromPrint:
    """The values of all steps, each computed from the printed values of those before it.

    `computed` holds what a formula gives; `used` what later steps take; `trees` the formulas, in
    which steps that are not fully printed are written out.
    """

    def __init__(self, example: Example) -> None:
        self.example = example
        self.computed: dict[str, Value] = {}
        self.used: dict[str, Value] = {}
        self.faces: dict[str, Value] = {}
        self.trees: dict[str, Node] = {}
        for step in example.in_order():
            self._take(step)

    def _take(self, step: Step) -> None:
        if step.tree is not None and step.unchecked is None:
            self.trees[step.id] = self._written_out(step.tree)
            try:
                value = self.evaluate(self.trees[step.id])
            except FormulaError as error:
                raise _located(self.example, step, error) from error
            self.computed[step.id] = value
            self.used[step.id] = self._lay_over(step.id, value)
        elif isinstance(step.printed, Digits):
            self.used[step.id] = step.printed.numbers()
        elif step.printed is not None:
            self.used[step.id] = step.printed
        else:
            return  # a statement without numbers: nothing can be computed from it
        value = self.used[step.id]
        self.faces[step.id] = value.faces() if isinstance(value, Numbers) else value

    def evaluate(self, tree: Node, *, faces: bool = False) -> Value:
        """A formula's value from print; `faces` takes digits as they stand, without bounds."""
        return evaluate(tree, self.faces if faces else self.used, self._lay_over)

    def _written_out(self, tree: Node) -> Node:
        tree = write_out(tree)
        for name in self.trees:
            if not self.example[name].complete:
                tree = replace_all(tree, Name(name), Partly(name, self.trees[name]))
        return tree

    def _lay_over(self, id_: str, value: Value) -> Value:
        """What is printed of a step, over what its formula gives."""
        step = self.example[id_]
        if isinstance(step.printed, Words):
            return step.printed
        if not isinstance(value, Numbers):
            return value
        if step.printed is None:
            return value if value.exact else _loosen(value, step)
        digits = step.printed
        if digits.values.shape != value.shape:
            if digits.shown.all():
                return digits.numbers()
            raise FormulaError(f"expected {digits.values.shape} numbers, got {value.shape}")
        mid = np.where(digits.shown, digits.values, value.mid)
        if value.exact and not digits.shown.all():
            return exactly(mid)
        return _together(step, self.trees[id_], digits, value, mid)


def _together(step: Step, tree: Node, digits: Digits, value: Numbers, mid: np.ndarray) -> Numbers:
    printed = digits.numbers()
    right = overlap(digits, value)
    low = np.where(right, np.minimum(mid, np.maximum(value.low, printed.low)), printed.low)
    high = np.where(right, np.maximum(mid, np.minimum(value.high, printed.high)), printed.high)
    loose = _loosen(value, step)
    low = np.where(digits.shown, low, loose.low)
    high = np.where(digits.shown, high, loose.high)
    if isinstance(tree, Call) and tree.function == "softmax":
        high = _leave_room(tree, digits, low, high)
    if np.array_equal(low, mid) and np.array_equal(high, mid):
        return exactly(mid)
    return Numbers(mid, low, high)


def _loosen(value: Numbers, step: Step) -> Numbers:
    """An unprinted value may have been rounded before it was used."""
    if step.decimals is None:
        return value
    half = 0.5 * 10.0**-step.decimals
    return Numbers(value.mid, value.low - half, value.high + half)


def _leave_room(softmax: Call, digits: Digits, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Probabilities sum to one: what is not printed gets no more than the printed ones leave."""
    axis = softmax.keyword("axis") or Number(-1)
    if not isinstance(axis, Number):
        return high
    along = int(axis.value)
    taken = np.where(digits.shown, low, 0.0).sum(axis=along, keepdims=True)
    return np.where(digits.shown, high, np.minimum(high, np.maximum(1 - taken, 0.0)))


class EndToEnd:
    """The right value of every step, and the one that rounding at each printed step would give.

    A step that cannot be computed counts as printed.
    """

    def __init__(self, example: Example, from_print: FromPrint) -> None:
        self._example = example
        self._faces = from_print.faces
        self.exact = self._chain(rounded=False)
        self.rounded = self._chain(rounded=True)

    def _chain(self, *, rounded: bool) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for step in self._example.in_order():
            value = self._compute(step, values)
            if value is None:
                value = self._faces.get(step.id)
            elif rounded and isinstance(value, Numbers):
                value = _rounded(value, step)
            if value is not None:
                values[step.id] = value
        return values

    def _compute(self, step: Step, values: Mapping[str, Value]) -> Value | None:
        if step.tree is None or step.unchecked is not None or step.any_order:
            return None  # an order that was free to choose is the printed one
        try:
            value = evaluate(step.tree, values)
        except FormulaError:
            return None  # the right inputs have another shape than the printed ones given beside
        if isinstance(value, Numbers) and np.isnan(value.mid).all():
            return None
        return value


def _rounded(value: Numbers, step: Step) -> Numbers:
    if isinstance(step.printed, Digits) and step.printed.values.shape == value.shape:
        scale = 10.0**step.printed.decimals
        with np.errstate(all="ignore"):
            return exactly(round_half_up(value.mid * scale, 0) / scale)
    if step.decimals is not None:
        return exactly(round_half_up(value.mid, step.decimals))
    return value


def _located(example: Example, step: Step, error: FormulaError) -> ConfigError:
    return ConfigError(f"{example.source}: step {step.id!r}: {error}")
