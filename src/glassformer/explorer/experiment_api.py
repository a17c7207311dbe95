"""The page's experiments over HTTP: each route asks `glassformer.experiments` and names its cells.

They run in the queue of long work: cancelled when the client leaves, and refused when they take
longer than a page should wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Literal, TypeVar

import numpy as np
import torch
from fastapi import APIRouter, Depends
from pydantic import Field

from glassformer.errors import CancelledError, GlassformerError, InputError, cancelled_by
from glassformer.experiments import attribution, compare, contributions, logit_lens, sweep
from glassformer.experiments.attribution import Method
from glassformer.experiments.intervention import heads_of, position_axis
from glassformer.experiments.lens import residual_stream
from glassformer.experiments.sweeps import swept_layers
from glassformer.explorer.cell_cards import cell_ref
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.overview import answer_after, answer_of
from glassformer.explorer.schemas import (
    MOST_CHARACTERS,
    Answer,
    CellRef,
    Edit,
    EditRequest,
    JsonNumber,
    Message,
)
from glassformer.explorer.state import Holds, Opened, Queue, Queued, State
from glassformer.explorer.trace_edits import OtherRuns, edited_run
from glassformer.language import Language
from glassformer.tracing import Cell, Step
from glassformer.tracing.cell_block import CellBlock
from glassformer.tracing.step_graph import writer_of

experiments_router = APIRouter(prefix="/traces/{id}/experiments")

T = TypeVar("T")
OtherText = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
MOST_SECONDS = 60.0
MOST_COMPARED = 200
"""Steps of a comparison."""
INTEGRATION_POINTS = 20
"""Of integrated gradients: the page shows whether the shares add up."""


# --- messages ---
# An experiment asks about one number of a trace: a step and an index. What it finds names cells and
# edits, so that every square and every bar opens on the page.


class Asked(Message):
    """The number that an experiment is about."""

    step: Annotated[int, Field(ge=0)]
    index: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=16)]
    language: Language = "en"


class WordsRequest(Asked):
    """Share a number out among the words of the input."""

    method: Method = "leave one out"


class WordShare(Message):
    """A token and its share."""

    token: str
    score: JsonNumber


class InputWords(Message):
    """The tokens of one input: an encoder-decoder has two."""

    name: str
    words: list[WordShare]


class WordsAnswer(Message):
    """A number in words of the input."""

    cell: CellRef
    method: Method
    inputs: list[InputWords]
    whole: JsonNumber | None
    """What the shares add up to, where the method promises it."""
    note: str
    """What the method assumes."""


class CompareRequest(Message):
    """Hold the run against one of the same model over another text."""

    text: OtherText
    language: Language = "en"


class ComparedInfo(Message):
    """A step that differs between two runs."""

    name: str
    size: JsonNumber
    """The root mean square of the difference, over that of the first run's numbers."""
    largest: JsonNumber
    changed: int
    compared: int
    cell: CellRef
    """Where the difference is largest, in this run."""
    other: CellRef
    """The same place in the other run."""
    same_shape: bool
    """Whether the two matrices can be subtracted cell by cell."""


class ComparisonInfo(Message):
    """Two runs of one model, largest differences first."""

    other: str
    """The id of the other run's trace."""
    text: str
    answer: str
    """What the model says to the other text."""
    steps: list[ComparedInfo]
    n_different: int
    """How many steps differ; the list has the first of them."""
    n_same: int
    unaligned: list[str]
    is_partial: bool
    """Whether only the tokens that both texts have are compared."""
    note: str


class SweepRequest(Asked):
    """One row of a sweep: each head, or each position, of one layer switched off or replaced."""

    over: Literal["head", "position"] = "head"
    to: Literal["zero", "mean", "other"] = "zero"
    text: OtherText | None = None
    """Of the run that numbers are taken from, with `other`."""
    layer: Annotated[int, Field(ge=0)] = 0


class SweepSquare(Message):
    """One intervention."""

    place: str
    value: JsonNumber
    """The number after it."""
    edit: Edit
    """The intervention itself."""


class SweepRow(Message):
    """The interventions in one layer."""

    layers: list[str]
    """All layers that can be swept, in order."""
    layer: int
    cell: CellRef
    """The number that is watched, as it is without any intervention."""
    squares: list[SweepSquare]
    note: str


class LensRequest(Message):
    """What each layer would answer."""

    language: Language = "en"


class LensWord(Message):
    """The likeliest answer of a layer at a position."""

    text: str
    probability: float


class LensLayer(Message):
    """The answers of a layer, a word for each position."""

    name: str
    step: int | None
    """The step of the residual stream that is read."""
    words: list[LensWord]


