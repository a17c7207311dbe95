"""`glassformer explore`: the page on which any number can be clicked."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.errors import ConfigError
from glassformer.language import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp


say = words("glassformer.cli.messages")

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
    sys.stdout.write(f"{serving.address}\n")
    sys.stdout.flush()
    if open_page and not open_in_browser(serving.address):
        sys.stderr.write(f"{say('explore open')}\n")
    serving.start()
    try:
        serving.wait()
    finally:
        serving.stop(_PATIENCE_S)


def _loader(model: str | None, runs: Path | None = None) -> Callable[[], ASGIApp]:
    """The function that creates the API; a requested model or run is looked up at once."""
    if model is not None:
        from glassformer.explorer.model_list import Catalogue

        Catalogue(model)

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
        state = State.of(model)
        if run is not None:
            from glassformer.explorer.training_watch import WatchedRun

            state.watched = WatchedRun(run)
        return create_api(state)

    return load
