"""The course: `glassformer lesson` walks through a worked example, `exercise` has it built."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from glassformer.cli.output import AsJson, Format, Output, check_place, format_of, write_text
from glassformer.data.corpora import cache_folder
from glassformer.errors import ConfigError, GlassformerError
from glassformer.language import broken_lines, padded, spoken, words

if TYPE_CHECKING:
    from glassformer.documents.parts import Part, Question
    from glassformer.lessons import Lesson

say = words("glassformer.cli.messages")

_WIDTH = 80


def lesson(
    name: str | None = None,
    /,
    *,
    to: Literal[Format, "worksheet", "json", "svg"] | None = None,
    output: Output = None,
    off: Annotated[list[str] | None, Parameter(name="--off")] = None,
    settings: Annotated[list[str] | None, Parameter(name="--set")] = None,
    ask: bool = False,
    row: str | None = None,
) -> None:
    """Walk through a worked example in numbered steps; without a name, list the lessons."""
    from glassformer.documents import render, render_text
    from glassformer.lessons import LESSONS, make_lesson
    from glassformer.lessons.course import settings_of

    if row is not None:
        if name is not None:
            raise ConfigError("--row finds a lesson: leave out its name")
        name = _shown_by(row)
        if name is None:
            return
    options: dict[str, Any] = {**settings_of(settings or ()), **({"off": off} if off else {})}
    if ask:
        if to is not None or output is not None:
            raise ConfigError("--ask shows the lesson in the terminal: leave out --to and -o")
        _ask_questions(name, options)
        return
    figures = to == "svg" or (output is not None and output.suffix == ".svg")
    if off and name != "switches":
        raise ConfigError("only the lesson switches takes --off")
    if figures:
        _write_figures([name] if name is not None else list(LESSONS), output, options)
        return
    if name is None:
        if to is not None or output is not None or settings:
            raise ConfigError("expected the name of a lesson beside --to, -o or --set")
        sys.stdout.writelines(f"{line}\n" for line in _course())
        return
    chosen = format_of(to, output)
    made = make_lesson(name, spoken(), **options)
    if output is not None:
        render(made.document(), chosen, output)
        sys.stderr.write(f"{say('lesson written', output=output, count=len(made.steps))}\n")
    else:
        sys.stdout.write(render_text(made.document(), chosen))


def _shown_by(id_: str) -> str | None:
    """Print what shows a row of the texts; returns the lesson if there is exactly one."""
    from glassformer.claims import ROWS
    from glassformer.lessons import LESSONS
    from glassformer.lessons.course import row as find_row

    found, language = find_row(id_), spoken()
    only = found.lessons[0] if len(found.lessons) == 1 else None
    out = sys.stderr if only is not None else sys.stdout
    out.write(f"{found.id}  {found.name.say(language)}\n")
    for name in found.lessons:
        out.write(f"  glassformer lesson {name}  ({LESSONS[name].title.say(language)})\n")
    if found.id in ROWS:
        out.write(f"  glassformer claims {found.id}  ({', '.join(ROWS[found.id])})\n")
    if found.command is not None:
        out.write(f"  {found.command}\n")
    return only


def _course() -> Iterator[str]:
    """The lessons in order: number, name, minutes, title, and what they presuppose."""
    from glassformer.lessons import LESSONS

    language = spoken()
    hours = round(sum(entry.minutes for entry in LESSONS.values()) / 60)
    yield say("course title", count=len(LESSONS), hours=hours)
    width = max(map(len, LESSONS))
    indent = width + len("99  ") + len("  99 min  ")
    for number, (name, entry) in enumerate(LESSONS.items(), start=1):
        minutes = say("course minutes", minutes=f"{entry.minutes:>2}")
        lead = f"{number:>2}  {name:<{width}}  {minutes}"
        lines = _wrapped(entry.title.say(language), _WIDTH - indent)
        if entry.needs:
            lines += _wrapped(say("course needs", names=", ".join(entry.needs)), _WIDTH - indent)
        yield f"{padded(lead, indent)}{lines[0]}"
        yield from (f"{' ' * indent}{line}" for line in lines[1:])
    yield say("course how")


def _wrapped(text: str, width: int) -> list[str]:
    """Text wrapped to a width, Chinese included."""
    return [line for part in broken_lines(text, width) for line in wrap(part, width) or [part]]


def _write_figures(names: list[str], output: Path | None, options: dict[str, Any]) -> None:
    """The figures of these lessons as files: `FOLDER/LESSON-FIGURE.svg`."""
    from glassformer.documents.renderer import write_figures
    from glassformer.lessons import make_lesson

    if output is None or output.suffix:
        raise ConfigError("figures need a folder: --to svg -o FOLDER")
    for name in names:
        made = make_lesson(name, spoken(), **options)
        for file in write_figures(made.document(), output, prefix=f"{name}-"):
            sys.stderr.write(f"{file}\n")


# --- `lesson NAME --ask`: stop at each question ---

_TRIES = 3


def _ask_questions(name: str | None, options: dict[str, Any]) -> None:
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
    from glassformer.documents.parts import Document, HeatMap, Question, Section

    answered = 0

    def written(*parts: "Part", title: str = "") -> str:
        from glassformer.documents import render_text

        return render_text(Document(title, parts, lesson.language)) + "\n"

    def revealed(part: "Part") -> "Part":
        """A matrix with the rows of questions that have been answered."""
        if not isinstance(part, HeatMap):
            return part
        return replace(part, hidden={row: n for row, n in part.hidden.items() if n > answered})

    whole = lesson.document().parts
    sections = [part for part in whole if isinstance(part, Section)]
    opening = whole[: whole.index(sections[0])]
    yield written(*opening, title=lesson.title), None
    for section in sections:
        title, number = section.title, section.number
        waiting: list[Part] = []
        for part in section.parts:
            waiting.append(revealed(part))
            if isinstance(part, Question):
                yield written(Section(title, tuple(waiting), number)), part
                answered = part.number
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


# --- `exercise` ---


def exercise(
    name: str | None = None,
    file: Path | None = None,
    /,
    *,
    output: Output = None,
    force: bool = False,
    solution: bool = False,
    as_json: AsJson = False,
) -> None:
    """List the exercises, show one, write its starter file, or check a file."""
    if name is None and output is not None and output.suffix == ".ipynb":
        _write_notebook(None, output, force=force)
    elif name is None:
        if output is not None or solution or force:
            raise ConfigError(
                "expected the name of an exercise beside -o, --force or --solution; only a "
                "notebook, -o FILE.ipynb, may hold them all"
            )
        _list(as_json=as_json)
    elif sum((file is not None, output is not None, solution)) > 1:
        raise ConfigError("expected one of FILE, -o and --solution, got several")
    elif file is not None:
        _check(name, file, as_json=as_json)
    elif output is not None and output.suffix == ".ipynb":
        _write_notebook(name, output, force=force)
    elif output is not None:
        _write_starter(name, output, force=force)
    else:
        _show(name, solution=solution, as_json=as_json)


def _list(*, as_json: bool) -> None:
    from glassformer.lessons.exercises.exercise_track import EXERCISES, read_done, title

    done = read_done(cache_folder())
    width = max(map(len, EXERCISES))
    for name in EXERCISES:
        called = title(name)
        if as_json:
            entry = {"name": name, "title": asdict(called), "done": name in done}
            sys.stdout.write(json.dumps(entry, ensure_ascii=False) + "\n")
        else:
            mark = "✓" if name in done else "·"
            sys.stdout.write(f"{mark} {name:<{width}}  {called.say(spoken())}\n")
    if not as_json:
        sys.stderr.write(f"{say('exercise done', done=len(done), all=len(EXERCISES))}\n")


def _show(name: str, *, solution: bool, as_json: bool) -> None:
    from glassformer.lessons.exercises import exercise_track as track

    task = track.exercise(name, spoken())
    ours = track.solution(task.function)
    if as_json:
        shown = {
            "name": name,
            "title": asdict(task.title),
            "statement": asdict(task.statement),
            "signature": track.signature(task.function),
            "uses": track.parts_of(task.function),
            "lesson": task.lesson,
            "calls": track.functions_in(task.function),
            **({"solution": ours} if solution else {}),
        }
        sys.stdout.write(json.dumps(shown, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(ours if solution else str(task))


def _write_starter(name: str, output: Path, *, force: bool) -> None:
    from glassformer.lessons.exercises.exercise_track import exercise as find
    from glassformer.lessons.exercises.exercise_track import starter

    _check_place(output, force=force)
    write_text(starter(name, spoken()), output)
    function = find(name).function
    sys.stderr.write(f"{say('exercise written', output=output, function=function, name=name)}\n")


def _write_notebook(name: str | None, output: Path, *, force: bool) -> None:
    from glassformer.lessons.exercises.exercise_track import EXERCISES, exercise_notebook

    _check_place(output, force=force)
    names = [*EXERCISES] if name is None else [name]
    write_text(exercise_notebook(names, spoken()), output)
    sys.stderr.write(f"{say('exercise notebook', output=output, count=len(names))}\n")


def _check_place(output: Path, *, force: bool) -> None:
    check_place(output)
    if output.exists() and not force:
        raise ConfigError("{output} is there already; --force overwrites it", output=output)


def _check(name: str, file: Path, *, as_json: bool) -> None:
    from rich.console import Console

    from glassformer.lessons.exercises.exercise_track import EXERCISES, note_done, title
    from glassformer.lessons.exercises.learner_file import check_apart, read_source

    title(name)  # refuses an unknown name or an unreadable file first
    read_source(file)
    sys.stderr.write(f"{say('exercise run', file=file)}\n")
    found = check_apart(name, file)
    if as_json:
        sys.stdout.write(json.dumps(found.to_dict(), ensure_ascii=False) + "\n")
    else:
        lines = broken_lines(found.said(spoken()), Console().width)
        Console(highlight=False, markup=False).print("\n".join(lines), soft_wrap=False)
    if not found.is_right:
        raise GlassformerError("{name} is not right yet", name=name)
    note_done(cache_folder(), name)
    later = [*EXERCISES][[*EXERCISES].index(name) + 1 :]
    said = say("exercise next", name=later[0]) if later else say("exercise all")
    sys.stderr.write(f"{said}\n")
