"""The trace beside torchlens and beside a plain forward pass: time and memory, ratios last.

    pip install torchlens            # needed here and nowhere else
    python benchmarks/trace.py [--threads N] [--repetitions 9] [--firsts 5] [--model gpt2 | hf-gpt2]

A GPT-2 of the small size (124 million parameters, random weights) reads 128 tokens. Each side
captures every operator with its values, names and source lines. torchlens leaves torch's functions
wrapped, which would slow the other sides down, so each side has a process of its own; they take
turns, run by run, so that a busy moment hits all of them. Before each run the capture of the run
before is freed, on every side. Times are medians with the fastest and the slowest run in brackets:
seconds on the clock, and processor time of all threads, which other work on the machine disturbs
less. Threads are as many as torch takes by itself, which is what a user has; more of them make the
plain pass faster and leave the overhead of a capture as it is: `--threads 1` shows the other case.
Memory is what the process holds more with a capture than without (imports of the side included).

These are repeated captures: memory, caches and the sources of the model's lines are warm. A first
capture is timed by itself, as the first thing that a fresh process does with the model it has made
(imports are not counted, on no side): a process for each run of each side, again in turns. What is
timed is the call alone; ours includes listing every step's name.
"""

import argparse
import gc
import random
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

TOKENS = 128
SIDES = ("plain", "ours", "torchlens")


def make_model(name: str) -> nn.Module:
    """GPT-2 small: ours with written attention, or Hugging Face's."""
    torch.manual_seed(0)
    if name == "hf-gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        model: nn.Module = GPT2LMHeadModel(GPT2Config(use_cache=False)).eval()
        return model
    from glassformer.nn import build, presets

    return build(presets.gpt2(), attention="written").eval()


def make_side(side: str, model: nn.Module, ids: Tensor) -> Callable[[], Any]:
    """One capture; its result holds everything captured."""
    if side == "plain":

        def plain() -> Any:
            with torch.no_grad():
                return model(ids)

        return plain
    if side == "ours":
        from glassformer.tracing import trace

        def ours() -> Any:
            captured = trace(model, ids)
            return captured, captured.names

        return ours
    import torchlens

    warnings.filterwarnings("ignore", module="contextlib")  # it warns of item() in each run

    def theirs() -> Any:
        with torch.no_grad():
            return torchlens.trace(model, ids)

    return theirs


def resident_bytes() -> int:
    """The memory that the process holds now (Linux)."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize()


def make_ids() -> Tensor:
    """The same 128 tokens on every side."""
    return torch.randint(0, 50_257, (1, TOKENS), generator=torch.Generator().manual_seed(0))


def timed(capture: Callable[[], Any]) -> tuple[Any, str]:
    """What was captured, and the seconds on the clock and of the processor, to be read back."""
    began, worked = time.perf_counter(), time.process_time()
    captured = capture()
    return captured, f"{time.perf_counter() - began} {time.process_time() - worked}"


def serve_first(side: str, name: str) -> None:
    """A fresh process: its first capture, and nothing before it but imports and the weights."""
    _, seconds = timed(make_side(side, make_model(name), make_ids()))
    print(seconds, flush=True)


def serve(side: str, name: str) -> None:
    """A side's own process: for each line that comes in, run once and answer with the seconds."""
    model, ids = make_model(name), make_ids()
    with torch.no_grad():
        model(ids)
    before = resident_bytes()
    capture = make_side(side, model, ids)
    captured = [capture()]
    print(resident_bytes() - before, flush=True)
    for _ in sys.stdin:
        captured.clear()
        gc.collect()
        made, seconds = timed(capture)
        captured.append(made)
        print(seconds, flush=True)


def command(role: str, side: str, name: str, threads: int) -> list[str]:
    """This script as a side's own process."""
    given = [role, side, "--model", name, "--threads", str(threads)]
    return [sys.executable, __file__, *given]


