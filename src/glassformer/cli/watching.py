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
from glassformer.language import message_of, words

if TYPE_CHECKING:
    from glassformer.cli.watched_run import WatchedRun

__all__ = ["watch"]

say = words("glassformer.cli.messages")

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
        _write(say("train watch", address=address))
    except ImportError as error:
        _write(say("train no library", error=error))
    except (GlassformerError, OSError) as error:
        _write(say("train no page", error=message_of(error)))
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


def _write(line: str) -> None:
    sys.stderr.write(f"glassformer: {' '.join(line.split())}\n")
    sys.stderr.flush()
