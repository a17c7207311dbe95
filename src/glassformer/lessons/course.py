"""The lessons by name, in the order of the course; each is made when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.errors import UnknownNameError
from glassformer.language import Bilingual, Language, as_language, words

if TYPE_CHECKING:
    from glassformer.lessons.lesson import Lesson


@dataclass(frozen=True, slots=True)
class CourseEntry:
    """A lesson that can be made: a module of this package with a function `steps`.

    Title, summary and prose are in the TOML file beside the module.
    """

    module: str

    @property
    def name(self) -> str:
        return self.module.replace("_", "-")

    @property
    def title(self) -> Bilingual:
        return words(self._path)["title"]

    @property
    def summary(self) -> Bilingual:
        return words(self._path)["summary"]

    def make(self, language: Language, **options: Any) -> Lesson:
        """The lesson in one language; its module, and torch with it, is imported only now."""
        from glassformer.lessons.lesson import Lesson, Speaker

        say = Speaker(language, words(self._path))
        steps = import_module(self._path).steps(say, **options)
        return Lesson(self.name, say("title"), say("summary"), language, tuple(steps))

    @property
    def _path(self) -> str:
        return f"glassformer.lessons.{self.module}"


_MODULES = (
    "illustrated", "by_hand", "masked", "thrones", "multi_head", "roles", "films", "roses",
    "classifier", "switches", "training_step",
)  # fmt: skip
LESSONS: dict[str, CourseEntry] = {entry.name: entry for entry in map(CourseEntry, _MODULES)}


def make_lesson(name: str, language: Language = "en", **options: Any) -> Lesson:
    """A lesson in English or Chinese; `options` are the lesson's own, such as `off` of switches."""
    if name not in LESSONS:
        raise UnknownNameError("lesson", name, LESSONS)
    return LESSONS[name].make(as_language(language), **options)
