"""A learner's file: run in a process of its own, within a time limit, and what it is told.

The file is the learner's own Python code and may do whatever Python may; the process keeps an
endless loop, an exit or a crash in it from ending the command, and a list that grows without end
from filling the machine's memory. What it prints goes to stderr. Only the check itself needs torch.
"""

from __future__ import annotations

import ast
import ctypes
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from glassformer.errors import InputError
from glassformer.files import as_path, read_bytes
from glassformer.language import Bilingual, Language, words
from glassformer.python_source import parse_module

say = words("glassformer.lessons.exercises.exercise_check")

_LARGEST = 1 << 20  # bytes of a learner's file
SECONDS = 10.0
"""For running the file, and again for checking its function."""
_MOST_MEMORY = 4 * 2**30  # bytes: torch takes half of one GiB, an exercise a few KiB
_STARTING = 60.0  # seconds in which Python and torch have started, on a slow and busy machine
_AGAIN = 0.2  # seconds until the next attempt, where a bare `except:` has caught the exception


@dataclass(frozen=True)
class Feedback:
    """The verdict on an answer, and a sentence that says why."""

    exercise: str
    hints: tuple[str, ...]
    """Keys of what went wrong, none if nothing did: a known slip, two, or a general finding."""
    text: Bilingual
    language: Language = "en"

    @property
    def is_right(self) -> bool:
        return not self.hints

    def said(self, language: Language | None = None) -> str:
        """The verdict as a paragraph: `✗ scores: …`."""
        mark, chosen = "✓" if self.is_right else "✗", language or self.language
        return f"{mark} {say['verdict'].say(chosen, name=self.exercise, text=self.text)}"

    def __str__(self) -> str:
        return self.said()

    def __repr__(self) -> str:
        return self.said()

    def _repr_markdown_(self) -> str:
        """For notebooks."""
        mark = "✓" if self.is_right else "✗"
        return f"**{mark} {self.exercise}** {self.text.say(self.language)}"

    def to_dict(self) -> dict[str, Any]:
        """As data; both languages."""
        return {
            "exercise": self.exercise,
            "right": self.is_right,
            "hints": list(self.hints),
            "text": {"en": self.text.en, "zh": self.text.zh},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Feedback:
        text = Bilingual(data["text"]["en"], data["text"]["zh"])
        return cls(data["exercise"], tuple(data["hints"]), text)


def check_apart(name: str, file: Path, *, seconds: float = SECONDS) -> Feedback:
    """Check a file in a process of its own."""
    with TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        # -P: a file beside the learner's, such as random.py, must not hide a module of Python's.
        begin = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
        command = [*begin, name, str(file), str(result), str(seconds)]
        try:
            done = subprocess.run(  # noqa: S603  a file that the learner asked to run
                command,
                stdin=subprocess.DEVNULL,
                timeout=_STARTING + 2 * seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Feedback(name, ("time",), say.both("time loading", seconds=f"{seconds:g}"))
        if not result.is_file():
            return Feedback(name, ("died",), say.both("died", code=done.returncode))
        return Feedback.from_dict(json.loads(result.read_text(encoding="utf-8")))


def check_file(name: str, file: Path, *, seconds: float = SECONDS) -> Feedback:
    """Check a file in this process, which runs it."""
    from glassformer.lessons.exercises.exercise_track import exercise

    task = exercise(name)
    try:
        function = _function(file, task.function, seconds)
    except _UnusableError as unusable:
        return Feedback(name, (unusable.key,), unusable.text)
    return task.check(function, seconds=seconds)


class _UnusableError(Exception):
    """A file that does not give a function; holds what the learner is told."""

    def __init__(self, key: str, text: Bilingual) -> None:
        super().__init__(text.en)
        self.key = key
        self.text = text


def _function(file: Path, name: str, seconds: float) -> Callable[..., Any]:
    source = read_source(file)
    module = ModuleType("learner")
    module.__file__ = str(file)
    sys.path.insert(0, str(file.resolve().parent))  # so that it can import its neighbours
    try:
        with limited_to(seconds):
            exec(compile(source, str(file), "exec"), module.__dict__)  # noqa: S102
    except OutOfTimeError:
        raise _UnusableError("time", say.both("time loading", seconds=f"{seconds:g}")) from None
    except SyntaxError as error:
        raise _failed(f"SyntaxError: {error.msg}", error.lineno) from None
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(file)]
        said = " ".join(str(error).split())[:160]
        raise _failed(f"{type(error).__name__}: {said}", lines[-1] if lines else None) from None
    finally:
        sys.path.pop(0)
    found = getattr(module, name, None)
    if not callable(found):
        raise _UnusableError("missing", _missing(file, source, name))
    return found  # type: ignore[no-any-return]


def _failed(error: str, line: int | None) -> _UnusableError:
    return _UnusableError("raised", say.both("raised loading", error=error, line=line or "?"))


def _missing(file: Path, source: str, name: str) -> Bilingual:
    written = [node.name for node in parse_module(source).body if isinstance(node, ast.FunctionDef)]
    close = get_close_matches(name, written, n=1, cutoff=0.5) or written[-1:]
    if close:
        return say.both("missing near", file=file.name, function=name, near=close[0])
    return say.both("missing", file=file.name, function=name)


def read_source(file: Path) -> str:
    """The text of a learner's file; an InputError if it cannot be read."""
    path = as_path(file, InputError, "the file")
    content = read_bytes(path, error=InputError, most=_LARGEST)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("{path} is not UTF-8 text", path=path) from None


def _limit_memory() -> None:
    """What asks for more gets a MemoryError, where the system knows such a limit."""
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(ValueError, OSError):  # a lower limit is in force already
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))


def main() -> None:
    """In the process of the file: EXERCISE FILE RESULT.json SECONDS."""
    name, file, result, seconds = sys.argv[1:]
    os.dup2(2, 1)  # what the file prints is not data
    _limit_memory()
    feedback = check_file(name, Path(file), seconds=float(seconds))
    Path(result).write_text(json.dumps(feedback.to_dict()), encoding="utf-8")


# --- the time limit ----------------------------------------------------------------------------


class OutOfTimeError(BaseException):
    """Raised inside code that runs too long. Not an Exception, which that code may catch."""


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError in this thread, at the line where it is, when the time is over.

    Only Python code is interrupted: a call of a library that never returns is not.
    """
    thread, done = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        waiting = seconds
        while not done.wait(waiting):
            _raise_in(thread, OutOfTimeError)
            waiting = _AGAIN

    watch = threading.Thread(target=interrupt, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()
        _raise_in(thread, None)  # one that is on its way is called back


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    given = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)
