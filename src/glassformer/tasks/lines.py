"""Many lines through a model in constant memory: some at a time, answered in their order.

A line that holds nothing for the model is answered by None: there is nothing to say
about it, and no reason to stop.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

__all__ = ["answer_lines"]

R = TypeVar("R")


def answer_lines(
    lines: Iterable[str],
    answer: Callable[[Sequence[str]], Sequence[R]],
    can_read: Callable[[str], bool],
    at_once: int,
) -> Iterator[tuple[str, R | None]]:
    """Each line with its answer; `at_once` lines are read, sorted and answered together."""
    remaining = iter(lines)
    while window := list(islice(remaining, at_once)):
        readable = [can_read(line) for line in window]
        written = [line for line, has_text in zip(window, readable, strict=True) if has_text]
        answers = iter(answer(written) if written else ())
        for line, has_text in zip(window, readable, strict=True):
            yield line, next(answers) if has_text else None
