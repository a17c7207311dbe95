"""Many readers at once: clients that run models, click, edit and leave, for a while.

    python -m benchmarks.explorer_load --clients 50 --seconds 60
    python -m benchmarks.explorer_load --traces 2000

Starts `glassformer explore` as its users do and asks it from this process over loopback. Clients
share traces, as two tabs of one reader do, and edit them at the same time. Every answer is checked:
it must be what the library gives, asked for the same here, one question after the other. 410 (the
trace was closed to make room) and 429 (too many runs are waiting) are answers; anything else but
success is an error, and so is a connection that breaks. Memory and open files of the server are
sampled: they must not grow once the server is warm.
"""

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import torch

from glassformer.explorer.cell_cards import card_info, dependents_of, find_cell, path_of
from glassformer.explorer.model_list import Models
from glassformer.explorer.open_traces import MOST_TRACES, OpenTrace, Store
from glassformer.explorer.overview import describe
from glassformer.explorer.panels import Window, equation, thumbnail
from glassformer.explorer.schemas import Edit
from glassformer.explorer.trace_edits import OtherRuns, changes_of, edit_trace

TEXTS = {
    "toy": ["I am not happy", "you are very sad", "we are happy"],
    "imdb": ["A wonderful film, beautifully shot.", "A waste of time."],
    "en-de": ["A dog runs through the snow.", "Where is the station?"],
    "en-zh": ["I like to read books.", "Where is the station?"],
    "shakespeare": ["ROMEO:\nO, she doth", "To be, or not to"],
}
ANSWERS = {200, 201, 204, 410, 429}
CLICKS = 12
SHARED = 0.3
"""How many sessions look at a trace that another client opened."""
OWN = ("id", "parent", "root")
"""What differs between two traces of the same."""

Expected = Callable[[OpenTrace], Any]


class Library:
    """The same traces, made here and looked at by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._models = Models()
        self._opened: dict[tuple[str, str], OpenTrace] = {}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One client at a time, computing with as many threads as `glassformer explore` does.

        MKL keeps that number per thread: in a client's thread it is not that of the main thread,
        and a product divided among two threads has other last digits.
        """
        with self._lock:
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // 4))
            yield

    def run(self, model: str, text: str) -> OpenTrace:
        with self._alone():
            if (model, text) not in self._opened:
                self._opened[model, text] = self._models.run(model, text)
            return self._opened[model, text]

    def edit(self, opened: OpenTrace, edit: dict[str, Any]) -> OpenTrace:
        with self._alone():
            runs = OtherRuns(self._models, Store(), opened)
            return edit_trace(opened, [Edit(**edit)], runs)

    def says(self, opened: OpenTrace, question: Expected) -> Any:
        with self._alone():
            return _as_json(question(opened))


def _as_json(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_as_json(one) for one in answer]
    return answer.model_dump(mode="json") if hasattr(answer, "model_dump") else answer


def _description(opened: OpenTrace) -> dict[str, Any]:
    return _without_ids(describe(opened).model_dump(mode="json"))


def _without_ids(info: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in info.items() if name not in OWN}


class Twin(NamedTuple):
    """A trace as the server described it, and the same one here."""

    info: dict[str, Any]
    here: OpenTrace


