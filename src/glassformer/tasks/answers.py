"""Answers to any number of texts in constant memory, whatever the model is for.

`glassformer run` without its command line: options by name, lines from bytes, a few batches at a
time through the model, answers in input order.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from glassformer.decoding import Beam, Sampling
from glassformer.errors import ConfigError, Fragment
from glassformer.tasks.results import TextAnswer

if TYPE_CHECKING:
    from glassformer.tasks.model import Model

Task = Literal["classify", "translate", "generate", "fill", "tag", "score", "embed", "recommend"]
OPTIONS: dict[Task, tuple[str, ...]] = {
    "classify": (),
    "embed": (),
    "tag": (),
    "score": (),
    "fill": ("n_best",),
    "translate": ("max_new", "beam", "n_best", "length_penalty"),
    "generate": (
        "max_new", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "n_samples",
        "seed",
    ),
    "recommend": ("films",),
}  # fmt: skip
"""The options of each task, by name."""

NOTHING: dict[Task, dict[str, Any]] = {
    "classify": {"label": None, "probability": None},
    "embed": {"vector": None},
    "fill": {"text": None, "gaps": []},
    "tag": {"tokens": []},
    "score": {"score": None},
    "recommend": {"films": []},
}
"""The answer to an empty text."""

_BATCHES = 16  # read, sorted by length and answered together
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # how surrogateescape decodes invalid bytes
_END = 500_000  # characters kept at each end of a line; few models read more


def check_options(model: "Model", options: Iterable[str]) -> None:
    """Reject options that the task does not have, rather than ignore them."""
    for name in options:
        if name not in OPTIONS[model.task]:
            taken = ", ".join(f"--{one.replace('_', '-')}" for one in OPTIONS[model.task])
            raise ConfigError(
                "--{option} is not for {name}, {kind}; it takes {taken}",
                option=name.replace("_", "-"),
                name=model.name,
                kind=model.kind,
                taken=taken or Fragment.of("none of these options"),
            )


def beam_of(options: Mapping[str, Any]) -> Beam:
    """The beam search asked for; unless a size is given, at least `n_best` wide."""
    given = {name: options[name] for name in ("n_best", "length_penalty") if name in options}
    return Beam(size=options.get("beam", max(4, given.get("n_best", 1))), **given)


def sampling_of(options: Mapping[str, Any]) -> Sampling:
    """The sampling asked for; unless given, its temperature is 0.8."""
    given = {name: value for name, value in options.items() if name != "max_new"}
    return Sampling(**({"temperature": 0.8} | given))


def answer_lines(
    model: "Model",
    lines: Iterable[str],
    options: Mapping[str, Any],
    *,
    batch_size: int = 32,
    one_by_one: bool = False,
) -> Iterator[TextAnswer]:
    """One answer per line; lines are read and answered a few batches at a time."""
    remaining = iter(lines)
    per_batch = 1 if model.task == "recommend" else max(1, batch_size)
    at_once = 1 if one_by_one or model.task == "generate" else _BATCHES * per_batch
    while window := list(islice(remaining, at_once)):
        yield from model.answer(window, batch_size=batch_size, **options)


def decoded_lines(source: BinaryIO, not_utf8: Callable[[int], None]) -> Iterator[str]:
    """Lines of UTF-8; invalid bytes become U+FFFD, and `not_utf8` is called with the line's number.

    Of an overlong line only its two ends are kept, which bounds memory: classifiers read the
    beginning of a text that is too long for them, language models its end.
    """
    stream = io.TextIOWrapper(source, encoding="utf-8", errors="surrogateescape", newline="\n")
    number = 0
    while beginning := stream.readline(_END):
        number += 1
        newest, end = beginning, ""
        while newest and not newest.endswith("\n"):
            newest = stream.readline(_END)
            end = (end + newest)[-_END:]
        line = (beginning + end).removesuffix("\n").removesuffix("\r")
        if _NOT_UTF8.search(line):
            not_utf8(number)
            line = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        yield line
