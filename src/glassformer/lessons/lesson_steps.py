"""From a cell of a trace to a step of a lesson: prose for its role, formula, matrices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.audit import Audit, StepResult, audit
from glassformer.audit.audit_report import LOOKS, MARKS, VERDICT_NAMES
from glassformer.audit.example import PrintedDigits
from glassformer.audit.example_file import load_example
from glassformer.documents.data_charts import (
    ROLES,
    Axes,
    Series,
    bar_chart,
    chart_numbers,
    line_chart,
)
from glassformer.documents.heat_maps import Matrix, matrix, shape_text
from glassformer.documents.parts import Figure, HeatMap, Paragraph, Part, Remark, Table
from glassformer.lessons.lesson import (
    LessonStep,
    Parts,
    Speaker,
    formula,
    is_turned,
    number,
    percent,
    place_labels,
    step_title,
)
from glassformer.nn import Seq2Seq
from glassformer.nn.tensors import Float, Int, Tensor
from glassformer.picture import Picture, Role
from glassformer.tracing import Cell, Step, Trace
from glassformer.tracing.arithmetic.expressions import Operation
from glassformer.tracing.capture.module_stack import join
from glassformer.tracing.cells import Terms

Fields = dict[str, object]


def caption(step: Step, say: Speaker, head: int | None = None) -> str:
    """`S (scores), 6×6`, with the head if there are several."""
    shape = [size for size in step.shape if size != 1]
    title = step_title(step, say)
    plain = f"{title}{say('before a shape')}{shape_text(shape[::-1] if is_turned(step) else shape)}"
    if head is None:
        return plain
    of_one = f"{title}{say('before a shape')}{shape_text(step.shape[-2:])}"
    return say("in head", caption=of_one, head=head + 1)


def heat_map(
    step: Step,
    say: Speaker,
    cell: Cell | None = None,
    *,
    head: int | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str | None = None,
    turned: bool = False,
) -> HeatMap:
    """A step, or one head of it, with the chosen cell framed if it is part of it.

    `turned` exchanges rows and columns, as is always done for a linear map's parameters.
    """
    at, marked, turned = None, None, turned or is_turned(step)
    if cell is not None and cell.step is step:
        row, column = (0, *cell.index)[-2:]
        at, marked = cell.index[:-2], (column, row) if turned else (row, column)
    elif head is not None:
        at = (*(0,) * (len(step.shape) - 3), head)
    several = head if head is not None and step.shape[-3] > 1 else None
    found = matrix(step, at)
    labels = [place_labels(step, axis) for axis in ((-1, -2) if turned else (-2, -1))]
    shown = Matrix(
        step,
        found.lead,
        found.values.T if turned else found.values,
        tuple(rows) if rows is not None else labels[0],
        tuple(columns) if columns is not None else labels[1],
    )
    return HeatMap(title or caption(step, say, several), shown, marked, turned, decimals=3)


def role_step(
    role: str,
    cell: Cell,
    say: Speaker,
    *,
    beside: Sequence[Part] = (),
    after: Sequence[Part] = (),
    before: Sequence[Part] = (),
    phrase: str | None = None,
    title: str | None = None,
    columns: Sequence[str] | None = None,
    facts: Fields | None = None,
) -> LessonStep:
    """A step about one cell: prose for its role, formula, the matrix it belongs to.

    `beside` are matrices that it is computed from; `facts` fill placeholders of the template beyond
    the usual ones.
    """
    known = cell_facts(cell, say) | (facts or {})
    head = cell.index[-3] if len(cell.index) > 3 else None
    shown = heat_map(cell.step, say, cell, head=head, columns=columns)
    said = Paragraph(say(phrase or role, **known))
    arithmetic = [formula(cell)] if cell.expression is not None else []
    parts = (said, *before, *arithmetic, *beside, shown, *after)
    return LessonStep(role, title or say.title(role), parts)


def cell_facts(cell: Cell, say: Speaker) -> Fields:
    """Values for the placeholders that any cell can fill."""
    row, column = map(say.quoted, cell_labels(cell))
    terms = cell.terms
    facts: Fields = {
        "row": row,
        "column": column,
        "value": cell,
        "summands": _summands(terms, say),
        "percent": percent(cell),
        "width": cell.step.shape[-1] if cell.step.shape else 1,
        "unit": say("word"),
    }
    if len(cell.index) > 1:
        scores = matrix(cell.step, cell.index[:-2]).values[cell.index[-2]]
        columns = place_labels(cell.step, -1)
        best = [say.quoted(columns[place]) for place in np.flatnonzero(scores == scores.max())]
        facts["best"] = say.listed(best)
    if len(terms) > 1:
        largest = max(range(len(terms)), key=lambda place: abs(terms[place].value))
        facts["main"] = say.quoted(cell_labels(terms[largest].cells[-1])[0])
    return facts


def _summands(terms: Terms, say: Speaker) -> str:
    """What is added up: products of two numbers, perhaps with a bias."""
    products = sum(isinstance(term.expression, Operation) for term in terms)
    key = "products" if products == len(terms) else "products and bias"
    return say(key, count=products)


def cell_labels(cell: Cell) -> tuple[str, str]:
    row, column = (0, 0, *cell.index)[-2:]
    return place_labels(cell.step, -2)[row], place_labels(cell.step, -1)[column]


# --- attention, norm, feed-forward -----------------------------------------------------------
# The steps of these parts are the same in every lesson.

Remarks = Callable[[str, Cell], Sequence[Part]]
"""From the role and the chosen cell to remarks on what a text printed there."""


@dataclass(frozen=True)
class AttentionWalk:
    """The steps of one attention layer of a trace, from queries to output.

    `query` and `key` are the positions whose score is followed, `entry` is a dimension.
    """

    trace: Trace
    path: str
    say: Speaker
    query: int
    key: int
    entry: int = 0
    head: int = 0
    unit: str = "word"
    remarks: Remarks = lambda _role, _cell: ()

    def step(self, name: str) -> Step:
        return self.trace[join(self.path, name)]

    def _has(self, name: str) -> bool:
        return join(self.path, name) in self.trace

    def walk(self) -> Iterator[LessonStep]:
        """All steps that the module computed, in order."""
        for kind, place in (("queries", self.query), ("keys", self.key), ("values", self.key)):
            yield self.projection(kind, place)
        yield self.scores()
        yield self.scaled()
        if self._has("hidden"):
            yield self.masked()
        yield self.weights()
        yield self.context()
        if self._has("output"):
            yield self.output()

    def projection(self, kind: str, place: int) -> LessonStep:
        step = self.step(f"projected_{kind}")
        entry = self.entry + self.head * self._head_width(step)
        cell = step[place, entry]
        matrix = heat_map(self.step(f"to_{kind}.weight"), self.say)
        unit = self.say(self.unit)
        return self._made(kind, cell, beside=[matrix], facts={"unit": unit})

    def _head_width(self, step: Step) -> int:
        return step.shape[-1] // self.step("scores").shape[-3]

    def _scored(self, name: str) -> Cell:
        return self.step(name)[0, self.head, self.query, self.key]

    def scores(self) -> LessonStep:
        return self._made("scores", self._scored("scores"))

    def scaled(self) -> LessonStep:
        """Scores divided by the root of the width, or left alone."""
        cell = self._scored("scaled")
        divisor = self.divisor()
        if divisor == 1.0:
            return self._made("scaled", cell, phrase="scaled by one")
        return self._made("scaled", cell, facts={"divisor": divisor})

    def divisor(self) -> float:
        """The divisor of the recorded division."""
        call = self.step("scaled").call
        assert call is not None
        return float(call.bound["other"])

    def masked(self) -> LessonStep:
        """The masked scores, with the mask."""
        cell = self._scored("masked")
        hidden = self.step("hidden")
        if hidden.shape[-2] == 1:  # one row for all queries: padding
            return self._made(
                "masked", cell, phrase="masked padding", title=self.say.title("masked padding")
            )
        future = self.step("masked")[0, self.head, self.query, self.query + 1]
        shown = heat_map(hidden, self.say, rows=self._labels(), title=self.say("hidden"))
        return self._made("masked", future, beside=[shown])

    def _labels(self) -> tuple[str, ...] | None:
        return self.step("scores").labels[-2]

    def weights(self) -> LessonStep:
        return self._made("weights", self._scored("weights"))

    def context(self) -> LessonStep:
        return self._made("context", self.step("context")[0, self.head, self.query, self.entry])

    def output(self) -> LessonStep:
        cell = self.step("output")[self.query, self.entry]
        matrix = heat_map(self.step("to_output.weight"), self.say)
        return self._made("output", cell, beside=[matrix])

    def _made(self, role: str, cell: Cell, **settings: Any) -> LessonStep:
        return role_step(role, cell, self.say, after=self.remarks(role, cell), **settings)


def norm_step(
    trace: Trace, path: str, say: Speaker, place: int, entry: int, **settings: Any
) -> LessonStep:
    """The plain norm of one row: mean, deviation, quotient."""
    normed, mean, deviation = (trace[f"{path}.{name}"] for name in ("normed", "mean", "deviation"))
    divisor = formula(trace[f"{path}.divisor"][place, 0])
    width = normed.shape[-1]
    cell = normed[place, entry]
    said: Fields = {
        "n": width,
        "less": width - 1,
        "mean": mean[place, 0],
        "deviation": deviation[place, 0],
    }
    beside = [heat_map(mean, say, mean[place, 0]), heat_map(deviation, say, deviation[place, 0])]
    return role_step("norm", cell, say, before=[divisor], beside=beside, facts=said, **settings)


def feed_forward_step(
    trace: Trace, path: str, say: Speaker, place: int, entry: int, note: str | None = None
) -> LessonStep:
    """Linear map and ReLU; `note` says where unprinted parameters come from."""
    linear: Cell = trace[f"{path}.expanded"][place, entry]
    return role_step(
        "feed-forward",
        trace[f"{path}.activated"][place, entry],
        say,
        before=[Paragraph(note)] if note else [],
        beside=[heat_map(linear.step, say, linear)],
        facts={"linear": linear},
    )


# --- models ----------------------------------------------------------------------------------


def short_numbers(
    *shape: int, generator: torch.Generator, decimals: int = 1, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Random numbers from −1 to 1 with so few decimals that a reader can compute with them."""
    whole = 10**decimals
    drawn: Tensor = torch.randint(-whole, whole + 1, shape, generator=generator).to(dtype) / whole
    return drawn


