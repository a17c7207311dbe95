"""Clients that only begin a request, and how long Ctrl-C takes whatever they do.

    python -m benchmarks.explorer_slow_clients

Sends half requests to `glassformer explore` and looks when they are gone, once with a limit of 256
open files; then interrupts the server while it is idle, while clients wait or send nothing more,
while it computes, and with many traces open.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

from benchmarks.explorer_load import TEXTS
from glassformer.explorer.connections import HEAD_S

HALF_HEAD = b"GET /api/models HTTP/1.1\r\nHost: localhost\r\nX-Some"
MOST_S = 0.5
"""How long Ctrl-C may take."""
START_S = 600.0
"""How long the start may take, which is not measured: a busy machine needs more than a minute."""


class Server:
    """`glassformer explore` in a process of its own."""

    def __init__(self, files: int | None = None) -> None:
        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        self.process = subprocess.Popen(
            [sys.executable, "-m", "glassformer", "explore", "--no-open", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            preexec_fn=prepare,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.port = urlsplit(self.address).port or 0
        try:
            self.get("api/models", START_S)
        except BaseException:
            self.process.kill()
            raise

    def get(self, path: str, most_s: float = 60.0) -> bytes:
        with urllib.request.urlopen(self.address + path, timeout=most_s) as answer:
            found: bytes = answer.read()
            return found

    def run(self, model: str, text: str) -> None:
        body = json.dumps({"model": model, "text": text}).encode()
        head = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{self.address}api/traces", body, head)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            answer.read()

    def line(self, given: bytes) -> socket.socket:
        line = socket.create_connection(("127.0.0.1", self.port), 60)
        line.sendall(given)
        return line

    def end(self, number: int = signal.SIGINT) -> tuple[float, str]:
        """Seconds from the signal to the end, and what was written to stderr in all."""
        began = time.perf_counter()
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=120)
        return time.perf_counter() - began, said


@contextmanager
def half_requests(server: Server, n: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(server.line(HALF_HEAD)) for _ in range(n)]


def is_alive(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        while found := line.recv(4096):
            del found
    except BlockingIOError:
        return True
    except ConnectionResetError:
        pass
    return False


def flood(n: int, files: int | None) -> bool:
    server = Server(files)
    try:
        with half_requests(server, n) as lines:
            began = time.perf_counter()
            server.get("api/models")
            seconds = time.perf_counter() - began
            alive = sum(map(is_alive, lines))
            time.sleep(HEAD_S + 2)
            later = sum(map(is_alive, lines))
        _, said = server.end()
    finally:
        server.process.kill()
    limit = "no limit of files" if files is None else f"{files} files"
    lines_said = len(said.splitlines()) - 1  # the last one says that it was interrupted
    print(
        f"{n} half requests, {limit}: {alive} open at once, {later} after {HEAD_S + 2:.0f} s; "
        f"another client was answered in {seconds:.2f} s; {lines_said} lines in the log"
    )
    return later == 0 and lines_said <= 3


def _request(model: str, text: str) -> bytes:
    body = json.dumps({"model": model, "text": text}).encode()
    head = "POST /api/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def interrupt(name: str, given: list[bytes], n_traces: int = 0) -> bool:
    times, quiet = [], True
    for number in (signal.SIGINT, signal.SIGTERM):
        server = Server()
        try:
            models = [(model, text) for model, texts in TEXTS.items() for text in texts]
            for n in range(n_traces):
                server.run(*models[n % len(models)])
            with ExitStack() as stack:
                for bytes_ in given:
                    stack.enter_context(server.line(bytes_))
                time.sleep(0.3)
                seconds, said = server.end(number)
        finally:
            server.process.kill()
        times.append(seconds)
        quiet = quiet and "Traceback" not in said
    told = "" if quiet else ", WITH A TRACEBACK"
    print(f"{name}: Ctrl-C {times[0]:.2f} s, SIGTERM {times[1]:.2f} s{told}", flush=True)
    return quiet and max(times) <= MOST_S


def main() -> None:
    long_text = "To be, or not to be, that is the question. " * 4
    whole = b"GET /api/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    half_body = _request("toy", "I am not happy")[:-10]
    cases: list[Callable[[], bool]] = [
        lambda: flood(600, None),
        lambda: flood(300, 256),
        lambda: interrupt("idle", []),
        lambda: interrupt("kept connections", [whole] * 6),
        lambda: interrupt("a half-sent head", [HALF_HEAD]),
        lambda: interrupt("a half-sent body", [half_body]),
        lambda: interrupt("computing, more waiting", [_request("shakespeare", long_text)] * 8),
        lambda: interrupt("after 100 traces", [], 100),
    ]
    is_good = [case() for case in cases]
    print("verdict:", "as promised" if all(is_good) else "failed")
    sys.exit(not all(is_good))


if __name__ == "__main__":
    main()
