"""A picture of a run: loss, score, learning rate and gradient over the updates.

Reads metrics.jsonl and knows nothing else of the run. matplotlib is imported when it is asked for.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.training.log import read_metrics, records_in
from glassformer.training.run_folder import RunFolder

_PANELS = {
    "loss": ("loss", "valid_loss"),
    "score": ("valid_accuracy", "valid_bleu", "valid_rmse"),
    "learning rate": ("lr",),
    "gradient's length": ("grad_norm",),
}


def check_drawing() -> None:
    """Refuse, in one line, where nothing can be drawn with."""
    if find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib: pip install matplotlib")


def plot_run(folder: Path) -> Path:
    """Draw a run into `plot.png` of its folder; measures that it does not have are left out."""
    check_drawing()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    records = _records(RunFolder(folder).metrics)
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
    axes[-1].set_xlabel("updates")
    target = folder / "plot.png"
    figure.savefig(target, dpi=120)
    return target


def _records(metrics: Path) -> list[dict[str, Any]]:
    records = [record.data for record in records_in(read_metrics(metrics))]
    if not records:
        raise DataError("{metrics} is empty: there is nothing to draw", metrics=metrics)
    return records
