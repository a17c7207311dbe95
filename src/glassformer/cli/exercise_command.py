"""`glassformer exercise`: build it yourself, checked by the real implementation."""

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from glassformer.cli.output import check_place, write_text
from glassformer.data.corpora import cache_folder
from glassformer.errors import ConfigError, GlassformerError
from glassformer.language import broken_lines, spoken, words

say = words("glassformer.cli.messages")


def exercise(
    name: str | None = None,
    file: Path | None = None,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    force: bool = False,
    solution: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
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
            titles = {"en": called.en, "zh": called.zh}
            entry = {"name": name, "title": titles, "done": name in done}
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
            "title": {"en": task.title.en, "zh": task.title.zh},
            "statement": {"en": task.statement.en, "zh": task.statement.zh},
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
