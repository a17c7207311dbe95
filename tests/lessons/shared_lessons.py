"""Lessons, each made once per test run: one takes seconds."""

from functools import cache

from glassformer.language import Language
from glassformer.lessons import Lesson, make_lesson


def lesson(name: str, language: Language = "en") -> Lesson:
    return _lesson(name, language)


@cache
def _lesson(name: str, language: Language) -> Lesson:
    return make_lesson(name, language)
