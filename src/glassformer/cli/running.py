"""`glassformer run`: what a model is for, on texts from the command line or lines from stdin."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.run_lines import answer_each, as_one_line, as_one_object, lines_of, write
from glassformer.cli.run_options import Continuing, Recommending, Translating, Writing, refuse

if TYPE_CHECKING:
    from glassformer.decoding import Beam, Sampling
    from glassformer.tasks import Classified, Model, Recommended, Translated

__all__ = ["run"]

_NO_TRANSLATING, _NO_CONTINUING = Translating(), Continuing()
_NO_WRITING, _NO_RECOMMENDING = Writing(), Recommending()


def run(
    model: str,
    /,
    *texts: str,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    batch_size: int = 32,
    weights: str = "float32",
    writing: Writing = _NO_WRITING,
    translating: Translating = _NO_TRANSLATING,
    continuing: Continuing = _NO_CONTINUING,
    recommending: Recommending = _NO_RECOMMENDING,
) -> None:
    """Classify, translate, continue or recommend; lines of stdin if no text is given."""
    from glassformer.checkpoint import find

    find(model)  # a wrong name is answered without waiting for torch

    from glassformer.decoding.batching import check_batch_size
    from glassformer.tasks import load

    check_batch_size(batch_size)
    loaded = load(model, weights=weights)  # type: ignore[arg-type]  # checked there
    lines = lines_of(texts)
    if loaded.task == "classify":
        refuse(loaded, writing, translating, continuing, recommending)
        _classify(loaded, lines, batch_size, as_json)
    elif loaded.task == "translate":
        refuse(loaded, continuing, recommending)
        _translate(loaded, lines, batch_size, translating.search(), writing.max_new, as_json)
    elif loaded.task == "generate":
        refuse(loaded, translating, recommending)
        max_new = 200 if writing.max_new is None else writing.max_new
        _generate(loaded, lines, continuing.search(), max_new, as_json)
    elif loaded.task == "recommend":
        refuse(loaded, writing, translating, continuing)
        _recommend(loaded, lines, 10 if recommending.films is None else recommending.films, as_json)
    else:
        refuse(loaded, writing, translating, continuing, recommending)
        _embed(loaded, lines, batch_size)


def _classify(model: "Model", lines: Iterable[str], batch_size: int, as_json: bool) -> None:
    def show(line: str, answer: "Classified | None") -> str:
        if as_json:
            nothing = {"input": line, "label": None, "probability": None}
            return as_one_object(nothing if answer is None else answer.to_dict())
        return "" if answer is None else f"{answer.label}\t{answer.probability:.4f}"

    def answer(some: Sequence[str]) -> list["Classified"]:
        return model.classify(some, batch_size=batch_size)

    answer_each(model, lines, answer, show, batch_size)


def _translate(
    model: "Model",
    lines: Iterable[str],
    batch_size: int,
    search: "Beam",
    max_new: int | None,
    as_json: bool,
) -> None:
    def answer(some: Sequence[str]) -> list["Translated"]:
        return model.translate(some, search=search, max_new=max_new, batch_size=batch_size)

    def show(line: str, answer: "Translated | None") -> str:
        if as_json:
            nothing = {"input": line, "text": "", "score": 0.0}
            return as_one_object(nothing if answer is None else answer.to_dict())
        if answer is None:
            return ""
        if len(answer.alternatives) == 1:
            return as_one_line(answer.text)
        return "\n".join(f"{a.score:.4f}\t{as_one_line(a.text)}" for a in answer.alternatives)

    answer_each(model, lines, answer, show, batch_size)


def _generate(
    model: "Model", lines: Iterable[str], search: "Sampling", max_new: int, as_json: bool
) -> None:
    for number, prompt in enumerate(lines):
        if as_json or search.n_samples > 1:
            answer = model.generate(prompt, search=search, max_new=max_new)
            shown = (
                [as_one_object(answer.to_dict())]
                if as_json
                else [prompt + a.text for a in answer.alternatives]
            )
            write("\n".join(shown) + "\n")
            continue
        pieces = model.stream(prompt, search=search, max_new=max_new)
        first = next(pieces, "")  # what cannot be done is said before anything is written
        write(("\n" if number else "") + prompt + first)
        for piece in pieces:
            write(piece)
        write("\n")


def _recommend(model: "Model", lines: Iterable[str], n: int, as_json: bool) -> None:
    def show(line: str, answer: "Recommended | None") -> str:
        if as_json:
            nothing = {"input": line, "films": []}
            return as_one_object(nothing if answer is None else answer.to_dict())
        films = () if answer is None else answer.films
        return "\n".join(f"{film.stars:.2f}\t{film.title}" for film in films)

    answer_each(model, lines, lambda some: model.recommend(some, n=n), show, 1)


def _embed(model: "Model", lines: Iterable[str], batch_size: int) -> None:
    """Vectors are for programs: JSON in any case."""
    answer_each(
        model,
        lines,
        lambda some: model.embed(some, batch_size=batch_size),
        lambda line, found: as_one_object(
            {"input": line, "vector": None} if found is None else found.to_dict()
        ),
        batch_size,
    )
