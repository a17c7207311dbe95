"""Connections that keep the server waiting: deadlines, a bounded number, and an end without delay.

uvicorn ends a quiet connection between two requests, and nothing else: a request that is half sent
waits for ever, and so does an answer that nobody reads. Here a request has a deadline for its head
and one for its body, an answer one for being read. When there are too many connections, in all or
from one address, the one that has kept the server waiting for the longest is closed, so that a
crowd of half-sent requests does not keep out somebody who sends a whole one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""From the start of a connection, or of a further request, to the end of the request's head."""
BODY_S = 30.0
"""From the end of the head to the end of the body, which is at most 1 MiB."""
READ_S, LEAST_READ = 30.0, 1 << 16
"""In so many seconds a client takes so many bytes of an answer, or all that is left of it."""
MOST = 256
"""Connections at once: the page has up to six for each tab."""
SPARED_FILES = 2
"""Of the files that the process may open, one in so many may be a connection."""
GRACE_S = 0.15
"""How long the end of the server waits for answers that are under way."""
SAME_LINE_S = 60.0
"""How often the log may say the same about clients."""


class _SaidOnce(logging.Filter):
    """Lets a warning through once a minute, and never what a cancelled request leaves behind."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, float] = {}
        """When each message was let through last."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            return not isinstance(record.exc_info[1], asyncio.CancelledError)
        now = time.monotonic()
        if now - self.said.get(str(record.msg), -SAME_LINE_S) < SAME_LINE_S:
            return False
        self.said[str(record.msg)] = now
        return True


_LOG = logging.getLogger("glassformer.explorer.connections")
_LOG.setLevel(logging.WARNING)
_SAID_ONCE = _SaidOnce()
_LOG.addFilter(_SAID_ONCE)


class Limits:
    """How many connections there may be; fewer where the process may open few files."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most if most is not None else max(8, min(MOST, _open_files() // SPARED_FILES))
        self.most_of_one = max(4, self.most // 2)
        # asyncio accepts so many before it tells us of the first.
        self.backlog = max(16, self.most // 4)


def _open_files() -> int:
    try:
        import resource
    except ImportError:  # Windows has no such limit for sockets
        return MOST * SPARED_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft > 0 else MOST * SPARED_FILES  # -1: no limit


class Connection(H11Protocol):
    """uvicorn's protocol, with deadlines."""

    def __init__(self, *, limits: Limits, **given: Any) -> None:
        super().__init__(**given)
        self.logger = _LOG  # "Invalid HTTP request received." once a minute is enough
        self.waits_since: float | None = None
        """Since when the client has been expected to send something; None: it is our turn."""
        self._limits = limits
        self._awaited: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """Of the client, without its port."""
        return self.client[0] if self.client else ""

    # --- what uvicorn and asyncio call ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request, and let another go where there are too many."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        self._look()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Some of a request: its head and its body each have their time."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request, and for this answer to be read."""
        self.waits_since = self.loop.time()
        super().on_response_complete()
        self._look()
        self._watch_reader()

    def pause_writing(self) -> None:
        """More than the socket takes at once is to be sent."""
        super().pause_writing()
        self._watch_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """No deadline outlives its connection."""
        super().connection_lost(exc)
        for timer in (self._deadline, self._reading):
            if timer is not None:
                timer.cancel()

    def shutdown(self) -> None:
        """End, unless an answer is under way."""
        if self.waits_since is None:
            super().shutdown()
        else:
            self.transport.abort()

    # --- deadlines ---

    def _look(self) -> None:
        """See how much of a request is there, and set the time for the rest."""
        theirs = self.conn.their_state
        if theirs is h11.SEND_BODY:
            self._expect("body")
        elif theirs is h11.IDLE:  # between two requests uvicorn has a deadline of its own
            is_between = self.timeout_keep_alive_task is not None and not self._has_begun()
            self._expect(None if is_between else "head")
        else:
            self._expect(None)
            if self.cycle is not None and not self.cycle.response_complete:
                self.waits_since = None

    def _has_begun(self) -> bool:
        """Whether some of a request has been sent, be it only of its head."""
        return self.conn.their_state is not h11.IDLE or bool(self.conn.trailing_data[0])

    def _expect(self, awaited: str | None) -> None:
        if awaited == self._awaited:
            return
        if self._awaited is None:  # a new request begins
            self.waits_since = self.loop.time()
        self._awaited = awaited
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if awaited is not None:
            seconds = HEAD_S if awaited == "head" else BODY_S
            self._deadline = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        """End a connection whose request did not come in time."""
        if self._has_begun():  # browsers open some that they do not need: nothing to tell
            _LOG.warning("requests that are not sent in time are given up")
            is_answered = self.cycle is not None and self.cycle.response_started
            if self.conn.their_state is h11.IDLE or not is_answered:
                self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n")
        self.transport.close()
        self._watch_reader()

    def _watch_reader(self, before: int | None = None) -> None:
        """End a connection whose client does not take what was sent."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left > max(0, before - LEAST_READ):
            _LOG.warning("answers that are not read in time are given up")
            self.transport.abort()
        elif left:
            if self._reading is not None:
                self._reading.cancel()
            self._reading = self.loop.call_later(READ_S, self._watch_reader, left)

    # --- limits ---

    def _make_room(self) -> None:
        here = [other for other in self.connections if isinstance(other, Connection)]
        crowd = [other for other in here if other.address == self.address]
        if len(crowd) <= self._limits.most_of_one:
            crowd = here
            if len(crowd) <= self._limits.most:
                return
        waiting = [other for other in crowd if other is not self and other.waits_since is not None]
        leaves = min(waiting, key=lambda other: other.waits_since or 0.0, default=self)
        _LOG.warning(
            "more than %d connections (%d from one address): the quietest are closed",
            self._limits.most,
            self._limits.most_of_one,
        )
        self.connections.discard(leaves)  # it is not counted until the loop has closed it
        leaves.transport.abort()


class PromptServer(uvicorn.Server):
    """uvicorn's server, which ends in a moment whatever its clients do."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        asyncio.get_running_loop().set_exception_handler(_on_loop_error)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, give answers under way a moment, and leave the rest."""
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        await self._until_quiet(GRACE_S)
        # Whoever works for a connection is told that it is gone, and stops (`runs`).
        for connection in list(state.connections):
            connection.transport.abort()
        await self._until_quiet(GRACE_S)
        await self.lifespan.shutdown()

    async def _until_quiet(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        state = self.server_state
        while (state.connections or state.tasks) and loop.time() < end:
            await asyncio.sleep(0.01)


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio logs with a traceback for each attempt: that no file could be opened."""
    if str(context.get("message", "")).startswith("socket.accept() out of system resource"):
        _LOG.warning("no connection can be accepted: %s", context["exception"])
    else:
        loop.default_exception_handler(context)
