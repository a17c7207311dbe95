"""Plots for the claims where one helps; they need matplotlib (the extra `plots`).

Each plot is drawn from the functions that the claim measures with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.claims.properties import spread_by_width
from glassformer.claims.scaling_claims import WIDTHS
from glassformer.claims.studies import (
    ONE_HEAD_BOUND,
    learn_at_depth,
    learn_neighbours,
    learn_relatedness,
    learn_roles,
)
from glassformer.errors import ConfigError
from glassformer.nn.positions import sinusoidal_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _related_words(axes: Axes) -> None:
    learnt = learn_relatedness("who")
    image = axes.imshow(learnt.products.numpy(), cmap="RdBu_r", vmin=-5, vmax=5)
    axes.set_xticks(range(len(learnt.words)), learnt.words, rotation=90)
    axes.set_yticks(range(len(learnt.words)), learnt.words)
    axes.figure.colorbar(image, label="product after training")


def _spread(axes: Axes) -> None:
    for scaled, label in ((False, "q · k"), (True, "q · k / √k")):
        spreads = spread_by_width(WIDTHS, scaled=scaled)
        axes.loglog(WIDTHS, [s.deviation for s in spreads], "o-", label=label)
    axes.set(xlabel="width k", ylabel="standard deviation of the scores")
    axes.legend()


def _gradients(axes: Axes) -> None:
    for scaled, label in ((False, "q · k"), (True, "q · k / √k")):
        spreads = spread_by_width(WIDTHS, scaled=scaled)
        axes.semilogx(WIDTHS, [s.gradient_size for s in spreads], "o-", label=label)
    axes.set(xlabel="width k", ylabel="size of the softmax gradient")
    axes.legend()


def _heads_apart(axes: Axes) -> None:
    reading = learn_roles(2, "in scores")
    words = ("mary", "gave", "roses", "to", "susan")
    for head, weights in enumerate(reading.weights.tolist()):
        places = [at + 0.4 * head - 0.2 for at in range(len(words))]
        axes.bar(places, weights, width=0.4, label=f"head {head + 1}")
    axes.set_xticks(range(len(words)), words)
    axes.set(ylabel="weight that “gave” gives")
    axes.legend()


def _resolution(axes: Axes) -> None:
    errors = [learn_neighbours(n_heads).error for n_heads in (1, 2)]
    axes.bar(("one head", "two heads"), errors)
    axes.axhline(ONE_HEAD_BOUND, linestyle="--", color="black", label="bound of one head")
    axes.set(ylabel="error in reporting both neighbours")
    axes.legend()


def _depth(axes: Axes) -> None:
    variants = {"both": (True, True), "no norms": (True, False), "no residuals": (False, True)}
    accuracies = [
        learn_at_depth(4, residual=residual, norm=norm, steps=100, learning_rate=0.003).accuracy
        for residual, norm in variants.values()
    ]
    axes.bar(list(variants), accuracies)
    axes.set(ylabel="share right after 100 steps, four blocks", ylim=(0, 1))


def _sinusoids(axes: Axes) -> None:
    image = axes.imshow(sinusoidal_table(64, 32).numpy(), cmap="RdBu_r", aspect="auto")
    axes.set(xlabel="dimension", ylabel="position")
    axes.figure.colorbar(image)


PLOTS: dict[str, Callable[[Axes], None]] = {
    "C13": _related_words,
    "C30": _gradients,
    "C31": _spread,
    "C39": _heads_apart,
    "C46": _resolution,
    "C53": _depth,
    "C66": _sinusoids,
}


def draw(ids: Iterable[str], folder: Path) -> list[Path]:
    """Write a plot for each of these claims that has one; return the files."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("plots need matplotlib: pip install 'glassformer[plots]'") from error

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for id_ in ids:
        if id_ not in PLOTS:
            continue
        figure = Figure(figsize=(6, 4), layout="constrained")
        FigureCanvasAgg(figure)  # no window system, no global state
        axes = figure.subplots()
        PLOTS[id_](axes)
        axes.set_title(id_)
        written.append(folder / f"{id_}.png")
        figure.savefig(written[-1], dpi=120)
    return written
