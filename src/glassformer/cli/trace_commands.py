"""Every number of a pass: `glassformer trace` all of it, `explain` one, `explore` on a page."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from glassformer.cli.model_commands import AS_IT_IS, ModelOptions, check_model, open_model
from glassformer.cli.output import AsJson, Output, check_place, show_size, show_words, wrapped
from glassformer.errors import ConfigError
from glassformer.language import LANGUAGES, spoken, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from glassformer.tasks import Model
    from glassformer.tracing import Step, Trace

say = words("glassformer.cli.messages")


def trace(
    model: str,
    text: str,
    /,
    *,
    output: Output = None,
    steps: Annotated[list[str] | None, Parameter(name="--step")] = None,
    target: str | None = None,
    options: ModelOptions = AS_IT_IS,
) -> None:
    """Record every number of one pass over a text, as a page, a workbook, data or a list."""
    check_model(model)
    check_place(output)

    from glassformer.documents import render, render_text

    loaded = open_model(model, options, attention="written")
    if output is not None and output.suffix.lower() == ".html":
        recorded = _write_page(loaded, text, target, steps or [], output)
        _tell(output, recorded)
        return
    recorded = loaded.trace(text, target=target)
    chosen = [recorded[name] for name in steps or ()]
    if output is None:
        parts: list[Step] | list[Trace] = chosen or [recorded]
        for part in parts:
            sys.stdout.write(f"{render_text(part, lang=spoken())}\n")
        return
    render(chosen or recorded, path=output, lang=spoken())
    _tell(output, recorded)


def _write_page(
    model: Model, text: str, target: str | None, steps: list[str], output: Path
) -> Trace:
    """The explorer's page of the run, with the text and the model's answer."""
    from glassformer.documents.renderer import write_file
    from glassformer.explorer.model_list import open_text
    from glassformer.explorer.saved_page import page_of

    opened = open_text(model, model.name, text, target)
    chosen = [opened.trace[name] for name in steps]
    write_file(output, page_of(opened, chosen or None, spoken()))
    return opened.trace


def _tell(output: Path, recorded: Trace) -> None:
    size = show_size(output.stat().st_size)
    said = say("trace written", output=output, count=len(recorded.steps), size=size)
    sys.stderr.write(f"{said}\n")


def explain(
    model: str,
    text: str,
    /,
    *,
    at: str | None = None,
    depth: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    terms: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    by_words: Annotated[bool, Parameter(name="--words")] = False,
    method: str = "leave one out",
    baseline: str | None = None,
    target: str | None = None,
    as_json: AsJson = False,
    options: ModelOptions = AS_IT_IS,
) -> None:
    """Show the arithmetic of one number, or which words made it."""
    if at is None and not by_words:
        raise ConfigError(
            "expected --at with a number, such as 'logits[0,1]', or --words for what made the "
            "answer"
        )
    check_model(model)

    from glassformer.documents.step_meaning import meaning
    from glassformer.documents.trace_data import json_text
    from glassformer.tracing.cells import MOST_LISTED
    from glassformer.tracing.formula import MOST_TERMS

    loaded = open_model(model, options, attention="written")
    if by_words:
        found = loaded.words(text, at, method=method, baseline=baseline, target=target)  # type: ignore[arg-type]  # checked there
        sys.stdout.write(
            (json_text(found.to_dict(), indent=1) if as_json else show_words(found)) + "\n"
        )
        return
    cell = loaded.cell(text, at, target=target)
    if as_json:
        data = cell.to_dict(depth, terms or MOST_LISTED)
        said = {language: meaning(cell, language) for language in LANGUAGES.values()}
        texts = {language: one.text for language, one in said.items()}
        data["meaning"] = {"role": said["en"].role, "text": texts}
        sys.stdout.write(json_text(data, indent=1) + "\n")
    else:
        about = wrapped(meaning(cell, spoken()).text)
        sys.stdout.write(f"{cell.explain(depth, terms or MOST_TERMS)}\n\n{about}\n")


# --- `explore`: the page on which any number can be clicked ---

_PATIENCE_S = 0.4
"""How long Ctrl+C waits for requests in progress, in seconds."""


def explore(
    *,
    model: str | None = None,
    runs: Path | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_page: Annotated[bool, Parameter(name="--open", negative="--no-open")] = True,
) -> None:
    """Start the explorer and print its address; Ctrl+C ends it."""
    if port is not None and not 0 <= port < 2**16:
        raise ConfigError("a port is a number from 0 to 65535, got {port}", port=port)
    from glassformer.explorer import not_installed

    try:
        from glassformer.explorer.server import DEFAULT_PORT, open_in_browser, prepare
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    serving = prepare(_loader(model, runs), host, port)
    if port is None and serving.port != DEFAULT_PORT:
        said = say("explore other port", taken=DEFAULT_PORT, port=serving.port)
        sys.stderr.write(f"{said}\n")
    address = serving.address if runs is None else f"{serving.address}#/training"
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    if open_page and not open_in_browser(address):
        sys.stderr.write(f"{say('explore open')}\n")
    serving.start()
    try:
        serving.wait()
    finally:
        serving.stop(_PATIENCE_S)


def _loader(model: str | None, runs: Path | None = None) -> Callable[[], ASGIApp]:
    """The function that creates the API; a requested model or run is looked up at once."""
    if model is not None:
        from glassformer.explorer.model_list import Models

        Models(model)

    run = None
    if runs is not None:
        from glassformer.training.snapshots import newest_run

        run = newest_run(runs)

    def load() -> ASGIApp:
        import torch

        from glassformer.explorer.api import create_api
        from glassformer.explorer.state import State

        # Small tensors gain little from many threads, and several requests come at once.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // 4))
        state = State(model)
        if run is not None:
            from glassformer.explorer.training_watch import WatchedRun

            state.watched = WatchedRun(run)
        api = create_api(state)
        # What was imported stays. A collection that looked at all of it, every ten traces or so,
        # would hold up the page for a tenth of a second.
        gc.freeze()
        return api

    return load
