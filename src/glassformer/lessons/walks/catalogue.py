"""The lessons by name, each with what it is about; made when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from glassformer.errors import UnknownNameError
from glassformer.lessons.example import Bilingual, Language
from glassformer.lessons.walks import (
    by_hand,
    classifier,
    films,
    illustrated,
    masked,
    multi_head,
    roles,
    roses,
    switches,
    thrones,
    training_step,
)
from glassformer.lessons.walks.lesson import Lesson
from glassformer.lessons.walks.phrases import Phrases

__all__ = ["LESSONS", "Entry", "make_lesson"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A lesson that can be made."""

    title: Bilingual
    phrases: Phrases
    make: Callable[[Language], Lesson]

    @property
    def summary(self) -> Bilingual:
        """One line on it."""
        return self.phrases["summary"]


LESSONS: dict[str, Entry] = {
    "illustrated": Entry(illustrated.TITLE, illustrated.PHRASES, illustrated.illustrated),
    "by-hand": Entry(by_hand.TITLE, by_hand.PHRASES, by_hand.by_hand),
    "masked": Entry(masked.TITLE, masked.PHRASES, masked.masked),
    "thrones": Entry(thrones.TITLE, thrones.PHRASES, thrones.thrones),
    "multi-head": Entry(multi_head.TITLE, multi_head.PHRASES, multi_head.multi_head),
    "roles": Entry(roles.TITLE, roles.PHRASES, roles.roles),
    "films": Entry(films.TITLE, films.PHRASES, films.films),
    "roses": Entry(roses.TITLE, roses.PHRASES, roses.roses),
    "classifier": Entry(classifier.TITLE, classifier.PHRASES, classifier.classifier),
    "switches": Entry(switches.TITLE, switches.PHRASES, switches.switches),
    "training-step": Entry(training_step.TITLE, training_step.PHRASES, training_step.training_step),
}


def make_lesson(name: str, language: Language = "en") -> Lesson:
    """A lesson in English or Chinese."""
    if name not in LESSONS:
        raise UnknownNameError("lesson", name, LESSONS)
    if language not in get_args(Language):
        raise UnknownNameError("language", language, get_args(Language))
    return LESSONS[name].make(language)
