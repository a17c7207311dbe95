"""The printed numbers of a step one by one: what is printed, the verdict on it, what is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glassformer.audit.example import PrintedDigits
from glassformer.audit.formulas.bounds import BoundedNumbers, Value, WordList
from glassformer.audit.verdicts import StepResult, Verdict


@dataclass(frozen=True)
class PrintedCell:
    """A number or word where it is printed; `verdict` is None where nothing is printed."""

    index: tuple[int, ...]
    text: str
    verdict: Verdict | None
    right: str | None
    """What should stand there, where it is something else."""


def printed_cells(result: StepResult) -> list[PrintedCell]:
    """The cells of a step in reading order; none if it prints neither numbers nor words."""
    printed = result.step.printed
    if isinstance(printed, WordList):
        return list(_words(result, printed))
    return list(_numbers(result, printed)) if isinstance(printed, PrintedDigits) else []


def _numbers(result: StepResult, digits: PrintedDigits) -> Iterator[PrintedCell]:
    right = _fitting(result.right, digits.values.shape)
    for at in np.ndindex(digits.values.shape):
        places = int(digits.decimals[at])
        verdict = _verdict(result, at) if digits.shown[at] else None
        other = right_text(right, at, places) if right is not None and _differs(verdict) else None
        yield PrintedCell(at, number_text(float(digits.values[at]), places), verdict, other)


def _words(result: StepResult, printed: WordList) -> Iterator[PrintedCell]:
    right, found = result.right, result.comparison
    fits = found is None or found.same_shape  # a word too many would shift the others
    others = right.items if fits and isinstance(right, WordList) else ()
    for at, word in enumerate(printed.items):
        verdict = _verdict(result, (at,))
        other = others[at] if at < len(others) and _differs(verdict) else None
        yield PrintedCell((at,), word or "…", verdict, other)


def _differs(verdict: Verdict | None) -> bool:
    return verdict in ("wrong", "follows")


def _fitting(value: Value | None, shape: tuple[int, ...]) -> BoundedNumbers | None:
    return value if isinstance(value, BoundedNumbers) and value.shape == shape else None


def _verdict(result: StepResult, at: tuple[int, ...]) -> Verdict:
    """The step's verdict, for a number that the comparison does not except from it."""
    found = result.comparison
    if found is None:
        return result.verdict
    if found.wrong[at]:
        return result.verdict
    if found.open[at]:
        return "unchecked"
    return "agrees" if result.verdict == "wrong" else result.verdict


# --- numbers as text -------------------------------------------------------------------------


def right_text(value: BoundedNumbers, at: tuple[int, ...], places: int) -> str:
    """The right number to the printed decimals, or its range if it is not known."""
    if np.isnan(value.mid[at]):
        low, high = float(value.low[at]), float(value.high[at])
        if np.isinf(low) and np.isinf(high):
            return "?"
        return f"{number_text(low, places)} … {number_text(high, places)}"
    return number_text(float(value.mid[at]), places)


def number_text(number: float, places: int) -> str:
    """A number with so many decimals; "…" where none is printed."""
    if np.isnan(number):
        return "…"
    if np.isinf(number):
        return "∞" if number > 0 else "−∞"
    text = f"{number + 0.0:.{max(min(places, 12), 0)}f}"
    if places >= 12 and "." in text:
        text = f"{number:.4g}"  # a printed formula: all digits would only distract
    return text.replace("-", "−")
