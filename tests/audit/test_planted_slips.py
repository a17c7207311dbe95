"""Mistakes of every kind, planted in random examples, are found and named."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks import slips
from glassformer.audit import CATALOGUE
from glassformer.audit.example_file import read_example
from glassformer.audit.judgement import audit
from tests.audit.planting import PLANTS, Plant, make, text

seeds = st.integers(0, 2**32 - 1)
# The same seeds in every run: with enough of them a slip will one day look like another by chance.
few = settings(max_examples=4, derandomize=True)


def names(plant: Plant) -> str:
    return f"{plant.kind}-{plant.step}"


@given(seed=seeds, carry_rounded=st.booleans())
@settings(max_examples=25, derandomize=True)
def test_a_right_example_is_right_and_no_slip_is_invented(seed: int, carry_rounded: bool) -> None:
    result = audit(read_example(text(make(seed, carry_rounded=carry_rounded)), "made", "made"))
    assert result.ok
    for step in result.results:
        assert step.verdict == ("given" if step.step.tree is None else "agrees"), step.step.id
        assert step.slip("en") is None


@pytest.mark.parametrize("plant", PLANTS, ids=names)
@given(seed=seeds, carry_rounded=st.booleans())
@few
def test_a_planted_slip_is_found_and_named(plant: Plant, seed: int, carry_rounded: bool) -> None:
    data = make(seed, plant, carry_rounded=carry_rounded)
    assume(_differs(data, make(seed), plant.step))
    result = audit(read_example(text(data), "made", "made"))
    assert result[plant.step].verdict == "wrong"
    assert (plant.kind,) in [found.kinds for found in result[plant.step].explanations]
    others = [step for step in result.results if step.step.id != plant.step]
    assert not [step.step.id for step in others if step.verdict == "wrong"]


def _differs(data: dict[str, Any], right: dict[str, Any], step: str) -> bool:
    """Whether a slip changes a printed digit (weights may add up to one anyway)."""
    printed, other = (
        next(part["printed"] for part in each["steps"] if part["id"] == step)
        for each in (data, right)
    )
    return bool(printed != other)


def test_every_kind_of_the_catalogue_is_planted_somewhere() -> None:
    words_and_pairs = {"token", "elementwise"}  # in the two tests below
    planted = {plant.kind for plant in PLANTS} - {"not_softmax"}
    assert planted | words_and_pairs == {slip.kind for slip in CATALOGUE}


@given(words=st.lists(st.sampled_from("abcdefgh"), min_size=3, max_size=7, unique=True))
@few
def test_a_dropped_token_is_found_in_words_and_in_their_rows(words: list[str]) -> None:
    lost = len(words) // 2
    kept = [word for i, word in enumerate(words) if i != lost]
    table = [[i, i * i] for i in range(len(words))]
    steps = [
        {"id": "text", "words": " ".join(words)},
        {"id": "tokens", "formula": "words(text)", "words": kept},
        {"id": "table", "printed": table},
        {"id": "all", "words": words},
        {
            "id": "rows",
            "formula": "lookup(all, all, table)",
            "printed": table[:lost] + table[lost + 1 :],
            "decimals": 0,
        },
    ]
    result = audit(read_example(json.dumps({"steps": steps}), "t", "t"))
    assert result["tokens"].explanations[0].kinds == ("token",)
    assert words[lost] in (result["tokens"].slip("en") or "")
    assert result["rows"].explanations[0].kinds == ("token",)


@given(seed=seeds)
@few
def test_a_product_number_by_number_is_found(seed: int) -> None:
    a, b = np.random.default_rng(seed).integers(2, 9, size=(2, 3, 3))
    assume(not np.array_equal(a @ b, a * b))
    steps = [
        {"id": "a", "printed": a.tolist()},
        {"id": "b", "printed": b.tolist()},
        {"id": "c", "formula": "a @ b", "printed": (a * b).tolist(), "decimals": 0},
    ]
    result = audit(read_example(json.dumps({"steps": steps}), "t", "t"))
    assert ("elementwise",) in [found.kinds for found in result["c"].explanations]


X, W, U, H = (np.random.default_rng(3).integers(-9, 10, size=(4, 3, 3)) / 10).round(1)
CELL = "tanh(x @ w + h @ u)"


@pytest.mark.parametrize(
    ("formula", "printed", "slip"),
    [
        (CELL, np.tanh(X @ U + H @ W), "operands swapped: x and h"),
        (CELL, np.tanh(X @ W), "a term left out: without h @ u"),
        (
            "layer_norm(x)",
            (X - X.mean(0)) / np.sqrt(X.var(0) + 1e-5),
            "wrong axis: mean and variance down the columns instead of along the rows",
        ),
        ("x @ w / sqrt(3)", X @ W / 3, "wrong divisor: divided by 3 instead of √3"),
        (
            "x^2 / sum(x^2, keep=1)",  # which is 1 in places, to no decimals
            X**2,
            "wrong divisor: not divided by sum(x^2, keep=1)",
        ),
    ],
)
def test_one_mistake_has_one_name(formula: str, printed: NDArray[np.float64], slip: str) -> None:
    """Also where another slip gives the same numbers, or rounding to zero would."""
    steps = [
        {"id": name, "printed": value.tolist()}
        for name, value in {"x": X, "w": W, "u": U, "h": H}.items()
    ]
    wrong = {"id": "y", "formula": formula, "printed": printed.round(4).tolist(), "decimals": 4}
    result = audit(read_example(json.dumps({"steps": [*steps, wrong]}), "t", "t"))
    assert result["y"].slip("en") == slip


@given(seed=seeds, row=st.integers(0, 4))
@few
def test_a_slip_in_one_row_alone_is_located(seed: int, row: int) -> None:
    """The right rows agree; the reported cells are those of the wrong one."""
    data = make(seed)
    steps = {step["id"]: step for step in data["steps"]}
    query = np.array(steps["query"]["printed"])
    steps["value"]["printed"][row] = query[row].tolist()
    result = audit(read_example(text(data), "made", "made"))["value"]
    found = next(each for each in result.explanations if each.kinds == ("pasted",))
    assert found.slips[0].cells is not None
    assert {cell[0] for cell in found.slips[0].cells} == {row}


def test_a_number_that_no_slip_gives_gets_none() -> None:
    data = make(1)
    steps = {step["id"]: step for step in data["steps"]}
    steps["query"]["printed"][1][2] += 0.777
    result = audit(read_example(text(data), "made", "made"))["query"]
    assert result.verdict == "wrong"
    assert result.slip("en") == "no known slip"
    assert result.off is not None
    assert np.argwhere(result.off > 0).tolist() == [[1, 2]]
    assert result.off[1, 2] == pytest.approx(0.777, abs=0.0011)


def test_nine_of_ten_slips_get_their_own_name_whatever_the_formula() -> None:
    """A sample of `python -m benchmarks.slips`: one seed instead of five."""
    formulas: dict[str, set[str]] = {}
    for case in slips.CASES:
        formulas.setdefault(case.slip, set()).add(case.formula)
    assert len(formulas) >= 13
    assert min(map(len, formulas.values())) >= 3
    table, right, tried = slips.table(seeds=(0,))
    assert right >= 0.9 * tried, table


@pytest.mark.parametrize("case", slips.CASES, ids=lambda case: f"{case.kind}-{case.formula}")
def test_the_right_numbers_of_these_formulas_are_right(case: slips.Case) -> None:
    clean = replace(case, wrong=case.right)
    for scene in slips.SCENES:
        if case.decimals is not None:
            assert slips.planted(clean, 7, scene).verdict == "agrees"
