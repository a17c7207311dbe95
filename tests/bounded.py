"""Programs that run in a process of their own, with a limit on memory, and say what they took."""

from dataclasses import dataclass

from tests.fresh_python import run_python

__all__ = ["GIB", "Ran", "run_bounded"]

GIB = 2**30

# RLIMIT_DATA is a stop for the machine's sake, far above what a test may accept.
_BEFORE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, ({most}, {most}))
"""
# On Linux ru_maxrss begins with what the process held that started this one: a test worker's GiB.
_AFTER = """
if sys.platform == "linux":
    with open("/proc/self/status", encoding="utf-8") as opened:
        peak = next(int(line.split()[1]) for line in opened if line.startswith("VmHWM:")) * 1024
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("peak", peak)
"""


@dataclass(frozen=True)
class Ran:
    """What a program printed, and the most memory that it held."""

    printed: str
    peak: int


def run_bounded(program: str, *arguments: str, most: int = 4 * GIB) -> Ran:
    """Run a Python program, its arguments in `sys.argv[1:]`; it may not fail."""
    code = _BEFORE.format(most=most) + program + _AFTER
    done = run_python("-c", code, *arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    printed, _, peak = done.stdout.rpartition("peak ")
    return Ran(printed, int(peak))
