"""The memory that a trace may take, refused as early as it can be known.

Where a model can run without numbers, the refusal comes before the trace is made (`forecast`).
Where it cannot, a stack of equal blocks is the usual case: once the first block has run, the rest
is arithmetic, so a trace that will not fit is refused after one block and not after all memory is
gone.
"""

from __future__ import annotations

from glassformer.errors import TraceError

__all__ = ["DEFAULT_BYTES", "Budget"]

DEFAULT_BYTES = 2 * 1024**3


class Budget:
    """What has been spent, and the refusal."""

    def __init__(self, most: int) -> None:
        if not isinstance(most, int) or most < 0:
            raise TraceError(f"max_bytes is a number of bytes, got {most!r}")
        self.most = most
        self.spent = 0

    def spend(self, count: int) -> None:
        """Count bytes that the trace keeps."""
        self.spent += count
        if self.spent > self.most:
            self.refuse(self.spent, "already")

    def expect(self, needed: int) -> None:
        """Refuse a trace that would not fit, before it is made."""
        if needed > self.most:
            self.refuse(needed, "about")

    def foresee(self, before: int, blocks: int, path: str) -> None:
        """After the first of several equal blocks: refuse if all of them would not fit."""
        expected = before + (self.spent - before) * blocks
        if expected > self.most:
            self.refuse(expected, f"with {blocks} blocks like {path} about")

    def refuse(self, needed: int, how: str) -> None:
        """Say what is too much and what to do."""
        raise TraceError(
            f"the trace needs {how} {_mebibytes(needed)} and may take {_mebibytes(self.most)}: "
            "use a shorter text, fewer layers or a smaller batch, trace one block on its own, "
            "or give more with max_bytes="
        )


def _mebibytes(count: int) -> str:
    return f"{count / 1024**2:,.0f} MiB"
