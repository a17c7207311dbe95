"""Every step computed twice: from what is printed before it, and end to end from what is given.

From print, a printed number stands for a range. How wide? Its author may have continued with the
printed digits or with the full ones behind them. So a correct number ranges from the printed digits
to what the formula gives; a wrong one, and what follows it, over everything its digits may stand
for. If nothing is printed, the formula's value is used, rounded to the decimals of the step or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.audit.example import Example, PrintedDigits, PrintedStep
from glassformer.audit.formulas import FormulaError
from glassformer.audit.formulas.affine import closer
from glassformer.audit.formulas.bounds import (
    Array,
    BoundedNumbers,
    Value,
    WordList,
    exactly,
    shape_of,
)
from glassformer.audit.formulas.evaluator import FormulaEvaluator, Work, WorkSpentError
from glassformer.audit.formulas.formula_functions import round_half_up, write_out
from glassformer.audit.formulas.terms import (
    FunctionCall,
    Name,
    Node,
    Partly,
    names_of,
    replace_each,
)
from glassformer.audit.verdicts import PrintComparison, compare, overlap
from glassformer.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Rewritten:
    """Evaluators for rewritten formulas, which count their work."""

    bounds: FormulaEvaluator
    faces: FormulaEvaluator


class _TooMuchError(FormulaError):
    """More numbers than one example may compute."""


class FromPrint:
    """The values of all steps, each computed from the printed values of those before it.

    `computed` holds what each formula gives, `used` what later steps take, `faces` the same at face
    value, without bounds, and `trees` the formulas, with steps that are not fully printed written
    out. If the shapes of printed inputs do not fit because one of them is wrong (60 columns instead
    of 6), `computed` holds what the correct inputs give and `misfits` says why the printed ones
    give nothing.
    """

    def __init__(self, example: Example, whole: Work | None = None) -> None:
        self.example = example
        self._whole = whole
        self.computed: dict[str, Value] = {}
        self.used: dict[str, Value] = {}
        self.faces: dict[str, Value] = {}
        self.trees: dict[str, Node] = {}
        self.misfits: dict[str, FormulaError] = {}
        self._wrong: Mapping[str, PrintComparison] = {}
        self._closer = Work(whole=whole)
        self._mistaken: set[str] = set()
        self._below: set[str] = set()
        self._bounds = FormulaEvaluator(self.used, self._lay_over, Work(whole=whole))
        self._face_values = FormulaEvaluator(self.faces, self._lay_over, Work(whole=whole))
        for step in example.in_order:
            self._take(step)

    def _take(self, step: PrintedStep) -> None:
        if step.tree is not None and step.unchecked is None:
            self.trees[step.id] = self._written_out(step.tree)
            value = self._computed(step)
            self.computed[step.id] = value
            if self._mistaken & self.example.ancestors(step):
                self._below.add(step.id)
            if step.printed is not None:
                found = compare(step, value)
                if found.wrong.any() or not found.same_shape:
                    self._mistaken.add(step.id)
            self.used[step.id] = self._lay_over(step.id, value)
        elif isinstance(step.printed, PrintedDigits):
            self.used[step.id] = step.printed.numbers()
        elif step.printed is not None:
            self.used[step.id] = step.printed
        else:
            return  # a statement without numbers
        self.faces[step.id] = _face(self.used[step.id])

    def _computed(self, step: PrintedStep) -> Value:
        try:
            return self.value(step)
        except FormulaError as error:
            value = None
            if self._mistaken & self.example.ancestors(step) and not isinstance(
                error, _TooMuchError
            ):
                right = right_values(self.example, self.faces, Work(whole=self._whole), until=step)
                value = right.get(step.id)
            if value is None:
                raise ConfigError(
                    "{path}: step {name!r}: {error}",
                    path=self.example.source,
                    name=step.id,
                    error=error,
                ) from error
            self.misfits[step.id] = error
            return value

    def evaluate(self, tree: Node, *, faces: bool = False) -> Value:
        """A formula's value from print; `faces` takes the digits at face value, without bounds."""
        try:
            return (self._face_values if faces else self._bounds).value(tree)
        except WorkSpentError:
            raise _TooMuchError("expected fewer numbers in all steps together") from None

    def rewritten(self, step: PrintedStep, work: Work) -> Rewritten:
        """Evaluators for slips in a step's formula; what the slips leave alone is known already."""
        with suppress(FormulaError):
            self.evaluate(self.trees[step.id], faces=True)
        return Rewritten(self._bounds.branch(work), self._face_values.branch(work))

    def with_right(self, wrong: Mapping[str, PrintComparison], work: Work) -> FromPrint:
        """The same page with wrong numbers corrected."""
        mended = copy(self)
        mended._wrong = wrong
        mended.used = dict(self.used)
        for id_, found in wrong.items():
            mended.used[id_] = self._mended(id_, found, self.computed[id_])
        mended.faces = {id_: _face(value) for id_, value in mended.used.items()}
        mended._bounds = FormulaEvaluator(mended.used, mended._lay_over, work)
        mended._face_values = FormulaEvaluator(mended.faces, mended._lay_over, work)
        return mended

    def value(self, step: PrintedStep) -> Value:
        """A step's value from print, with the closest bounds."""
        tree, digits = self.trees[step.id], step.printed
        value = self.evaluate(tree)
        if not isinstance(value, BoundedNumbers) or not isinstance(digits, PrintedDigits):
            return value
        if value.exact or value.shape != digits.values.shape:
            return value
        off = np.abs(value.mid - digits.values) > digits.half
        if not off.any():
            return value  # right whatever the bounds are
        return closer(tree, self.evaluate, self._follows, self._closer) or value

    def _follows(self, id_: str, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """The cells of a step that are not printed."""
        digits = self.example[id_].printed
        if isinstance(digits, PrintedDigits) and digits.values.shape == shape:
            return ~digits.shown
        return np.full(shape, digits is None)

    def _mended(self, id_: str, found: PrintComparison, value: Value) -> Value:
        """What is printed of a step, with wrong numbers replaced by right ones, rounded or not."""
        if not isinstance(value, BoundedNumbers):
            return value
        digits = self.example[id_].printed
        if not isinstance(digits, PrintedDigits) or not found.same_shape:
            return value
        used = self._printed_over(id_, value)
        assert isinstance(used, BoundedNumbers)
        return BoundedNumbers(
            np.where(found.wrong, value.mid, used.mid),
            np.where(found.wrong, value.low - digits.half, used.low),
            np.where(found.wrong, value.high + digits.half, used.high),
        )

    def _written_out(self, tree: Node) -> Node:
        tree = write_out(tree)
        open_ = [
            id_ for id_ in names_of(tree) if id_ in self.trees and not self.example[id_].complete
        ]
        return replace_each(tree, {Name(id_): Partly(id_, self.trees[id_]) for id_ in open_})

    def _lay_over(self, id_: str, value: Value) -> Value:
        """What its formula gives, overridden by what is printed of the step."""
        if id_ in self._wrong:
            return self._mended(id_, self._wrong[id_], value)
        return self._printed_over(id_, value)

    def _printed_over(self, id_: str, value: Value) -> Value:
        step = self.example[id_]
        if isinstance(step.printed, WordList):
            return step.printed
        if not isinstance(value, BoundedNumbers):
            return value
        if step.printed is None:
            return value if value.exact else _loosen(value, step)
        digits = step.printed
        if digits.values.shape != value.shape:
            if digits.shown.all():
                return digits.numbers()
            raise FormulaError(
                "expected {expected}, got {given}",
                expected=shape_of(digits.values.shape),
                given=shape_of(value.shape),
            )
        mid = np.where(digits.shown, digits.values, value.mid)
        if value.exact and not digits.shown.all():
            return exactly(mid)
        # After a mistake, the author may have continued with the wrong number or the right one.
        right = overlap(digits, value) & (id_ not in self._below)
        printed, loose = digits.numbers(), _loosen(value, step)
        low = np.where(right, np.minimum(mid, np.maximum(value.low, printed.low)), printed.low)
        high = np.where(right, np.maximum(mid, np.minimum(value.high, printed.high)), printed.high)
        low = np.where(digits.shown, low, loose.low)
        high = _leave_room(self.trees[id_], digits, low, np.where(digits.shown, high, loose.high))
        if np.array_equal(low, mid) and np.array_equal(high, mid):
            return exactly(mid)
        return BoundedNumbers(mid, low, high)


def _loosen(value: BoundedNumbers, step: PrintedStep) -> BoundedNumbers:
    """An unprinted value may have been rounded before it was used."""
    if step.decimals is None:
        return value
    half = 0.5 * 10.0**-step.decimals
    return BoundedNumbers(value.mid, value.low - half, value.high + half)


def _face(value: Value) -> Value:
    """A value with all printed digits taken at face value."""
    return exactly(value.mid) if isinstance(value, BoundedNumbers) else value


def _leave_room(tree: Node, digits: PrintedDigits, low: Array, high: Array) -> Array:
    """Probabilities sum to one, so unprinted ones get at most what the printed ones leave."""
    if not isinstance(tree, FunctionCall) or tree.function != "softmax":
        return high
    along = tree.whole("axis", -1)
    if along is None:
        return high
    taken = np.where(digits.shown, low, 0.0).sum(axis=along, keepdims=True)
    return np.where(digits.shown, high, np.minimum(high, np.maximum(1 - taken, 0.0)))


def right_values(
    example: Example,
    faces: Mapping[str, Value],
    work: Work,
    *,
    rounded: bool = False,
    until: PrintedStep | None = None,
) -> dict[str, Value]:
    """The value of each step from the given ones; one that cannot be computed is taken as printed.

    `rounded` rounds each value as it is printed.
    """
    values: dict[str, Value] = {}
    for step in example.in_order:
        value = _from_values(step, values, work)
        if value is None:
            value = faces.get(step.id)
        elif rounded and isinstance(value, BoundedNumbers):
            value = _rounded(value, step)
        if value is not None:
            values[step.id] = value
        if step is until:
            break
    return values


def _from_values(step: PrintedStep, values: Mapping[str, Value], work: Work) -> Value | None:
    if step.tree is None or step.unchecked is not None or step.any_order:
        return None  # where any order is right, the printed one counts
    try:
        value = FormulaEvaluator(values, work=work).value(step.tree)
    except (FormulaError, WorkSpentError):
        return None  # the right inputs do not fit the shape of other printed inputs
    if isinstance(value, BoundedNumbers) and np.isnan(value.mid).all():
        return None
    return value


def _rounded(value: BoundedNumbers, step: PrintedStep) -> BoundedNumbers:
    if isinstance(step.printed, PrintedDigits) and step.printed.values.shape == value.shape:
        scale = 10.0**step.printed.decimals
        with np.errstate(all="ignore"):
            return exactly(round_half_up(value.mid * scale, 0) / scale)
    if step.decimals is not None:
        return exactly(round_half_up(value.mid, step.decimals))
    return value
