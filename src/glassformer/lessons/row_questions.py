"""Questions: a row of a matrix is hidden, and the reader computes it.

An answer is audited like a printed number: it is right if the digits given follow from the digits
shown, and if it is wrong, the slips of `glassformer.audit` are searched for one that gives it.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.audit import Committed, StepResult, audit, read_example
from glassformer.documents.parts import HeatMap, Judgement, Question
from glassformer.lessons.lesson import LessonStep, Speaker, step_title
from glassformer.tracing import Cell, Step

_DECIMALS = 2
"""Decimals that an answer needs unless the number has fewer."""
_MOST_DECIMALS = 4
"""Decimals that count: a calculator with fewer bits than ours gives other digits at the end."""
_SHOWN = 3  # decimals of a matrix of a lesson
_MOST_DIGITS, _LARGEST = 12, 1e9
_LONGEST = 24  # characters of one number
_MOST_SLIPS = 3  # that are named where several give the same numbers
_MINUS_INFINITY = ("-inf", "-∞", "-infinity")


@dataclass(frozen=True)
class RowAsked:
    """The row of a shown matrix that is asked for, and the formula of the whole matrix.

    `given` are matrices that the formula names, as the reader sees them.
    """

    shown: HeatMap
    row: int
    formula: str
    given: Mapping[str, HeatMap]
    say: Speaker

    def hidden(self) -> HeatMap:
        """The matrix with a question mark for each number of the row."""
        return replace(self.shown, hidden={self.row: 1})

    def question(self, text: str) -> Question:
        columns = range(len(self.shown.matrix.columns))
        cells = tuple(Cell(self.shown.step, self.shown.place(self.row, at)) for at in columns)
        shown = self.shown.matrix
        given = tuple(self.given.values())
        return Question(
            text, cells, shown.columns, self.judge, row=shown.rows[self.row], given=given
        )

    def judge(self, texts: Sequence[str]) -> Judgement:
        """Right, or a sentence that says what is wrong."""
        right = self.shown.matrix.values[self.row]
        if len(texts) != len(right):
            return self._wrong("count", wanted=len(right), given=len(texts))
        numbers = [_parsed(text) for text in texts]
        for text, number in zip(texts, numbers, strict=True):
            if number is None:
                return self._wrong("no number", text=text[:_LONGEST])
        typed = [number for number in numbers if number is not None]
        result = audit(read_example(json.dumps(self._example(typed)), "answer", "answer"))["answer"]
        if result.verdict == "wrong":
            return self._wrong("slip", slip=self._slip(result, typed))
        coarse = [
            self._called(label)
            for label, number, value in zip(self.shown.matrix.columns, typed, right, strict=True)
            if number.is_coarser_than(float(value))
        ]
        if coarse:
            return self._wrong("coarse", labels=self.say.listed(coarse), decimals=_DECIMALS)
        return Judgement(True, self.say("answer right"))

    def _wrong(self, key: str, **values: object) -> Judgement:
        return Judgement(False, self.say(f"answer {key}", **values))

    def _example(self, typed: Sequence[_TypedNumber]) -> dict[str, Any]:
        """The shown matrices and the answer as a worked example."""
        steps: list[dict[str, Any]] = [
            {"id": name.replace("∂", "d_"), "title": name, **_printed(shown.matrix.values)}
            for name, shown in self.given.items()
        ]
        rows, columns = self.shown.matrix.values.shape
        printed: list[list[Any]] = [[None] * columns for _ in range(rows)]
        printed[self.row] = [number.json for number in typed]
        decimals = [number.decimals for number in typed]
        steps.append(
            {
                "id": "answer",
                "formula": self.formula.replace("∂", "d_"),
                "printed": printed,
                "decimals": decimals,
            }
        )
        return {"title": "answer", "steps": steps}

    def _slip(self, result: StepResult, typed: Sequence[_TypedNumber]) -> str:
        """The slip that gives these numbers; else which of them are too small or too large."""
        values = self.shown.matrix.values
        if (label := _matching(typed, values, self.shown.matrix.rows)) is not None:
            return self.say("another row", row=self._called(label))
        single = [one.slips[0] for one in result.explanations if len(one.slips) == 1]
        found = list(dict.fromkeys(map(self._said, single)))
        if found:
            return self.say("or").join(found[:_MOST_SLIPS])
        assert result.comparison is not None
        wrong = result.comparison.wrong[self.row]
        said = (
            self.say(
                "too small" if number.value < value else "too large", label=self._called(label)
            )
            for label, number, value, is_wrong in zip(
                self.shown.matrix.columns, typed, values[self.row], wrong, strict=True
            )
            if is_wrong
        )
        return self.say("comma").join(said)

    def _said(self, slip: Committed) -> str:
        if slip.kind == "slice":  # its details count from 0
            return self.say("another slice")
        language = self.say.language
        detail = slip.detail.say(language)
        for name in self.given:
            detail = detail.replace(f"“{name}”", name)
        return self.say("slip", name=slip.name.say(language), detail=detail)

    def _called(self, label: str) -> str:
        """A row or a column inside a sentence."""
        return self.say("entry", number=label) if label.isdigit() else self.say.quoted(label)


@dataclass(frozen=True)
class _TypedNumber:
    """A number as it was typed."""

    value: float
    decimals: int

    @property
    def json(self) -> float | str:
        return "-inf" if math.isinf(self.value) else self.value

    def stands_for(self, number: float) -> bool:
        """Whether these are the number's digits."""
        if math.isinf(number) or math.isinf(self.value):
            return self.value == number
        return abs(self.value - number) <= 0.5 * 10.0**-self.decimals + 1e-9

    def is_coarser_than(self, right: float) -> bool:
        """Whether it has too few digits, although what it has is right."""
        if math.isinf(right) or self.decimals >= _DECIMALS:
            return False
        return abs(self.value - round(right, _DECIMALS)) > 1e-9


