"""Help pages and messages about wrong usage, in the language of this process.

cyclopts finds the arguments; their descriptions are in help.toml.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)
from cyclopts.help import DefaultFormatter

from glassformer.language import Prose, spoken, words

if TYPE_CHECKING:
    from cyclopts import Argument
    from cyclopts.help import HelpEntry, HelpPanel
    from cyclopts.help.specs import ColumnSpec
    from rich.console import Console, ConsoleOptions

say = words(__name__)
_ARGS = re.compile(r"\[ARGS(\.\.\.)?\]")


class HelpPage(DefaultFormatter):
    """Prints the page of one command; "" is the page of the whole program."""

    def __init__(self, command: str, arguments: "Iterable[Argument]" = ()) -> None:
        super().__init__(column_specs=self._columns)
        self._command = command
        self._optional = " ".join(map(_optional, filter(_may_be_left_out, arguments)))

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """One box: commands, arguments or options."""
        entries = [
            entry.copy(positive_names=("--SIZE",)) if entry.names == ("--[KEYWORD]",) else entry
            for entry in panel.entries
        ]
        shown = panel.copy(title=say(f"page {panel.title}"), entries=entries)
        super().__call__(console, options, shown)

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:
        """The first line: `[ARGS]`, by which cyclopts means what may be left out, by its names."""
        del options
        if f"{self._command} usage" in say:
            shown = f"glassformer {self._command} {say(f'{self._command} usage')}\n"
        else:
            shown = _ARGS.sub(lambda _: self._optional, str(usage))
        console.print(say("page usage", usage=shown), markup=False, highlight=False)

    def render_description(
        self, console: "Console", options: "ConsoleOptions", description: Any
    ) -> None:
        """What the command does."""
        del options, description
        paragraphs = [say(f"command {self._command or 'glassformer'}")]
        if f"{self._command} more" in say:
            paragraphs.append(say(f"{self._command} more"))
        console.print(Prose("\n\n".join(paragraphs)), "")

    def describe(self, entry: "HelpEntry") -> str:
        """What an entry is for, and its possible values."""
        name = entry.positional_label or entry.names[0]
        keys = (f"{self._command} {name}", f"every {name}", f"command {name}")
        parts = [say(key).strip() for key in keys if key in say][:1]
        if entry.choices:
            parts.append(say("page choices", names=", ".join(entry.choices)))
        if entry.default not in (None, "False"):
            parts.append(say("page default", value=entry.default))
        if entry.required:
            parts.append(say("page required"))
        return "".join(parts).strip()

    def _columns(
        self, console: "Console", options: "ConsoleOptions", entries: "list[HelpEntry]"
    ) -> "tuple[ColumnSpec, ...]":
        from cyclopts.help.specs import ColumnSpec, get_default_parameter_columns

        described = ColumnSpec(renderer=lambda entry: Prose(self.describe(entry)), overflow="fold")
        return (*get_default_parameter_columns(console, options, entries)[:-1], described)


def _may_be_left_out(argument: "Argument") -> bool:
    return argument.index is not None and not argument.required


def _optional(argument: "Argument") -> str:
    many = argument.field_info.kind == argument.field_info.VAR_POSITIONAL
    return f"[{argument.name}...]" if many else f"[{argument.name}]"


def wrong_usage(error: CycloptsError, arguments: Sequence[str]) -> str:
    """What is wrong with a command line, without the hint where to read more."""
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        given = bool(error.argument.tokens) or error.keyword is not None
        name = error.keyword or error.argument.name
        return say("wrong missing value" if given else "wrong missing", name=name)
    if isinstance(error, UnusedCliTokensError):
        return say("wrong unused", names=" ".join(error.unused_tokens or ()))
    if spoken() == "en":
        return " ".join(str(error).split())
    if isinstance(error, UnknownCommandError):
        return _unknown("command", arguments[0], error.app or ())
    if isinstance(error, UnknownOptionError):
        names = [name for part in error.argument_collection if part.parse for name in part.names]
        return _unknown("option", error.token.keyword or error.token.value, names)
    if isinstance(error, RepeatArgumentError):
        return say("wrong repeated", name=error.token.keyword)
    if isinstance(error, CoercionError | ValidationError) and error.argument is not None:
        return _wrong_value(error)
    return say("wrong other", reason=" ".join(str(error).split()))


def _unknown(what: str, name: str, known: "Sequence[str] | Any") -> str:
    return say(f"wrong unknown {what}", name=name) + _near(name, known)


def _near(name: str, known: "Sequence[str] | Any") -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return say("wrong near", name=near[0]) if near else ""


def _wrong_value(error: CoercionError | ValidationError) -> str:
    argument = error.argument
    assert argument is not None
    token = getattr(error, "token", None) or argument.tokens[0]
    name, value = token.keyword or argument.name, repr(token.value)
    if isinstance(error, ValidationError):
        least = error.exception_message.removeprefix("Must be >= ").removesuffix(".")
        bounded = least != error.exception_message
        reason = say("wrong at least", least=least) if bounded else error.exception_message
        return say("wrong bound", name=name, value=value, reason=reason)
    if choices := argument.get_choices():
        said = say("wrong choice", name=name, value=value, names=", ".join(choices))
        return said + _near(token.value, choices)
    kind = getattr(error.target_type, "__name__", str(error.target_type))
    said = say(f"wrong kind {kind}") if f"wrong kind {kind}" in say else kind
    return say("wrong value", name=name, value=value, kind=said)
