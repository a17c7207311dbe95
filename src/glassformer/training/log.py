"""The log of a run: metrics.jsonl and its plot; a progress bar or plain lines on stderr.

The loop calls `Reporter`; it does not know which kind it has. rich draws the bar and matplotlib the
plot, where they are installed.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.errors import DataError, NotInstalledError, TrainingError
from glassformer.files import parse_object, read_bytes
from glassformer.language import words

say = words(__name__)

_EVERY = 10.0  # seconds between lines, where no bar is drawn
_MOST_METRICS = 256 * 2**20  # bytes: a line takes about 200, so over a million of them


class Record(NamedTuple):
    """One line of metrics.jsonl, raw and parsed."""

    line: bytes
    data: dict[str, Any]


def read_metrics(path: Path) -> bytes:
    """The bytes of a metrics.jsonl; empty if there is none yet."""
    if not path.exists():
        return b""
    return read_bytes(path, error=TrainingError, most=_MOST_METRICS)


def records_in(metrics: bytes) -> Iterator[Record]:
    """The valid records of a metrics.jsonl.

    The last line may be cut short by a kill, and other programs may write to the file: anything
    else is skipped.
    """
    for number, line in enumerate(metrics.split(b"\n"), start=1):
        with suppress(TrainingError):
            data = parse_object(line, f"line {number}", error=TrainingError)
            if type(data.get("step")) is int:
                yield Record(line, data)


class Reporter:
    """Logs nothing: for tests and programs."""

    def start(self, step: int, total: int) -> None:
        """The run starts, or resumes, at `step` of `total`."""

    def step(self, step: int, facts: Mapping[str, float]) -> None:
        """New numbers are known, as of `step`."""

    def tick(self, step: int) -> None:
        """A step was launched; its numbers are not known yet."""

    def line(self, text: str) -> None:
        """Print a message."""

    def stop(self) -> None:
        """The run is over."""


class PlainReporter(Reporter):
    """A line every few seconds, for files and pipes."""

    def __init__(self) -> None:
        self._last = 0.0
        self._total = 0
        self._started = (0, time.monotonic())

    def start(self, step: int, total: int) -> None:
        self._total = total
        self._started = (step, time.monotonic())

    def step(self, step: int, facts: Mapping[str, float]) -> None:
        now = time.monotonic()
        if now - self._last < _EVERY and step < self._total:
            return
        self._last = now
        first, since = self._started
        left = (now - since) / max(1, step - first) * (self._total - step)
        shown = {"step": step, "total": self._total, "facts": score_text(facts)}
        self.line(say("step", clock=_clock(left), **shown))

    def line(self, text: str) -> None:
        with suppress(OSError):  # nobody reads the pipe any more, or the log's disk is full
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


class BarReporter(Reporter):
    """A progress bar drawn by rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.completed}/{task.total}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[facts]}"),
            console=Console(stderr=True),
            speed_estimate_period=300,  # a step may take half a minute
        )
        self._task: Any = None

    def start(self, step: int, total: int) -> None:
        self._progress.start()
        self._task = self._progress.add_task("", total=total, completed=step, facts="")

    def tick(self, step: int) -> None:
        self._progress.update(self._task, completed=step)

    def step(self, step: int, facts: Mapping[str, float]) -> None:
        self._progress.update(self._task, completed=step, facts=score_text(facts))

    def line(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    def stop(self) -> None:
        self._progress.stop()


def make_reporter() -> Reporter:
    """A progress bar on a terminal if rich is installed, else plain lines."""
    if sys.stderr.isatty():
        try:
            return BarReporter()
        except ImportError:
            return PlainReporter()
    return PlainReporter()


def score_text(facts: Mapping[str, Any]) -> str:
    """Numbers with their names, for a log line."""
    return "  ".join(
        f"{name.replace('_', ' ')} {_number(value)}"
        for name, value in facts.items()
        if isinstance(value, int | float)
    )


def _number(value: float) -> str:
    if value != value or abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


_PANELS = {
    "loss": ("loss", "valid_loss"),
    "score": ("valid_accuracy", "valid_bleu", "valid_rmse"),
    "learning rate": ("lr",),
    "gradient norm": ("grad_norm",),
}


def check_plotting() -> None:
    """Raise if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise NotInstalledError("--plot needs matplotlib: pip install 'glassformer[plots]'")


def plot_run(folder: Path) -> Path:
    """Plot a run's metrics to `plot.png` in its folder; metrics that it lacks are left out."""
    check_plotting()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    metrics = folder / "metrics.jsonl"
    records = [record.data for record in records_in(read_metrics(metrics))]
    if not records:
        raise DataError("{metrics} is empty: there is nothing to plot", metrics=metrics)
    present = {
        title: [name for name in names if any(name in record for record in records)]
        for title, names in _PANELS.items()
    }
    panels = {title: names for title, names in present.items() if names}
    figure = Figure(figsize=(6, 2.2 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (title, names) in zip(axes, panels.items(), strict=True):
        for name in names:
            points = [(r["step"], r[name]) for r in records if name in r]
            axis.plot(*zip(*points, strict=True), label=name.replace("_", " "))
        axis.set_ylabel(title)
        axis.legend(frameon=False)
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("steps")
    target = folder / "plot.png"
    figure.savefig(target, dpi=120)
    return target
