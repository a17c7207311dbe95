"""Lessons for readers: terminal, Markdown, LaTeX, one HTML page, JSON, a live workbook.

    write_lesson(lesson, "html", "lesson.html")     # written whole or not at all
    lesson_text(lesson, "md")

Every format walks over the same parts; `cells` and `mathml` hold what several share.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

from glassformer.errors import UnknownNameError
from glassformer.lessons.walks.lesson import Lesson
from glassformer.lessons.walks.rendering.html import to_html
from glassformer.lessons.walks.rendering.latex import to_latex
from glassformer.lessons.walks.rendering.markdown import to_markdown
from glassformer.lessons.walks.rendering.terminal import to_terminal
from glassformer.lessons.walks.rendering.workbook import to_workbook
from glassformer.trace.render.files import write_file

__all__ = [
    "FORMATS",
    "lesson_text",
    "to_html",
    "to_latex",
    "to_markdown",
    "to_terminal",
    "to_workbook",
    "write_lesson",
]


def _plain_terminal(lesson: Lesson) -> str:
    from rich.console import Console

    text = io.StringIO()
    Console(file=text, width=100, no_color=True, highlight=False).print(to_terminal(lesson, 100))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _json(lesson: Lesson) -> str:
    return json.dumps(lesson.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Lesson], str]] = {
    "terminal": _plain_terminal,
    "md": to_markdown,
    "tex": to_latex,
    "html": to_html,
    "json": _json,
}


def lesson_text(lesson: Lesson, to: str) -> str:
    """A lesson in a format that is text."""
    if to not in FORMATS:
        raise UnknownNameError("format", to, [*FORMATS, "xlsx"])
    return FORMATS[to](lesson)


def write_lesson(lesson: Lesson, to: str, path: str | os.PathLike[str]) -> Path:
    """A lesson as a file, whole or not at all."""
    content = to_workbook(lesson) if to == "xlsx" else lesson_text(lesson, to)
    return write_file(path, content)
