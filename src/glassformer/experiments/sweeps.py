"""One intervention for each layer and position, or each layer and head: a map of what matters.

`average` takes the mean of such maps, or of contributions, over texts.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, ClassVar, Literal, TypeVar, get_args

import torch
from torch import Tensor

from glassformer.errors import TraceError, UnknownNameError
from glassformer.experiments.batched_replay import BatchedReplay, NotBatchedError
from glassformer.experiments.charts import bars, heat_map
from glassformer.experiments.intervention import (
    Edits,
    StepPart,
    ablation,
    heads_of,
    patching,
    steps_named,
)
from glassformer.experiments.lens import Contributions
from glassformer.experiments.measure import Measured, same_in, trace_of
from glassformer.experiments.result import Result
from glassformer.files import as_path, read_bytes
from glassformer.picture import Picture
from glassformer.tracing import Trace
from glassformer.tracing.stages import stage_called, stages_called

Measure = Measured | Callable[[Trace], Measured]
"""The number to watch: a cell of the run, or a function that picks one in any run."""
Over = Literal["position", "head"]
ReportProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, repr=False)
class Sweep(Result):
    """A number for each layer and each position (or head): the measure after the intervention."""

    kind: ClassVar[str] = "sweep"

    layers: tuple[str, ...]
    places: tuple[str, ...]
    """The positions by their tokens, or the heads."""
    values: Tensor
    """(layers, places), float64; NaN where a layer, or the other run, has no such place."""
    before: float
    """The measure in the run itself."""
    there: float | None
    """The measure in the other run, of patching between texts of the same length."""
    over: Over
    measured: Measured
    _again: Callable[[int, int], Trace] = field(repr=False, compare=False)
    _measure: Callable[[Trace], Measured] = field(repr=False, compare=False)

    @property
    def effects(self) -> Tensor:
        """What each intervention changed."""
        return self.values - self.before

    @property
    def recovered(self) -> Tensor:
        """Of patching: how far it moves the measure to that of the other run; 1 is all the way."""
        if self.there is None or self.there == self.before:
            raise TraceError(
                "nothing is recovered here: that takes a patch from a run of the same length whose "
                "measure is another"
            )
        return self.effects / (self.there - self.before)

    def trace(self, layer: int, place: int) -> Trace:
        """The run after one of the interventions, computed again."""
        if math.isnan(float(self.values[layer, place])):
            raise TraceError(
                "{layer} has no place {place}", layer=self.layers[layer], place=self.places[place]
            )
        return self._again(layer, place)

    def cell(self, layer: int, place: int) -> Measured:
        """A number of the table as the cell of its run."""
        return self._measure(self.trace(layer, place))

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "layer": layer,
                self.over: j,
                **({"token": self.places[j]} if self.over == "position" else {}),
                "value": float(self.values[i, j]),
                "effect": float(self.effects[i, j]),
            }
            for i, layer in enumerate(self.layers)
            for j in range(len(self.places))
            if not math.isnan(float(self.values[i, j]))
        ]

    def facts(self) -> dict[str, Any]:
        return {"cell": self.measured.name, "value": self.before, "over": self.over}

    def plot(self, language: str = "en") -> Picture:
        return heat_map(self.title(language), self.layers, self.places, self.effects)

    def text(self, language: str = "en", width: int | None = None) -> str:
        return self._grid(self.layers, self.places, self.effects, language, width)


def sweep(
    trace: Trace,
    other: Trace | None = None,
    *,
    measure: Measure,
    over: Over = "position",
    stage: str | None = None,
    layers: Sequence[str] | None = None,
    to: str | float = "zero",
    runs: Sequence[Trace] = (),
    progress: bool | ReportProgress = False,
    store: str | os.PathLike[str] | None = None,
) -> Sweep:
    """Every layer by every position (or head), one at a time.

    With `other`, the part is taken from that run (activation patching), else it is ablated: `to`
    and `runs` are those of `ablate`. `over="position"` acts on `resid_pre`, `over="head"` on the
    context of each head, unless `stage` names another; `layers` are those of them to be swept, by
    the names that `swept_layers` gives, if not all. Where `measure` is a cell (or a difference
    of two), many places are replayed together; a function is asked about each run in turn.
    `progress=True` draws a bar on stderr. With `store`, each number is written to that file as soon
    as it is known, and a sweep that was interrupted goes on where it stopped.
    """
    layers = _chosen(layers, swept_layers(trace, over, stage))
    steps = [trace.stages[layer] for layer in layers]
    sizes = [step.shape[-2] if over == "position" else heads_of(step)[1] for step in steps]

    def edits(row: int, column: int) -> Edits:
        chosen = {"head": column} if over == "head" else {"position": column}
        part = StepPart(layers[row], **chosen)
        if other is None:
            return ablation(trace, part, to=to, over=runs)
        return patching(trace, other, part)

    def pick(run: Trace) -> Measured:
        return measure(run) if callable(measure) else same_in(measure, run)

    measured = pick(trace)
    trace_of(measured)  # refuses what is no cell
    longest = steps[sizes.index(max(sizes))]
    tokens = longest.token_labels(-2) if over == "position" else None
    labels = tokens or tuple(map(str, range(max(sizes))))
    values = torch.full((len(layers), max(sizes)), torch.nan, dtype=torch.float64)
    before = float(measured.value)
    there = None if other is None else _value_there(pick, other)
    record = _Record(store, lambda: {
        "layers": layers, "places": list(labels), "over": over, "to": to,
        "measure": measured.name, "before": before,
        "other": there,
        "runs": [float(pick(run).value) for run in runs],
    })  # fmt: skip
    done = record.read(values)
    show = _Bar() if progress is True else progress or (lambda *_: None)
    if other is not None and over == "position":  # a text may be shorter than the other
        others = [steps_named(other, layer, per_head=False)[0].shape[-2] for layer in layers]
        sizes = list(map(min, sizes, others))
    places = [(row, at) for row, size in enumerate(sizes) for at in range(size)]
    waiting = [place for place in places if place not in done]
    together = None if callable(measure) else _batched(measured)
    for group, found in _measured_after(edits, waiting, trace, pick, before, together):
        for (row, column), value in zip(group, found, strict=True):
            values[row, column] = value
            record.add(row, column, value)
        done |= set(group)
        show(len(done), len(places))

    def again(row: int, column: int) -> Trace:
        return trace.edit(edits(row, column))

    return Sweep(tuple(layers), labels, values, before, there, over, measured, again, pick)


def _value_there(pick: Callable[[Trace], Measured], other: Trace) -> float | None:
    """The measure in the other run, which may be too short to have it."""
    try:
        return float(pick(other).value)
    except TraceError:
        return None


def swept_layers(trace: Trace, over: Over = "position", stage: str | None = None) -> list[str]:
    """The rows of a sweep: the stage of each layer that it acts on, by name."""
    if over not in get_args(Over):
        raise UnknownNameError("way of sweeping", over, get_args(Over))
    wanted = stage or ("resid_pre" if over == "position" else "context")
    layers = list(stages_called(trace, wanted))
    if not layers:
        raise UnknownNameError("stage", wanted, {stage_called(n)[1] for n in trace.stages})
    return layers


def _chosen(layers: Sequence[str] | None, known: list[str]) -> list[str]:
    """The layers that were asked for, all by default."""
    for layer in layers or ():
        if layer not in known:
            raise UnknownNameError("layer", layer, known)
    return known if layers is None else list(layers)


_Place = tuple[int, int]
"""A layer and a position or head, by number."""


def _measured_after(
    edits: Callable[[int, int], Edits],
    places: list[_Place],
    trace: Trace,
    pick: Callable[[Trace], Measured],
    before: float,
    batched: BatchedReplay | None,
) -> Iterator[tuple[list[_Place], list[float]]]:
    """The measure after the edits of each place: many replayed together, or one after the other."""
    for group in _groups(places, batched.most if batched is not None else 1):
        found = _together(batched, [edits(*place) for place in group], before)
        if found is None:
            batched, found = None, []
            for place in group:
                with trace.edit(edits(*place)) as changed:
                    found.append(float(pick(changed).value))
        yield group, found


def _batched(measured: Measured) -> BatchedReplay | None:
    try:
        return BatchedReplay(measured)
    except NotBatchedError:
        return None


def _together(
    batched: BatchedReplay | None, edits: list[Edits], before: float
) -> list[float] | None:
    """The measure after each edit; None where they have to be replayed one by one."""
    if batched is None:
        return None
    changing = [at for at, edit in enumerate(edits) if _changes(edit)]
    found = [before] * len(edits)
    if changing:
        try:
            values = batched.values([edits[at] for at in changing])
        except NotBatchedError:
            return None
        for at, value in zip(changing, values.tolist(), strict=True):
            found[at] = value
    return found


def _changes(edit: Edits) -> bool:
    """Whether an edit sets anything to another number than it has."""
    return any(
        not torch.equal(block.value, torch.as_tensor(new).to(block.value).expand(block.shape))
        for block, new in edit.items()
    )


def _groups(places: list[_Place], most: int) -> Iterator[list[_Place]]:
    """Batches of at most `most` places, each of one layer."""
    while places:
        row = places[0][0]
        group = [place for place in places[:most] if place[0] == row]
        yield group
        places = places[len(group) :]


class _Record:
    """The numbers of a sweep on disk: a line that says which sweep it is, then one for each."""

    def __init__(
        self, path: str | os.PathLike[str] | None, sweep: Callable[[], dict[str, Any]]
    ) -> None:
        self._path = None if path is None else as_path(path, TraceError)
        if self._path is not None and (self._path.is_dir() or not self._path.parent.is_dir()):
            raise TraceError(
                "a sweep is stored in a file of a folder that exists, got {path}", path=self._path
            )
        self._sweep = None if path is None else json.loads(json.dumps(sweep()))

    def read(self, values: Tensor) -> set[_Place]:
        """Take in what an earlier call found, and say which places it was.

        Any file may have been named: nothing is written before its first line is that of the sweep.
        """
        if self._path is None:
            return set()
        header = json.dumps(self._sweep) + "\n"
        try:
            is_there = self._path.exists()
            text = read_bytes(self._path, error=TraceError).decode("utf-8") if is_there else ""
            if header.startswith(text):  # also where a crash tore the first line off
                self._path.write_text(header, encoding="utf-8")
                return set()
            whole, _, torn = text.rpartition("\n")
            first, *lines = [json.loads(line) for line in whole.split("\n")]
            found = dict(_entry(line, values) for line in lines) if first == self._sweep else None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise TraceError(
                "{path} is not a file of a sweep: give another store=", path=self._path
            ) from None
        if found is None:
            raise TraceError(
                "{path} holds another sweep than this one: give another store=, or remove the file",
                path=self._path,
            )
        for place, value in found.items():
            values[place] = value
        if torn:
            self._path.write_text(f"{whole}\n", encoding="utf-8")
        return set(found)

    def add(self, row: int, column: int, value: float) -> None:
        if self._path is not None:
            line = json.dumps({"row": row, "column": column, "value": value})
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def _entry(line: Any, values: Tensor) -> tuple[_Place, float]:
    """A line of a record, if there is such a place."""
    place, value = (line["row"], line["column"]), line["value"]
    fits = all(type(at) is int and 0 <= at < n for at, n in zip(place, values.shape, strict=True))
    if not fits or type(value) not in (int, float):
        raise ValueError("no number of this sweep")
    return place, float(value)


class _Bar:
    """A line on stderr that fills up."""

    def __init__(self) -> None:
        self._began = monotonic()

    def __call__(self, done: int, whole: int) -> None:
        filled = 30 * done // whole
        seconds = monotonic() - self._began
        left = seconds * (whole - done) / max(1, done)
        bar = "█" * filled + "░" * (30 - filled)
        end = "\n" if done == whole else ""
        sys.stderr.write(f"\r{bar} {done}/{whole}  {seconds:.0f} s, {left:.0f} s left {end}")
        sys.stderr.flush()


# --- the same on many texts ---


Averaged = TypeVar("Averaged", Sweep, Contributions)


@dataclass(frozen=True, slots=True, repr=False)
class Average(Result):
    """Means over sweeps (of their effects) or contributions, each of another text."""

    kind: ClassVar[str] = "average"
    measured: None = field(default=None, init=False, repr=False)

    results: tuple[Sweep, ...] | tuple[Contributions, ...] = field(repr=False)
    names: tuple[str, ...]
    """The layers, or the parts."""
    places: tuple[str, ...]
    """The positions or heads of sweeps; empty for contributions."""
    values: Tensor
    """Means: (layers, places) or (parts), float64."""
    deviations: Tensor
    """Standard deviations between the texts, in the same shape; NaN for a single text."""

    def rows(self) -> list[dict[str, Any]]:
        first = self.results[0]
        found = []
        for at, name in enumerate(self.names):
            if isinstance(first, Contributions):
                found.append({"part": name, **self._said(at)})
                continue
            for place in range(len(self.places)):
                if not bool(self.values[at, place].isnan()):
                    found.append({"layer": name, first.over: place, **self._said(at, place)})
        return found

    def _said(self, *at: int) -> dict[str, float]:
        return {"mean": float(self.values[at]), "deviation": float(self.deviations[at])}

    def facts(self) -> dict[str, Any]:
        return {"runs": len(self.results)}

    def cell(self, run: int, *place: Any) -> Any:
        """A number behind a mean: the cell of that text's own result."""
        return self.results[run].cell(*place)

    def plot(self, language: str = "en") -> Picture:
        if self.values.ndim == 1:
            return bars(self.title(language), self.names, self.values.tolist())
        return heat_map(self.title(language), self.names, self.places, self.values)

    def text(self, language: str = "en", width: int | None = None) -> str:
        if self.values.ndim == 1:
            return Result.text(self, language, width)
        return self._grid(self.names, self.places, self.values, language, width)


