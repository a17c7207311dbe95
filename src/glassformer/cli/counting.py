"""How far a command is, on stderr, where a person looks at it and there is much to do."""

import sys
import time
from types import TracebackType
from typing import Self

from glassformer.language import words

say = words("glassformer.cli.messages")


class Counter:
    """Counts what is done; shows count and speed once there are many and stderr is a terminal."""

    def __init__(self, many: int) -> None:
        self.many = many
        self.done = 0
        self.started = self.shown = time.monotonic()
        self.visible = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._erase()

    def count(self) -> None:
        """One more."""
        self.done += 1
        now = time.monotonic()
        if self.done >= self.many and sys.stderr.isatty() and now - self.shown > 0.2:
            self.shown, self.visible = now, True
            speed = self.done / max(now - self.started, 1e-9)
            sys.stderr.write(f"\r\033[K{say('run progress', done=self.done, speed=speed)}")
            sys.stderr.flush()

    def note(self, message: str) -> None:
        """Say something beside the count."""
        self._erase()
        sys.stderr.write(message + "\n")

    def _erase(self) -> None:
        if self.visible:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self.visible = False
