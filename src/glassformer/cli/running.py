"""`glassformer run`: what a model is for, on texts from the command line or lines from stdin."""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.decoding import Search
    from glassformer.tasks import Classified, Model, Translated

__all__ = ["run"]

_WINDOW = 16  # batches that are read, sorted by length and answered together
_MANY = 200  # lines after which progress is worth showing


def run(
    model: str,
    /,
    *texts: str,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    batch_size: int = 32,
    beam: int | None = None,
    n_best: int | None = None,
    length_penalty: float | None = None,
    max_new: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    n_samples: int | None = None,
    seed: int | None = None,
) -> None:
    """Classify, translate or continue texts; lines of stdin if none is given.

    Parameters
    ----------
    model:
        A shipped model (toy, imdb, en-de, en-zh, shakespeare) or a model folder.
    texts:
        What the model reads.
    as_json:
        Write one JSON object a line, in the order of the texts.
    batch_size:
        Texts that go through the model together.
    beam:
        Translations: continuations followed at once (4); 1 is greedy.
    n_best:
        Translations: how many to give for each text.
    length_penalty:
        Translations: above 1 favours longer ones, below 1 shorter ones.
    max_new:
        Most tokens to write (a translation: 50 more than its source; a continuation: 200).
    temperature:
        Continuations: below 1 bolder, above 1 wilder (0.8).
    top_k:
        Continuations: draw from the k most probable tokens.
    top_p:
        Continuations: draw from the most probable tokens that together reach p.
    min_p:
        Continuations: draw from tokens at least p times as probable as the best.
    repetition_penalty:
        Continuations: above 1 makes repetition less likely.
    n_samples:
        Continuations: how many to draw.
    seed:
        Continuations: the same seed gives the same text (0).
    """
    from glassformer.tasks import load

    translating = {"beam": beam, "n_best": n_best, "length_penalty": length_penalty}
    sampling = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "n_samples": n_samples,
        "seed": seed,
    }
    loaded = load(model)
    lines = _lines(texts)
    if loaded.task == "classify":
        _refuse(loaded, translating | sampling | {"max_new": max_new})
        _classify(loaded, lines, batch_size, as_json)
    elif loaded.task == "translate":
        _refuse(loaded, sampling)
        search = _beam({name: value for name, value in translating.items() if value is not None})
        _translate(loaded, lines, batch_size, search, max_new, as_json)
    elif loaded.task == "generate":
        _refuse(loaded, translating)
        given = {name: value for name, value in sampling.items() if value is not None}
        _generate(loaded, lines, {"temperature": 0.8} | given, max_new or 200, as_json)
    else:
        _refuse(loaded, translating | sampling | {"max_new": max_new})
        _embed(loaded, lines, batch_size)


def _classify(model: "Model", lines: Iterable[str], batch_size: int, as_json: bool) -> None:
    def show(line: str, answer: "Classified | None") -> str:
        if as_json:
            nothing = {"input": line, "label": None, "probability": None}
            return _json(nothing if answer is None else answer.to_dict())
        return "" if answer is None else f"{answer.label}\t{answer.probability:.4f}"

    def answer(some: Sequence[str]) -> list["Classified"]:
        return model.classify(some, batch_size=batch_size)

    _each_line(model, lines, answer, show, batch_size)


def _translate(
    model: "Model",
    lines: Iterable[str],
    batch_size: int,
    search: "Search",
    max_new: int | None,
    as_json: bool,
) -> None:
    def answer(some: Sequence[str]) -> list["Translated"]:
        return model.translate(some, search=search, max_new=max_new, batch_size=batch_size)

    def show(line: str, answer: "Translated | None") -> str:
        if as_json:
            nothing = {"input": line, "text": "", "score": 0.0}
            return _json(nothing if answer is None else answer.to_dict())
        if answer is None:
            return ""
        if len(answer.alternatives) == 1:
            return _one_line(answer.text)
        return "\n".join(f"{a.score:.4f}\t{_one_line(a.text)}" for a in answer.alternatives)

    _each_line(model, lines, answer, show, batch_size)


def _generate(
    model: "Model", lines: Iterable[str], sampling: dict[str, Any], max_new: int, as_json: bool
) -> None:
    from glassformer.decoding import Sampling

    search = Sampling(**sampling)
    for number, prompt in enumerate(lines):
        if as_json or search.n_samples > 1:
            answer = model.generate(prompt, search=search, max_new=max_new)
            shown = (
                [_json(answer.to_dict())]
                if as_json
                else [prompt + a.text for a in answer.alternatives]
            )
            _write("\n".join(shown) + "\n")
            continue
        _write(("\n" if number else "") + prompt)
        for piece in model.stream(prompt, search=search, max_new=max_new):
            _write(piece)
        _write("\n")


def _embed(model: "Model", lines: Iterable[str], batch_size: int) -> None:
    """Vectors are for programs: JSON in any case."""
    _each_line(
        model,
        lines,
        lambda some: model.embed(some, batch_size=batch_size),
        lambda line, found: _json(
            {"input": line, "vector": None} if found is None else found.to_dict()
        ),
        batch_size,
    )


def _each_line(
    model: "Model",
    lines: Iterable[str],
    answer: Callable[[Sequence[str]], Sequence[Any]],
    show: Callable[[str, Any], str],
    batch_size: int,
) -> None:
    """Answer lines in their order; say on stderr which were cut, and how far we are."""
    from glassformer.cli.counting import Counter
    from glassformer.tasks.lines import answer_lines

    at_once = 1 if isinstance(lines, _Typed) else _WINDOW * max(1, batch_size)
    with Counter(_MANY) as counter:
        answers = answer_lines(lines, answer, model.can_read, at_once)
        for number, (line, answered) in enumerate(answers, start=1):
            _write(show(line, answered) + "\n")
            if answered is not None and answered.cut:
                counter.note(f"glassformer: text {number} is longer than the model reads: cut")
            counter.count()


class _Typed:
    """Lines that a person types: each is answered before the next is read."""

    def __iter__(self) -> Iterator[str]:
        sys.stderr.write("one text a line; end with Ctrl-D\n")
        yield from _stdin()


def _lines(texts: tuple[str, ...]) -> Iterable[str]:
    if texts:
        return list(texts)
    return _Typed() if sys.stdin.isatty() else _stdin()


def _stdin() -> Iterator[str]:
    """Lines of stdin as UTF-8 whatever the locale; what is no UTF-8 becomes U+FFFD."""
    stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline="\n")
    for line in stream:
        yield line.removesuffix("\n").removesuffix("\r")


def _beam(given: dict[str, Any]) -> "Search":
    from glassformer.decoding import Beam

    settings = {"size": given.pop("beam", None) or max(4, given.get("n_best", 1)), **given}
    return Beam(**settings)


def _refuse(model: "Model", options: dict[str, Any]) -> None:
    """An option of another kind of model is a mistake, not something to ignore."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} does not fit {model.name}, which can {model.task}"
            )


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)


def _one_line(text: str) -> str:
    """One answer is one line, whatever characters a model writes."""
    return " ".join(text.split("\n"))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
