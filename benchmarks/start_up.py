"""How long the command takes to answer when it has nothing to compute.

python benchmarks/start_up.py
"""

import subprocess
import sys
import time
from statistics import median

QUESTIONS = (
    ["--help"],
    ["--version"],
    ["descrbe"],
    ["describe", "--help"],
    ["recipes"],
    ["data"],
    ["models"],
)


def main() -> None:
    for question in QUESTIONS:
        times = []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "glassformer", *question], capture_output=True, check=False
            )
            times.append(time.perf_counter() - began)
        print(f"glassformer {' '.join(question):<18}{median(times):>7.2f} s")


if __name__ == "__main__":
    main()
