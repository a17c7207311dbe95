"""`glassformer explore`: the page on which any number can be clicked."""

import sys
import threading
import webbrowser
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["explore"]


def explore(
    *,
    model: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_page: Annotated[bool, Parameter(name="--open", negative="--no-open")] = True,
) -> None:
    """Start the explorer and print its address.

    Parameters
    ----------
    model:
        A shipped model (toy, imdb, en-de, en-zh, shakespeare) or a model folder; all that ship
        if left out.
    host:
        The address to listen on. Other machines can reach anything but the default; they need
        the token that the printed address holds.
    port:
        The port; otherwise the first free one from 8017 on.
    open_page:
        Whether to open the page in a browser.
    """
    from glassformer.explorer.front import Front
    from glassformer.explorer.serving import DEFAULT_PORT, listen, server_of

    def load() -> "ASGIApp":
        from glassformer.explorer.api import create_api
        from glassformer.explorer.state import State

        return create_api(State.of(model))

    listening = listen(host, port)
    if port is None and listening.port != DEFAULT_PORT:
        sys.stderr.write(f"port {DEFAULT_PORT} is taken: using {listening.port}\n")
    front = Front(load)
    front.start_loading()
    sys.stdout.write(f"{listening.address}\n")
    sys.stdout.flush()
    if open_page:
        threading.Timer(0.3, webbrowser.open, [listening.address]).start()
    server_of(front).run(sockets=[listening.socket])