def _matching(
    typed: Sequence[_TypedNumber], lines: NDArray[np.float64], labels: Sequence[str]
) -> str | None:
    """The label of the line in which these numbers stand."""
    for line, label in zip(lines, labels, strict=True):
        if len(line) == len(typed) and all(map(_TypedNumber.stands_for, typed, line)):
            return label
    return None


def _parsed(text: str) -> _TypedNumber | None:
    """A number of bounded size, or −∞; None for anything else."""
    plain = unicodedata.normalize("NFKC", text.strip()).replace("−", "-").lower()
    if plain in _MINUS_INFINITY:
        return _TypedNumber(-math.inf, 0)
    try:
        number = Decimal(plain) if len(plain) <= _LONGEST else Decimal("nan")
    except InvalidOperation:
        return None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(number) > _LARGEST or exponent < -_MOST_DIGITS:
        return None
    decimals = min(max(0, -exponent), _MOST_DECIMALS)
    return _TypedNumber(round(float(number), decimals), decimals)


def _printed(values: NDArray[np.float64]) -> dict[str, Any]:
    """A matrix as the reader sees it; `rounded` unless the digits shown are the whole numbers."""
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    whole = np.floor(np.log10(np.maximum(finite, 1.0))).astype(int).max(axis=0)
    decimals = np.where(whole > 0, np.maximum(_SHOWN - whole, 0), _SHOWN)
    rounded = np.stack([np.round(values[:, at], d) for at, d in enumerate(decimals)], axis=1)
    printed = [["-inf" if x == -math.inf else float(x) for x in row] for row in rounded]
    with np.errstate(invalid="ignore"):
        is_exact = bool((np.nan_to_num(np.abs(values - rounded)) < 1e-6).all())
    if is_exact:
        return {"printed": printed}
    return {"printed": printed, "rounded": True, "decimals": decimals.tolist()}


def with_question(
    step: LessonStep,
    of: Step,
    row: int,
    formula: str,
    given: Mapping[str, HeatMap],
    say: Speaker,
    *,
    called: str | None = None,
) -> LessonStep:
    """A step that hides one row of a matrix it shows, and asks for it.

    `formula` is that of the whole matrix, in the names of `given`; `called` is what the question
    calls the matrix, if its symbol says too little.
    """
    shown = [part for part in step.parts if isinstance(part, HeatMap) and part.step is of][-1]
    asked = RowAsked(shown, row, formula, given, say)
    matrix, label = called or step_title(of, say), shown.matrix.rows[row]
    if len(of.shape) == 4 and of.shape[1] > 1:
        matrix = say("matrix of head", matrix=matrix, head=shown.matrix.lead[1] + 1)
    key = "ask vector" if not label else "ask numbered row" if label.isdigit() else "ask row"
    count = len(shown.matrix.columns)
    text = say(key, matrix=matrix, row=say.quoted(label), count=count)
    parts = tuple(asked.hidden() if part is shown else part for part in step.parts)
    return LessonStep(step.role, step.title, (*parts, asked.question(text)))
