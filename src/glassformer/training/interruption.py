"""Ctrl-C, as a wish where there is something to lose: an update under way is finished and saved.

While data are prepared or a model is tested there is nothing to lose, and the run ends at once.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

__all__ = ["Interruption", "listen"]


@dataclass
class Interruption:
    """Whether somebody asked to stop, and whether that may wait."""

    asked: bool = False
    may_wait: bool = False

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Let what happens inside come to its end, or look at `asked` itself."""
        self.may_wait = True
        try:
            yield
        finally:
            self.may_wait = False
        if self.asked:
            raise KeyboardInterrupt


@contextmanager
def listen() -> Iterator[Interruption]:
    """Take SIGINT and SIGTERM as a wish where one may wait; a second one interrupts at once."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # signals go to the main thread, which is another's
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def ask(_number: int, _frame: FrameType | None) -> None:
        if interruption.asked or not interruption.may_wait:
            raise KeyboardInterrupt
        interruption.asked = True

    try:
        for number in numbers:
            signal.signal(number, ask)
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
