"""Lines in, answers out: where `glassformer run` reads from, and how it prints."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from glassformer.language import words

if TYPE_CHECKING:
    from glassformer.tasks import Model

say = words("glassformer.cli.messages")

_MANY = 200  # lines after which progress is worth showing


def print_answers(
    model: "Model",
    lines: Iterable[str],
    options: dict[str, Any],
    *,
    batch_size: int,
    as_json: bool,
) -> None:
    """Answer lines in their order; say on stderr which were not read well, and how far we are."""
    from glassformer.cli.counting import Counter
    from glassformer.tasks.answers import answer_lines
    from glassformer.tasks.results import as_json as one_object

    with Counter(_MANY) as counter:
        typed = isinstance(lines, _Typed)
        answers = answer_lines(model, lines, options, batch_size=batch_size, one_by_one=typed)
        for number, answer in enumerate(answers, start=1):
            _write((one_object(answer.to_dict()) if as_json else answer.to_text()) + "\n")
            if model.task == "generate":  # it may read the end of anything
                continue
            if answer.cut:
                counter.note(say("run cut", number=number))
            if answer.unknown:
                counter.note(say("run knows nothing", model=model.name, number=number))
            counter.count()


def stream_answers(model: "Model", lines: Iterable[str], options: dict[str, Any]) -> None:
    """Continue lines piece by piece, as a language model writes them."""
    from glassformer.tasks.answers import sampling_of

    limit = {"max_new": options["max_new"]} if "max_new" in options else {}
    for number, prompt in enumerate(lines):
        pieces = model.stream(prompt, search=sampling_of(options), **limit)
        _write(("\n" if number else "") + prompt)
        for piece in pieces:
            _write(piece)
        _write("\n")


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
    """Lines of stdin as UTF-8, whatever the locale."""
    from glassformer.tasks.answers import decoded_lines

    def warn(number: int) -> None:
        sys.stderr.write(f"{say('run not UTF-8', number=number)}\n")

    return decoded_lines(sys.stdin.buffer, warn)


def _write(text: str) -> None:
    """To stdout, at once: someone may be waiting for it."""
    sys.stdout.write(text)
    sys.stdout.flush()
