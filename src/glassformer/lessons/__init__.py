"""Lessons: worked examples in numbered steps, written from a trace of our own modules.

    from glassformer.lessons import LESSONS, make_lesson
    lesson = make_lesson("illustrated", "zh")        # Lesson → steps → parts: plain data
    lesson.to_dict()                                 # what the explorer reads

A lesson holds no arithmetic: its numbers are cells of traces. The files, in reading order: `lesson`
(what a lesson is), `phrases` (what each role says, in both languages), `lesson_steps` (from cells
to steps, and what a text printed there), one file per lesson, `figures/` (the same numbers drawn).
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.documents.parts import Figure, Formula, HeatMap, Paragraph, Part, Remark, Table
    from glassformer.lessons.course import LESSONS, Entry, make_lesson
    from glassformer.lessons.lesson import Lesson, LessonStep

__all__ = [
    "LESSONS",
    "Entry",
    "Figure",
    "Formula",
    "HeatMap",
    "Lesson",
    "LessonStep",
    "Paragraph",
    "Part",
    "Remark",
    "Table",
    "make_lesson",
]

_HOMES = {
    "Entry": "glassformer.lessons.course",
    "Figure": "glassformer.documents.parts",
    "Formula": "glassformer.documents.parts",
    "HeatMap": "glassformer.documents.parts",
    "LESSONS": "glassformer.lessons.course",
    "Lesson": "glassformer.lessons.lesson",
    "LessonStep": "glassformer.lessons.lesson",
    "Paragraph": "glassformer.documents.parts",
    "Part": "glassformer.documents.parts",
    "Remark": "glassformer.documents.parts",
    "Table": "glassformer.documents.parts",
    "make_lesson": "glassformer.lessons.course",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
