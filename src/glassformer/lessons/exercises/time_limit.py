"""A limit on the time of Python code, on every system: a loop without end is left at its line."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_AGAIN = 0.2  # seconds until the next attempt, where a bare `except:` has caught the exception


class OutOfTimeError(BaseException):
    """Raised inside code that runs too long. Not an Exception, which that code may catch."""


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError in this thread, at the line where it is, after so many seconds.

    Only Python code is interrupted: a call of a library that never returns is not.
    """
    thread, done = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        waiting = seconds
        while not done.wait(waiting):
            _raise_in(thread, OutOfTimeError)
            waiting = _AGAIN

    watch = threading.Thread(target=interrupt, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()
        _raise_in(thread, None)  # one that is on its way is called back


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    given = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)
