"""How quick the explorer is: start, card, edit, description, on a model of the paper's base size;
and on the shipped translator: an edit, and answers per second while a number is moved.

    python -m benchmarks.explorer

The model is the encoder-decoder of 2017 with random parameters (63 million) over 20 + 20 tokens,
opened through `glassformer.explore` in a process of its own and asked over loopback.
`explorer_load.py` asks with many clients at once.
"""

import gzip
import http.client
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from benchmarks.explorer_load import explorer

CARDS, EDITS, STARTS, SLIDES = 300, 10, 5, 40
BASE = """
import torch, glassformer
from glassformer import build, presets
torch.manual_seed(0)
torch.set_num_threads({threads})
model = build(presets.vaswani_2017_base(vocab_size=37000), attention="written").eval()
source, target = torch.randint(3, 37000, (2, 1, 20))
labels = {{"source": [f"s{{n}}" for n in range(20)], "target": [f"t{{n}}" for n in range(20)]}}
glassformer.explore(model, source, target, axis_labels=labels, open_page=False)
"""


class Line:
    """A connection that is kept, as a browser keeps it."""

    def __init__(self, address: str) -> None:
        self._line = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)

    def ask(self, method: str, address: str, body: Any = None) -> tuple[float, bytes]:
        """Seconds to the whole answer, and the answer."""
        head = {"Accept-Encoding": "gzip"} if body is None else {"Content-Type": "application/json"}
        began = time.perf_counter()
        self._line.request(method, f"/api/{address}", json.dumps(body) if body else None, head)
        answer = self._line.getresponse()
        content = answer.read()
        assert answer.status < 300, f"{answer.status} {address}: {content[:200]!r}"
        return time.perf_counter() - began, content


def base_model(threads: int = 1) -> AbstractContextManager[str]:
    """The address of the page on the base-size model."""
    return explored(BASE.format(threads=threads))


@contextmanager
def explored(code: str) -> Iterator[str]:
    """The address of the page that a script opens."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def start_up() -> None:
    pages, answers = [], []
    for _ in range(STARTS):
        began = time.perf_counter()
        with explorer() as (address, _pid):
            line = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
            line.request("GET", "/")
            assert line.getresponse().read()
            pages.append(time.perf_counter() - began)
            Line(address).ask("GET", "models")
            answers.append(time.perf_counter() - began)
    print(f"start to first page   {median(pages):7.2f} s   (median of {STARTS})")
    print(f"start to first answer {median(answers):7.2f} s   (torch is loaded)")


def cards(line: Line, trace: dict[str, Any]) -> None:
    """A click: the card of a cell, and the equation of its step beside it."""
    chance = random.Random(0)
    steps = [s for s in trace["steps"] if s["role"] == "activation" and 0 not in s["shape"]]
    times, sizes = [], []
    for _ in range(CARDS):
        step = chance.choice(steps)
        index = ",".join(str(chance.randrange(size)) for size in step["shape"])
        query = f"step={step['number']}&index={index}"
        seconds, content = line.ask("GET", f"traces/{trace['id']}/cell?{query}")
        times.append(seconds)
        sizes.append(len(content))
    times.sort()
    print(f"click to card         {median(times) * 1e3:7.1f} ms  (median of {CARDS})")
    print(f"                      {times[int(CARDS * 0.95)] * 1e3:7.1f} ms  (95th percentile)")
    print(f"                      {max(sizes) / 1e3:7.0f} kB  (the largest)")


def edits(line: Line, trace: dict[str, Any]) -> None:
    """An edit, until the page has the recomputed trace and its answer."""
    steps = [s for s in trace["steps"] if s["short"] in ("weights", "scores") and not s["is_view"]]
    times = []
    for number in range(EDITS):
        step = steps[number % len(steps)]
        edit = {"step": step["name"], "index": [0, 1, 2, 1], "value": 0.5}
        times.append(line.ask("POST", f"traces/{trace['id']}/edits", {"edits": [edit]})[0])
    print(f"edit to recomputed    {median(times) * 1e3:7.0f} ms  (median of {EDITS})")
    print(f"                      {max(times) * 1e3:7.0f} ms  (the slowest)")


def translator() -> None:
    """A slider on the English-German model: the answer alone, again as soon as it is there."""
    with explorer() as (address, _pid):
        line = Line(address)
        asked = {"model": "en-de", "text": "A dog runs through the snow."}
        trace = json.loads(line.ask("POST", "traces", asked)[1])
        steps = [s for s in trace["steps"] if s["short"] == "scores" and not s["is_view"]]

        def edit(step: dict[str, Any], value: float) -> dict[str, Any]:
            return {"edits": [{"step": step["name"], "index": [0, 1, 2, 1], "value": value}]}

        slid = []
        for step in (steps[0], steps[-1]):
            ask = f"traces/{trace['id']}/experiments/answer"
            times = [line.ask("POST", ask, edit(step, at / 10))[0] for at in range(SLIDES)]
            slid.append(median(times))
        times = [
            line.ask("POST", f"traces/{trace['id']}/edits", edit(steps[at % len(steps)], 0.5))[0]
            for at in range(EDITS)
        ]
    print(f"slider on en-de       {1 / slid[0]:7.1f} answers/s  (median of {SLIDES}, first layer)")
    print(f"                      {1 / slid[1]:7.1f} answers/s  (last layer)")
    print(f"edit on en-de         {median(times) * 1e3:7.0f} ms  (median of {EDITS})")


def main() -> None:
    start_up()
    translator()
    with base_model() as address:
        line = Line(address)
        id_ = address.rpartition("/")[2]
        line.ask("GET", "models")  # from here on the API is loaded: `start_up` times that
        first, packed = line.ask("GET", f"traces/{id_}")
        again, _ = line.ask("GET", f"traces/{id_}")
        trace = json.loads(gzip.decompress(packed))
        print(
            f"description           {first * 1e3:7.0f} ms  the first time, {again * 1e3:.1f} ms "
            f"again ({len(trace['steps'])} steps, {len(packed) / 1e3:.0f} kB compressed)"
        )
        cards(line, trace)
        edits(line, trace)


if __name__ == "__main__":
    main()
