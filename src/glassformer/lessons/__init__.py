"""Lessons: worked examples in numbered steps, written from a trace of our own modules.

    from glassformer.lessons import LESSONS, make_lesson
    lesson = make_lesson("illustrated", "zh")        # Lesson → steps → parts: plain data
    lesson.to_dict()                                 # what the explorer reads

A lesson holds no arithmetic: its numbers are cells of traces. Read `lesson` (what a lesson is and
how it is written), `lesson_steps` (from a cell to a step, and what a text printed there), the
lessons, each a module with its prose in the TOML file beside it, `figures` (the numbers drawn), and
`exercises` (build it yourself: checked, with hints).
"""

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer.documents.parts import Figure, Formula, HeatMap, Paragraph, Part, Remark, Table
    from glassformer.lessons.course import LESSONS, CourseEntry, make_lesson
    from glassformer.lessons.exercises.exercise_check import Exercise
    from glassformer.lessons.exercises.exercise_track import EXERCISES, exercise
    from glassformer.lessons.exercises.learner_file import Feedback
    from glassformer.lessons.lesson import Lesson, LessonStep

__all__ = [
    "EXERCISES",
    "LESSONS",
    "CourseEntry",
    "Exercise",
    "Feedback",
    "Figure",
    "Formula",
    "HeatMap",
    "Lesson",
    "LessonStep",
    "Paragraph",
    "Part",
    "Remark",
    "Table",
    "exercise",
    "make_lesson",
]

_HOMES = {
    "glassformer.documents.parts": "Figure Formula HeatMap Paragraph Part Remark Table",
    "glassformer.lessons.course": "CourseEntry LESSONS make_lesson",
    "glassformer.lessons.exercises.exercise_check": "Exercise",
    "glassformer.lessons.exercises.exercise_track": "EXERCISES exercise",
    "glassformer.lessons.exercises.learner_file": "Feedback",
    "glassformer.lessons.lesson": "Lesson LessonStep",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
