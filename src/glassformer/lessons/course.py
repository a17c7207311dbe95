"""The lessons by name, each with what it is about; made when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from glassformer.errors import UnknownNameError
from glassformer.language import Bilingual, Language, as_language, words

if TYPE_CHECKING:
    from glassformer.lessons.lesson import Lesson


@dataclass(frozen=True, slots=True)
class Entry:
    """A lesson that can be made: a module of this package with a function of the same name."""

    module: str

    @property
    def title(self) -> Bilingual:
        """What it is called."""
        return words(self._path)["title"]

    @property
    def summary(self) -> Bilingual:
        """One line on it."""
        return words(self._path)["summary"]

    def make(self, language: Language) -> Lesson:
        """The lesson in a language; only now its module, and torch, are imported."""
        made: Lesson = getattr(import_module(self._path), self.module)(language)
        return made

    @property
    def _path(self) -> str:
        return f"glassformer.lessons.{self.module}"


LESSONS: dict[str, Entry] = {
    module.replace("_", "-"): Entry(module)
    for module in (
        "illustrated",
        "by_hand",
        "masked",
        "thrones",
        "multi_head",
        "roles",
        "films",
        "roses",
        "classifier",
        "switches",
        "training_step",
    )
}


def make_lesson(name: str, language: Language = "en") -> Lesson:
    """A lesson in English or Chinese."""
    if name not in LESSONS:
        raise UnknownNameError("lesson", name, LESSONS)
    return LESSONS[name].make(as_language(language))
