"""This tree beside an earlier one: the same small tasks, by turns, in processes of their own.

    git worktree add ../before v0.1.0
    python -m benchmarks.beside ../before [--rounds 5] [--only capture click] [--cpu]

Prints the median of each task in both trees, the ratio (above 1: this tree is slower), and that of
the fastest rounds. A task does its work several times in one process and reports the fastest,
since other work on the machine only ever adds time. `--cpu` counts processor time instead, which
other work disturbs less: for a machine that is not idle.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import gettempdir

ROOT = Path(__file__).parent.parent

PRELUDE = """
import json, os, sys, time
import torch
clock = time.process_time if os.environ["CLOCK"] == "cpu" else time.perf_counter
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

def fastest(work, times):
    seconds = []
    for _ in range(times):
        began = clock()
        work()
        seconds.append(clock() - began)
    print(json.dumps(min(seconds)))

def recorder():
    try:
        from glassformer.tracing import trace
    except ImportError:  # the first edition
        from glassformer.trace import trace
    return trace

def gpt(n_layers, width):
    from glassformer.nn import build, presets
    torch.manual_seed(0)
    sizes = dict(vocab_size=500, d_model=width, n_heads=4, n_layers=n_layers, max_len=64)
    return build(presets.gpt2(**sizes)).eval(), torch.arange(32)[None]

def page():
    from starlette.testclient import TestClient
    from glassformer.explorer.api import create_api
    from glassformer.explorer.state import State
    return TestClient(create_api(State()), base_url="http://localhost")

def translation(client):
    made = client.post("/api/traces", json={"model": "en-de", "text": "A man is riding a bicycle."})
    return made.json()
"""

TASKS = {
    "capture, GPT of 4 layers": """
trace, (model, ids) = recorder(), gpt(4, 128)
fastest(lambda: trace(model, ids), 9)
""",
    "explain a score": """
trace, (model, ids) = recorder(), gpt(1, 64)
t = trace(model, ids)
step = next(s for s in t.steps if s.name.endswith("scores"))
fastest(lambda: [t[step.name][0, 1, 5, k].explain() for k in range(5)], 9)
""",
    "verify 500 cells": """
trace, (model, ids) = recorder(), gpt(2, 64)
t = trace(model, ids)
fastest(lambda: t.verify(sample=500), 5)
""",
    "page: trace a translation": """
client = page()
translation(client)
fastest(lambda: translation(client), 5)
""",
    "page: click to card": """
client = page()
made = translation(client)
step = next(i for i, s in enumerate(made["steps"]) if s["name"].endswith("attention.scores"))
place = f"/api/traces/{made['id']}/cell?step={step}&index=0,0,1,"
fastest(lambda: [client.get(place + str(k)).raise_for_status() for k in range(4)], 15)
""",
    "page: edit a translation": """
client = page()
made = translation(client)
step = next(s["name"] for s in made["steps"] if s["name"].endswith("attention.scores"))
edit = {"edits": [{"step": step, "index": [0, 0, 1, 2], "value": 0.5}]}
place = f"/api/traces/{made['id']}/edits"
fastest(lambda: client.post(place, json=edit).raise_for_status(), 7)
""",
    "translate 64 sentences": """
import glassformer
model = glassformer.load("en-de")
texts = [f"A {a} {b} is running through the {c}." for a in ("big", "small", "red", "old")
         for b in ("dog", "man", "child", "woman") for c in ("park", "street", "snow", "city")]
model.translate(texts[:4])
fastest(lambda: model.translate(texts), 3)
""",
    "classify 64 reviews": """
import glassformer
model = glassformer.load("imdb")
texts = ["This film was long, and yet I enjoyed every minute of it. " * k for k in range(1, 65)]
model.classify(texts[:4])
fastest(lambda: model.classify(texts), 3)
""",
    "continue a text": """
import glassformer
model = glassformer.load("shakespeare")
model.generate("ROMEO:", max_new=20)
fastest(lambda: model.generate("ROMEO:", max_new=200), 3)
""",
    "train 30 steps": """
import contextlib, io, tempfile
from pathlib import Path
from glassformer.training.command import main
def work():
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "words.txt"
        text.write_text("the cat sat on the mat and looked at the moon\\n" * 400)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main(["text", "--text", str(text), "--out", f"{folder}/run",
                         "--loop.steps", "30", "--loop.device", "cpu"])
    assert not code, code
fastest(work, 2)
""",
    "start: --help": "",
    "start: models": "",
    "start: run toy": "",
}
COMMANDS = {
    "start: --help": ["--help"],
    "start: models": ["models"],
    "start: run toy": ["run", "toy", "I am not happy"],
}


def measure(tree: Path, task: str, clock: str) -> float:
    """Seconds that a task takes in a tree."""
    threads = "1" if clock == "cpu" else "2"  # threads that wait for each other count as work
    environment = os.environ | {
        "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": threads, "CLOCK": clock,
        "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": gettempdir() + "/beside-bytecode",
    }  # fmt: skip  # users do not compile the source at every start
    if task in COMMANDS:
        program = f"""
import json, os, resource, subprocess, sys, time
def clock():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)  # os.times() counts hundredths of a second
    cpu = spent.ru_utime + spent.ru_stime
    return cpu if os.environ["CLOCK"] == "cpu" else time.perf_counter()
seconds = []
for _ in range(5):
    began = clock()
    subprocess.run([sys.executable, "-m", "glassformer", *{COMMANDS[task]!r}],
                   check=True, capture_output=True)
    seconds.append(clock() - began)
print(json.dumps(min(seconds)))
"""
    else:
        program = PRELUDE + TASKS[task]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment, cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{task} failed in {tree}:\n{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="the checkout of an earlier commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="count processor time")
    parser.add_argument("--only", nargs="+", default=[""], help="tasks whose names contain these")
    options = parser.parse_args()
    chosen = [task for task in TASKS if any(part in task for part in options.only)]
    clock = "cpu" if options.cpu else "wall"
    print(f"{'':28}{'before':>10}{'now':>10}   now / before, and of the fastest")
    for task in chosen:
        pairs = [
            (measure(options.before.resolve(), task, clock), measure(ROOT, task, clock))
            for _ in range(options.rounds)
        ]
        before, now = (median(side) for side in zip(*pairs, strict=True))
        ratios = sorted(after / first for first, after in pairs)
        fastest = min(after for _, after in pairs) / min(first for first, _ in pairs)
        print(
            f"{task:28}{1000 * before:>7.1f} ms{1000 * now:>7.1f} ms   {median(ratios):.2f}"
            f" ({ratios[0]:.2f} to {ratios[-1]:.2f}), {fastest:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
