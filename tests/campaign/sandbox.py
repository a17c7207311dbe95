"""One case of the campaign: a forked process that is watched for time, memory and its last words.

The parent has torch and the command imported already, so that a case costs milliseconds. Peak
memory is the child's own, the parent's share (some 300 MiB) included.
"""

import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

__all__ = ["MOST_MIB", "Ended", "command", "forked"]

MOST_MIB = 1024
CRASHED = 99


@dataclass(frozen=True)
class Ended:
    """The outcome of a case."""

    code: int
    """Its exit code; minus the signal that ended it."""
    out: str
    err: str
    cpu_seconds: float
    peak_mib: float
    timed_out: bool

    @property
    def complaint(self) -> str:
        """Why this outcome is never acceptable; empty if it is."""
        if self.timed_out:
            return "did not end in time"
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        if "Traceback (most recent call last)" in self.err or self.code == CRASHED:
            return f"traceback: {self.err.strip().splitlines()[-1:]}"
        if self.peak_mib > MOST_MIB:
            return f"took {self.peak_mib:.0f} MiB"
        return ""

    @property
    def refusal_complaint(self) -> str:
        """For cases that may be refused: in one line of ours, with exit code 1 or 2."""
        if self.complaint or self.code == 0:
            return self.complaint
        if self.code not in (1, 2):
            return f"exit code {self.code}"
        lines = [line for line in self.err.splitlines() if line.strip()]
        ours = [line for line in lines if line.startswith("glassformer: ")]
        return "" if len(ours) == len(lines) == 1 else f"said {self.err.strip()[-300:]!r}"


def forked(case: Callable[[], int], most_seconds: float = 60.0) -> Ended:
    """Run a case in a forked process; its result is the exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _run(case, out.fileno(), err.fileno())
        code, usage, timed_out = _wait(child, time.monotonic() + most_seconds)
        said = _text(out), _text(err)
    seconds = usage.ru_utime + usage.ru_stime
    peak = usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)  # bytes there
    return Ended(code, said[0], said[1], seconds, peak, timed_out)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(1 << 20).decode("utf-8", "replace")


def command(*arguments: str, most_seconds: int = 60) -> Ended:
    """The command `glassformer` with these arguments, within so many seconds of CPU time.

    One that only waits, for a pipe say, is ended by the clock, which has room for a busy machine.
    """
    from glassformer.cli import run

    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds + 5))
        return run(arguments)

    return forked(limited, 10 * most_seconds)


def _run(case: Callable[[], int], out: int, err: int) -> None:
    """Runs in the child process."""
    code = CRASHED
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb"), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb"), encoding="utf-8", line_buffering=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = case()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, until: float) -> tuple[int, resource.struct_rusage, bool]:
    timed_out = False
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), usage, timed_out
        if not timed_out and time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            timed_out = True
        time.sleep(0.005)
