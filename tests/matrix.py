"""The tests under other processors, threads, hash seeds and orders: all should pass in all.

    python -m tests.matrix [--row 1 ...] [--at-once 2] [--sensitive] [PYTEST ARGUMENT ...]
    python -m tests.matrix --row 4 --row 9 --numprocesses 2 tests/nn tests/test_weights.py

What torch, MKL and oneDNN compute on an older processor can be had on a newer one by the
environment: each has a variable that says which instructions it may use. Nine rows hold every pair
of values of any two of the four columns (an orthogonal array), where all combinations would be 81.
Every row has its own order of the tests and a random hash seed. Prints a table; fails if a test
did. `--sensitive` runs only the tests whose numbers are in float32, as `make test` does for row 1,
the plainest processor.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEWEST = ""
"""No limit: the vectors of this processor."""
SENSITIVE = (
    "tests/nn/test_attention.py",
    "tests/nn/test_models.py",
    "tests/claims/test_properties_order.py",
    "tests/claims/test_properties_scaling.py",
    "tests/nn/test_traps.py",
    "tests/nn/test_worked_examples.py",
    "tests/decoding/test_sampling.py",
    "tests/decoding/test_ledger.py",
    "tests/lessons/test_figures.py",
    "tests/lessons/test_notebooks.py",
    "tests/lessons/test_lessons.py",
    "tests/training/test_ema.py",
    "tests/training/test_loss.py",
    "tests/training/test_muon.py",
    "tests/nn/test_baselines.py",
    "tests/tracing/test_our_models.py",
    "tests/tracing/test_training_step.py",
    "tests/test_weights.py",
)


@dataclass(frozen=True)
class Row:
    """One machine to imitate; `aten` are torch's own kernels."""

    aten: str
    mkl: str
    onednn: str
    threads: int

    def environment(self, order: int) -> dict[str, str]:
        """The environment variables that do so."""
        variables = {
            "ATEN_CPU_CAPABILITY": self.aten,
            "MKL_CBWR": self.mkl,
            "ONEDNN_MAX_CPU_ISA": self.onednn,
            "GLASSFORMER_TEST_THREADS": str(self.threads),
            "GLASSFORMER_TEST_ORDER": str(order),
            "GLASSFORMER_TEST_SHAPES": "1",
            "PYTHONHASHSEED": "random",
        }
        return {name: value for name, value in variables.items() if value != NEWEST}

    def __str__(self) -> str:
        return f"{self.aten or 'newest':<8} {self.mkl:<11} {self.onednn:<12} {self.threads:>7}"


ROWS = (
    Row("default", "COMPATIBLE", "SSE41", 1),
    Row("default", "AVX2", "AVX2", 2),
    Row("default", "AVX512", "AVX512_CORE", 4),
    Row("avx2", "COMPATIBLE", "AVX2", 4),
    Row("avx2", "AVX2", "AVX512_CORE", 1),
    Row("avx2", "AVX512", "SSE41", 2),
    Row(NEWEST, "COMPATIBLE", "AVX512_CORE", 2),
    Row(NEWEST, "AVX2", "SSE41", 4),
    Row(NEWEST, "AVX512", "AVX2", 1),
)


def run(number: int, arguments: list[str], prefix: str) -> tuple[str, bool]:
    """Run one row: its line in the table, and whether all passed; pytest prints as it goes.

    Its number is the seed of its order.
    """
    row = ROWS[number - 1]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--quiet", *arguments],
        cwd=ROOT,
        env=os.environ | row.environment(number),
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(prefix + line, end="", flush=True)  # noqa: T201
        last = line if re.search(r" in [\d.]+s", line) else last
    passed = process.wait() == 0
    counts = {word: re.search(rf"(\d+) {word}", last) for word in ("passed", "failed", "error")}
    n_passed, n_failed, n_errors = (int(n.group(1)) if n else 0 for n in counts.values())
    seconds = time.perf_counter() - began
    return f"{row} {number:>6} {n_passed:>7} {n_failed + n_errors:>7} {seconds:>8.0f}", passed


def main() -> int:
    """Run the rows and print the table."""
    parser = argparse.ArgumentParser(description="The tests under other processors.")
    parser.add_argument(
        "--row", type=int, action="append", choices=range(1, len(ROWS) + 1), help="only this one"
    )
    parser.add_argument("--sensitive", action="store_true", help="only tests in float32")
    parser.add_argument("--at-once", type=int, default=1, help="rows that run beside one another")
    wanted, arguments = parser.parse_known_args()
    if wanted.sensitive:
        arguments += SENSITIVE
    rows = wanted.row or list(range(1, len(ROWS) + 1))
    prefixes = [f"row {number}: " if wanted.at_once > 1 else "" for number in rows]
    lines = ["aten     MKL         oneDNN       threads  order  passed  failed  seconds"]
    all_passed = True
    with ThreadPoolExecutor(wanted.at_once) as pool:
        for line, passed in pool.map(run, rows, itertools.repeat(arguments), prefixes):
            lines.append(line)
            all_passed = all_passed and passed
    print("", *lines, sep="\n")  # noqa: T201
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
