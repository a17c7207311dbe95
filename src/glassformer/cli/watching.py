"""`train --watch`: a run and the page that shows it, in one process.

The explorer knows nothing of training, and training nothing of the explorer: they meet here.
Nothing that goes wrong with the page ends the run.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.errors import GlassformerError

if TYPE_CHECKING:
    from glassformer.cli.watched_run import WatchedRun

__all__ = ["watch"]

_FAREWELL_S = 5.0
"""How long a page that looks on may take to fetch the end of the run; it asks every second."""


@contextmanager
def watch(folder: Path) -> Iterator[None]:
    """Show the run of a folder on a local page while the context lasts."""
    if os.environ.get("RANK", "0") != "0":  # of several processes, the first one is watched
        yield
        return
    run: WatchedRun | None = None
    try:
        run, address = _serve(folder)
        _say(f"watch the run at {address}#/training")
    except ImportError as error:
        _say(f"no page for --watch ({error}); pip install 'glassformer[explorer]'. The run goes on")
    except (GlassformerError, OSError) as error:
        _say(f"no page for --watch: {error}. The run goes on")
    try:
        yield
    finally:
        if run is not None:
            with suppress(KeyboardInterrupt):  # the run is over: only the page is not waited for
                run.wait_for_farewell(_FAREWELL_S)


def _serve(folder: Path) -> "tuple[WatchedRun, str]":
    from glassformer.cli.watched_run import WatchedRun
    from glassformer.explorer.api import create_api
    from glassformer.explorer.serving import prepare
    from glassformer.explorer.state import State

    run = WatchedRun(folder)
    state = State.of()
    state.watched = run
    # Loaded before the run starts: afterwards the two would fight over the interpreter's lock.
    api = create_api(state)
    serving = prepare(lambda: api)
    serving.start()
    return run, serving.address


def _say(line: str) -> None:
    sys.stderr.write(f"glassformer: {' '.join(line.split())}\n")
    sys.stderr.flush()
