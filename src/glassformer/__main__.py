"""`python -m glassformer` is the command `glassformer`."""

import os
import signal
import sys
from types import FrameType

# Where Ctrl-C would be swallowed, or leave a library half loaded to fail at its next use.
_SLOW_TO_LOAD = ("torch", "numpy")
INTERRUPTED = 130


def main() -> None:
    """The console script's entry."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from glassformer.cli import run
    except KeyboardInterrupt:
        _leave()
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        # Everything was saved or given up, and said. Python would still wait for threads and take
        # torch and all traces apart, number by number, which takes seconds.
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """What Ctrl-C does until a command has plans of its own: at once, while libraries load."""
    specs = (getattr(sys.modules.get(name), "__spec__", None) for name in _SLOW_TO_LOAD)
    if any(getattr(spec, "_initializing", False) for spec in specs):
        _leave()
    signal.default_int_handler(number, frame)


def _leave() -> None:
    os.write(2, b"glassformer: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
