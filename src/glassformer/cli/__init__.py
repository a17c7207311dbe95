"""The command: parse, call, print. It has no logic of its own.

Each subcommand lives in a module of its own, which is imported when it is called: help, version
and typing mistakes answer without torch. Data goes to stdout, everything else to stderr. Exit
codes: 0 done, 1 failed, 2 wrong usage, 70 a fault of Glassformer itself, 130 interrupted.
"""

import codecs
import os
import re
import select
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    Parameter,
    UnknownCommandError,
    ValidationError,
)

from glassformer import __version__
from glassformer.errors import (
    ConfigError,
    GlassformerError,
    UnknownNameError,
    exit_code,
    is_out_of_memory,
)
from glassformer.language import (
    broken_lines,
    chosen_language,
    in_language,
    language_of_locale,
    message_of,
    speak,
    spoken,
    words,
)

__all__ = ["app", "run"]

_NOTED = "glassformer-noted"  # how stdout treats what its encoding cannot hold
_OBEYED = re.compile(r"\x1b\[[0-9;]*m|([\x00-\x08\x0b-\x1f\x7f-\x9f])")
"""What a terminal obeys: colours, which we use, and what only an untrusted file would print."""
_OPTION = re.compile(r"(-[a-zA-Z]|--[a-zA-Z][\w.-]*)(=|$)", re.ASCII)

say = words("glassformer.cli.messages")
app = App(
    name="glassformer",
    version=__version__,
    help_format="plaintext",
    default_parameter=Parameter(negative=()),  # no --no-json and no --empty-step
    suppress_keyboard_interrupt=False,  # we report it in one line and say how to resume
)
# The commands of each module, which is imported when one of them is run.
_COMMANDS = {
    "course_commands": "exercise lesson",
    "experiment_command": "experiment",
    "model_commands": "describe evaluate export models",
    "run_command": "run",
    "text_checks": "audit claims",
    "trace_commands": "explain explore trace",
    "train_commands": "data recipes train",
}
for _name, _module in sorted((name, m) for m, names in _COMMANDS.items() for name in names.split()):
    # Its help is in help.toml; any text here keeps cyclopts from importing the module.
    app.command(f"glassformer.cli.{_module}:{_name}", name=_name, help=_name)


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    lost = _prepare_streams()
    rest, option = _without_language(arguments)
    before = spoken()
    try:
        speak(language_of_locale())  # an unknown language is refused in this one
        speak(chosen_language(option))
        code = _run(rest)
        if lost and code == 0:
            more = " and more" if len(lost) > 1 else ""
            encoding, n = sys.stdout.encoding, len(lost) - 1
            return _fail(say(f"failed encoding{more}", encoding=encoding, first=lost[0], n=n), 1)
        return code
    except (ConfigError, UnknownNameError) as error:  # an unknown language
        return _fail(message_of(error), 2)
    finally:
        speak(before)


