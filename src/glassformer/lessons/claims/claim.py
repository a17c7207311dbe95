"""What a claim is: words, an experiment that gives figures, and a rule that judges the figures.

The experiment knows no verdict, and the rule sees nothing but the figures: so a stored result is
judged by the same rule as a fresh one, and nobody can write a verdict down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from glassformer.lessons.example import Bilingual, Language

__all__ = ["Claim", "Decision", "Figures", "Outcome", "Rule", "Stored", "Verdict"]

Figures: TypeAlias = Mapping[str, float]
"""What was measured, by name; yes and no are 1 and 0."""

Decision: TypeAlias = Callable[[Figures], bool]

Verdict: TypeAlias = Literal[
    "holds", "holds in part", "fails", "not decidable here", "not measured yet"
]


def _never(_: Figures) -> bool:
    return False


def _always(_: Figures) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """From figures to a verdict: the first condition that is met decides."""

    holds: Decision
    partly: Decision = _never
    decidable: Decision = _always

    def judge(self, figures: Figures) -> Verdict:
        """The verdict that these figures ask for."""
        if not self.decidable(figures):
            return "not decidable here"
        if self.holds(figures):
            return "holds"
        return "holds in part" if self.partly(figures) else "fails"


@dataclass(frozen=True)
class Stored:
    """Figures of an experiment that takes long, and how to get them again."""

    figures: Figures
    command: str
    date: str
    where: str


@dataclass(frozen=True)
class Claim:
    """One statement of a text, and the experiment that decides it."""

    id: str
    texts: tuple[str, ...]
    says: Bilingual
    """The statement, in our words."""
    found: Bilingual
    """What was measured, with a place for each figure, such as `{gap:.1e}`."""
    remark: Bilingual | None
    """The condition of a claim that holds in part; the reason, where it cannot be decided."""
    measure: Callable[[], Figures]
    rule: Rule
    slow: bool = False
    command: str | None = None
    """What to type for a slow one."""
    stored: Stored | None = None

    def run(self) -> Outcome:
        """Measure now."""
        start = time.perf_counter()
        figures = self.measure()
        return Outcome(self, self.rule.judge(figures), figures, time.perf_counter() - start)

    def recall(self) -> Outcome:
        """The stored result, judged now; without one, there is no verdict."""
        if self.stored is None:
            return Outcome(self, "not measured yet", {})
        return Outcome(self, self.rule.judge(self.stored.figures), self.stored.figures)


@dataclass(frozen=True)
class Outcome:
    """What came of a claim."""

    claim: Claim
    verdict: Verdict
    figures: Figures
    seconds: float | None = None
    """How long it took; none where a stored result was read."""

    def sentence(self, language: Language) -> str:
        """What was measured, and where the verdict has one, its condition or reason."""
        if self.verdict == "not measured yet":
            return {"en": "Command: {}", "zh": "命令：{}"}[language].format(self.claim.command)
        said = self.claim.found.say(language).format_map(self.figures)
        if self.verdict in ("holds in part", "not decidable here") and self.claim.remark:
            said += (" " if language == "en" else "") + self.claim.remark.say(language)
        if self.seconds is None and self.claim.stored is not None:
            said += _origin(self.claim.stored, language)
        return said

    def to_dict(self, language: Language = "en") -> dict[str, Any]:
        """Plain JSON data."""
        stored = self.claim.stored if self.seconds is None else None
        return {
            "id": self.claim.id,
            "texts": list(self.claim.texts),
            "claim": self.claim.says.say(language),
            "verdict": self.verdict,
            "found": self.sentence(language),
            "figures": dict(self.figures),
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "stored": None
            if stored is None
            else {"command": stored.command, "date": stored.date, "where": stored.where},
        }


def _origin(stored: Stored, language: Language) -> str:
    form = {"en": " (`{}`, {}, {})", "zh": "（`{}`，{}，{}）"}[language]
    return form.format(stored.command, stored.where, stored.date)
