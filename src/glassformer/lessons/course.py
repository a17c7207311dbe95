"""The course: lessons by name, in the order in which to take them; each is made when asked for.

The order, what a lesson presupposes and which text it follows are data (`course.toml`); so are the
names of what the texts describe (`rows.toml`), which lessons and claims refer to by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError, UnknownNameError
from glassformer.language import Bilingual, Language, as_language, words

if TYPE_CHECKING:
    from glassformer.lessons.lesson import Lesson, LessonChoice, LessonPlace, Speaker

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
        from glassformer.lessons.lesson import Lesson, Speaker, numbered_questions

        say = Speaker(language, words(self._path))
        self.check({name: value for name, value in options.items() if isinstance(value, str)})
        choices = self._chosen(say, options)
        made = import_module(self._path).steps(say, **options)
        steps = numbered_questions(step.with_code_once() for step in made)
        title, summary, place = say("title"), say("summary"), self._place(say)
        return Lesson(self.name, title, summary, language, steps, place, choices)

    @property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """The switches that the reader may turn, and their values, the default first."""
        found: dict[str, tuple[str, ...]] = getattr(import_module(self._path), "CHOICES", {})
        return found

    def check(self, settings: Mapping[str, str]) -> None:
        """Raise if a switch or its value is not among the lesson's."""
        choices = self.choices
        for name, value in settings.items():
            if name not in choices:
                raise ConfigError(
                    "the lesson {lesson} has no switch {name!r}; its switches: {choices}",
                    lesson=self.name, name=name, choices=_listed(choices) or "–",
                )  # fmt: skip
            if value not in choices[name]:
                raise ConfigError(
                    "the lesson {lesson} has no {name} {value!r}; choose {choices}",
                    lesson=self.name, name=name, value=value,
                    choices=_listed({name: choices[name]}),
                )  # fmt: skip

    def _chosen(self, say: Speaker, options: Mapping[str, Any]) -> tuple[LessonChoice, ...]:
        """The switches as they stand."""
        from glassformer.lessons.lesson import LessonChoice

        return tuple(
            LessonChoice(
                name,
                say(f"choice {name}"),
                tuple((value, say(f"choice {name} {value}")) for value in values),
                str(options.get(name, values[0])),
            )
            for name, values in self.choices.items()
        )

    def _place(self, say: Speaker) -> LessonPlace:
        from glassformer.lessons.lesson import LessonPlace

        language = say.language
        text = {name: getattr(self.text, name).say(language) for name in SourceText.__slots__}
        return LessonPlace(
            text=say("text line", **text),
            able=self.able.say(language),
            minutes=self.minutes,
            needs=tuple((name, LESSONS[name].title.say(language)) for name in self.needs),
            next=None if (after := self.next) is None else (after.name, after.title.say(language)),
        )

    @property
    def next(self) -> CourseEntry | None:
        """The lesson that follows in the course."""
        entries = list(LESSONS.values())
        place = entries.index(self) + 1
        return entries[place] if place < len(entries) else None

    @property
    def _path(self) -> str:
        return f"glassformer.lessons.{self.module}"


def _listed(choices: Mapping[str, Sequence[str]]) -> str:
    """`encoding=none|learned|rotary`."""
    return ", ".join(f"{name}={'|'.join(values)}" for name, values in choices.items())


def settings_of(pairs: Iterable[str]) -> dict[str, str]:
    """`["encoding=rotary"]` as options of `make_lesson`; raises if one is not a pair."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (sign and name.isidentifier() and value):
            raise ConfigError("expected NAME=VALUE after --set, got {pair!r}", pair=pair[:80])
        found[name] = value
    return found


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
    """A lesson in English or Chinese; `options` are its switches, such as `encoding="rotary"`."""
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