class Side:
    """The process of one side, seen from outside."""

    def __init__(self, side: str, name: str, threads: int) -> None:
        self._process = subprocess.Popen(
            command("--serve", side, name, threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._side = side
        self.bytes = int(self._answer())
        self.seconds: list[float] = []
        self.processor_seconds: list[float] = []

    def run(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        seconds, worked = map(float, self._answer().split())
        self.seconds.append(seconds)
        self.processor_seconds.append(worked)

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._side} failed")
        return answer


def measure(name: str, threads: int, repetitions: int) -> dict[str, Side]:
    """Every side's runs, the sides taking turns; they start one after the other."""
    sides = {side: Side(side, name, threads) for side in SIDES}
    for _ in range(repetitions):
        for side in sides.values():
            side.run()
    for side in sides.values():
        side.close()
    return sides


def spread(seconds: list[float]) -> str:
    """Median, fastest and slowest in milliseconds."""
    low, middle, high = (1e3 * f(seconds) for f in (min, median, max))
    return f"{middle:9.1f} ms ({low:.1f} to {high:.1f})"


def ratio(above: list[float], below: list[float]) -> str:
    """The median of the ratios of runs made in the same turn, and their range."""
    ratios = sorted(a / b for a, b in zip(above, below, strict=True))
    return f"{median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def compare_captures(name: str, threads: int, repetitions: int) -> None:
    sides = measure(name, threads, repetitions)
    plain, ours, theirs = (sides[side] for side in SIDES)
    print(f"\n{name}, {TOKENS} tokens")
    for side, made in sides.items():
        clock, processor = spread(made.seconds), spread(made.processor_seconds)
        print(f"  {side:<11}{clock}   processor {processor}   {made.bytes / 2**20:5.0f} MiB")
    print(f"  memory, torchlens / ours     {theirs.bytes / max(1, ours.bytes):5.2f}")
    beyond = [median(s.processor_seconds) - median(plain.processor_seconds) for s in (theirs, ours)]
    print(f"  overhead, torchlens / ours   {beyond[0] / beyond[1]:5.2f}   (beyond the plain pass)")
    for what, above, below, goal in (
        ("torchlens / ours", theirs, ours, "at least 5"),
        ("ours / plain", ours, plain, "below 1.6"),
    ):
        clock = ratio(above.seconds, below.seconds)
        processor = ratio(above.processor_seconds, below.processor_seconds)
        print(f"  {what:<18}{clock}   processor {processor}   goal {goal}")


def compare_firsts(name: str, threads: int, repetitions: int) -> None:
    """The first capture of a fresh process, side by side."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    worked: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(repetitions):
        for side in SIDES:
            done = subprocess.run(
                command("--serve-first", side, name, threads),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            clock, processor = map(float, done.stdout.split())
            seconds[side].append(clock)
            worked[side].append(processor)
    print(
        f"\n{name}, {TOKENS} tokens, the first capture of a process, {repetitions} processes each"
    )
    for side in SIDES:
        print(f"  {side:<11}{spread(seconds[side])}   processor {spread(worked[side])}")
    for above, below in (("torchlens", "ours"), ("ours", "plain")):
        by_clock, by_processor = (ratio(s[above], s[below]) for s in (seconds, worked))
        print(f"  {f'{above} / {below}':<18}{by_clock}   processor {by_processor}")


def explain_cells(repetitions: int) -> None:
    """One cell's arithmetic as text, for cells all over a GPT-2 of the small size."""
    from glassformer.tracing import trace

    traced = trace(make_model("gpt2"), torch.arange(TOKENS)[None])
    chance = random.Random(0)
    steps = [step for step in traced.steps if step.rule is not None and step.view.numel]
    taken: dict[str, list[float]] = {}
    for _ in range(repetitions):
        for step in steps:
            cell = step[tuple(chance.randrange(size) for size in step.shape)]
            began = time.perf_counter()
            cell.explain()
            taken.setdefault(step.op, []).append(time.perf_counter() - began)
    everything = [seconds for values in taken.values() for seconds in values]
    slowest = max(taken, key=lambda op: median(taken[op]))
    print(f"\nexplain one cell   {spread(everything)}   goal below 5 ms")
    print(f"  slowest operator: {slowest}, {spread(taken[slowest])}")
    whole = trace(lambda logits: logits.softmax(-1), torch.randn(1, 50_257)).outputs["output"]
    for what in ("explain", "to_dict"):
        taken_whole = []
        for place in range(repetitions):
            ask = getattr(whole[0, place], what)
            began = time.perf_counter()
            ask()
            taken_whole.append(time.perf_counter() - began)
        print(f"  {what} of a softmax over 50,257: {spread(taken_whole)}")


def edit_base_model(repetitions: int) -> None:
    """`edit` on the base encoder-decoder, 20 source and 20 target tokens."""
    from glassformer.nn import build, presets
    from glassformer.tracing import trace

    torch.manual_seed(0)
    model = build(presets.vaswani_2017_base(), attention="written").eval()
    source, target = torch.arange(1, 21)[None], torch.arange(21, 41)[None]
    traced = trace(model, source, target)
    print("\nedit, base encoder-decoder, 20 + 20 tokens   goal below 500 ms")
    for where, index in (
        ("encoder.blocks.0.attention.to_queries.weight", (3, 5)),
        ("decoder.blocks.5.attention.weights", (0, 2, 7, 3)),
        ("source", (0, 4)),
    ):
        taken = []
        for repetition in range(repetitions + 1):
            began = time.perf_counter()
            traced.edit({(where, index): repetition})
            taken.append(time.perf_counter() - began)
        print(f"  {where:<46}{spread(taken[1:])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--model", action="append", choices=["gpt2", "hf-gpt2"])
    parser.add_argument("--firsts", type=int, default=5, help="fresh processes for each side")
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--serve-first", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.serve:
        serve(options.serve, options.model[0])
        return
    if options.serve_first:
        serve_first(options.serve_first, options.model[0])
        return
    versions = f"torch {torch.__version__}, torchlens {version('torchlens')}"
    print(f"{versions}, {options.threads} threads, {options.repetitions} repetitions")
    for name in options.model or ["gpt2", "hf-gpt2"]:
        compare_captures(name, options.threads, options.repetitions)
        if options.firsts:
            compare_firsts(name, options.threads, options.firsts)
    explain_cells(options.repetitions)
    edit_base_model(options.repetitions)


if __name__ == "__main__":
    main()
