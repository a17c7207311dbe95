"""What an audit finds: a verdict for each step, with the right values and the likely slips."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from glassformer.language import words
from glassformer.lessons.auditing.compare import Comparison
from glassformer.lessons.auditing.search import Committed, Explanation
from glassformer.lessons.example import Bilingual, Digits, Example, Language, Step
from glassformer.lessons.formulas.values import Array, Mask, Numbers, Value, Words

__all__ = ["VERDICTS", "Audit", "StepResult", "Verdict"]

say = words("glassformer.lessons.auditing.audit")

Verdict: TypeAlias = Literal["agrees", "wrong", "follows", "unchecked", "given"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "wrong", "follows", "unchecked", "given")


@dataclass(frozen=True, eq=False)
class StepResult:
    """The verdict on one step.

    `from_print` is its value from the printed inputs, `end_to_end` from the first given ones;
    `causes` are the wrong steps that a step follows from; `reason` says why a step cannot be
    checked, or why no input at all could give what is printed. `note` says what a verdict alone
    does not: that the misprint is above, or that the cause was not searched further.
    """

    step: Step
    verdict: Verdict
    from_print: Value | None = None
    end_to_end: Value | None = None
    comparison: Comparison | None = None
    explanations: tuple[Explanation, ...] = ()
    reason: Bilingual | None = None
    causes: tuple[str, ...] = ()
    note: Bilingual | None = None

    @property
    def right(self) -> Value | None:
        """What should stand there: from the printed inputs if the step itself is wrong."""
        match self.verdict:
            case "wrong":
                return self.from_print
            case "follows" | "unchecked":
                return self.end_to_end
            case _:
                return None

    @property
    def off(self) -> Array | None:
        """How far each printed number is from what it could be at most, 0 where it is right."""
        digits, value = self.step.printed, self.from_print
        if not isinstance(digits, Digits) or not isinstance(value, Numbers):
            return None
        if digits.values.shape != value.shape:
            return None
        with np.errstate(invalid="ignore"):  # −∞ from −∞ is no distance
            above = digits.values - digits.half - value.high
            below = value.low - digits.values - digits.half
            distance = np.maximum(np.maximum(above, below), 0.0)
        wrong = self.comparison.wrong if self.comparison else False
        return np.where(wrong, distance, 0.0)

    def slip(self, language: Language) -> str | None:
        """The likely slips in words; alternatives that fit equally well are joined by "or"."""
        if not self.explanations:
            if self.verdict != "wrong" or self.note is not None:
                return None
            return say["no known slip"].say(language)
        joint, choice = say[" and "].say(language), say["; or "].say(language)
        return choice.join(
            joint.join(_say(slip, language) for slip in explanation.slips)
            for explanation in self.explanations
        )

    def to_dict(self, language: Language = "en") -> dict[str, Any]:
        """As `audit --json` writes it."""
        return {
            "id": self.step.id,
            "verdict": self.verdict,
            "slip": self.slip(language),
            "right": _plain(self.right),
            "note": None if self.note is None else self.note.say(language),
            "reason": None if self.reason is None else self.reason.say(language),
        }


@dataclass(frozen=True, eq=False)
class Audit:
    """The verdicts on a whole example."""

    example: Example
    results: tuple[StepResult, ...]

    def __getitem__(self, id_: str) -> StepResult:
        step = self.example[id_]
        return next(result for result in self.results if result.step is step)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many steps got each verdict."""
        counter = Counter(result.verdict for result in self.results)
        return {verdict: counter[verdict] for verdict in VERDICTS}

    @property
    def ok(self) -> bool:
        """Whether no step is wrong."""
        return self.counts["wrong"] == 0

    def to_dict(self, language: Language = "en") -> dict[str, Any]:
        """As `audit --json` writes it."""
        steps = [result.to_dict(language) for result in self.results]
        return {"example": self.example.name, "steps": steps}


def _say(slip: Committed, language: Language) -> str:
    text = (
        f"{slip.name.say(language)}{'：' if language == 'zh' else ': '}{slip.detail.say(language)}"
    )
    if slip.cells is None:
        return text
    where = _places(slip.cells, language)
    return say["{text} (only in {where})"].say(language, text=text, where=where)


def _places(cells: tuple[tuple[int, ...], ...], language: Language) -> str:
    """Cells in short: as rows × columns where they are such a block."""
    axes = [sorted(set(axis)) for axis in zip(*cells, strict=True)]
    if len(axes) == 2 and len(axes[0]) * len(axes[1]) == len(cells) > 1:
        comma = say[", "].say(language)
        rows, columns = (comma.join(map(str, axis)) for axis in axes)
        places = say.both("rows {rows} × columns {columns}", rows=rows, columns=columns)
        return places.say(language)
    listed = ", ".join(f"[{', '.join(map(str, cell))}]" for cell in cells[:6])
    return f"{listed}, … ({len(cells)})" if len(cells) > 6 else listed


def _plain(value: Value | None) -> Any:
    """A value as JSON: null for what is not known, "-inf" for −∞."""
    match value:
        case None:
            return None
        case Words(items=items, single=single):
            return items[0] if single else list(items)
        case Mask(allowed=allowed):
            return allowed.tolist()
        case Numbers(mid=mid):
            return _listed(mid.tolist())


def _listed(cells: Any) -> Any:
    if isinstance(cells, list):
        return [_listed(cell) for cell in cells]
    if np.isnan(cells):
        return None
    if np.isinf(cells):
        return "inf" if cells > 0 else "-inf"
    return round(cells, 12) + 0.0  # float64's own noise says nothing; −0.0 is 0
