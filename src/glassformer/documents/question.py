"""Numbers that a reader is to compute: the cells, and what judges an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.tracing import Cell
from glassformer.tracing.formula import number as number_text


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an answer is right, and a sentence that says what went wrong if it is not."""

    is_right: bool
    said: str

    def __repr__(self) -> str:
        return f"{'✓' if self.is_right else '✗'} {self.said}"


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A task with hidden numbers; `labels` name them, `check` judges one text per number."""

    text: str
    cells: tuple[Cell, ...]
    labels: tuple[str, ...]
    check: Callable[[Sequence[str]], Judgement]
    number: int = 1

    @property
    def answers(self) -> tuple[str, ...]:
        """The right numbers as a matrix of a lesson shows them."""
        return tuple(shown_number(float(cell.value)) for cell in self.cells)

    def answer(self, *numbers: object) -> Judgement:
        """Judge an answer: `question.answer(4, 16, 12)`, or one text, `"4 16 12"`."""
        texts = [text for given in numbers for text in split_answer(str(given))]
        return self.check(texts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "question",
            "question": self.number,
            "text": self.text,
            "labels": list(self.labels),
            "answers": list(self.answers),
        }


def split_answer(line: str) -> list[str]:
    """The numbers of a typed line, between spaces, commas or semicolons."""
    for sign in ",;，；、[]()":
        line = line.replace(sign, " ")
    return line.split()


def shown_number(value: float, decimals: int = 3, digits: int = 4) -> str:
    """A number among others: a few decimals below 10, a few digits above."""
    if not math.isfinite(value):
        return number_text(value, digits).replace("-", "−")
    if 0 < abs(value) < 0.5 * 10**-decimals:
        return f"{value:.0e}".replace("-", "−")
    rounded = value if abs(value) >= 10 else round(value, decimals)
    return number_text(rounded, digits).replace("-", "−")