@torch.no_grad()
def draw_short(module: nn.Module, seed: int, decimals: int = 1) -> None:
    """Give all parameters of a module short random numbers."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        drawn = short_numbers(
            *parameter.shape, generator=generator, decimals=decimals, dtype=parameter.dtype
        )
        parameter.copy_(drawn)


# --- prediction ------------------------------------------------------------------------------


class Predictor(nn.Module):
    """An encoder-decoder that returns probabilities instead of logits."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B ... V"]:
        logits = self.model(source, target)
        probabilities = torch.softmax(logits, dim=-1)
        return probabilities


def likeliest(
    run: Trace, words: Sequence[str], say: Speaker, at: tuple[int, ...] = (), most: int = 6
) -> Table:
    """The most probable words, with logit and probability."""
    probabilities = run["probabilities"].value[(0, *at)]
    logits = run["model.logits"].value[(0, *at)]
    order = probabilities.argsort(descending=True, stable=True)[:most].tolist()
    rows = ((words[id_], number(logits[id_]), percent(probabilities[id_])) for id_ in order)
    return say.table(rows, "word", "logit", "probability")


def prediction_steps(
    run: Trace,
    say: Speaker,
    words: Sequence[str],
    *,
    at: tuple[int, ...] = (),
    phrase: str = "logits",
    remarks: Sequence[Remark] = (),
) -> Iterator[LessonStep]:
    """Logits, probabilities and the word; `at` is the position, if the model predicts at each."""
    best = int(run["probabilities"].value[(0, *at)].argmax())
    logit: Cell = run["model.logits"][(0, *at, best)]
    probability: Cell = run["probabilities"][(0, *at, best)]
    facts: Fields = {"best": say.quoted(words[best]), "percent": percent(probability)}
    steps: dict[str, Parts] = {
        "logits": [say(phrase, value=logit, **facts), formula(logit)],
        "probabilities": [
            say("probabilities", value=probability, **facts), formula(probability),
            likeliest(run, words, say, at), *remarks,
        ],
        "prediction": [say("prediction", **facts)],
    }  # fmt: skip
    yield from (say.step(role, role, parts) for role, parts in steps.items())


