"""`glassformer experiment`: ablate, patch, attribute, compare, without a line of Python."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from glassformer.cli.model_commands import AS_IT_IS, ModelOptions, check_model, open_model
from glassformer.cli.output import AsJson, Output, check_place, screen_width, show_size, wrapped
from glassformer.errors import ConfigError, Fragment, InputError
from glassformer.files import read_bytes
from glassformer.language import spoken, words

if TYPE_CHECKING:
    from glassformer.experiments import Result
    from glassformer.experiments.measure import Measured
    from glassformer.tasks import Model
    from glassformer.tracing import Trace

say = words("glassformer.cli.messages")

Kind = Literal[
    "words", "lens", "parts", "ablate", "patch", "sweep", "compare", "heads", "composition"
]
"""What can be asked, in the order of the guide."""
_NUMBER = ("at", "less")
_PART = ("part", "head", "position", "neuron")
_TAKES: dict[str, tuple[str, ...]] = {
    "words": (*_NUMBER, "method", "baseline"),
    "lens": (),
    "parts": (*_NUMBER, "by_head", "neurons"),
    "ablate": (*_NUMBER, *_PART, "to", "texts"),
    "patch": (*_NUMBER, *_PART, "other"),
    "sweep": (*_NUMBER, "other", "over", "stage", "to", "texts", "store"),
    "compare": ("other", "with_model"),
    "heads": ("score", "texts"),
    "composition": ("side", "texts"),
}


@Parameter(name="*")
@dataclass(frozen=True)
class ExperimentOptions:
    """What an experiment is about; each kind takes some of these."""

    at: str | None = None
    less: str | None = None
    other: str | None = None
    with_model: Annotated[str | None, Parameter(name="--with")] = None
    part: str | None = None
    head: list[int] | None = None
    position: list[str] | None = None
    neuron: list[int] | None = None
    to: str | None = None
    texts: Path | None = None
    over: Literal["position", "head"] | None = None
    stage: str | None = None
    store: Path | None = None
    method: str | None = None
    baseline: str | None = None
    by_head: Annotated[bool, Parameter(name="--heads")] = False
    neurons: str | None = None
    score: str | None = None
    side: str | None = None


PLAIN = ExperimentOptions()


def experiment(
    kind: Kind,
    model: str,
    text: str,
    /,
    *,
    question: ExperimentOptions = PLAIN,
    target: str | None = None,
    output: Output = None,
    as_json: AsJson = False,
    options: ModelOptions = AS_IT_IS,
) -> None:
    """Ask what a number of one pass over a text depends on."""
    _check(kind, question)
    check_model(model)
    check_place(output)

    from glassformer.experiments import compare
    from glassformer.experiments.measure import value_in

    loaded = open_model(model, options, attention="written")

    def traced(another: str) -> Trace:
        return loaded.trace(another, target=target)

    run = traced(text)
    if kind in ("ablate", "patch"):
        changed = _changed(question, run, traced)
        number = _number(loaded, run, question)
        change = NumberChange(number.name, float(number.value), value_in(number, changed))
        _write(compare(run, changed), change, output, as_json)
        return
    if kind == "compare":
        other = loaded
        if question.with_model is not None:
            other = open_model(question.with_model, options, attention="written")
        beside = other.trace(text if question.other is None else question.other, target=target)
        result: Result = compare(run, beside)
    else:
        result = _asked(kind, loaded, run, question, traced)
    _write(result, None, output, as_json)


def _check(kind: Kind, question: ExperimentOptions) -> None:
    """Refuse options of other experiments, and a question without its subject."""
    given = {one.name for one in fields(ExperimentOptions) if getattr(question, one.name)}
    names = {"with_model": "with", "by_head": "heads"}
    for name in sorted(given - set(_TAKES[kind])):
        taken = ", ".join(f"--{names.get(one, one)}" for one in _TAKES[kind])
        raise ConfigError(
            "--{option} does not apply to the experiment {kind}{taken}",
            option=names.get(name, name),
            kind=kind,
            taken=Fragment.of("; it takes {names}", names=taken) if taken else "",
        )
    if kind in ("ablate", "patch") and question.part is None:
        raise ConfigError(
            "expected --part: a step, a stage or a module, such as 'encoder.blocks.0.attention'"
        )
    if kind == "patch" and question.other is None:
        raise ConfigError("expected --other: the text of the run that the part is taken from")
    if kind == "compare" and question.other is None and question.with_model is None:
        raise ConfigError("expected --other with another text, or --with another model")
    if question.to in ("mean", "resample") and question.texts is None:
        raise ConfigError(
            "expected --texts: the file of texts, one per line, that --to {to} takes the part from",
            to=question.to,
        )
    _value(question.to)  # a mistake in it is found before the model is loaded


@dataclass(frozen=True)
class NumberChange:
    """What became of the number that was asked about."""

    cell: str
    before: float
    after: float

    def __str__(self) -> str:
        return say("experiment change", **asdict(self))


Traced = Callable[[str], "Trace"]
"""The run of the model over another text."""


def _asked(
    kind: Kind, model: Model, run: Trace, question: ExperimentOptions, traced: Traced
) -> Result:
    """The result of an experiment on one run, or on those of a data set."""
    from glassformer import experiments as ex

    asked: Any = question  # names such as that of a method are checked where they are used
    if kind == "lens":
        return ex.logit_lens(run)
    if kind in ("heads", "composition"):
        runs = _runs(question, traced) or [run]
        if kind == "heads":
            return ex.head_scores(runs, asked.score or "induction")
        return ex.composition(runs, asked.side or "queries")
    number = _number(model, run, question)
    if kind == "words":
        instead = None if asked.baseline is None else model.reader.id_of(asked.baseline)
        return ex.words(number, asked.method or "leave one out", baseline=instead)
    if kind == "parts":
        return ex.contributions(number, heads=asked.by_head, neurons=asked.neurons)
    return ex.sweep(
        run,
        None if asked.other is None else traced(asked.other),
        measure=number,
        over=asked.over or "position",
        stage=asked.stage,
        to=_value(asked.to),
        runs=_runs(question, traced),
        progress=sys.stderr.isatty(),
        store=asked.store,
    )


def _changed(question: ExperimentOptions, run: Trace, traced: Traced) -> Trace:
    """The run after an intervention: a part ablated, or taken from the run over another text."""
    from glassformer.experiments import ablate, patch

    assert question.part is not None
    places: dict[str, Any] = {
        "head": _one_or_all(question.head),
        "position": _one_or_all([_position(one) for one in question.position or ()]),
        "neuron": _one_or_all(question.neuron),
    }
    if question.other is not None:
        return patch(run, traced(question.other), question.part, **places)
    runs = _runs(question, traced)
    return ablate(run, question.part, **places, to=_value(question.to), over=runs)


def _number(model: Model, run: Trace, question: ExperimentOptions) -> Measured:
    """The number of `--at`, less that of `--less`; without, the one that decided the answer."""
    from glassformer.experiments import difference
    from glassformer.tracing.trace import find_cell

    at, less = question.at, question.less
    cell = model.answer_cell(run) if at is None else find_cell(run, at)
    return cell if less is None else difference(cell, find_cell(run, less))


def _runs(question: ExperimentOptions, traced: Traced) -> list[Trace]:
    """The data set: a text per line of `--texts`."""
    if question.texts is None:
        return []
    lines = read_bytes(question.texts, error=InputError).decode(errors="replace")
    return [traced(line) for line in lines.splitlines() if line.strip()]


def _one_or_all(given: list[Any] | None) -> Any:
    return given[0] if given is not None and len(given) == 1 else given or None


def _position(given: str) -> int | str:
    """A number, or a token."""
    is_number = len(given) < 20 and given.removeprefix("-").isdecimal()
    return int(given) if is_number else given  # Python refuses to read 5,000 digits


def _value(to: str | None) -> str | float:
    """`--to`: a word that `ablate` knows, or a number."""
    if to is None or to in ("zero", "mean", "resample"):
        return to or "zero"
    try:
        number = float(to)
    except ValueError:
        raise ConfigError(
            'to is "zero", "mean", "resample", a number or a tensor, got {to!r}', to=to
        ) from None
    if not math.isfinite(number):
        raise ConfigError("{name} must be a finite number, got {value}", name="--to", value=to)
    return number


def _write(result: Result, change: NumberChange | None, output: Path | None, as_json: bool) -> None:
    """To the screen, or to a file: a picture (.svg) or a document."""
    from glassformer.documents.trace_data import json_text

    data = result.to_dict() | ({} if change is None else {"number": asdict(change)})
    if output is not None and output.suffix.lower() == ".svg":
        result.plot(spoken()).save(output)
    elif output is not None:
        _write_document(result, change, data, output)
    if output is not None:
        size = show_size(output.stat().st_size)
        sys.stderr.write(f"{say('experiment written', output=output, size=size)}\n")
    if as_json:
        sys.stdout.write(json_text(data, indent=1) + "\n")
    elif output is None:
        parts = [] if change is None else [str(change)]
        parts += [result.text(spoken(), screen_width()), wrapped(result.note(spoken()))]
        sys.stdout.write("\n\n".join(parts) + "\n")


def _write_document(
    result: Result, change: NumberChange | None, data: dict[str, Any], output: Path
) -> None:
    from glassformer.documents import render
    from glassformer.documents.parts import Paragraph
    from glassformer.documents.trace_documents import experiment_document

    made = experiment_document(result, spoken())
    lead = () if change is None else (Paragraph(str(change)),)
    render(replace(made, parts=(*lead, *made.parts), data=lambda: data), path=output)
