"""The audit: every step recomputed, judged, and where it is wrong, explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import numpy as np

from glassformer.audit.example import Example, PrintedDigits, PrintedStep, Quotation
from glassformer.audit.formulas import FormulaError
from glassformer.audit.formulas.bounds import BoundedNumbers, Value, WordList
from glassformer.audit.formulas.evaluator import Work
from glassformer.audit.formulas.terms import Name, Partly, walk
from glassformer.audit.possibility import Impossible, impossible
from glassformer.audit.quotation import judge_quotation
from glassformer.audit.recomputation import FromPrint, right_values
from glassformer.audit.slip import Slip
from glassformer.audit.slip_catalogue import CATALOGUE
from glassformer.audit.slip_search import SlipSearch, rounding_behind
from glassformer.audit.verdicts import Audit, PrintComparison, SlipExplanation, StepResult, compare
from glassformer.errors import expect
from glassformer.language import Bilingual, words

say = words("glassformer.audit.audit")

_NOT_PRINTED = say.both("not printed")
_NO_NUMBER = say.both("the formula gives no number that can be compared")


_MISFITS = say.both("the shapes of its printed inputs do not fit, because of an earlier mistake")
_NOT_SEARCHED = say.both("cause not searched further")

# Budgets in numbers computed: for one example in all, and for each kind of explanation.
MOST_IN_ALL = 40_000_000
MOST_WORK = 12_000_000
_MOST_MISPRINTS = 4  # wrong inputs of one step for which every combination is tried


def audit(example: Example, slips: Sequence[Slip] = CATALOGUE) -> Audit:
    """Check every printed number of an example; `slips` are the mistakes to search for."""
    expect(example, Example, "an Example, such as load_example(…) gives")
    with np.errstate(all="ignore"):  # −∞ − −∞ is NaN, and nothing is concluded from it
        judge = _Judge(example, slips)
        judged = {step.id: judge.judge(step) for step in example.in_order}
        judged |= judge.explained(judged)
    return Audit(example, tuple(judged[step.id] for step in example.steps))


class _Judge:
    def __init__(self, example: Example, slips: Sequence[Slip]) -> None:
        self._example = example
        self._slips = slips
        self._whole = Work(MOST_IN_ALL)
        self._from_print = FromPrint(example, self._whole)
        faces = self._from_print.faces
        self._exact = right_values(example, faces, Work(whole=self._whole))
        self._rounded = right_values(example, faces, Work(whole=self._whole), rounded=True)
        self._wrong: dict[str, PrintComparison] = {}
        self._remarks = self._part(MOST_WORK)
        # Verdicts depend on it, so it has no smaller budget.
        self._misprints = Work(whole=self._whole)
        self._quotations = self._part(MOST_WORK)
        self._marks = self._part(MOST_WORK)

    def _part(self, numbers: int) -> Work:
        return Work(numbers, self._whole)

    def judge(self, step: PrintedStep) -> StepResult:
        """The verdict on a step; the steps before it must have been judged."""
        right = self._exact.get(step.id)
        if step.unchecked is not None:
            return StepResult(step, "unchecked", reason=step.unchecked)
        if step.quoted is not None:
            return self._judge_quotation(step, step.quoted)
        if step.tree is None:
            if isinstance(step.printed, PrintedDigits) and not step.printed.shown.any():
                return StepResult(step, "unchecked", reason=_NOT_PRINTED)
            return StepResult(step, "given")
        local = self._from_print.computed[step.id]
        if step.printed is None:
            return StepResult(step, "unchecked", local, right, reason=_NOT_PRINTED)
        found = compare(step, local)
        if step.id in self._from_print.misfits:
            return self._from_misfits(step, found)
        if found.wrong.any() or not found.same_shape:
            above = self._misprints_above(step)
            if above is not None:
                return StepResult(
                    step, "agrees", local, right, above[0], note=self._above(above[1])
                )
            self._wrong[step.id] = found
            return StepResult(step, "wrong", local, right, found)
        broken = impossible(self._from_print, step, self._marks)
        if broken is not None:
            if self._possible_from_right(step):
                note = self._above(self._causes(step))
                return StepResult(step, "agrees", local, right, found, note=note)
            together = _jointly_wrong(step, local, found, broken)
            self._wrong[step.id] = together
            lacking = (broken.explanation(),)
            return StepResult(step, "wrong", local, right, together, lacking, broken.reason)
        if not found.checked:
            return StepResult(step, "unchecked", local, None, found, reason=self._missing(step))
        behind = rounding_behind(self._from_print, step, self._remarks)
        explanations = () if behind is None else (behind,)
        if not self._differs(step):
            return StepResult(step, "agrees", local, right, found, explanations)
        causes = self._causes(step)
        return StepResult(step, "follows", local, right, found, explanations, causes=causes)

    def _causes(self, step: PrintedStep) -> tuple[str, ...]:
        before = self._example.ancestors(step) & self._wrong.keys()
        return tuple(other.id for other in self._example.steps if other.id in before)

    def _judge_quotation(self, step: PrintedStep, quoted: Quotation) -> StepResult:
        result = judge_quotation(self._from_print, step, quoted, self._slips, self._quotations)
        above = self._causes(step)
        if result.verdict == "wrong" and above and step.tree is not None:
            page = self._right_page(above)
            with suppress(FormulaError):
                page.computed = {**page.computed, step.id: page.value(step)}
                again = judge_quotation(page, step, quoted, self._slips, self._quotations)
                if again.verdict == "agrees":
                    return replace(again, note=self._above(above))
        return result

    def _right_page(self, names: Sequence[str]) -> FromPrint:
        wrong = {name: self._wrong[name] for name in names}
        return self._from_print.with_right(wrong, self._misprints)

    def _misprints_above(self, step: PrintedStep) -> tuple[PrintComparison, tuple[str, ...]] | None:
        """Whether a step that contradicts its printed inputs follows from the correct inputs.

        Then its author computed with the right numbers and misprinted them. Which of the wrong
        inputs are such misprints is found by trial.
        """
        parts = walk(self._from_print.trees[step.id])
        names = [part.name for part in parts if isinstance(part, Name | Partly)]
        for misprinted in _choices([name for name in names if name in self._wrong]):
            try:
                found = compare(step, self._right_page(misprinted).value(step))
            except FormulaError:
                continue
            if found.checked and found.same_shape and not found.wrong.any():
                return found, misprinted
        return None

    def _possible_from_right(self, step: PrintedStep) -> bool:
        """Whether numbers that the printed inputs rule out are possible from the right ones."""
        above = self._causes(step)
        if not above:
            return False
        try:
            return impossible(self._right_page(above), step, self._marks) is None
        except FormulaError:
            return False

    def _from_misfits(self, step: PrintedStep, found: PrintComparison) -> StepResult:
        """A step whose printed inputs do not fit its formula, judged by the right inputs."""
        right = self._exact.get(step.id)
        if found.same_shape and not found.wrong.any() and found.checked:
            note = self._above(self._causes(step))
            return StepResult(step, "agrees", right, right, found, note=note)
        return StepResult(step, "unchecked", None, right, found, reason=_MISFITS)

    def explained(self, judged: dict[str, StepResult]) -> dict[str, StepResult]:
        """The wrong steps with the slips behind them.

        Every step is searched for one slip before any is searched for two, and the remaining budget
        is shared evenly, so that one hard step does not starve the others.
        """
        searches = {
            id_: SlipSearch(self._from_print, self._example[id_], found, self._slips)
            for id_, found in self._wrong.items()
            if not judged[id_].explanations
        }
        explanations: dict[str, list[SlipExplanation]] = {}
        left = MOST_WORK
        for stage in (SlipSearch.one_slip, SlipSearch.two_slips):
            waiting = [id_ for id_ in searches if not explanations.get(id_)]
            for done, id_ in enumerate(waiting):
                share = left // (len(waiting) - done)
                work = self._part(share)
                explanations[id_] = stage(searches[id_], work)
                left -= share - max(work.left, 0)
        return {
            id_: self._explained(judged[id_], search, explanations[id_])
            for id_, search in searches.items()
        }

    def _explained(
        self, result: StepResult, search: SlipSearch, explanations: list[SlipExplanation]
    ) -> StepResult:
        if not explanations:
            last = impossible(self._from_print, result.step, self._marks)
            if last is not None:
                explanations = [last.explanation()]
                result = replace(result, reason=last.reason)
        notes = [_failed(name, error) for name, error in search.failed.values()]
        if not explanations and not search.finished:
            notes.append(_NOT_SEARCHED)
        note = Bilingual.joined(notes, "; ", "；") if notes else None
        return replace(result, explanations=tuple(explanations), note=note)

    def _differs(self, step: PrintedStep) -> bool:
        """Whether an earlier mistake shows: the right chain would print something else.

        The effect of rounding at each step is not a mistake.
        """
        if not self._causes(step):
            return False
        exact, rounded = self._exact.get(step.id), self._rounded.get(step.id)
        if exact is None or rounded is None:
            return False
        found = compare(step, _between(exact, rounded))
        return bool(found.wrong.any()) or not found.same_shape

    def _missing(self, step: PrintedStep) -> Bilingual:
        """Which inputs are not printed; if all are, the formula itself has no value."""
        missing = [name for name in step.inputs if _unknown(self._from_print.used.get(name))]
        if not missing:
            return _NO_NUMBER
        return say.both("not printed in full: {listed}", listed=self._example.called(missing))

    def _above(self, misprinted: Sequence[str]) -> Bilingual:
        template = "agrees with the correct input, which is misprinted above: {listed}"
        return say.both(template, listed=self._example.called(misprinted))


def _choices(names: list[str]) -> Iterator[tuple[str, ...]]:
    """Combinations of wrong inputs that may be misprints: one, several, all."""
    if len(names) > _MOST_MISPRINTS:
        yield tuple(names)
        yield from ((name,) for name in names)
        return
    for count in range(1, len(names) + 1):
        yield from combinations(names, count)


def _failed(name: Bilingual, error: Exception) -> Bilingual:
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return say.both("the search for “{name}” failed ({what})", name=name, what=what)


def _jointly_wrong(
    step: PrintedStep, value: Value, found: PrintComparison, broken: Impossible
) -> PrintComparison:
    """Cells that may be right one by one but not together.

    Those that differ from what the inputs give are marked; if that is unknown, all of them.
    """
    if not isinstance(step.printed, PrintedDigits) or not isinstance(value, BoundedNumbers):
        return found
    off = np.abs(value.mid - step.printed.values) > step.printed.half * (1 + 1e-6)
    wrong = broken.cells & (off | np.isnan(value.mid))
    return PrintComparison(found.right & ~wrong, wrong, found.open & ~wrong)


def _between(exact: Value, rounded: Value) -> Value:
    if not isinstance(exact, BoundedNumbers) or not isinstance(rounded, BoundedNumbers):
        return exact
    if exact.shape != rounded.shape:
        return exact
    low, high = np.fmin(exact.mid, rounded.mid), np.fmax(exact.mid, rounded.mid)
    return BoundedNumbers(exact.mid, low, high)


def _unknown(value: Value | None) -> bool:
    if isinstance(value, BoundedNumbers):
        return bool(np.isnan(value.mid).any())
    return value is None or (isinstance(value, WordList) and None in value.items)