def average(results: Sequence[Averaged]) -> Average:
    """The mean of sweeps, or of contributions, over texts of the same length."""
    given = tuple(results)
    kinds = {type(one) for one in given}
    if len(kinds) != 1 or not kinds <= {Sweep, Contributions}:
        raise TraceError(
            "an average is over sweeps, or over contributions, one for each text; got {kinds}",
            kinds=", ".join(sorted(kind.__name__ for kind in kinds)) or "–",
        )
    alike = {_shape(one) for one in given}
    if len(alike) != 1:
        raise TraceError(
            "the results have different layers, places or parts: take texts of the same number of "
            "tokens, and the same questions"
        )
    numbers = torch.stack([_numbers(one) for one in given])
    spread = numbers.std(0) if len(given) > 1 else torch.full_like(numbers[0], torch.nan)
    first = given[0]
    if isinstance(first, Contributions):
        return Average(given, first.parts, (), numbers.mean(0), spread)
    same = {one.places for one in given if isinstance(one, Sweep)}
    places = first.places if len(same) == 1 else tuple(map(str, range(len(first.places))))
    return Average(given, first.layers, places, numbers.mean(0), spread)


def _shape(result: Sweep | Contributions) -> tuple[Any, ...]:
    if isinstance(result, Contributions):
        return result.parts
    return result.layers, len(result.places), result.over


def _numbers(result: Sweep | Contributions) -> Tensor:
    if isinstance(result, Sweep):
        return result.effects
    return torch.tensor(result.values, dtype=torch.float64)
