"""The course: lessons by name, in the order in which to take them; each is made when asked for.

The order, what a lesson presupposes and which text it follows are data (`course.toml`); so are the
names of what the texts describe (`rows.toml`), which lessons and claims refer to by id.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.errors import UnknownNameError
from glassformer.language import Bilingual, Language, as_language, words

if TYPE_CHECKING:
    from glassformer.lessons.lesson import Lesson

_COURSE = words(__name__)
_ROWS = words("glassformer.lessons.rows")


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text that a lesson follows."""

    title: Bilingual
    author: Bilingual
    where: Bilingual

    @classmethod
    def of(cls, key: str) -> SourceText:
        """The text with this key in course.toml."""
        return cls(
            _COURSE[f"text {key} title"],
            _COURSE[f"text {key} author"],
            _COURSE[f"text {key} where"],
        )


@dataclass(frozen=True, slots=True)
class CourseEntry:
    """A lesson that can be made: a module of this package with a function `steps`.

    Title, summary and prose are in the TOML file beside the module.
    """

    name: str
    module: str
    needs: tuple[str, ...]
    """Lessons to take before this one."""
    minutes: int
    text: SourceText
    rows: tuple[str, ...]
    """Ids of what it shows."""
    able: Bilingual
    """What a reader can do afterwards."""

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


def _entries() -> dict[str, CourseEntry]:
    return {
        one["name"]: CourseEntry(
            name=one["name"],
            module=one["module"],
            needs=tuple(one["needs"]),
            minutes=one["minutes"],
            text=SourceText.of(one["text"]),
            rows=tuple(one["rows"]),
            able=Bilingual(**one["able"]),
        )
        for one in _COURSE.data["lesson"]
    }


LESSONS: dict[str, CourseEntry] = _entries()


def make_lesson(name: str, language: Language = "en", **options: Any) -> Lesson:
    """A lesson in English or Chinese; `options` are the lesson's own, such as `off` of switches."""
    if name not in LESSONS:
        raise UnknownNameError("lesson", name, LESSONS)
    return LESSONS[name].make(as_language(language), **options)


# --- rows ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """Something that the texts describe, and what shows it here."""

    id: str
    name: Bilingual
    lessons: tuple[str, ...]
    command: str | None
    """A command that shows it; None where lessons or claims do."""


def row_ids() -> list[str]:
    return list(_ROWS.data["system"])


def row(id_: str) -> Row:
    """A row by its id, upper or lower case."""
    known = _ROWS.data["system"]
    found = id_.upper()
    if found not in known:
        raise UnknownNameError("row", id_, known)
    lessons = tuple(name for name, entry in LESSONS.items() if found in entry.rows)
    return Row(found, _ROWS[f"system {found}"], lessons, known[found].get("command"))
