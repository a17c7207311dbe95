"""`glassformer run`: what a model is for, on texts from the command line or lines from stdin."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from cyclopts import Parameter

from glassformer.cli.model_commands import AS_IT_IS, ModelOptions, check_model, open_model
from glassformer.cli.output import AsJson, show_words
from glassformer.errors import ConfigError, expect_whole
from glassformer.language import words

if TYPE_CHECKING:
    from glassformer.experiments import WordScores, WordTable
    from glassformer.tasks import Model
    from glassformer.tasks.answers import TextAnswer

say = words("glassformer.cli.messages")

_MANY = 200  # lines before progress is shown
_NAMED = 20  # texts whose unknown words are listed; nobody reads them for thousands of lines
_MOST_WORDS = 5


def print_answers(
    model: Model,
    lines: Iterable[str],
    options: dict[str, Any],
    *,
    batch_size: int,
    as_json: bool,
    why: bool = False,
    at: str | None = None,
) -> None:
    """Answer lines in order; warnings and progress go to stderr."""
    from glassformer.tasks.answers import answer_lines

    with Counter(_MANY) as counter:
        typed = isinstance(lines, _Typed)
        answers = answer_lines(model, lines, options, batch_size=batch_size, one_by_one=typed)
        for number, answer in enumerate(answers, start=1):
            found = _explained(model, answer, at, number, counter) if why else None
            shown = _shown(answer, as_json, found)
            if found is not None and model.task == "generate" and at is None and not as_json:
                shown += f" {say('run first token')}"
            _write(f"{shown}\n")
            if model.task == "generate":  # it reads the end of a text of any length
                continue
            if answer.cut:
                counter.note(say("run cut", number=number))
            if answer.unknown:
                counter.note(say("run knows nothing", model=model.name, number=number))
            elif number <= _NAMED and (note := _unknown_note(model, answer, number)):
                counter.note(note)
            counter.count()


def _unknown_note(model: Model, answer: TextAnswer, number: int) -> str | None:
    """Which words of a text the model does not know."""
    from glassformer.tasks.answers import Unread

    if model.tokenizer is None or isinstance(answer, Unread) or not isinstance(answer.input, str):
        return None
    found = model.unknown_words(answer.input)
    if not found:
        return None
    listed = say("run comma").join(f"“{word}”" for word in found[:_MOST_WORDS])
    more = say("run more words", count=len(found) - _MOST_WORDS) if len(found) > _MOST_WORDS else ""
    key = "run unknown word" if len(found) == 1 else "run unknown words"
    return say(key, model=model.name, number=number, words=listed + more)


def _explained(
    model: Model, answer: TextAnswer, at: str | None, number: int, counter: Counter
) -> WordScores | WordTable | None:
    """Which words made an answer; a note if a text is too long or too short for that."""
    from glassformer.errors import InputError
    from glassformer.language import message_of
    from glassformer.tasks.answers import Unread
    from glassformer.tasks.forward_pass import EmptyTextError, TooLongError

    if isinstance(answer, Unread):
        return None
    try:
        return model.why(answer, at)
    except (EmptyTextError, TooLongError) as error:
        note = InputError(
            "the answer to text {number} is not explained: {error}", number=number, error=error
        )
        counter.note(f"glassformer: {message_of(note)}")
        return None


def _shown(answer: TextAnswer, as_json: bool, why: WordScores | WordTable | None) -> str:
    """An answer as a line; with `why`, which words made it below."""
    from glassformer.tasks.answers import as_json as one_object

    if as_json:
        return one_object(answer.to_dict() | ({} if why is None else {"why": why.to_dict()}))
    return answer.to_text() if why is None else f"{answer.to_text()}\n{show_words(why)}"


def stream_answers(model: Model, lines: Iterable[str], options: dict[str, Any]) -> None:
    """Print continuations piece by piece, as a language model writes them."""
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
    """The texts on the command line, or lines of stdin if there are none."""
    if texts:
        return list(texts)
    if sys.stdin is None:  # closed by the parent process
        return []
    return _Typed() if sys.stdin.isatty() else _stdin()


def _stdin() -> Iterator[str]:
    """Lines of stdin as UTF-8, whatever the locale."""
    from glassformer.tasks.answers import decoded_lines

    def warn(number: int) -> None:
        sys.stderr.write(f"{say('run not UTF-8', number=number)}\n")

    return decoded_lines(sys.stdin.buffer, warn)


def _write(text: str) -> None:
    """To stdout, flushed: someone may be waiting for it."""
    sys.stdout.write(text)
    sys.stdout.flush()


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """Options of the tasks; `tasks.answers.OPTIONS` says which task has which.

    Their help is in `help.toml`, like that of all options.
    """

    max_new: int | None = None
    beam: int | None = None
    n_best: int | None = None
    length_penalty: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    n_samples: int | None = None
    seed: int | None = None
    films: int | None = None

    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


_NONE = RunOptions()


def run(
    model: str,
    /,
    *texts: str,
    as_json: AsJson = False,
    batch_size: int = 32,
    weights: str = "float32",
    why: bool = False,
    at: str | None = None,
    options: RunOptions = _NONE,
    opening: ModelOptions = AS_IT_IS,
) -> None:
    """Classify, translate, continue, fill in or recommend; lines of stdin if no text is given."""
    check_model(model)

    from glassformer.decoding.fast.workers import MAX_BATCH
    from glassformer.tasks.answers import check_options

    expect_whole(batch_size, "batch_size", most=MAX_BATCH)
    loaded = open_model(model, opening, weights=weights)
    given, lines = options.given(), lines_of(texts)
    check_options(loaded, given)
    if at is not None and not why:
        raise ConfigError("--at chooses the token that --why explains: give --why, too")
    if why:
        loaded.check_why(at)
    if loaded.task == "generate" and not (as_json or why) and given.get("n_samples", 1) == 1:
        stream_answers(loaded, lines, given)
    else:
        print_answers(loaded, lines, given, batch_size=batch_size, as_json=as_json, why=why, at=at)


class Counter:
    """Progress on stderr: count and speed, once there are many lines and it is a terminal."""

    def __init__(self, many: int) -> None:
        self.many = many
        self.done = 0
        self.started = self.shown = time.monotonic()
        self.visible = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._erase()

    def count(self) -> None:
        self.done += 1
        now = time.monotonic()
        if self.done >= self.many and sys.stderr.isatty() and now - self.shown > 0.2:
            self.shown, self.visible = now, True
            speed = self.done / max(now - self.started, 1e-9)
            sys.stderr.write(f"\r\033[K{say('run progress', done=self.done, speed=speed)}")
            sys.stderr.flush()

    def note(self, message: str) -> None:
        """Print a line without garbling the count."""
        self._erase()
        sys.stderr.write(message + "\n")

    def _erase(self) -> None:
        if self.visible:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self.visible = False
