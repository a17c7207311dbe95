"""The server: a port, an address to print, the app behind it."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from glassformer.errors import ConfigError
from glassformer.explorer.connections import Connection, Limits, PromptServer
from glassformer.explorer.front import Front
from glassformer.explorer.security import Access, Guard, is_loopback

__all__ = ["DEFAULT_HOST", "DEFAULT_PORT", "Serving", "prepare"]

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8017
_TRIED = 20
_KEPT_S = 75
"""How long a quiet connection is kept: one that is closed just as it is used again is an error."""


@dataclass
class Serving:
    """A port that is open, and the server that will answer on it."""

    address: str
    """What to type into a browser, with the token where one is needed."""
    port: int
    server: PromptServer
    _socket: socket.socket

    def __post_init__(self) -> None:
        # A daemon: a thread that computes for somebody must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="explorer", daemon=True)
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Answer in this thread, until stopped."""
        self.server.run(sockets=[self._socket])

    def _run(self) -> None:
        try:
            self.run()
        except BaseException as error:  # in a thread nobody else would see it; `wait` raises it
            self._failure = error

    def start(self) -> None:
        """Answer in a thread of its own."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it answers in a thread of its own."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Stay until it is stopped; Ctrl+C comes through at once, on Windows in a moment.

        What ended the server against its will is raised here.
        """
        while self.is_running:
            self._thread.join(0.2)
        if self._failure is not None:
            raise self._failure

    def stop(self, seconds: float = 10.0) -> None:
        """Give the port back; what takes longer is left to itself."""
        self.server.should_exit = True
        if self.is_running:
            self._thread.join(seconds)
        self._socket.close()


def prepare(
    load: Callable[[], ASGIApp],
    host: str = DEFAULT_HOST,
    port: int | None = None,
    framed: bool = False,
) -> Serving:
    """Open a port and begin to load the API; an address that others can reach gets a token.

    The port is the one asked for, else the first free one from the default on.
    """
    opened = _listen(host, port)
    number = opened.getsockname()[1]
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    front = Front(load)
    front.start_loading()
    app = Guard(front, Access(token, framed, f"glassformer-{number}"))
    limits = Limits()
    config = uvicorn.Config(
        app,
        http=partial(Connection, limits=limits),  # type: ignore[arg-type]  # makes such an object
        ws="none",
        loop="asyncio",  # not uvloop where it happens to be installed: `connections` knows asyncio
        backlog=limits.backlog,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEPT_S,
    )
    return Serving(_address(host, number, token), number, PromptServer(config), opened)


def _address(host: str, port: int, token: str | None) -> str:
    everywhere = host in ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on
    name = socket.gethostname() if everywhere else host
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def _listen(host: str, port: int | None) -> socket.socket:
    ports = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _TRIED), 0]
    failure: OSError | None = None
    for number in ports:
        try:
            return _open(host, number)
        except OSError as error:
            failure = error
    assert failure is not None
    what = f"{host}:{port}" if port is not None else host
    raise ConfigError(
        "cannot listen on {place}: {reason}", place=what, reason=failure.strerror or failure
    )


def _open(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    opened = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(128)
    except OSError:
        opened.close()
        raise
    return opened
