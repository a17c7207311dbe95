"""Lessons for readers: terminal, Markdown, LaTeX, one HTML page, JSON, a live workbook.

    write_lesson(lesson, "html", "lesson.html")     # written whole or not at all
    write_figures(lesson, "figures")                # its drawings, as SVG
    lesson_text(lesson, "md")

Every format walks over the same parts; `cells` and `mathml` hold what several share.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

from glassformer.errors import TraceError, UnknownNameError
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
    "write_figures",
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
    """A lesson as a file, whole or not at all; the figures of Markdown stand in a folder beside."""
    if to == "md" and lesson.figures():
        folder = Path(path).with_name(f"{Path(path).stem}-figures")
        write_figures(lesson, folder)
        return write_file(path, to_markdown(lesson, folder.name))
    content = to_workbook(lesson) if to == "xlsx" else lesson_text(lesson, to)
    return write_file(path, content)


def write_figures(
    lesson: Lesson, folder: str | os.PathLike[str], *, prefix: str = ""
) -> list[Path]:
    """Every figure of a lesson as an SVG file that needs nothing else."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TraceError(f"cannot make the folder {folder}: {error.strerror}") from None
    return [
        write_file(Path(folder) / f"{prefix}{figure.name}.svg", figure.drawing.svg())
        for figure in lesson.figures()
    ]
