"""Traces for readers: one function for all formats, and one for each.

    render(t, path="run.html")                       # also .xlsx .json .md .tex .txt
    print(render(t["scores"]))                       # the terminal: a heat map
    print(render(t["scores"][0, 1], to="tex", lang="zh"))
    render([t["scores"], t["weights"]], path="attention.xlsx")

    terminal_text(trace | step | cell)               # tree, heat map, card
    markdown_text, latex_text(trace | step | cell | [step | cell, …])
    write_html(trace, path, steps=None)              # one read-only page, every cell a card
    write_json, read_json                            # every number, bit for bit
    write_workbook(trace, path, steps=None)          # live formulas

Every format is a walk over the same expression trees; none holds arithmetic of its own. The page
is the explorer's, saved with its answers (`explorer.snapshot`), and is looked up when asked for:
this package imports nothing above itself. Shared by all: `words` (English and Chinese), `cards`
(what a card says), `matrices`, `colours`, `addresses` (who wrote what is read), `files` (written
whole or not at all).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.errors import TraceError, UnknownNameError
from glassformer.trace.cells import Cell
from glassformer.trace.render.data import json_text, read_json, trace_data, write_json
from glassformer.trace.render.files import write_file
from glassformer.trace.render.latex import latex_text
from glassformer.trace.render.markdown import markdown_text
from glassformer.trace.render.terminal import terminal_text
from glassformer.trace.render.words import words_in
from glassformer.trace.render.workbook import workbook_bytes, write_workbook
from glassformer.trace.steps import Step
from glassformer.trace.trace import Trace

__all__ = [
    "FORMATS",
    "latex_text",
    "markdown_text",
    "page_text",
    "read_json",
    "render",
    "terminal_text",
    "trace_data",
    "write_html",
    "write_json",
    "write_workbook",
]

Thing = Trace | Step | Cell | Sequence[Step | Cell]

_SUFFIXES = {
    ".txt": "terminal",
    ".md": "md",
    ".tex": "tex",
    ".html": "html",
    ".json": "json",
    ".xlsx": "xlsx",
}


def render(
    thing: Thing,
    to: str | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    lang: str = "en",
    **options: Any,
) -> str | bytes | Path:
    """A trace, steps or cells in a format; with a `path`, written there whole or not at all.

    The format is `to`, else what the path's ending says, else the terminal. Of steps and cells, a
    page, a workbook or a data file holds the steps and what they read. `options` are those of the
    format's own function.
    """
    if to is None:
        ending = Path(path).suffix.lower() if path is not None else ".txt"
        if ending not in _SUFFIXES:
            raise UnknownNameError("file ending", ending, _SUFFIXES)
        to = _SUFFIXES[ending]
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS)
    made = FORMATS[to](thing, lang, options)
    return made if path is None else write_file(path, made)


def _whole(thing: Thing) -> tuple[Trace, list[str] | None, list[Cell]]:
    """The trace behind a thing, the names of the steps chosen from it, and the cells."""
    if isinstance(thing, Trace):
        return thing, None, []
    parts = [thing] if isinstance(thing, Step | Cell) else list(thing)
    if not parts:
        raise TraceError("there is nothing to render: no step and no cell was given")
    steps = [part if isinstance(part, Step) else part.step for part in parts]
    cells = [part for part in parts if isinstance(part, Cell)]
    return steps[0].trace, list(dict.fromkeys(step.name for step in steps)), cells


def _terminal(thing: Thing, lang: str, options: dict[str, Any]) -> str:
    parts = [thing] if isinstance(thing, Trace | Step | Cell) else thing
    return "\n".join(terminal_text(part, lang=lang, **options) for part in parts)


def _html(thing: Thing, lang: str, options: dict[str, Any]) -> str:
    trace, steps, _ = _whole(thing)
    return page_text(trace, **{"lang": lang, "steps": steps, **options})


def page_text(trace: Trace, **options: Any) -> str:
    """A trace as one read-only page: the explorer in a file, every cell a card.

    Options: `steps` (only these and what they read), `lang`, `title`, `max_bytes`, `max_cells`.
    """
    made: str = import_module("glassformer.explorer.snapshot").page_text(trace, **options)
    return made


def write_html(trace: Trace, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write `page_text` to a file, whole or not at all."""
    return write_file(path, page_text(trace, **options))


def _json(thing: Thing, _lang: str, options: dict[str, Any]) -> str:
    trace, steps, cells = _whole(thing)
    return json_text(trace_data(trace, **{"steps": steps, "cells": cells, **options}))


def _workbook(thing: Thing, lang: str, options: dict[str, Any]) -> bytes:
    trace, steps, _ = _whole(thing)
    names = options.get("steps", steps)
    chosen = None if names is None else [trace[name] for name in names]
    return workbook_bytes(trace, chosen, words_in(lang))


FORMATS: dict[str, Callable[[Thing, str, dict[str, Any]], str | bytes]] = {
    "terminal": _terminal,
    "md": lambda thing, lang, options: markdown_text(thing, lang=lang, **options),
    "tex": lambda thing, lang, options: latex_text(thing, lang=lang, **options),
    "html": _html,
    "json": _json,
    "xlsx": _workbook,
}