@dataclass
class Tally:
    """What was answered, by all clients together."""

    statuses: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    n_right: int = 0
    """Answers that were compared with the library's and are the same."""
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

    def __init__(
        self,
        address: str,
        tally: Tally,
        seed: int,
        library: Library | None = None,
        shared: deque[Twin] | None = None,
    ) -> None:
        self._host = urlsplit(address).netloc
        self._tally = tally
        self._chance = random.Random(seed)
        self._line = http.client.HTTPConnection(self._host, timeout=120)
        self._library = library or Library()
        self._shared: deque[Twin] = deque(maxlen=8) if shared is None else shared

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def work(self, until: float) -> None:
        """Read until it is time to go."""
        with self:
            while time.monotonic() < until:
                try:
                    self._session(until)
                except Exception as error:  # whatever it is, it counts as one
                    self._tally.fail(repr(error))
                    self._line.close()

    def _session(self, until: float) -> None:
        """Run a text, click about, edit a number, click again; some close what they opened."""
        is_shared = bool(self._shared) and self._chance.random() < SHARED
        twin = self._chance.choice(list(self._shared)) if is_shared else self.open()
        if twin is None:
            time.sleep(0.2 + self._chance.random())
            return
        for _ in range(CLICKS):
            if time.monotonic() > until:
                return
            self.click(twin)
        edited = self.edit(twin)
        if edited is not None:
            self.click(edited)
        if not is_shared and self._chance.random() < 0.3:
            self.ask("DELETE", f"traces/{twin.info['id']}")

    def open(self) -> Twin | None:
        """Run a text that is chosen by chance, and let others look at it."""
        model = self._chance.choice(list(TEXTS))
        text = self._chance.choice(TEXTS[model])
        info = self.ask("POST", "traces", {"model": model, "text": text})
        twin = self._twin(info, lambda: self._library.run(model, text))
        if twin is not None:
            self._shared.append(twin)
        return twin

    def edit(self, twin: Twin) -> Twin | None:
        """Set a number; the trace it was set in stays as it was."""
        step = self._some_step(twin)
        edit = {"step": step["name"], "index": self._place(step), "value": self._chance.random()}
        info = self.ask("POST", f"traces/{twin.info['id']}/edits", {"edits": [edit]})
        edited = self._twin(info, lambda: self._library.edit(twin.here, edit))
        if edited is not None:
            self._check(edited, "changes", changes_of)
        self._check(twin, f"steps/{step['number']}/{_VALUES}", _values(step["number"], ()))
        return edited

    def click(self, twin: Twin) -> None:
        """Ask for something about some number."""
        step = self._some_step(twin)
        number, place = step["number"], tuple(self._place(step))
        lead = place[:-2]
        at, before = ",".join(map(str, place)), ",".join(map(str, lead))
        asked: list[tuple[str, Expected]] = [
            (
                f"steps/{number}/equation?lead={before}",
                lambda here: equation(describe(here), here.step(number), lead),
            ),
            (f"steps/{number}/{_VALUES}&lead={before}", _values(number, lead)),
            (
                f"cell?step={number}&index={at}",
                lambda here: card_info(here, find_cell(here, number, place, None), "en"),
            ),
            (
                f"cell/dependents?step={number}&index={at}",
                lambda here: dependents_of(find_cell(here, number, place, None)),
            ),
            (
                f"cell/path?step={number}&index={at}",
                lambda here: path_of(find_cell(here, number, place, None)),
            ),
            (
                f"thumbnails?steps={number}",
                lambda here: [thumbnail(here.step(number), describe(here).steps[number].scale)],
            ),
        ]
        self._check(twin, *self._chance.choice(asked))

    def _twin(self, info: Any, make: Callable[[], OpenTrace]) -> Twin | None:
        if info is None:
            return None
        here = make()
        self._compare("a trace", _without_ids(info), self._library.says(here, _description))
        return Twin(info, here)

    def _check(self, twin: Twin, address: str, question: Expected) -> None:
        answer = self.ask("GET", f"traces/{twin.info['id']}/{address}")
        if answer is not None:
            self._compare(address, answer, self._library.says(twin.here, question))

    def _compare(self, what: str, answer: Any, expected: Any) -> None:
        if answer != expected:
            where = _difference(answer, expected)
            self._tally.fail(f"another answer than the library's: {what}, {where}")
        else:
            self._tally.n_right += 1

    def _some_step(self, twin: Twin) -> dict[str, Any]:
        floats = [s for s in twin.info["steps"] if s["dtype"] == "float32" and 0 not in s["shape"]]
        chosen: dict[str, Any] = self._chance.choice(floats)
        return chosen

    def _place(self, step: dict[str, Any]) -> list[int]:
        return [self._chance.randrange(size) for size in step["shape"]]

    def ask(self, method: str, address: str, body: Any = None) -> Any:
        """The JSON or the bytes of a success; None for anything else."""
        began = time.perf_counter()
        head = {"Content-Type": "application/json"} if body is not None else {}
        self._line.request(
            method, f"/api/{address}", json.dumps(body) if body is not None else None, head
        )
        answer = self._line.getresponse()
        content = answer.read()
        self._tally.count(answer.status, time.perf_counter() - began, address, content)
        if answer.status >= 300 or not content:
            return None
        is_json = answer.headers.get("content-type") == "application/json"
        return json.loads(content) if is_json else content


_VALUES = "values?columns=0:64&rows=0:64"


def _values(number: int, lead: tuple[int, ...]) -> Expected:
    def values(here: OpenTrace) -> bytes:
        shown = Window(here.step(number), None, lead, "0:64", "0:64")
        return shown.numbers(shown.view).tobytes()

    return values


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


class Vitals(NamedTuple):
    """What a process holds, as Linux counts it."""

    mib: float
    files: int

    @classmethod
    def of(cls, pid: int) -> "Vitals":
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        resident = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
        return cls(resident / 1024, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))


def load(address: str, pid: int, clients: int, seconds: float) -> tuple[Tally, list[Vitals]]:
    """Let so many clients work for so long; what was answered, and what the server held."""
    tally, vitals = Tally(), []
    library, shared = Library(), deque[Twin](maxlen=8)
    until = time.monotonic() + seconds
    readers = [Client(address, tally, seed, library, shared) for seed in range(clients)]
    threads = [threading.Thread(target=reader.work, args=(until,)) for reader in readers]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        vitals.append(Vitals.of(pid))
        time.sleep(1)
    return tally, vitals


