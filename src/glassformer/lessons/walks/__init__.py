"""Lessons: worked examples as walks in numbered steps, written from a trace of our own modules.

    from glassformer.lessons.walks import LESSONS, make_lesson
    lesson = make_lesson("illustrated", "zh")        # Lesson → steps → parts: plain data
    lesson.to_dict()                                 # what the explorer reads

A lesson holds no arithmetic: its numbers are cells of traces. The files, in reading order: `lesson`
(what a lesson is), `naming` (a cell's arithmetic as readers see it), `phrases` (what each role
says, in both languages), `steps` and `attending` (from cells to steps), `remarks` (what a text
printed, from its audit), one file a lesson, `figures/` (drawings from the same numbers), and
`rendering/`.
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.lessons.walks.catalogue import LESSONS, Entry, make_lesson
    from glassformer.lessons.walks.lesson import (
        Figure,
        Formula,
        HeatMap,
        Lesson,
        LessonStep,
        Paragraph,
        Part,
        Remark,
        Table,
    )

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__)
