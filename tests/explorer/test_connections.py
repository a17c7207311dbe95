"""Clients that are slow, silent or too many: they are given up, and the others are answered."""

from __future__ import annotations

import asyncio
import http.client
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import torch
from starlette.types import Receive, Scope, Send

import glassformer
from glassformer.cli import run
from glassformer.explorer import connections
from glassformer.explorer.connections import ConnectionLimits
from glassformer.explorer.server import Serving, prepare

PATIENCE = 60
"""Seconds until something that should have happened has failed to: no test waits for so long."""
HALF_HEAD = b"GET /api/models HTTP/1.1\r\nHost: localhost\r\nX-Some"
HALF_BODY = b"POST /api/traces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"
LARGE = 16 << 20
WHOLE = b"GET /api/models HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(autouse=True)
def nothing_said_yet() -> None:
    """What another test made the log say within this minute does not count."""
    connections._ONCE_PER_MINUTE.logged.clear()


class Api:
    """Answers at once, or with many bytes, or when it is told to."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.n_waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b"[]"
        if scope["path"] == "/api/large":
            body = bytes(LARGE)
        if scope["path"] == "/api/late":
            self.n_waiting += 1
            await asyncio.to_thread(self.released.wait)
        length = str(len(body)).encode()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
        )
        await send({"type": "http.response.body", "body": body})


@contextmanager
def served(api: Api) -> Iterator[Serving]:
    serving = prepare(lambda: api, port=0)
    serving.start()
    try:
        yield serving
    finally:
        api.released.set()
        serving.stop()
        assert not serving.is_running


def opened(port: int, given: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), PATIENCE, (source, 0))
    line.sendall(given)
    return line


def rest(line: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    found = []
    with line, suppress(ConnectionResetError):
        while piece := line.recv(1 << 20):
            found.append(piece)
    return b"".join(found)


def answer_on(line: socket.socket) -> bytes:
    """One answer of `Api`, whose body is an empty list, on a connection that stays open."""
    found = b""
    while not found.endswith(b"[]"):
        found += line.recv(1000)
    return found


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def status(port: int, path: str = "/api/models") -> int:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        line.request("GET", path)
        answer = line.getresponse()
        answer.read()
        return answer.status
    finally:
        line.close()


# --- deadlines ---


@pytest.mark.parametrize(
    ("given", "statuses"),
    [
        (HALF_HEAD, [b"408"]),
        (HALF_BODY, [b"408"]),
        (b"", []),  # browsers open connections that they may not need
        (WHOLE + HALF_HEAD, [b"200", b"408"]),
        (WHOLE + HALF_BODY, [b"200", b"408"]),
    ],
    ids=["head", "body", "nothing", "another head", "another body"],
)
def test_a_request_that_is_not_sent_in_time_is_given_up(
    given: bytes,
    statuses: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    monkeypatch.setattr(connections, "BODY_S", 0.2)
    with served(Api()) as serving:
        found = rest(opened(serving.port, given))
        until(lambda: not serving.server.server_state.tasks)
    assert re.findall(rb"HTTP/1.1 (\d+)", found) == statuses
    assert len(caplog.records) == (1 if given else 0)  # one line, no traceback
    assert all(record.exc_info is None for record in caplog.records)


def test_a_trickle_of_bytes_does_not_move_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.5)
    with served(Api()) as serving, opened(serving.port, HALF_HEAD) as line:
        line.settimeout(0.02)
        found, n_sent = b"", 0
        while not found:
            try:
                found = line.recv(100)
            except TimeoutError:
                line.sendall(b"x")
                n_sent += 1
        assert found.startswith(b"HTTP/1.1 408 ") and n_sent > 0


def test_an_answer_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_S", 0.2)
    with served(Api()) as serving:
        asked = WHOLE.replace(b"models", b"large")
        with opened(serving.port, asked) as line:
            assert line.recv(9) == b"HTTP/1.1 "
            until(lambda: not serving.server.server_state.connections)


def test_an_answer_that_is_read_is_not_given_up() -> None:
    with served(Api()) as serving:
        asked = WHOLE.replace(b"models", b"large").replace(
            b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"
        )
        assert len(rest(opened(serving.port, asked))) > LARGE


# --- limits ---


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> ConnectionLimits:
    """Eight connections at once, four of them from one address."""
    limits = ConnectionLimits(8)
    monkeypatch.setattr("glassformer.explorer.server.ConnectionLimits", lambda: limits)
    return limits


def n_open(serving: Serving) -> int:
    return len(serving.server.server_state.connections)


def test_a_crowd_of_half_sent_requests_does_not_keep_others_out(
    few: ConnectionLimits, caplog: pytest.LogCaptureFixture
) -> None:
    with served(Api()) as serving, ExitStack() as crowd:
        for source in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            for _ in range(10):
                crowd.enter_context(opened(serving.port, HALF_HEAD, source))
        for _ in range(10):
            assert status(serving.port) == 200
        assert n_open(serving) <= few.most
    said = [r.message for r in caplog.records if "connections" in r.message]
    assert len(said) == 1


def test_one_address_has_its_share(few: ConnectionLimits) -> None:
    with served(Api()) as serving, ExitStack() as crowd:
        other = crowd.enter_context(opened(serving.port, HALF_HEAD, "127.0.0.2"))
        until(lambda: n_open(serving) == 1)
        for _ in range(30):
            crowd.enter_context(opened(serving.port, HALF_HEAD))
        assert status(serving.port) == 200
        until(lambda: n_open(serving) <= few.most_of_one + 1)
        other.sendall(b": 1\r\n\r\n")  # the longest wait of all, but it was not in their way
        assert other.recv(12) == b"HTTP/1.1 200"


def test_those_who_are_being_answered_are_not_closed_for_new_ones(few: ConnectionLimits) -> None:
    api = Api()
    with served(api) as serving, ExitStack() as crowd:
        asked = WHOLE.replace(b"models", b"late")
        lines = [crowd.enter_context(opened(serving.port, asked)) for _ in range(few.most_of_one)]
        until(lambda: api.n_waiting == few.most_of_one)
        assert rest(opened(serving.port, WHOLE)) == b""
        api.released.set()
        assert [line.recv(12) for line in lines] == [b"HTTP/1.1 200"] * len(lines)


def test_a_new_request_on_a_kept_connection_waits_from_its_own_beginning(
    few: ConnectionLimits,
) -> None:
    with served(Api()) as serving, ExitStack() as crowd:

        def n_begun() -> int:
            here = serving.server.server_state.connections
            return sum(other._awaited == "head" for other in here)  # type: ignore[union-attr]

        kept = crowd.enter_context(opened(serving.port, WHOLE))
        assert answer_on(kept).startswith(b"HTTP/1.1 200")
        others = []
        for n_others in range(1, few.most_of_one):
            others.append(crowd.enter_context(opened(serving.port, HALF_HEAD)))
            until(lambda n=n_others: n_begun() == n)  # type: ignore[misc]
        kept.sendall(HALF_HEAD)
        until(lambda: n_begun() == few.most_of_one)
        crowd.enter_context(opened(serving.port, HALF_HEAD))
        assert rest(others[0]) == b""  # it has waited for the longest
        kept.sendall(b": 1\r\n\r\n")
        assert kept.recv(12) == b"HTTP/1.1 200"


def test_a_process_that_may_open_few_files_has_fewer_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        limits = ConnectionLimits()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # What asyncio may have accepted before we hear of it, twice, and files for everything else.
    assert limits.most + 2 * (limits.backlog + 1) < 256 - 32


# --- the log ---


def test_a_flood_of_nonsense_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with served(Api()) as serving:
        for _ in range(20):
            assert rest(opened(serving.port, b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert [r.message for r in caplog.records].count("Invalid HTTP request received.") == 1


def test_a_storm_of_refused_files_is_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.new_event_loop()
    problem = OSError(24, "Too many open files")
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            context = {"message": "socket.accept() out of system resource", "exception": problem}
            connections._on_loop_error(loop, context)
        connections._on_loop_error(loop, {"message": "something else"})
    loop.close()
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if "Too many open files" in line]) == 1
    assert "something else" in said


# --- the end ---


def test_the_end_waits_for_nobody() -> None:
    """Half-sent requests, kept connections and work that goes on: none of them holds it up."""
    api = Api()
    with ExitStack() as crowd, served(api) as serving:
        for given in (b"", HALF_HEAD, HALF_BODY, WHOLE):
            crowd.enter_context(opened(serving.port, given))
        late = crowd.enter_context(opened(serving.port, WHOLE.replace(b"models", b"late")))
        until(lambda: api.n_waiting == 1)
        serving.server.should_exit = True
        assert rest(late) == b""  # only `served` lets the work go on, after this
        until(lambda: n_open(serving) == 0)


def test_what_ends_the_server_is_raised_to_whoever_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "the network is gone")

    monkeypatch.setattr(connections.PromptServer, "run", fail)
    serving = prepare(Api, port=0)
    serving.start()
    with pytest.raises(OSError, match="the network is gone"):
        serving.wait()
    serving.stop()
    with pytest.raises(OSError, match="the network is gone"):
        glassformer.explore(torch.nn.ReLU(), torch.ones(1), open_page=False, wait=True)
    assert run(["explore", "--no-open", "--port", "0", "--model", "toy"]) == 1
    assert "the network is gone" in capsys.readouterr().err


STUCK = """
import signal, sys, threading, time
import glassformer.__main__ as command
import glassformer.cli as cli
def interrupted(arguments):
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return 130
cli.run = interrupted
command.main()
"""


def test_an_interrupted_command_does_not_wait_for_its_threads() -> None:
    assert (
        subprocess.run([sys.executable, "-c", STUCK], timeout=PATIENCE, check=False).returncode
        == 130
    )


def test_a_flood_with_few_files_and_then_an_interrupt() -> None:
    """The command itself, as it was attacked: 256 files, 300 half-sent requests, Ctrl+C."""

    def limit() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "glassformer",
            "explore",
            "--no-open",
            "--model",
            "toy",
            "--port",
            "0",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=limit,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        with ExitStack() as crowd:
            for given in [HALF_HEAD] * 280 + [HALF_BODY] * 20:
                crowd.enter_context(opened(port, given))
            assert status(port) == 200
            assert status(port, "/") == 200
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    lines = said.splitlines()
    assert lines[-1] == "glassformer: interrupted" and len(lines) <= 3, said