def _without_language(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments without `--lang`, wherever it is, and its value."""
    rest, option = list(arguments), None
    end = rest.index("--") if "--" in rest else len(rest)
    for at, argument in reversed(list(enumerate(rest[:end]))):
        if argument.startswith("--lang="):
            option = option or argument.removeprefix("--lang=")
            del rest[at]
        elif argument == "--lang" and at + 1 < end:
            option = option or rest[at + 1]
            del rest[at : at + 2]
        elif argument == "--lang":
            option = ""
    return rest, option


def _run(arguments: list[str]) -> int:
    try:
        if _asks_for_help(arguments):
            arguments = _prepare_help(arguments)
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        return _fail(_wrong_usage(error, arguments), 2)
    except GlassformerError as error:
        return _fail(message_of(error), exit_code(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _fail(say("failed pipe"), 1) if _is_read(sys.stdout) else _reader_left()
        # When a rename fails, the second name is the one that the user gave.
        named = error.filename2 or error.filename or say("failed output")
        return _fail(say("failed file", name=named, reason=in_language(error.strerror or error)), 1)
    except KeyboardInterrupt as error:
        return _fail(message_of(error) or say("failed interrupted"), 130)
    except Exception as error:
        if is_out_of_memory(error):
            return _fail(say("failed memory"), 1)
        # Not 1, which means that the command worked and found something wrong with the input.
        traceback.print_exc()
        return _fail(say("failed fault"), 70)
    return 0


def _asks_for_help(arguments: Sequence[str]) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return not options or options[0] == "help" or not {"--help", "-h"}.isdisjoint(options)


def _prepare_help(arguments: Sequence[str]) -> list[str]:
    """Rewrite `help COMMAND` as `COMMAND --help` and set up the help page in our language."""
    from rich.console import Console

    from glassformer.cli.help import HelpPage, say

    command = [argument for argument in arguments if not argument.startswith("-")]
    if command[:1] == ["help"]:
        command = command[1:]
        arguments = [*command[:1], "--help"]
    name = next(iter(command), "")
    known = app[name].assemble_argument_collection() if name in app else ()
    app.help_formatter = HelpPage(name, known)
    app.help_epilogue = "\n".join(broken_lines(say("page language"), Console().width))
    return list(arguments)


def _wrong_usage(error: CycloptsError, arguments: Sequence[str]) -> str:
    from glassformer.cli.help import say, wrong_usage

    first = arguments[0]
    if isinstance(error, UnknownCommandError) and first.startswith("-"):
        return message_of(UnknownNameError("option", first, ("--help", "--version", "--lang")))
    parts = [wrong_usage(error, arguments)]
    command = " ".join(("glassformer", *(error.command_chain or ())))
    is_text = not isinstance(error, CoercionError | ValidationError)  # `--depth -1` is none
    if is_text and (text := _taken_for_an_option(command, arguments)):
        parts.append(say("wrong dashed", command=command, text=text))
    return say("wrong space").join((*parts, say("wrong try", command=command)))


def _prepare_streams() -> list[str]:
    """Cope with a closed stream (None in Python) and with consoles of another encoding.

    Returns a list that collects the characters that stdout's encoding lacks: an answer made of
    question marks must not look like a success.
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
            # Pipes and files get UTF-8, as stdin does: on Windows a pipe would otherwise get the
            # console's code page. A terminal keeps its own encoding.
            chosen = stream.isatty() or "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if chosen else "utf-8", errors=errors)
            if name == "stderr":
                sys.stderr = _Messages(stream)
            elif stream.isatty():
                sys.stdout = _Screen(stream)
    return lost


class _Stream:
    """A stream that writes in its own way and is otherwise the one inside it."""

    def __init__(self, stream: TextIOWrapper) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Screen(_Stream):
    """A terminal that shows control characters instead of obeying them, colours excepted.

    Labels, tokens and what a model continues come from its folder. `\\x1b]0;…` in one of them would
    rename the window, other sequences clear the screen or write to the clipboard.
    """

    def write(self, text: str) -> int:
        return super().write(_harmless(text))


class _Messages(_Stream):
    """stderr, without which the work goes on: its reader may leave, the disk of a log may be full.

    A training run whose progress goes to `2>&1 | head` would otherwise end after the first lines.
    """

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def _harmless(text: str) -> str:
    return _OBEYED.sub(lambda found: f"\\x{ord(found[1]):02x}" if found[1] else found[0], text)


def _taken_for_an_option(command: str, arguments: Sequence[str]) -> str | None:
    """A text that begins with a dash, if the command takes texts."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    texts = [given for given in options if given.startswith("-") and not _OPTION.match(given)]
    return (
        texts[0] if texts and command.endswith(("run", "trace", "explain", "experiment")) else None
    )


def _is_read(stream: TextIO) -> bool:
    """Whether a stream still has a reader: what broke is then the pipe of a child process."""
    if not hasattr(select, "poll"):  # Windows
        return False
    poll = select.poll()
    poll.register(stream.fileno(), 0)  # that nobody reads is reported unasked
    return not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _reader_left() -> int:
    """The reader has closed the pipe, as `| head` does, which is not an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _fail(message: str, code: int) -> int:
    line = _harmless(message).replace("\n", r"\n")  # of a name: our messages have none
    sys.stderr.write(f"glassformer: {line}\n")
    return code
