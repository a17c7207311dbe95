"""`glassformer lesson NAME --ask`: the lesson in the terminal, stopping at each question."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError
from glassformer.language import spoken, words

if TYPE_CHECKING:
    from glassformer.documents.parts import Part, Question
    from glassformer.lessons import Lesson

say = words("glassformer.cli.messages")

_TRIES = 3


def ask_questions(name: str | None, options: dict[str, Any]) -> None:
    """Print a lesson up to each question, read an answer and say whether it is right.

    An empty line shows the answer; the end of the input ends the lesson.
    """
    from glassformer.lessons import make_lesson

    if not sys.stdin.isatty():
        raise ConfigError("--ask needs a terminal to type answers in")
    if name is None:
        raise ConfigError("expected the name of a lesson beside --to, -o or --set")
    lesson = make_lesson(name, spoken(), **options)
    if not lesson.questions:
        raise ConfigError("the lesson {name} asks no questions", name=name)
    right = 0
    for text, question in _stretches(lesson):
        sys.stdout.write(text)
        if question is None:
            continue
        answered = _answered(question)
        if answered is None:
            sys.stdout.write("\n")
            return
        right += answered
    sys.stdout.write(f"\n{say('lesson score', right=right, count=len(lesson.questions))}\n")


def _stretches(lesson: "Lesson") -> "Iterator[tuple[str, Question | None]]":
    """The lesson as text, cut after each question."""
    from glassformer.documents.parts import Document, Question, Section

    def written(*parts: "Part", title: str = "") -> str:
        from glassformer.documents import render_text

        return render_text(Document(title, parts, lesson.language)) + "\n"

    whole = lesson.document().parts
    sections = [part for part in whole if isinstance(part, Section)]
    opening = whole[: whole.index(sections[0])]
    yield written(*opening, title=lesson.title), None
    for section in sections:
        title, number = section.title, section.number
        waiting: list[Part] = []
        for part in section.parts:
            waiting.append(part)
            if isinstance(part, Question):
                yield written(Section(title, tuple(waiting), number)), part
                waiting, title, number = [], "…", None
        if waiting:
            yield written(Section(title, tuple(waiting), number)), None
    yield written(whole[-1]), None


def _answered(question: "Question") -> bool | None:
    """Whether the reader found the answer; None at the end of the input."""
    prompt = say("lesson prompt", count=len(question.labels))
    for _ in range(_TRIES):
        sys.stdout.write(f"{prompt} ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return None
        if not line.strip():
            break
        judged = question.answer(line)
        sys.stdout.write(f"{'✓' if judged.is_right else '✗'} {judged.said}\n")
        if judged.is_right:
            sys.stdout.write("\n")
            return True
    sys.stdout.write(f"{say('lesson solution', numbers='   '.join(question.answers))}\n\n")
    return False
