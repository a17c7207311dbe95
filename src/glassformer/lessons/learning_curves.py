"""Training: one step as a computation graph, the learning rate, learning curves, overfitting.

The curves are those of real runs, stored by examples/record_curves.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from glassformer.documents.parts import Figure, Paragraph, with_code
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number
from glassformer.lessons.lesson_steps import chart
from glassformer.lessons.training_step import TwoSteps, graph_figure, two_steps

CHOICES: dict[str, tuple[str, ...]] = {"rate": ("good", "small", "large")}
RATES = {"good": 0.1, "small": 0.001, "large": 1.0}
"""The learning rates of the little network, by name."""
_TRIED = (0.001, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)


@dataclass(frozen=True)
class Curve:
    """One stored run: its losses at some of its steps."""

    rate: float
    steps: Sequence[int]
    epochs: Sequence[int]
    training: Sequence[float]
    validation: Sequence[float]
    parameters: int

    @property
    def best(self) -> int:
        """Where the loss on held-out text is least."""
        return min(range(len(self.steps)), key=self.validation.__getitem__)


@dataclass(frozen=True)
class StoredCurves:
    """What examples/record_curves.py measured, and when."""

    command: str
    date: str
    where: str
    curves: dict[str, Curve]


@lru_cache(maxsize=1)
def stored_curves() -> StoredCurves:
    text = (files(__package__) / "learning_curves.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    curves = {name: Curve(**one) for name, one in data["curves"].items()}
    return StoredCurves(data["command"], data["date"], data["where"], curves)


def _plain(rate: float) -> str:
    """`0.00001`, not 1e-05."""
    return f"{rate:.9f}".rstrip("0")


def loss_after(rate: float) -> float:
    """The loss of the little network after one step with this learning rate."""
    return float(two_steps(rate).second["loss"].value)


def steps(say: Speaker, *, rate: str = "good") -> Iterator[LessonStep]:
    both = two_steps(RATES[rate])
    yield say.step("gradient", "graph", _graph(both, say))
    yield say.step("update", "step", _step(both, RATES[rate], say))
    yield say.step("update", "rates", _rates(float(both.first["loss"].value), say))
    stored = stored_curves()
    yield say.step("training", "curve", _curve(stored, rate, say))
    yield say.step("training", "three", _three(stored, say))
    yield say.step("training", "overfitting", _overfitting(stored.curves["good"], say))


def _graph(both: TwoSteps, say: Speaker) -> Parts:
    run = both.first
    slope, output = run["gradients.error"][0], run["contracted"][0]
    facts = {
        "loss": run["loss"][()], "output": output, "slope": slope, "little": "0.01",
        "change": 0.01 * float(slope),
    }  # fmt: skip
    phrase = "slope falls" if float(slope) < 0 else "slope rises"
    yield say("graph", **facts)
    yield Figure("graph", graph_figure(run, say.language))
    yield say("backward text", **facts)
    yield say(phrase, **facts)
    yield formula(run["gradients.contract.weight"][0, 0])


def _step(both: TwoSteps, rate: float, say: Speaker) -> Parts:
    run = both.first
    moved = run["update.contract.weight.weight"][0, 0]
    before, after = float(run["loss"].value), float(both.second["loss"].value)
    facts = {
        "rate": f"{rate:g}", "before": before, "after": after,
        "weight": run["contract.weight"][0, 0], "moved": moved,
    }  # fmt: skip
    key = "step worse" if after > before else "step tiny" if after > 0.95 * before else "step good"
    yield say("step", **facts)
    yield formula(moved)
    yield say(key, **facts)


def _rates(before: float, say: Speaker) -> Parts:
    losses = [loss_after(rate) for rate in _TRIED]
    best = min(range(len(_TRIED)), key=losses.__getitem__)
    worse = [rate for rate, loss in zip(_TRIED, losses, strict=True) if loss > before]
    lines = {say("loss after"): losses, say("loss before"): [before] * len(_TRIED)}
    yield say(
        "rates", best=f"{_TRIED[best]:g}", loss=losses[best], before=before,
        worse=f"{worse[0]:g}", worse_loss=losses[_TRIED.index(worse[0])],
    )  # fmt: skip
    yield chart(
        say, "rates", _TRIED, lines, ("learning rate", "loss"), ("score", "quiet"),
        dashed=[say("loss before")], numbers=number, least=0,
    )  # fmt: skip


def _curve(stored: StoredCurves, rate: str, say: Speaker) -> Parts:
    curve = stored.curves[rate]
    facts = {
        "parameters": f"{curve.parameters:,}", "steps": f"{curve.steps[-1]:,}",
        "epochs": curve.epochs[-1], "rate": _plain(curve.rate), "first": curve.training[0],
        "last": curve.training[-1], "every": curve.steps[0], "command": stored.command,
        "date": stored.date, "per_epoch": round(curve.steps[-1] / curve.epochs[-1]),
    }  # fmt: skip
    yield say("curve", **facts)
    yield chart(
        say, "curve", curve.steps, {say("training loss"): curve.training}, ("steps", "loss"),
        title=say("curve figure", rate=_plain(curve.rate)), least=0,
    )  # fmt: skip
    yield say(f"curve {rate}", **facts)
    yield Paragraph(with_code(say("source", **facts)), "quiet")


def _three(stored: StoredCurves, say: Speaker) -> Parts:
    curves = {name: stored.curves[name] for name in ("small", "good", "large")}
    lines = {
        say("rate line", rate=_plain(curve.rate), word=say(f"rate {name}")): curve.training
        for name, curve in curves.items()
    }
    rows = (
        (_plain(curve.rate), number(curve.training[0]), number(curve.training[-1]))
        for curve in curves.values()
    )
    yield say("three", **{name: curve.training[-1] for name, curve in curves.items()})
    yield chart(
        say, "three", curves["good"].steps, lines, ("steps", "training loss"),
        ("key", "output", "query"), least=0,
    )  # fmt: skip
    yield say.table(rows, "learning rate", "loss at first", "loss at the end")


def _overfitting(curve: Curve, say: Speaker) -> Parts:
    held_out = say("validation loss")
    lines = {say("training loss"): curve.training, held_out: curve.validation}
    best = curve.best
    turns = curve.validation[-1] > curve.validation[best]
    yield say("overfitting idea")
    yield chart(
        say, "overfitting", curve.steps, lines, ("steps", "loss"), ("score", "query"),
        dashed=[held_out], least=0,
    )  # fmt: skip
    yield say(
        "overfitting turns" if turns else "overfitting not", step=curve.steps[best],
        epoch=curve.epochs[best], valid=curve.validation[best], train=curve.training[best],
        last_valid=curve.validation[-1], last_train=curve.training[-1],
        last=f"{curve.steps[-1]:,}",
    )  # fmt: skip
    yield say("remedies")
