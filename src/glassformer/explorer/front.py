"""The outermost app: the page's files at once, the API as soon as it is loaded.

Importing torch takes seconds; a page should not wait for it. The API's modules are imported in a
thread while the browser fetches the page, and the first question to the API waits for them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Front"]

_LOG = logging.getLogger("glassformer.explorer")
STATIC = Path(__file__).parent / "static"


class Front:
    """`/api/…` to the API, everything else to the page's files."""

    def __init__(self, load: Callable[[], ASGIApp]) -> None:
        self._load = load
        self._api: ASGIApp | None = None
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._files = StaticFiles(directory=STATIC, html=True, check_dir=False)
        self._thread = threading.Thread(target=self._load_api, name="load the API", daemon=True)

    def start_loading(self) -> None:
        """Begin to import what the API needs."""
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
        """One request."""
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
        except (HTTPException, ValueError) as error:  # a name that no file can have
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
