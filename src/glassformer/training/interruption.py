"""Ctrl-C as a wish: the update under way is finished and saved, then the run ends."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

__all__ = ["Interruption", "listen"]


@dataclass
class Interruption:
    """Whether somebody asked to stop."""

    asked: bool = False


@contextmanager
def listen() -> Iterator[Interruption]:
    """Take SIGINT and SIGTERM as a wish; a second one interrupts at once."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # signals go to the main thread, which is another's
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def ask(_number: int, _frame: FrameType | None) -> None:
        if interruption.asked:
            raise KeyboardInterrupt
        interruption.asked = True

    try:
        for number in numbers:
            signal.signal(number, ask)
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
