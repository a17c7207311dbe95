"""The exercises in their order, their starter files and solutions, and which of them are done.

Nothing here needs torch until an exercise itself is asked for: signatures and solutions are read
from the source of `solutions`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError, UnknownNameError
from glassformer.files import read_object, write_whole
from glassformer.language import Bilingual, Language, as_language, broken_lines, words
from glassformer.python_source import parse_module

if TYPE_CHECKING:
    from glassformer.lessons.exercises.exercise_check import Exercise

say = words(__name__)

_MODULES = [f"glassformer.lessons.exercises.{kind}_exercises" for kind in ("attention", "model")]
EXERCISES = {
    name: module for module in _MODULES for name in words(module).data if name != "any"
}  # fmt: skip
"""The track: in which module each exercise is, in the order in which they build on each other."""

_WIDTH = 76  # of a line of prose in a starter, after `# `


def exercise(name: str, language: Language = "en") -> Exercise:
    """An exercise of the track; its task and hints are in this language."""
    tasks: tuple[Exercise, ...] = import_module(_home(name)).TASKS
    found = next(one for one in tasks if one.name == name)
    return replace(found, language=as_language(language))


def title(name: str) -> Bilingual:
    """What an exercise is called."""
    return words(_home(name))[f"{name} title"]


def _home(name: str) -> str:
    if name not in EXERCISES:
        raise UnknownNameError("exercise", name, EXERCISES)
    return EXERCISES[name]


# --- our solutions, as text --------------------------------------------------------------------


@cache
def _source() -> str:
    return Path(__file__).with_name("solutions.py").read_text(encoding="utf-8")


@cache
def _functions() -> dict[str, ast.FunctionDef]:
    tree = parse_module(_source())
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def solution(function: str) -> str:
    """The source of our solution."""
    return _lines(function, _functions()[function].end_lineno) + "\n"


def signature(function: str) -> str:
    """The function to write: its signature and shapes, without a body."""
    return _lines(function, _functions()[function].body[0].end_lineno)


def sizes(task: Exercise) -> str:
    """What the letters in the shapes of a task stand for."""
    language = task.language
    said = ast.get_docstring(_functions()[task.function], clean=False) or ""
    shapes = re.findall(r"\((?:[A-Z…1], )*[A-Z]\)", f"{said} {task.statement.say(language)}")
    letters = dict.fromkeys(re.findall(r"…|[A-Z]", "".join(shapes)))
    listed = (f"{letter} = {say[f'size {letter}'].say(language)}" for letter in letters)
    between = "，" if language == "zh" else ", "
    return say["sizes"].say(language, listed=between.join(listed)) if letters else ""


def _lines(function: str, end: int | None) -> str:
    """The lines of a function up to one of them, without marks for the formatter."""
    lines = _source().splitlines()[_functions()[function].lineno - 1 : end]
    return "\n".join(line.removesuffix("  # fmt: skip") for line in lines)


def parts_of(function: str) -> list[str]:
    """The functions of earlier exercises that our solution uses, directly or not, in order."""
    found: set[str] = set()
    waiting = [function]
    while waiting:
        called = set(_called_by(waiting.pop())) - found
        found |= called
        waiting += called
    return [name for name in _functions() if name in found]


def functions_in(function: str) -> list[str]:
    """What our solution calls: `torch.exp`, `Tensor.sum`, functions of earlier exercises."""
    found: list[str] = []
    for node in ast.walk(_functions()[function]):
        match node:
            case ast.Call(func=ast.Attribute(ast.Name("torch" | "math" as owner), called)):
                found.append(f"{owner}.{called}")
            case ast.Call(func=ast.Attribute(attr=method)) if method not in _OF_PYTHON:
                found.append(f"Tensor.{method}")
            case ast.Attribute(attr="mT"):
                found.append("Tensor.mT")
    return [*dict.fromkeys([*_called_by(function), *found])]


_OF_PYTHON = ("append", "size")
"""Methods that need no mention."""


def _called_by(function: str) -> Iterator[str]:
    for node in ast.walk(_functions()[function]):
        if isinstance(node, ast.Name) and node.id in _functions() and node.id != function:
            yield node.id


def starter(name: str, language: Language = "en") -> str:
    """A file to begin with: the task, the parts that earlier exercises made, an empty function."""
    task = exercise(name, language)
    opening = [
        f"{task.title.say(language)} (glassformer exercise {name})",
        *task.statement.say(language).split("\n"),
        *filter(None, [sizes(task)]),
        say["starter"].say(language, name=name),
    ]
    prose = "\n#\n".join(_commented(paragraph, language) for paragraph in opening)
    parts = [solution(part) for part in parts_of(task.function)]
    empty = f"{signature(task.function)}\n    raise NotImplementedError\n"
    body = "\n\n".join([*parts, empty])
    given = f"# {say['given parts'].say(language)}\n\n\n" if parts else "\n"
    return f"{prose}\n\n{_imports(body)}\n{given}{body}"


def exercise_notebook(names: Iterable[str], language: Language = "en") -> str:
    """A notebook: of each exercise its task, the empty function and a cell that checks it.

    What an exercise uses of earlier ones is there, unless those are in the notebook themselves.
    """
    cells = [_cell("markdown", f"# {say['notebook title'].say(language)}"), _cell("code", _OPENING)]
    cells.insert(1, _cell("markdown", say["notebook"].say(language)))
    written: set[str] = set()
    for number, name in enumerate(names, start=1):
        task = exercise(name, language)
        told = [*task.statement.say(language).split("\n"), sizes(task)]
        statement = "\n\n".join(filter(None, told))
        cells.append(
            _cell("markdown", f"## {number}. {task.title.say(language)} (`{name}`)\n\n{statement}")
        )
        missing = [part for part in parts_of(task.function) if part not in written]
        if missing:
            given = f"# {say['given parts'].say(language)}\n"
            cells.append(_cell("code", given + "\n\n".join(map(solution, missing))))
        written |= {task.function, *missing}
        chosen = f'"{name}"' if language == "en" else f'"{name}", "{language}"'
        cells.append(_cell("code", f"{signature(task.function)}\n    raise NotImplementedError"))
        cells.append(_cell("code", f"exercise({chosen}).check({task.function})"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {
        "cells": [cell | {"id": f"cell-{at}"} for at, cell in enumerate(cells)],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


_OPENING = """import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from glassformer.lessons import exercise"""


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    return cell if kind == "markdown" else cell | {"execution_count": None, "outputs": []}


def _imports(body: str) -> str:
    """Those imports of `solutions` that this code may need."""
    lines = [] if "math." not in body else ["import math"]
    lines += ["from collections.abc import Callable"] if "Callable[" in body else []
    lines += ["from typing import Any"] if "Any]" in body else []
    lines += [""] if lines else []
    return "\n".join([*lines, "import torch", "from torch import Tensor", ""])


def _commented(paragraph: str, language: Language) -> str:
    if language == "zh":
        lines = list(broken_lines(paragraph, _WIDTH))
    else:
        lines = fill(paragraph, _WIDTH, break_long_words=False, break_on_hyphens=False).splitlines()
    return "\n".join(f"# {line}" for line in lines)


# --- what is done ------------------------------------------------------------------------------


def read_done(folder: Path) -> list[str]:
    """The exercises that were solved, in the order of the track."""
    file = folder / _DONE
    if not file.is_file():
        return []
    done = read_object(file, error=ConfigError, what="the list of solved exercises").get("done")
    return [name for name in EXERCISES if isinstance(done, list) and name in done]


def note_done(folder: Path, name: str) -> None:
    """Remember that an exercise was solved."""
    done = [*read_done(folder), name]
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / _DONE, json.dumps({"done": sorted(set(done))}) + "\n")


_DONE = "exercises.json"
