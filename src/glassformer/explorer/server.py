"""The server: its port, its address, and the app behind it."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer.errors import ConfigError
from glassformer.explorer.connections import Connection, ConnectionLimits, PromptServer
from glassformer.explorer.security import Access, Guard, is_loopback

# --- front ---
# The outermost app: serves the page's files at once, the API as soon as it is loaded.
#
# Importing torch takes seconds, and the page should not wait for it. The API's modules are imported
# in a thread while the browser fetches the page; the first API request waits for them.


_LOG = logging.getLogger("glassformer.explorer")
STATIC = Path(__file__).parent / "static"


class Front:
    """Routes `/api/…` to the API, everything else to the page's files."""

    def __init__(self, load: Callable[[], ASGIApp]) -> None:
        self._load = load
        self._api: ASGIApp | None = None
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._files = StaticFiles(directory=STATIC, html=True, check_dir=False)
        self._thread = threading.Thread(target=self._load_api, name="load the API", daemon=True)

    def start_loading(self) -> None:
        """Start importing the API in a thread."""
        self._thread.start()

    def _load_api(self) -> None:
        try:
            self._api = self._load()
        except BaseException as error:
            _LOG.error("the API could not be loaded", exc_info=error)
            self._failure = error
        finally:
            self._ready.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] != "http":
            return
        elif scope["path"] == "/api" or scope["path"].startswith("/api/"):
            await (await self._loaded())(scope, receive, send)
        else:
            await self._file(scope, receive, send)

    async def _file(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._files.get_response(self._files.get_path(scope), scope)
        except (HTTPException, ValueError) as error:  # an invalid file name
            status = error.status_code if isinstance(error, HTTPException) else 404
            answer = JSONResponse({"detail": "there is no such page"}, status)
        await answer(scope, receive, send)

    async def _loaded(self) -> ASGIApp:
        if not self._ready.is_set():
            await asyncio.get_running_loop().run_in_executor(None, self._ready.wait)
        if self._api is None:
            return _failed(str(self._failure))
        return self._api


def _failed(why: str) -> Response:
    return JSONResponse({"detail": f"the server could not start: {why}"}, 500)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8017
_TRIED = 20
_KEPT_S = 75
"""Keep-alive; long, since closing a connection just as the browser reuses it is an error."""


@dataclass
class Serving:
    """An open port and the server that listens on it."""

    address: str
    """The URL to open, including the token if one is needed."""
    port: int
    server: PromptServer
    _socket: socket.socket

    def __post_init__(self) -> None:
        # A daemon, so that work in progress does not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="explorer", daemon=True)
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Serve in this thread until stopped."""
        self.server.run(sockets=[self._socket])

    def _run(self) -> None:
        try:
            self.run()
        except BaseException as error:  # `wait` raises it in the caller's thread
            self._failure = error

    def start(self) -> None:
        """Serve in a background thread."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the background thread is alive."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Block until the server stops; Ctrl+C is noticed within 0.2 s on Windows, else at once.

        Raises the error that stopped the server, if one did.
        """
        while self.is_running:
            self._thread.join(0.2)
        if self._failure is not None:
            raise self._failure

    def stop(self, seconds: float = 10.0) -> None:
        """Stop and free the port, waiting at most `seconds` for the thread."""
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
    """Open a port and start loading the API; a non-loopback host gets a token.

    Without `port`, the first free one from the default on is taken.
    """
    opened = _listen(host, port)
    number = opened.getsockname()[1]
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    front = Front(load)
    front.start_loading()
    app = Guard(front, Access(token, framed, f"glassformer-{number}"))
    limits = ConnectionLimits()
    config = uvicorn.Config(
        app,
        http=partial(Connection, limits=limits),  # type: ignore[arg-type]  # makes such an object
        ws="none",
        loop="asyncio",  # even where uvloop is installed: `connections` relies on asyncio
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
        if os.name == "posix":  # on Windows it would let two servers share a port
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(128)
    except OSError:
        opened.close()
        raise
    return opened


# --- browsing ---
# Opening the page in a browser, where there is one.


def open_in_browser(address: str) -> bool:
    """Open the page in a browser shortly; False if there is no display.

    Without a display, `webbrowser` might start a text browser in the terminal.
    """
    has_screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if has_screen:
        opening = threading.Timer(0.2, webbrowser.open, [address])
        opening.daemon = True
        opening.start()
    return has_screen
