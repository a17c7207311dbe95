"""The server: a port, an address to print, uvicorn."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from glassformer.errors import ConfigError

__all__ = ["DEFAULT_PORT", "Listening", "listen", "server_of"]

DEFAULT_PORT = 8017
_TRIED = 20


@dataclass
class Listening:
    """A socket that is open, before anything answers on it."""

    socket: socket.socket
    host: str
    port: int

    @property
    def address(self) -> str:
        """What to type into a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"


def listen(host: str, port: int | None) -> Listening:
    """Open a port: the one asked for, or the first free one from the default on."""
    ports = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _TRIED), 0]
    failure: OSError | None = None
    for number in ports:
        try:
            opened = _open(host, number)
        except OSError as error:
            failure = error
            continue
        return Listening(opened, host, opened.getsockname()[1])
    assert failure is not None
    raise ConfigError(f"cannot listen on {host}:{port}: {failure.strerror or failure}")


def _open(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(128)
    except OSError:
        opened.close()
        raise
    return opened


def server_of(app: ASGIApp) -> uvicorn.Server:
    """A uvicorn server that says nothing of its own."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1
    )
    return uvicorn.Server(config)
