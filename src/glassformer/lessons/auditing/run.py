"""The audit: every step recomputed, judged, and where it is wrong, explained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.errors import ConfigError, expect
from glassformer.lessons.auditing.compare import Comparison, compare
from glassformer.lessons.auditing.diagnosis import not_a_softmax
from glassformer.lessons.auditing.recompute import EndToEnd, FromPrint
from glassformer.lessons.auditing.results import Audit, StepResult
from glassformer.lessons.auditing.rounding import rounding_behind
from glassformer.lessons.auditing.search import Explanation, Search
from glassformer.lessons.auditing.slips import CATALOGUE, Slip
from glassformer.lessons.example import Bilingual, Digits, Example, Step
from glassformer.lessons.formulas.values import Numbers, Value, Words

__all__ = ["audit"]

_NOT_PRINTED = Bilingual("not printed", "文中没有给出数值")
_NO_NUMBER = Bilingual(
    "the formula gives no number that can be compared", "由公式得不到可供比较的数值"
)


def audit(example: Example, slips: Sequence[Slip] = CATALOGUE) -> Audit:
    """Check every printed number of an example; `slips` are the mistakes to look for."""
    expect(example, Example, "an Example, such as load_example(…) gives")
    with np.errstate(all="ignore"):  # −∞ − −∞ is no number, and nothing is concluded from it
        try:
            judge = _Judge(example, slips)
            judged = {step.id: judge.judge(step) for step in example.in_order()}
        except RecursionError:
            raise ConfigError(
                f"{example.source}: expected shorter formulas, or more of the steps between printed"
            ) from None
    return Audit(example, tuple(judged[step.id] for step in example.steps))


class _Judge:
    def __init__(self, example: Example, slips: Sequence[Slip]) -> None:
        self._example = example
        self._slips = slips
        self._from_print = FromPrint(example)
        self._chains = EndToEnd(example, self._from_print)
        self._wrong: set[str] = set()

    def judge(self, step: Step) -> StepResult:
        """The verdict on a step, once those before it are judged."""
        right = self._chains.exact.get(step.id)
        if step.unchecked is not None:
            return StepResult(step, "unchecked", reason=step.unchecked)
        if step.tree is None:
            if isinstance(step.printed, Digits) and not step.printed.shown.any():
                return StepResult(step, "unchecked", reason=_NOT_PRINTED)
            return StepResult(step, "given")
        local = self._from_print.computed[step.id]
        if step.printed is None:
            return StepResult(step, "unchecked", local, right, reason=_NOT_PRINTED)
        found = compare(step, local)
        if found.wrong.any() or not found.same_shape:
            self._wrong.add(step.id)
            reasons = self._explain(step, found)
            return StepResult(step, "wrong", local, right, found, tuple(reasons))
        if not found.checked:
            return StepResult(step, "unchecked", local, None, found, reason=self._missing(step))
        broken = not_a_softmax(self._from_print, step)
        if broken is not None:
            self._wrong.add(step.id)
            together = _jointly_wrong(step, local, found)
            return StepResult(step, "wrong", local, right, together, (broken,))
        behind = rounding_behind(self._from_print, step)
        explanations = () if behind is None else (behind,)
        if not self._differs(step):
            return StepResult(step, "agrees", local, right, found, explanations)
        causes = self._causes(step)
        return StepResult(step, "follows", local, right, found, explanations, causes=causes)

    def _causes(self, step: Step) -> tuple[str, ...]:
        before = self._example.ancestors(step) & self._wrong
        return tuple(other.id for other in self._example.steps if other.id in before)

    def _explain(self, step: Step, found: Comparison) -> list[Explanation]:
        explanations = Search(self._from_print, step, found, self._slips).explanations()
        if explanations:
            return explanations
        last = not_a_softmax(self._from_print, step)
        return [] if last is None else [last]

    def _differs(self, step: Step) -> bool:
        """Whether an earlier mistake shows: the right chain would print something else.

        What rounding at each step does to the right chain is no mistake.
        """
        if not self._causes(step):
            return False
        exact, rounded = self._chains.exact.get(step.id), self._chains.rounded.get(step.id)
        if exact is None or rounded is None:
            return False
        found = compare(step, _between(exact, rounded))
        return bool(found.wrong.any()) or not found.same_shape

    def _missing(self, step: Step) -> Bilingual:
        """Which inputs are not printed; if all are, the formula itself has no value there."""
        missing = [name for name in step.inputs if _unknown(self._from_print.used.get(name))]
        if not missing:
            return _NO_NUMBER
        listed = ", ".join(missing)
        return Bilingual(f"{listed} not printed in full", f"{listed} 没有完整给出")


def _jointly_wrong(step: Step, value: Value, found: Comparison) -> Comparison:
    """Each number alone may be right, all of them together not: those that differ are marked."""
    if not isinstance(step.printed, Digits) or not isinstance(value, Numbers):
        return found
    off = np.abs(value.mid - step.printed.values) > step.printed.half * (1 + 1e-6)
    wrong = found.right & off
    return Comparison(found.right & ~wrong, wrong, found.open)


def _between(exact: Value, rounded: Value) -> Value:
    if not isinstance(exact, Numbers) or not isinstance(rounded, Numbers):
        return exact
    if exact.shape != rounded.shape:
        return exact
    low, high = np.fmin(exact.mid, rounded.mid), np.fmax(exact.mid, rounded.mid)
    return Numbers(exact.mid, low, high)


def _unknown(value: Value | None) -> bool:
    if isinstance(value, Numbers):
        return bool(np.isnan(value.mid).any())
    return value is None or (isinstance(value, Words) and None in value.items)