class LensAnswer(Message):
    """The logit lens: layers × positions."""

    positions: list[str]
    layers: list[LensLayer]
    note: str


class ContributionsRequest(Asked):
    """What each part adds to a number."""

    heads: bool = False


class ContributionInfo(Message):
    """One part and what it adds."""

    name: str
    value: JsonNumber
    step: int | None
    edit: Edit | None
    """The part switched off; None for the biases."""


class ContributionsAnswer(Message):
    """A number as a sum of parts."""

    cell: CellRef
    parts: list[ContributionInfo]
    total: JsonNumber
    note: str


# --- questions ---


class TooSlowError(GlassformerError, RuntimeError):
    """An experiment that takes longer than a page should wait."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    end = monotonic() + seconds
    try:
        with cancelled_by(lambda: monotonic() > end):
            yield
    except CancelledError:
        if monotonic() <= end:
            raise
        raise TooSlowError(
            "this takes longer than {seconds:.0f} s: take a shorter text, or a quicker method",
            seconds=seconds,
        ) from None


@dataclass(frozen=True)
class Experiment:
    """An experiment on an open trace, in the queue of long work, within its time."""

    queue: Queue
    state: State
    opened: OpenTrace

    async def ask(self, work: Callable[[OtherRuns], T]) -> T:
        """Run it; the work may ask for other runs of the model."""

        def guarded() -> T:
            with _within(MOST_SECONDS), self.state.other_runs(self.opened) as runs:
                return work(runs)

        return await self.queue.do(guarded)


def _experiment(queue: Queued, state: Holds, opened: Opened) -> Experiment:
    return Experiment(queue, state, opened)


On = Annotated[Experiment, Depends(_experiment)]


def _measured(opened: OpenTrace, asked: Asked) -> Cell:
    cell = opened.step(asked.step)[tuple(asked.index)]
    assert isinstance(cell, Cell)
    return cell


@experiments_router.post("/answer")
async def answer(on: On, wanted: EditRequest) -> Answer:
    """What the model would answer after some edits; no trace is made of it."""

    def work(runs: OtherRuns) -> Answer:
        with edited_run(on.opened.trace, wanted.edits, runs) as edited:
            return answer_after(on.opened, edited)

    return await on.ask(work)


# --- words ---


@experiments_router.post("/words")
async def in_words(on: On, wanted: WordsRequest) -> WordsAnswer:
    """A number shared out among the tokens of the input."""
    return await on.ask(lambda _: _words(on.opened, wanted))


def _words(opened: OpenTrace, wanted: WordsRequest) -> WordsAnswer:
    cell = _measured(opened, wanted)
    found = attribution.words(cell, wanted.method, steps=INTEGRATION_POINTS)
    inputs, at = [], 0
    for step in attribution.token_steps(opened.trace):
        assert step.call is not None
        end = at + step.shape[-2]
        pairs = zip(found.tokens[at:end], found.scores[at:end], strict=True)
        inputs.append(
            InputWords(
                name=writer_of(step.call.view("indices")).name,
                words=[WordShare(token=token, score=score) for token, score in pairs],
            )
        )
        at = end
    return WordsAnswer(
        cell=cell_ref(cell),
        method=found.method,
        inputs=inputs,
        whole=found.whole,
        note=found.note(wanted.language),
    )


# --- two runs ---


@experiments_router.post("/compare")
async def compare_runs(on: On, wanted: CompareRequest) -> ComparisonInfo:
    """The run beside one over another text: where they differ, largest differences first."""
    return await on.ask(lambda runs: _compared(on.opened, wanted, runs))


def _compared(opened: OpenTrace, wanted: CompareRequest, runs: OtherRuns) -> ComparisonInfo:
    other = runs.over(wanted.text)
    found = compare(opened.trace, other.trace)
    return ComparisonInfo(
        other=other.id,
        text=other.text,
        answer=answer_of(other).text,
        steps=[
            ComparedInfo.copy_of(
                step,
                cell=cell_ref(step.cells[0]),
                other=cell_ref(step.cells[1]),
                same_shape=tuple(step.one.shape) == tuple(step.other.shape),
            )
            for step in found.steps[:MOST_COMPARED]
        ],
        n_different=len(found.steps),
        n_same=len(found.same),
        unaligned=list(found.unaligned[:MOST_COMPARED]),
        is_partial=found.is_partial,
        note=found.note(wanted.language),
    )


# --- sweeps ---


@experiments_router.post("/sweep")
async def sweep_layer(on: On, wanted: SweepRequest) -> SweepRow:
    """One row of a sweep: the page asks for layer after layer, and shows them as they come."""
    return await on.ask(lambda runs: _swept(on.opened, wanted, runs))


def _swept(opened: OpenTrace, wanted: SweepRequest, runs: OtherRuns) -> SweepRow:
    trace = opened.trace
    if wanted.to == "mean" and wanted.over == "position":
        raise InputError("a position is switched off or copied: its mean is over positions")
    if wanted.to == "other" and wanted.text is None:
        raise InputError("numbers of another run need its text")
    layers = swept_layers(trace, wanted.over)
    if wanted.layer >= len(layers):
        raise InputError("there are {count} layers to sweep, counted from 0", count=len(layers))
    cell, layer = _measured(opened, wanted), layers[wanted.layer]
    other = None if wanted.text is None else runs.over(wanted.text).trace
    found = sweep(
        trace,
        other if wanted.to == "other" else None,
        measure=cell,
        over=wanted.over,
        layers=[layer],
        to="zero" if wanted.to == "other" else wanted.to,
        runs=[trace] if wanted.to == "mean" else (),
    )
    step = trace.stages[layer]
    axis = heads_of(step)[0] if wanted.over == "head" else position_axis(step)
    squares = [
        SweepSquare(place=place, value=float(value), edit=_along(step, axis, at, wanted))
        for at, (place, value) in enumerate(zip(found.places, found.values[0], strict=True))
        if not value.isnan()  # a position that the other text does not have
    ]
    return SweepRow(
        layers=layers,
        layer=wanted.layer,
        cell=cell_ref(cell),
        squares=squares,
        note=found.note(wanted.language),
    )


def _along(step: Step, axis: int, at: int, wanted: SweepRequest) -> Edit:
    """The intervention at one place of an axis."""
    index = [at if own == axis else None for own in range(len(step.shape))]
    if wanted.to == "other":
        return Edit(step=step.name, index=index, to="other", text=wanted.text)
    return Edit(step=step.name, index=index, to="mean" if wanted.to == "mean" else "value")


# --- layers and parts ---


@experiments_router.post("/lens")
async def read_layers(on: On, wanted: LensRequest) -> LensAnswer:
    """The likeliest word if each layer were the last, at every position."""
    return await on.ask(lambda _: _lens(on.opened, wanted))


def _lens(opened: OpenTrace, wanted: LensRequest) -> LensAnswer:
    found = logit_lens(opened.trace)
    try:
        values, positions = found.values.double(), list(found.positions)
    finally:
        for run in found.traces:
            run.close()
    shares = torch.softmax(values, -1).reshape(len(found.layers), -1, values.shape[-1])
    best = shares.max(-1)
    steps = {name: step.number for name, step in residual_stream(opened.trace)}
    return LensAnswer(
        positions=positions,
        layers=[
            LensLayer(
                name=layer,
                step=steps[layer],
                words=[
                    LensWord(text=text, probability=float(share))
                    for text, share in zip(
                        _texts(opened, best.indices[row].tolist()), best.values[row], strict=True
                    )
                ],
            )
            for row, layer in enumerate(found.layers)
        ],
        note=found.note(wanted.language),
    )


def _texts(opened: OpenTrace, ids: list[int]) -> list[str]:
    """Classes or tokens by their numbers."""
    model = opened.loaded
    if model is None or opened.task == "module":
        labels = next(iter(opened.trace.outputs.values())).labels[-1]
        return [str(id_) if labels is None else labels[id_] for id_ in ids]
    if opened.task == "classify":
        return [model.labels[id_] if model.labels else str(id_) for id_ in ids]
    return model.writer.display_tokens(ids)


@experiments_router.post("/contributions")
async def direct_contributions(on: On, wanted: ContributionsRequest) -> ContributionsAnswer:
    """What each part adds to a number; the parts add up to it."""
    return await on.ask(lambda _: _contributions(on.opened, wanted))


def _contributions(opened: OpenTrace, wanted: ContributionsRequest) -> ContributionsAnswer:
    found = contributions(_measured(opened, wanted), heads=wanted.heads)
    parts = zip(found.parts, found.values, found.sources, strict=True)
    return ContributionsAnswer(
        cell=cell_ref(_measured(opened, wanted)),
        parts=[
            ContributionInfo(
                name=name,
                value=value,
                step=None if source is None else source.step.number,
                edit=None if source is None else _off(source),
            )
            for name, value, source in parts
        ],
        total=found.total,
        note=found.note(wanted.language),
    )


def _off(block: CellBlock) -> Edit:
    """A whole step, or one place of one of its axes, set to zero."""
    shape = block.step.shape
    index: list[int | None] = [None] * len(shape)
    for axis, places in enumerate(np.unravel_index(block.places.reshape(-1), shape)):
        if shape[axis] > 1 and (places == places[0]).all():
            index[axis] = int(places[0])
    return Edit(step=block.step.name, index=index)
