"""`glassformer experiment`: ablate, patch, attribute, compare, without a line of Python."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from glassformer.cli.model_argument import AS_IT_IS, ModelOptions, check_model, open_model
from glassformer.cli.output import check_place, show_size
from glassformer.errors import ConfigError, InputError
from glassformer.files import read_bytes
from glassformer.language import spoken, words

if TYPE_CHECKING:
    from collections.abc import Callable

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
    head: Annotated[list[int] | None, Parameter(negative=())] = None
    position: Annotated[list[str] | None, Parameter(negative=())] = None
    neuron: Annotated[list[int] | None, Parameter(negative=())] = None
    to: str | None = None
    texts: Path | None = None
    over: Literal["position", "head"] | None = None
    stage: str | None = None
    store: Path | None = None
    method: str | None = None
    baseline: str | None = None
    by_head: Annotated[bool, Parameter(name="--heads", negative=())] = False
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
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    options: ModelOptions = AS_IT_IS,
) -> None:
    """Ask what a number of one pass over a text depends on."""
    _check(kind, question)
    check_model(model)
    check_place(output)

    bench = Bench(open_model(model, options, attention="written"), text, target, question, options)
    result, change = bench.ask(kind)
    _write(result, change, output, as_json)


def _check(kind: Kind, question: ExperimentOptions) -> None:
    """Refuse options of other experiments, and a question without its subject."""
    given = {one.name for one in fields(ExperimentOptions) if getattr(question, one.name)}
    names = {"with_model": "with", "by_head": "heads"}
    for name in sorted(given - set(_TAKES[kind])):
        taken = ", ".join(f"--{names.get(one, one)}" for one in _TAKES[kind])
        raise ConfigError(
            "--{option} is not for the experiment {kind}, which takes {taken}",
            option=names.get(name, name),
            kind=kind,
            taken=taken or "–",
        )
    if kind in ("ablate", "patch") and question.part is None:
        raise ConfigError(
            "expected --part: a step, a stage or a module, such as 'encoder.blocks.0.attention'"
        )
    if kind == "patch" and question.other is None:
        raise ConfigError("expected --other: the text of the run that the part is taken from")
    if kind == "compare" and question.other is None and question.with_model is None:
        raise ConfigError("expected --other with another text, or --with another model")


@dataclass(frozen=True)
class NumberChange:
    """What became of the number that was asked about."""

    cell: str
    before: float
    after: float

    def __str__(self) -> str:
        return say("experiment change", **asdict(self))


class Bench:
    """A model, a text, and the runs that an experiment asks for."""

    def __init__(
        self,
        model: Model,
        text: str,
        target: str | None,
        question: ExperimentOptions,
        options: ModelOptions,
    ) -> None:
        self.model, self.text, self.target = model, text, target
        self.question, self.options = question, options
        self.run = self._trace(text)

    def ask(self, kind: Kind) -> tuple[Result, NumberChange | None]:
        """The result, and what an intervention did to the number that was asked about."""
        if kind in ("ablate", "patch"):
            return self._changed(kind)
        asked: dict[str, Callable[[], Result]] = {
            "words": self._words,
            "lens": self._lens,
            "parts": self._parts,
            "sweep": self._sweep,
            "compare": self._compare,
            "heads": self._heads,
            "composition": self._composition,
        }
        return asked[kind](), None

    def _trace(self, text: str) -> Trace:
        return self.model.trace(text, target=self.target)

    def _number(self) -> Measured:
        """The number of `--at`, less that of `--less`; without, the one that decided the answer."""
        from glassformer.experiments import difference
        from glassformer.tracing.trace import find_cell

        at, less = self.question.at, self.question.less
        cell = self.model.answer_cell(self.run) if at is None else find_cell(self.run, at)
        return cell if less is None else difference(cell, find_cell(self.run, less))

    def _runs(self) -> list[Trace]:
        """The data set: a text per line of `--texts`."""
        if self.question.texts is None:
            return []
        lines = read_bytes(self.question.texts, error=InputError).decode(errors="replace")
        return [self._trace(line) for line in lines.splitlines() if line.strip()]

    def _words(self) -> Result:
        from glassformer.experiments import words as in_words

        method, baseline = self.question.method, self.question.baseline
        instead = None if baseline is None else self.model.reader.id_of(baseline)
        return in_words(self._number(), method or "leave one out", baseline=instead)  # type: ignore[arg-type]

    def _lens(self) -> Result:
        from glassformer.experiments import logit_lens

        return logit_lens(self.run)

    def _parts(self) -> Result:
        from glassformer.experiments import contributions

        asked = self.question
        return contributions(self._number(), heads=asked.by_head, neurons=asked.neurons)

    def _sweep(self) -> Result:
        from glassformer.experiments import sweep

        asked = self.question
        return sweep(
            self.run,
            None if asked.other is None else self._trace(asked.other),
            measure=self._number(),
            over=asked.over or "position",
            stage=asked.stage,
            to=_value(asked.to),
            runs=self._runs(),
            progress=sys.stderr.isatty(),
            store=asked.store,
        )

    def _changed(self, kind: Kind) -> tuple[Result, NumberChange]:
        """The run after an intervention beside the run itself, and what became of the number."""
        from glassformer.experiments import ablate, compare, patch
        from glassformer.experiments.measure import value_in

        asked = self.question
        assert asked.part is not None
        places: dict[str, Any] = {
            "head": _one_or_all(asked.head),
            "position": _one_or_all([_position(one) for one in asked.position or ()]),
            "neuron": _one_or_all(asked.neuron),
        }
        if kind == "patch":
            assert asked.other is not None
            changed = patch(self.run, self._trace(asked.other), asked.part, **places)
        else:
            runs, to = self._runs(), _value(asked.to)
            changed = ablate(self.run, asked.part, **places, to=to, over=runs)
        number = self._number()
        change = NumberChange(number.name, float(number.value), value_in(number, changed))
        return compare(self.run, changed), change

    def _compare(self) -> Result:
        from glassformer.experiments import compare

        asked = self.question
        text = self.text if asked.other is None else asked.other
        if asked.with_model is None:
            return compare(self.run, self._trace(text))
        other = open_model(asked.with_model, self.options, attention="written")
        return compare(self.run, other.trace(text, target=self.target))

    def _heads(self) -> Result:
        from glassformer.experiments import head_scores

        return head_scores(self._runs() or [self.run], self.question.score or "induction")  # type: ignore[arg-type]

    def _composition(self) -> Result:
        from glassformer.experiments import composition

        return composition(self._runs() or [self.run], self.question.side or "queries")  # type: ignore[arg-type]


def _one_or_all(given: list[Any] | None) -> Any:
    return given[0] if given is not None and len(given) == 1 else given or None


def _position(given: str) -> int | str:
    """A number, or a token."""
    return int(given) if given.removeprefix("-").isdecimal() else given


def _value(to: str | None) -> str | float:
    """`--to`: a word that `ablate` knows, or a number."""
    if to is None:
        return "zero"
    try:
        number = float(to)
    except ValueError:
        return to
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
        shown = "\n\n".join([*parts, result.text(spoken()), result.note(spoken())])
        sys.stdout.write(f"{shown}\n")


def _write_document(
    result: Result, change: NumberChange | None, data: dict[str, Any], output: Path
) -> None:
    from glassformer.documents import render
    from glassformer.documents.experiment_documents import experiment_document
    from glassformer.documents.parts import Paragraph

    made = experiment_document(result, spoken())
    lead = () if change is None else (Paragraph(str(change)),)
    render(replace(made, parts=(*lead, *made.parts), data=lambda: data), path=output)
