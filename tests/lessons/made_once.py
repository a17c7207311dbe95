"""Shipped examples audited and lessons made once, for all tests that ask: both take seconds."""

from functools import cache

from glassformer.audit.example_file import load_example
from glassformer.audit.judgement import audit
from glassformer.audit.verdicts import Audit
from glassformer.language import Language
from glassformer.lessons import Lesson, make_lesson


@cache
def audit_of(name: str) -> Audit:
    """The audit of a shipped example."""
    return audit(load_example(name))


def lesson(name: str, language: Language = "en") -> Lesson:
    """The lesson of a name."""
    return _lesson(name, language)


@cache
def _lesson(name: str, language: Language) -> Lesson:
    return make_lesson(name, language)
