"""Many readers at once: clients that run models, click, edit and leave, for a while.

    python -m benchmarks.explorer_load --clients 50 --seconds 60

Starts `glassformer explore` as its users do and asks it from this process over loopback. Every
answer is counted. 410 (the trace was closed to make room) and 429 (too many runs are waiting) are
answers; anything else but success is an error, and so is a connection that breaks.
"""

import argparse
import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

TEXTS = {
    "toy": ["I am not happy", "you are very sad", "we are happy"],
    "imdb": ["A wonderful film, beautifully shot.", "A waste of time."],
    "en-de": ["A dog runs through the snow.", "Where is the station?"],
    "en-zh": ["I like to read books.", "Where is the station?"],
    "shakespeare": ["ROMEO:\nO, she doth", "To be, or not to"],
}
ANSWERS = {200, 201, 204, 410, 429}
CLICKS = 12


@dataclass
class Tally:
    """What was answered, by all clients together."""

    statuses: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, status: int, seconds: float, address: str, body: bytes) -> None:
        with self._lock:
            self.statuses[status] += 1
            self.seconds.append(seconds)
            if status not in ANSWERS:
                self.errors.append(f"{status} {address}: {body[:200].decode(errors='replace')}")

    def fail(self, problem: str) -> None:
        with self._lock:
            self.errors.append(problem)


class Client:
    """One reader with one connection, which the end of a `with` block closes."""

    def __init__(self, address: str, tally: Tally, seed: int) -> None:
        self._host = urlsplit(address).netloc
        self._tally = tally
        self._chance = random.Random(seed)
        self._line = http.client.HTTPConnection(self._host, timeout=120)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def work(self, until: float) -> None:
        """Read until it is time to go."""
        with self:
            self._work(until)

    def _work(self, until: float) -> None:
        while time.monotonic() < until:
            try:
                self._session(until)
            except Exception as error:  # whatever it is, it counts as one
                self._tally.fail(repr(error))
                self._line.close()

    def _session(self, until: float) -> None:
        """Run a text, click about, edit a number, click again; some close what they opened."""
        model = self._chance.choice(list(TEXTS))
        asked = {"model": model, "text": self._chance.choice(TEXTS[model])}
        trace = self.ask("POST", "traces", asked)
        if trace is None:
            time.sleep(0.2 + self._chance.random())
            return
        for _ in range(CLICKS):
            if time.monotonic() > until:
                return
            self._click(trace)
        step = self._some_step(trace)
        edit = {"step": step["name"], "index": self._place(step), "value": self._chance.random()}
        edited = self.ask("POST", f"traces/{trace['id']}/edits", {"edits": [edit]})
        if edited is not None:
            self._click(edited)
            self.ask("GET", f"traces/{edited['id']}/changes")
        if self._chance.random() < 0.3:
            self.ask("DELETE", f"traces/{trace['id']}")

    def _click(self, trace: dict[str, Any]) -> None:
        step = self._some_step(trace)
        at = ",".join(map(str, self._place(step)))
        lead = ",".join(map(str, self._place(step)[:-2]))
        base, number = f"traces/{trace['id']}", step["number"]
        address = self._chance.choice(
            [
                f"{base}/steps/{number}/equation?lead={lead}",
                f"{base}/steps/{number}/values?lead={lead}&columns=0:64&rows=0:64",
                f"{base}/cell?step={number}&index={at}",
                f"{base}/cell?step={number}&index={at}",
                f"{base}/cell/dependents?step={number}&index={at}",
                f"{base}/cell/path?step={number}&index={at}",
                f"{base}/thumbnails?steps={number}",
            ]
        )
        self.ask("GET", address)

    def _some_step(self, trace: dict[str, Any]) -> dict[str, Any]:
        floats = [s for s in trace["steps"] if s["dtype"] == "float32" and 0 not in s["shape"]]
        chosen: dict[str, Any] = self._chance.choice(floats)
        return chosen

    def _place(self, step: dict[str, Any]) -> list[int]:
        chance = random.Random(step["number"])
        return [chance.randrange(size) for size in step["shape"]]

    def ask(self, method: str, address: str, body: Any = None) -> Any:
        """The JSON of a success; None for anything else."""
        began = time.perf_counter()
        head = {"Content-Type": "application/json"} if body is not None else {}
        self._line.request(
            method, f"/api/{address}", json.dumps(body) if body is not None else None, head
        )
        answer = self._line.getresponse()
        content = answer.read()
        self._tally.count(answer.status, time.perf_counter() - began, address, content)
        told = answer.status < 300 and answer.headers.get("content-type") == "application/json"
        return json.loads(content) if told and content else None


@contextmanager
def explorer(*arguments: str) -> Iterator[tuple[str, int]]:
    """`glassformer explore` in a process of its own: its address and process id."""
    process = subprocess.Popen(
        [sys.executable, "-m", "glassformer", "explore", "--no-open", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def resident_mib(pid: int) -> float:
    """The memory that a process holds, as Linux counts it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def load(address: str, pid: int, clients: int, seconds: float) -> tuple[Tally, list[float]]:
    """Let so many clients work for so long; what was answered, and the server's memory by time."""
    tally, memory = Tally(), []
    until = time.monotonic() + seconds
    readers = [Client(address, tally, seed) for seed in range(clients)]
    threads = [threading.Thread(target=reader.work, args=(until,)) for reader in readers]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        memory.append(resident_mib(pid))
        time.sleep(1)
    return tally, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    with explorer() as (address, pid):
        with Client(address, Tally(), 0) as first:
            first.ask("GET", "models")
        tally, memory = load(address, pid, given.clients, given.seconds)
    total = sum(tally.statuses.values())
    times = sorted(tally.seconds)
    by_status = ", ".join(f"{count} × {status}" for status, count in sorted(tally.statuses.items()))
    print(f"{given.clients} clients, {given.seconds:.0f} s: {total} answers ({by_status})")
    print(f"errors: {len(tally.errors)}")
    for error in tally.errors[:10]:
        print(f"  {error}")
    print(f"seconds: median {times[total // 2]:.3f}, 95 % {times[int(total * 0.95)]:.3f}")
    third = max(1, len(memory) // 3)
    print(
        f"memory: {memory[0]:.0f} MiB at first, at most {max(memory):.0f}, "
        f"largest of the last third {max(memory[-third:]):.0f}"
    )
    sys.exit(bool(tally.errors))


if __name__ == "__main__":
    main()
