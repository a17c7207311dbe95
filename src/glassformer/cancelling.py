"""Work that nobody waits for any more can be stopped, from another thread.

    stop = threading.Event()
    with cancelled_by(stop.is_set):
        t = trace(model, ids)          # raises CancelledError soon after stop.set()

The question is put before each operator of a trace, of an edit and of a replay, before each step
of a verification, before each token that a search writes, and before each matrix or cell that goes
into a file. One operator that is running is not interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from glassformer.errors import CancelledError

_ASK: ContextVar[Callable[[], bool] | None] = ContextVar("cancelled", default=None)


@contextmanager
def cancelled_by(asked: Callable[[], bool]) -> Iterator[None]:
    """Stop what the block traces or writes as soon as `asked()` is true."""
    token = _ASK.set(asked)
    try:
        yield
    finally:
        _ASK.reset(token)


def stop_if_cancelled() -> None:
    """Raise if the caller has asked to stop."""
    asked = _ASK.get()
    if asked is not None and asked():
        raise CancelledError("the work was cancelled")