def one_by_one(address: str, pid: int, n_traces: int) -> tuple[Tally, list[Vitals]]:
    """One client that opens so many traces of changing models, and edits each."""
    tally, vitals = Tally(), []
    with Client(address, tally, 0) as reader:
        for n in range(n_traces):
            twin = reader.open()
            edited = reader.edit(twin) if twin is not None else None
            if edited is not None:
                reader.click(edited)
            if n % 10 == 0:
                vitals.append(Vitals.of(pid))
    return tally, vitals


def _difference(answer: Any, expected: Any, where: str = "") -> str:
    """Where two answers differ first, and how."""
    if isinstance(answer, dict) and isinstance(expected, dict):
        for key in sorted({*answer, *expected}):
            if answer.get(key) != expected.get(key):
                return _difference(answer.get(key), expected.get(key), f"{where}.{key}")
    if isinstance(answer, list) and isinstance(expected, list) and len(answer) == len(expected):
        for at, (one, other) in enumerate(zip(answer, expected, strict=True)):
            if one != other:
                return _difference(one, other, f"{where}[{at}]")
    return f"{where}: {answer!r:.80}, not {expected!r:.80}"


def two_tabs(address: str, n_edits: int) -> Tally:
    """Two clients that edit the same trace at the same time, each on top of its own edits."""
    tally, library = Tally(), Library()
    with Client(address, tally, 0, library) as one, Client(address, tally, 1, library) as other:
        first = one.open()
        assert first is not None

        def edit(tab: Client) -> None:
            try:
                twin: Twin | None = first
                for _ in range(n_edits):
                    twin = tab.edit(twin) if twin is not None else None
                    assert twin is not None, "an edit was refused"
                    tab.click(twin)
            except Exception as error:
                tally.fail(repr(error))

        threads = [threading.Thread(target=edit, args=(tab,)) for tab in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        one.click(first)  # which neither has changed
    return tally


def growth(numbers: list[float]) -> float:
    """By how much the mean of the last quarter exceeds that of the quarter before it."""
    quarter = max(1, len(numbers) // 4)
    last, before = numbers[-quarter:], numbers[-2 * quarter : -quarter] or numbers[:1]
    return sum(last) / len(last) - sum(before) / len(before)


MOST_GROWTH_MIB, MOST_GROWTH_FILES = 32.0, 2.0
MOST_MIB = 2_600.0
"""The store's 1.5 GiB, the models, Python and torch."""


def is_flat(vitals: list[Vitals], n_traces: int) -> bool:
    """Whether nothing grew; memory may until the store has been full for a while."""
    memory, files = [one.mib for one in vitals], [float(one.files) for one in vitals]
    is_full = n_traces >= 4 * MOST_TRACES
    return (
        max(memory) <= MOST_MIB
        and growth(files) <= MOST_GROWTH_FILES
        and (not is_full or growth(memory) <= MOST_GROWTH_MIB)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--traces", type=int, help="one client, so many traces, one by one")
    given = parser.parse_args()
    with explorer() as (address, pid):
        with Client(address, Tally(), 0) as first:
            first.ask("GET", "models")
        tabs = two_tabs(address, 5)
        if given.traces:
            tally, vitals = one_by_one(address, pid, given.traces)
            print(f"{given.traces} traces, one by one, each edited:")
        else:
            tally, vitals = load(address, pid, given.clients, given.seconds)
            print(f"{given.clients} clients, {given.seconds:.0f} s:")
    total = sum(tally.statuses.values())
    times = sorted(tally.seconds)
    by_status = ", ".join(f"{count} × {status}" for status, count in sorted(tally.statuses.items()))
    errors = tabs.errors + tally.errors
    print(f"  {total} answers ({by_status}); {tally.n_right} compared and right")
    print(f"  two tabs that edit one trace: {tabs.n_right} compared and right")
    print(f"  errors: {len(errors)}")
    for error in errors[:10]:
        print(f"    {error}")
    print(f"  seconds: median {times[total // 2]:.3f}, 95 % {times[int(total * 0.95)]:.3f}")
    memory = [one.mib for one in vitals]
    files = [float(one.files) for one in vitals]
    print(
        f"  memory: {memory[0]:.0f} MiB at first, at most {max(memory):.0f}; "
        f"last quarter beside the third {growth(memory):+.1f} MiB"
    )
    samples = [f"{memory[len(memory) * n // 10]:.0f}" for n in range(10)]
    print(f"  memory in ten equal steps of time: {' '.join(samples)} MiB")
    print(
        f"  open files: {files[0]:.0f} at first, at most {max(files):.0f}; "
        f"last quarter beside the third {growth(files):+.1f}"
    )
    n_traces = tally.statuses[201]
    flat = is_flat(vitals, n_traces)
    told = "" if n_traces >= 4 * MOST_TRACES else f" ({n_traces} traces: the store still fills)"
    print(f"verdict: {'right and flat' if flat and not errors else 'failed'}{told}")
    sys.exit(bool(errors) or not flat)


if __name__ == "__main__":
    main()
