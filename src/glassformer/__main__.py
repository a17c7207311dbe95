"""`python -m glassformer` is the command `glassformer`."""

import gc
import os
import signal
import sys
from types import FrameType

# While these load, Ctrl-C would be swallowed, or leave a half-loaded library that fails later.
_SLOW_TO_LOAD = ("torch", "numpy")
INTERRUPTED = 130
_ALLOCATIONS = 10_000
"""How many more objects there are before garbage is looked for: importing torch makes a million and
leaves none, and Python's own 700 takes a tenth of a command's start."""


def main() -> None:
    gc.set_threshold(_ALLOCATIONS)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from glassformer.cli import run
    except KeyboardInterrupt:
        _leave()
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        # Everything is saved or given up, and reported. Python would still wait for threads and
        # tear down torch and all traces, which takes seconds.
        sys.stdout.flush()
        os._exit(code)
    gc.freeze()  # what is left ends with the process; looking through it takes 0.3 s
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C until a command installs its own handler: exit at once while libraries load."""
    specs = (getattr(sys.modules.get(name), "__spec__", None) for name in _SLOW_TO_LOAD)
    if any(getattr(spec, "_initializing", False) for spec in specs):
        _leave()
    signal.default_int_handler(number, frame)


def _leave() -> None:
    os.write(2, b"glassformer: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
