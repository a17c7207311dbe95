"""The server: a port, an address to print, the app behind it."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from glassformer.errors import ConfigError
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
    server: uvicorn.Server
    _socket: socket.socket

    def run(self) -> None:
        """Answer until interrupted."""
        self.server.run(sockets=[self._socket])

    def close(self) -> None:
        """Give the port back without having answered."""
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
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEPT_S,
        timeout_graceful_shutdown=1,
    )
    return Serving(_address(host, number, token), number, uvicorn.Server(config), opened)


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
    raise ConfigError(f"cannot listen on {what}: {failure.strerror or failure}")


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
