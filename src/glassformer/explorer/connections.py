"""Slow clients: deadlines, a limit on connections, and a prompt shutdown.

uvicorn closes only connections that are idle between requests: a half-sent request waits for ever,
and so does a response that nobody reads. Here headers, body and response have a deadline
each. When there are too many connections, in total or from one address, the one that has kept the
server waiting longest is closed, so that many half-sent requests do not lock out a complete one.
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
"""Seconds from the start of a connection or request to the end of its headers."""
BODY_S = 30.0
"""Seconds from the end of the headers to the end of the body, which is at most 1 MiB."""
READ_S, LEAST_READ = 30.0, 1 << 16
"""A client must read `LEAST_READ` bytes, or the rest of the response, every `READ_S` seconds."""
MOST = 256
"""Concurrent connections; a browser opens up to six per tab."""
SPARED_FILES = 2
"""One in this many of the process's file descriptors may be a connection."""
GRACE_S = 0.15
"""How long a shutdown waits for responses in progress."""
SAME_LINE_S = 60.0
"""The shortest interval between identical log lines about clients."""


class _OncePerMinute(logging.Filter):
    """Limits each warning to once a minute, and drops tracebacks of cancelled requests."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, float] = {}
        """When each message was last logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            return not isinstance(record.exc_info[1], asyncio.CancelledError)
        now = time.monotonic()
        if now - self.logged.get(str(record.msg), -SAME_LINE_S) < SAME_LINE_S:
            return False
        self.logged[str(record.msg)] = now
        return True


_LOG = logging.getLogger("glassformer.explorer.connections")
_LOG.setLevel(logging.WARNING)
_ONCE_PER_MINUTE = _OncePerMinute()
_LOG.addFilter(_ONCE_PER_MINUTE)


class ConnectionLimits:
    """The limits on connections, lowered if the process may open few files."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most if most is not None else max(8, min(MOST, _open_files() // SPARED_FILES))
        self.most_of_one = max(4, self.most // 2)
        # asyncio accepts this many before it reports the first.
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

    def __init__(self, *, limits: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self.logger = _LOG  # "Invalid HTTP request received." once a minute is enough
        self.waits_since: float | None = None
        """When we began to wait for the client; None while it waits for us."""
        self._limits = limits
        self._awaited: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """The client's address without its port."""
        return self.client[0] if self.client else ""

    # --- what uvicorn and asyncio call ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the first request's deadline; close another connection if there are too many."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        self._look()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Part of a request arrived; headers and body have a deadline each."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request, and for the response to be read."""
        self.waits_since = self.loop.time()
        super().on_response_complete()
        self._look()
        self._watch_reader()

    def pause_writing(self) -> None:
        """The socket's buffer is full: watch how fast the client reads."""
        super().pause_writing()
        self._watch_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines."""
        super().connection_lost(exc)
        for timer in (self._deadline, self._reading):
            if timer is not None:
                timer.cancel()

    def shutdown(self) -> None:
        """Close the connection unless a response is in progress."""
        if self.waits_since is None:
            super().shutdown()
        else:
            self.transport.abort()

    # --- deadlines ---

    def _look(self) -> None:
        """Set the deadline for the missing part of the request."""
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
        """Whether any part of a request has arrived."""
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
        """Close a connection whose request did not arrive in time."""
        if self._has_begun():  # browsers open connections they never use: not worth a log line
            _LOG.warning("a request was not sent in time: its connection is closed")
            is_answered = self.cycle is not None and self.cycle.response_started
            if self.conn.their_state is h11.IDLE or not is_answered:
                self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n")
        self.transport.close()
        self._watch_reader()

    def _watch_reader(self, before: int | None = None) -> None:
        """Close a connection whose client does not read the response."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left > max(0, before - LEAST_READ):
            _LOG.warning("a response was not read in time: its connection is closed")
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
            "more than %d connections (%d from one address): the slowest are closed",
            self._limits.most,
            self._limits.most_of_one,
        )
        self.connections.discard(leaves)  # not counted from now on, though the loop closes it later
        leaves.transport.abort()


class PromptServer(uvicorn.Server):
    """uvicorn's server, shutting down promptly whatever its clients do."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_on_loop_error)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, give responses in progress a moment, then abort the rest."""
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        await self._until_quiet(GRACE_S)
        # Work for an aborted connection is cancelled (`open_traces.Runs`).
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
    """Log failed accepts in one line; asyncio would write a traceback for each."""
    if str(context.get("message", "")).startswith("socket.accept() out of system resource"):
        _LOG.warning("no connection can be accepted: %s", context["exception"])
    else:
        loop.default_exception_handler(context)
