"""Lines in, answers out: where `glassformer run` reads from and how it writes."""

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from glassformer.language import words

if TYPE_CHECKING:
    from glassformer.tasks import Model

__all__ = ["answer_each", "as_one_line", "as_one_object", "lines_of", "write"]

say = words("glassformer.cli.messages")

_WINDOW = 16  # batches that are read, sorted by length and answered together
_MANY = 200  # lines after which progress is worth showing
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # as which the codec passes other bytes on
_END = 500_000  # characters that are kept of either end of a line: more than nearly any model reads


def answer_each(
    model: "Model",
    lines: Iterable[str],
    answer: Callable[[Sequence[str]], Sequence[Any]],
    show: Callable[[str, Any], str],
    batch_size: int,
) -> None:
    """Answer lines in their order; say on stderr which were not read well, and how far we are."""
    from glassformer.cli.counting import Counter
    from glassformer.tasks.lines import answer_lines

    at_once = 1 if isinstance(lines, _Typed) else _WINDOW * max(1, batch_size)
    with Counter(_MANY) as counter:
        answers = answer_lines(lines, answer, model.can_read, at_once)
        for number, (line, answered) in enumerate(answers, start=1):
            write(show(line, answered) + "\n")
            if answered is not None and answered.cut:
                counter.note(say("run cut", number=number))
            if answered is not None and model.knows_nothing_of(line):
                counter.note(say("run knows nothing", model=model.name, number=number))
            counter.count()


class _Typed:
    """Lines that a person types: each is answered before the next is read."""

    def __iter__(self) -> Iterator[str]:
        sys.stderr.write(f"{say('run typing')}\n")
        yield from _stdin()


def lines_of(texts: tuple[str, ...]) -> Iterable[str]:
    """The texts of the command line; without any, those of stdin."""
    if texts:
        return list(texts)
    if sys.stdin is None:  # closed by whoever started us
        return []
    return _Typed() if sys.stdin.isatty() else _stdin()


def _stdin() -> Iterator[str]:
    """Lines of stdin as UTF-8 whatever the locale; what is no UTF-8 becomes U+FFFD, and is told.

    Of a line without an end only both ends are kept, so that memory stays bounded: classifiers read
    the beginning of what is too long for them, language models the end.
    """
    stream = io.TextIOWrapper(
        sys.stdin.buffer, encoding="utf-8", errors="surrogateescape", newline="\n"
    )
    number = 0
    while beginning := stream.readline(_END):
        number += 1
        newest, end = beginning, ""
        while newest and not newest.endswith("\n"):
            newest = stream.readline(_END)
            end = (end + newest)[-_END:]
        line = (beginning + end).removesuffix("\n").removesuffix("\r")
        if _NOT_UTF8.search(line):
            sys.stderr.write(f"{say('run not UTF-8', number=number)}\n")
            line = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        yield line


def as_one_object(data: dict[str, Any]) -> str:
    """JSON on one line."""
    return json.dumps(data, ensure_ascii=False)


def as_one_line(text: str) -> str:
    """One answer is one line, whatever characters a model writes."""
    return " ".join(text.splitlines())


def write(text: str) -> None:
    """To stdout, at once: someone may be waiting for it."""
    sys.stdout.write(text)
    sys.stdout.flush()
