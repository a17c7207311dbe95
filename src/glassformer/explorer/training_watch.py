"""`train --watch`: a training run and the page that shows it, in one process.

Nothing that goes wrong with the page ends the run.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import GlassformerError, TrainingError, UnknownNameError
from glassformer.explorer.model_list import task_of
from glassformer.explorer.open_traces import OpenTrace
from glassformer.explorer.schemas import RunCurves, WatchInfo, WatchLayer
from glassformer.language import message_of, words
from glassformer.tasks import load
from glassformer.training.snapshots import Sample, model_folder, read_attention, read_watch

say = words("glassformer.cli.messages")

_MOST_RUNS = 40
_QUIET_S = 0.7
"""A page that has asked for nothing for so long has all that it wants."""


class WatchedRun:
    """What the page asks of a training run: it reads the run's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._n_heads: dict[str, int] = {}
        self._last_look: float | None = None
        self._end_was_seen = threading.Event()

    def info(self, since: int) -> WatchInfo:
        """The metrics from an offset on, and the pictures there are."""
        found = read_watch(self._folder, since)
        self._last_look = time.monotonic()
        sample = found.sample
        has_pictures = sample is not None and bool(found.snapshots)
        answer = WatchInfo.copy_of(
            found,
            recipe=sample.recipe if sample else self._folder.name,
            total=sample.total if sample else None,
            models=found.models if sample and sample.inputs else [],
            has_text=bool(sample and sample.inputs),
            runs=self._others(),
            layers=list(self._layers(sample, found.snapshots[-1]))
            if sample and has_pictures
            else [],
        )
        if found.state != "running":
            self._end_was_seen.set()
        return answer

    def attention(self, update: int, layer: int) -> NDArray[np.float32]:
        """The weights of one layer after an update: heads × queries × keys."""
        sample = self._sample()
        places = list(_places(sample)) if sample else []
        n_places, number = len(places), layer
        if layer < n_places:
            kind, number = places[layer]
            weights = read_attention(self._folder, update, kind)
            if number < len(weights):
                chosen: NDArray[np.float32] = weights[number]
                return chosen
            n_places = len(weights)  # a file of another model
        raise TrainingError(
            "the run has {n_places} attention layers, not layer {layer}",
            n_places=n_places,
            layer=number,
        )

    def trace(self, update: int) -> OpenTrace:
        """The model after an update, run over the text of the pictures."""
        sample = self._sample()
        if sample is None or not sample.inputs:
            raise TrainingError("the run has no text to trace")
        model = load(model_folder(self._folder, update), attention="written")
        ids, *target = sample.inputs
        reading = model.pass_over(ids, *(one[1:] for one in target[-1:]))  # it adds the start
        name, text = f"{sample.recipe} @ {update}", model.reader.decode(ids)
        recorded = reading.trace()
        return OpenTrace(recorded, name, task_of(model), text, loaded=model, reading=reading)

    def _sample(self) -> Sample | None:
        self._last_look = time.monotonic()
        return read_watch(self._folder).sample

    def other(self, name: str) -> RunCurves:
        """Another run in the same folder; only names that `info` lists are read."""
        if name not in self._others():
            raise UnknownNameError("run", name[:80], self._others())
        found = read_watch(self._folder.parent / name)
        return RunCurves.copy_of(
            found,
            name=name,
            recipe=found.sample.recipe if found.sample else name,
            total=found.sample.total if found.sample else None,
        )

    def _others(self) -> list[str]:
        """The runs beside this one, the newest first."""
        files = [
            file
            for file in self._folder.parent.glob("*/metrics.jsonl")
            if file.parent.name != self._folder.name and file.is_file()
        ]
        newest = sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)
        return [file.parent.name for file in newest[:_MOST_RUNS]]

    def wait_for_farewell(self, seconds: float) -> None:
        """Wait until the page, if there is one, knows that the run is over and has its pictures."""
        deadline = time.monotonic() + seconds
        if self._last_look is None or not self._end_was_seen.wait(seconds):
            return
        while time.monotonic() < min(deadline, self._last_look + _QUIET_S):
            time.sleep(0.05)

    def _layers(self, sample: Sample, update: int) -> Iterator[WatchLayer]:
        for attending in sample.attending:
            if attending.kind not in self._n_heads:
                weights = read_attention(self._folder, update, attending.kind)
                self._n_heads[attending.kind] = weights.shape[1]
            for number in range(attending.n_layers):
                yield WatchLayer.copy_of(
                    attending,
                    part=attending.kind,
                    layer=number,
                    n_heads=self._n_heads[attending.kind],
                )


def _places(sample: Sample) -> Iterator[tuple[str, int]]:
    """The kind and the number of each layer, in the order in which the page counts them."""
    for attending in sample.attending:
        for number in range(attending.n_layers):
            yield attending.kind, number


_FAREWELL_S = 5.0
"""How long a page that looks on may take to fetch the end of the run; it asks every second."""


@contextmanager
def watch(folder: Path) -> Iterator[None]:
    """Show the run of a folder on a local page while the context lasts."""
    if os.environ.get("RANK", "0") != "0":  # of several processes, the first one is watched
        yield
        return
    run: WatchedRun | None = None
    try:
        run, address = _serve(folder)
        _write(say("train watch", address=address))
    except ImportError as error:
        _write(say("train no library", error=error))
    except (GlassformerError, OSError) as error:
        _write(say("train no page", error=message_of(error)))
    try:
        yield
    finally:
        if run is not None:
            with suppress(KeyboardInterrupt):  # the run is over: only the page is not waited for
                run.wait_for_farewell(_FAREWELL_S)
            if (folder / "metrics.jsonl").is_file():
                _write(say("train over", folder=shlex.quote(str(folder))))


def _serve(folder: Path) -> tuple[WatchedRun, str]:
    from glassformer.explorer.api import create_api
    from glassformer.explorer.server import prepare
    from glassformer.explorer.state import State

    run = WatchedRun(folder)
    state = State()
    state.watched = run
    state.claims.can_measure = state.lessons.can_make = False  # both seed torch, as the run does
    # Loaded before the run starts: afterwards the two would fight over the interpreter's lock.
    api = create_api(state)
    serving = prepare(lambda: api)
    serving.start()
    return run, serving.address


def _write(line: str) -> None:
    sys.stderr.write(f"glassformer: {' '.join(line.split())}\n")
    sys.stderr.flush()
