"""A wrong number in every printed step is found if it can be, and nothing else is blamed.

The ordinary suite takes a sample; `pytest -m slow` and `python -m tests.audit.fuzz` take the
shipped examples and 200 articles, and print how long the slowest report took.
"""

import json
from typing import Any

import numpy as np
import pytest

from glassformer.audit import judgement
from glassformer.audit.example_file import example_names, read_example
from glassformer.audit.formulas.evaluator import Work
from glassformer.audit.judgement import audit
from tests.audit.articles import article, misprints
from tests.audit.fuzz import Figures, campaign, everything, shipped


def check(figures: Figures) -> None:
    assert figures.alarms == []
    assert figures.missed == []
    assert figures.blamed == []
    assert figures.found == figures.decidable


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small budget for causes, on which verdicts do not depend."""
    monkeypatch.setattr(judgement, "MOST_WORK", 100_000)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("name", example_names())
def test_misprints_in_shipped_examples(name: str) -> None:
    every = 6 if name == "by-hand" else 2
    check(campaign([(name, shipped(name), False)], Figures(), every=every))


@pytest.mark.usefixtures("hasty")
def test_misprints_in_articles() -> None:
    figures = campaign([(str(seed), article(seed), True) for seed in range(8)], Figures(), every=6)
    check(figures)
    assert figures.clean == 8
    assert figures.decidable > 20


@pytest.mark.slow
def test_misprints_in_everything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole campaign. Asserts nothing about seconds, only about the work behind them."""
    spent: list[int] = []

    class Counted(Work):
        def take(self, numbers: int) -> None:
            spent[-1] += numbers
            super().take(numbers)

    def counted(*arguments: Any) -> Any:
        spent.append(0)
        return audit(*arguments)

    monkeypatch.setattr(judgement, "Work", Counted)
    monkeypatch.setattr("tests.audit.fuzz.audit", counted)
    figures = campaign(everything(200), Figures())
    with capsys.disabled():
        print(f"\n{figures.lines()}\nmost work in a report: {max(spent):,} numbers")  # noqa: T201
    check(figures)
    assert figures.clean == 200
    assert figures.decidable > 0.8 * figures.planted
    assert max(spent) < 4 * judgement.MOST_WORK


# What ended in a traceback: a wrong single number, computed from rounded ones.
SINGLE = [
    "p @ p", "p[0] * p[1]", "-log(p[1])", "argmax(p)", "sum(p) / 2", "exp(sum(p))",
    "sum(p)", "mean(p)", "max(p)", "std(p)", "p[1]",
]  # fmt: skip


@pytest.mark.parametrize("formula", SINGLE)
def test_a_wrong_single_number_made_from_rounded_ones(formula: str) -> None:
    steps = [
        {"id": "p", "printed": [0.2, 0.5], "rounded": True, "decimals": 1},
        {"id": "m", "formula": formula, "printed": 9.1, "decimals": 1},
    ]
    found = audit(read_example(json.dumps({"steps": steps}), "t", "t"))["m"]
    assert found.verdict == "wrong"
    assert found.note is None


def test_exchanged_digits_of_a_single_number_are_named() -> None:
    steps = [
        {"id": "p", "printed": [2.0, 6.15], "rounded": True, "decimals": 2},
        {"id": "m", "formula": "p @ p", "printed": 48.12, "decimals": 2},
    ]
    p = np.array([2.0, 6.15])
    assert round(float(p @ p), 2) == 41.82
    found = audit(read_example(json.dumps({"steps": steps}), "t", "t"))["m"]
    assert [part.kinds for part in found.explanations] == [("digits",)]


@pytest.mark.parametrize(
    ("seed", "step"),
    [(10, "sum_f0"), (129, "k_2_0"), (129, "head_2_0"), (129, "sum_a2"), (183, "head_1_1")],
)
def test_misprints_behind_several_unprinted_layers_are_found(seed: int, step: str) -> None:
    """Attention, feed-forward and norms between what is printed and the wrong number."""
    data = article(seed)
    assert audit(read_example(json.dumps(data), "clean", "clean")).ok
    place = len(example_names()) + seed  # where the campaign's own numbers come from
    (planted,) = [found for found in misprints(data, place) if found.step == step]
    assert audit(planted.example())[step].verdict == "wrong"
