"""What a learner is told: right, or a hint. Plain data, without torch, so that it can cross to
the command from the process in which a learner's file runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glassformer.language import Bilingual, Language, words

say = words(__name__)


@dataclass(frozen=True)
class Feedback:
    """The verdict on an answer, and a sentence that says why."""

    exercise: str
    hints: tuple[str, ...]
    """Keys of what went wrong, none if nothing did: a known slip, two, or a general finding."""
    text: Bilingual
    language: Language = "en"

    @property
    def is_right(self) -> bool:
        return not self.hints

    def said(self, language: Language | None = None) -> str:
        """The verdict as a paragraph: `✗ scores: …`."""
        mark, chosen = "✓" if self.is_right else "✗", language or self.language
        return f"{mark} {say['verdict'].say(chosen, name=self.exercise, text=self.text)}"

    def __str__(self) -> str:
        return self.said()

    def __repr__(self) -> str:
        return self.said()

    def _repr_markdown_(self) -> str:
        """For notebooks."""
        mark = "✓" if self.is_right else "✗"
        return f"**{mark} {self.exercise}** {self.text.say(self.language)}"

    def to_dict(self) -> dict[str, Any]:
        """As data; both languages."""
        return {
            "exercise": self.exercise,
            "right": self.is_right,
            "hints": list(self.hints),
            "text": {"en": self.text.en, "zh": self.text.zh},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Feedback:
        text = Bilingual(data["text"]["en"], data["text"]["zh"])
        return cls(data["exercise"], tuple(data["hints"]), text)