# --- charts ----------------------------------------------------------------------------------


def chart(
    say: Speaker, name: str, across: Sequence[float] | Sequence[str],
    lines: Mapping[str, Sequence[float]], axes: tuple[str, str], roles: Sequence[Role] = ROLES, *,
    dashed: Collection[str] = (), numbers: Callable[[float], str] | None = None,
    title: str | None = None, **look: Any,
) -> Figure:  # fmt: skip
    """Lines over numbers, or bars over names, with a title and labels from the lesson's TOML file.

    `lines` are numbers by their name in the legend. With `numbers`, formats without drawings show
    the chart as a table, written by this function; otherwise some table of the step has its
    numbers.
    """
    along, up = map(say, axes)
    series = [
        Series(said, values, role, said in dashed)
        for (said, values), role in zip(lines.items(), roles, strict=False)
    ]
    draw: Callable[..., Picture] = bar_chart if isinstance(across[0], str) else line_chart
    drawing = draw(title or say(f"{name} figure"), across, series, Axes(along, up), **look)
    table = None if numbers is None else chart_numbers(along, across, series, numbers)
    return Figure(name, drawing, numbers=table)


# --- remarks ---------------------------------------------------------------------------------
# What a text printed for the numbers of a lesson, from its audit: verdict, slip, printed and right.


