"""The command: parse, call, print. It has no logic of its own.

Each subcommand lives in a module of its own, which is imported when it is called: help, version
and typing mistakes answer without torch. Data goes to stdout, everything else to stderr. Exit
codes: 0 done, 1 failed, 2 wrong usage, 70 a fault of Glassformer itself, 130 interrupted.
"""

import codecs
import os
import re
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from cyclopts import App, CycloptsError, UnknownCommandError

from glassformer import __version__
from glassformer.errors import GlassformerError, did_you_mean, exit_code

__all__ = ["app", "run"]

_NOTED = "glassformer-noted"  # how stdout treats what its encoding cannot hold
_OPTION = re.compile(r"(-[a-zA-Z]|--[a-zA-Z][\w.-]*)(=|$)", re.ASCII)

app = App(
    name="glassformer",
    version=__version__,
    help="The Transformer in which every number can be traced to the arithmetic that made it.",
    suppress_keyboard_interrupt=False,  # we say so in one line, and how to go on
)
for _name, _help in (
    (
        "audit",
        "Check every printed number of a worked example.\n\n"
        "Exit code: 0 nothing is wrong, 1 something is, 2 the example cannot be read, 70 a fault "
        "of Glassformer itself.",
    ),
    ("claims", "Run what the texts claim: verdict, figures, pictures."),
    ("data", "List the data sets, or check and fetch one."),
    ("describe", "Show a preset's parts with their parameter counts."),
    ("evaluate", "Score a model on its test data."),
    ("explain", "Show the arithmetic of one number of a model."),
    ("explore", "Open the page on which any number can be clicked."),
    ("lesson", "Walk through a worked example, step by step."),
    ("models", "List the trained models that ship."),
    ("recipes", "List the recipes, or all settings of one."),
    ("train", "Train a model by a recipe."),
    ("trace", "Record every number of one pass: a page, a workbook, data."),
    ("export", "Write a model for another engine, and check it there."),
):
    app.command(f"glassformer.cli.{_name}:{_name}", name=_name, help=_help)
# In a module of another name, since a module called run would take the place of the function.
app.command(
    "glassformer.cli.running:run",
    name="run",
    help="Classify, translate or continue texts; recommend films.",
)


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    lost = _prepare_streams()
    code = _run(arguments)
    if lost and code == 0:
        return _fail(
            f"the output's encoding {sys.stdout.encoding} cannot hold {lost[0]!r}"
            + (f" and {len(lost) - 1:,} more characters" if len(lost) > 1 else "")
            + ", written as '?'; set PYTHONIOENCODING=utf-8",
            1,
        )
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except UnknownCommandError as error:
        first = arguments[0]
        if not first.startswith("-"):
            return _fail(f"{_one_line(error)} Try 'glassformer --help'.", 2)
        return _fail(f"unknown option {first!r}{did_you_mean(first, ('--help', '--version'))}", 2)
    except CycloptsError as error:
        command = " ".join(("glassformer", *(error.command_chain or ())))
        hint = _how_to_pass_a_text(command, arguments)
        return _fail(f"{_one_line(error)} {hint}Try '{command} --help'.", 2)
    except GlassformerError as error:
        return _fail(_one_line(error), exit_code(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _reader_left()
        # Of a move that failed, the second name is the one that the user gave.
        named = error.filename2 or error.filename or "output"
        return _fail(f"{named}: {error.strerror or error}", 1)
    except KeyboardInterrupt as error:
        return _fail(_one_line(error) or "interrupted", 130)
    except Exception as error:
        if _out_of_memory(error):
            return _fail("not enough memory; take a smaller batch, beam, text or model", 1)
        # Not 1, which says that the command did its work and that something is amiss with yours.
        traceback.print_exc()
        return _fail("a fault of Glassformer itself; please report the lines above", 70)
    return 0


def _out_of_memory(error: Exception) -> bool:
    """Whether memory ran out: torch has an error for that on a GPU, and words for it on a CPU."""
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    return "out of memory" in str(error) or "allocate memory" in str(error)


def _prepare_streams() -> list[str]:
    """A closed stream (Python calls it None) or a console of another encoding must not stop us.

    Returns a list that fills with the characters which stdout's encoding cannot hold: an answer of
    question marks is no answer, and must not look like one.
    """
    lost: list[str] = []

    def note_lost(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        lost.extend(error.object[error.start : error.end])
        return "?" * (error.end - error.start), error.end

    codecs.register_error(_NOTED, note_lost)
    for name, errors in (("stdout", _NOTED), ("stderr", "backslashreplace")):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # to the end
            setattr(sys, name, nowhere)
        elif isinstance(stream, TextIOWrapper):
            # Data are UTF-8 wherever we may choose, as they are on stdin: a pipe on Windows would
            # get the code page of its consoles. A terminal knows best what it shows.
            chosen = stream.isatty() or "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if chosen else "utf-8", errors=errors)
    return lost


def _how_to_pass_a_text(command: str, arguments: Sequence[str]) -> str:
    """What to do where a text was taken for an option."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    texts = [given for given in options if given.startswith("-") and not _OPTION.match(given)]
    if not texts or not command.endswith(("run", "trace", "explain")):
        return ""
    return f'A text that begins with - comes last, after --: {command} MODEL -- "{texts[0]:.20}". '


def _reader_left() -> int:
    """The reader has gone, as `| head` does: nothing is wrong, and nothing more is to be said."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"glassformer: {message}\n")
    return code


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