@lru_cache(maxsize=4)
def _audited(example: str) -> Audit:
    """Cached for both languages: the search for slips takes seconds."""
    return audit(load_example(example))


class Remarker:
    """Remarks on one text; `ids` maps roles of a lesson to steps of the text's example."""

    def __init__(self, example: str, say: Speaker, ids: Mapping[str, str] | None = None) -> None:
        self._say = say
        self._audit = _audited(example)
        self._ids = ids or {}

    def overview(self) -> str:
        """How many steps of the text hold, for the opening of a lesson."""
        counts = self._audit.counts
        checked = sum(counts[verdict] for verdict in ("agrees", "wrong", "follows"))
        return self._say(
            "text checked" if counts["follows"] else "text checked, none follows", checked=checked,
            wrong=counts["wrong"], follows=counts["follows"], example=self._audit.example.name,
        )  # fmt: skip

    def at(self, role: str, cell: Cell) -> tuple[Remark, ...]:
        """The remark on a role, about the cell shown; none if the text prints nothing there."""
        return self.on(self._ids[role], cell) if role in self._ids else ()

    def on(
        self, id_: str, cell: Cell | None = None, *, transposed: bool = False
    ) -> tuple[Remark, ...]:
        """The remark on a step of the example, about the cell shown.

        Without a cell, or where the text does not print it: verdict and slip, if it is wrong.
        """
        result = self._audit[id_]
        printed = None if cell is None else _printed(result, cell, transposed)
        slip = self._slip(result)
        if result.verdict == "agrees" and cell is not None:
            key = "printed agrees"
        elif result.verdict in ("wrong", "follows") and (printed or slip):
            key = f"printed {result.verdict}" if printed else "verdict only"
        else:
            return ()
        verdict = _capital(VERDICT_NAMES[result.verdict].say(self._say.language))
        said = self._say(
            key, verdict=verdict, slip=slip, printed=printed, right=cell, what=self._say("numbers")
        )
        lead = f"{MARKS[result.verdict]} {self._say('in the text')}"
        return (Remark(result.verdict, said, lead, LOOKS[result.verdict]),)

    def _slip(self, result: StepResult) -> str:
        """The slip in words; of several that are each made of several, the first."""
        language, found = self._say.language, result.explanations
        if len(found) < 2 or all(len(one.slips) < 2 for one in found):
            return _capital(result.slip(language, counted_from=1) or "")
        first = replace(result, explanations=found[:1]).slip(language, counted_from=1)
        return _capital(self._say("likely slip", slip=first))


def _capital(said: str) -> str:
    return said[:1].upper() + said[1:]


def _printed(result: StepResult, cell: Cell, transposed: bool) -> str | None:
    """What the text prints for a cell; None if nothing."""
    digits = result.step.printed
    if not isinstance(digits, PrintedDigits):
        return None
    index = cell.index[len(cell.index) - digits.values.ndim :]
    at = tuple(reversed(index)) if transposed else index
    if any(place >= size for place, size in zip(at, digits.values.shape, strict=True)):
        return None
    printed = float(digits.values[at])
    return None if printed != printed else number(printed, 6)
