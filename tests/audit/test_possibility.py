"""Numbers that no input could give are found, and correct numbers never are."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.audit import CATALOGUE
from glassformer.audit.example_file import read_example
from glassformer.audit.judgement import audit
from glassformer.audit.verdicts import StepResult
from tests.audit.audits import audit_of

seeds = st.integers(0, 2**32 - 1)
places = st.integers(0, 5)
several = settings(max_examples=40)

Array = np.ndarray[Any, np.dtype[np.float64]]


def judged(formula: str, printed: Any, decimals: int, **inputs: Any) -> StepResult:
    """The verdict on numbers whose inputs are printed (a list) or not (a shape)."""
    steps: list[dict[str, Any]] = []
    for name, value in inputs.items():
        if isinstance(value, tuple):
            steps.append({"id": name, "shape": list(value), "printed": "..."})
        elif isinstance(value, dict):
            steps.append({"id": name, **value})
        else:
            steps.append({"id": name, "printed": value})
    steps.append({"id": "result", "formula": formula, "printed": printed, "decimals": decimals})
    return audit(read_example(json.dumps({"steps": steps}), "t", "t"))["result"]


def kinds(result: StepResult) -> list[str]:
    return [kind for found in result.explanations for kind in found.kinds]


def shown(values: Array, decimals: int, random: np.random.Generator) -> Any:
    """Rounded as an author prints them, with some left out."""
    cells = np.round(values, decimals).tolist()
    hide = random.random(values.shape) < random.choice([0.0, 0.3])
    return [
        [None if hidden else cell for cell, hidden in zip(row, line, strict=True)]
        for row, line in zip(cells, hide, strict=True)
    ]


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def normalised(x: Array, eps: float, missing: int = 0) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(centred / (x.std(axis=-1, ddof=missing, keepdims=True) + eps))


@given(seed=seeds, decimals=places)
@several
def test_no_right_numbers_are_called_impossible(seed: int, decimals: int) -> None:
    """Whatever is left out: bounds allow for every rounding."""
    random = np.random.default_rng(seed)
    size = float(random.choice([1e-5, 0.1, 1.0, 30.0]))
    x = random.normal(size=(4, 5)) * size
    x[2] = x[0]
    w, b = random.normal(size=(5, 3)) * size, random.normal(size=3)
    given = np.round(x, 2)
    cases: list[tuple[str, Array, dict[str, Any]]] = [
        ("softmax(x)", softmax(x), {"x": (4, 5)}),
        ("softmax(x)", softmax(given), {"x": given.tolist()}),
        ("log_softmax(x)", np.log(softmax(given)), {"x": given.tolist()}),
        ("layer_norm(x, 0.001)", (x - x.mean(1, keepdims=True))
         / np.sqrt(x.var(1, keepdims=True) + 0.001), {"x": (4, 5)}),
        ("(x - mean(x, keep=1)) / (std(x, keep=1) + 0.01)", normalised(x, 0.01), {"x": (4, 5)}),
        ("(x - mean(x, keep=1)) / (std(x, keep=1) + 0.01)", normalised(given, 0.01),
         {"x": given.tolist()}),
        ("(x - mean(x, keep=1)) / std(x, keep=1, sample=1)", normalised(x, 0, 1), {"x": (4, 5)}),
        ("x @ w", given @ w, {"x": given.tolist(), "w": (5, 3)}),
        ("x @ w + b", given @ w + b, {"x": given.tolist(), "w": (5, 3), "b": (3,)}),
        ("relu(x @ w + b)", np.maximum(given @ w + b, 0),
         {"x": given.tolist(), "w": (5, 3), "b": (3,)}),
        ("relu(x @ w + b)", np.maximum(x @ np.clip(w, -1, 1) + b, 0), {
            "x": {"printed": given.tolist(), "rounded": True, "decimals": 2},
            "w": {"shape": [5, 3], "printed": "...", "between": [-1, 1]}, "b": (3,)}),
        ("x @ w + y", given @ w + random.normal(size=(4, 3)),
         {"x": given.tolist(), "w": (5, 3), "y": (4, 3)}),
        ("proportion(x)", x / x.sum(1, keepdims=True), {"x": (4, 5)}),
        ("relu(x)", np.maximum(x, 0), {"x": (4, 5)}),
        ("softmax(s) @ x", softmax(random.normal(size=(3, 4)) * size) @ given,
         {"s": (3, 4), "x": given.tolist()}),
        ("softmax(s) @ x", softmax(random.normal(size=(3, 4)) * size) @ x, {"s": (3, 4), "x": {
            "printed": given.tolist(), "rounded": True, "decimals": 2}}),
        ("tanh(x)", np.tanh(x), {"x": (4, 5)}),
    ]  # fmt: skip
    for formula, values, inputs in cases:
        if np.all(np.isfinite(values)):  # 0/0 where rounding made a row constant
            result = judged(formula, shown(values, decimals, random), decimals, **inputs)
            assert result.verdict in ("agrees", "unchecked"), (formula, result.slip("en"))


@pytest.mark.parametrize(
    ("formula", "printed", "decimals", "inputs", "kind"),
    [
        ("relu(x)", [0.5, -0.2], 1, {"x": (2,)}, "out_of_range"),
        ("tanh(x)", [0.5, 1.2], 1, {"x": (2,)}, "out_of_range"),
        ("softmax(x)", [0.5, 0.2, 0.2], 1, {"x": (3,)}, None),  # 0.35 could be missing: 3 × 0.05
        ("softmax(x)", [0.5, 0.2, 0.1], 1, {"x": (3,)}, "not_softmax"),
        ("softmax(x)", [0.7, 0.5, None], 1, {"x": (3,)}, "not_softmax"),
        ("softmax(x)", [0.5, 0.3, 0.2], 1, {"x": [1, 2, None]}, "not_softmax"),  # order
        ("log_softmax(x)", [-1.0, -1.0], 1, {"x": (2,)}, "not_softmax"),  # e^-1 twice is 0.74
        ("layer_norm(x, 0)", [1.0, 1.0, None], 1, {"x": (3,)}, "not_normalised"),  # −2 is missing
        ("layer_norm(x, 0)", [1.2, 0.0, -1.2], 1, {"x": (3,)}, None),  # 2.88 of 3
        ("layer_norm(x, 0)", [1.4, 0.0, -1.4], 1, {"x": (3,)}, "not_normalised"),  # 3.92
        ("layer_norm(x, 0)", [0.9, -0.2, -0.2], 1, {"x": (3,)}, "not_normalised"),  # sums to 0.5
        ("x @ w", [[1.0], [2.0]], 1, {"x": [[1, 2], [1, 2]], "w": (2, 1)}, "not_linear"),
        ("x @ w", [[1.0], [2.0]], 1, {"x": [[1, 2], [2, 4]], "w": (2, 1)}, None),
        ("x @ w", [[1.0], [3.0]], 1, {"x": [[1, 2], [2, 4]], "w": (2, 1)}, "not_linear"),
        ("x @ w + b", [[1.0], [3.0]], 1, {"x": [[1, 2], [2, 4]], "w": (2, 1), "b": (1,)}, None),
        ("x @ w + b", [[1.0], [2.0], [4.0]], 1,
         {"x": [[1, 2], [2, 4], [3, 6]], "w": (2, 1), "b": (1,)}, "not_linear"),
        ("softmax(s) @ x", [[2.0]], 1, {"s": (1, 2), "x": [[1], [2]]}, None),
        ("softmax(s) @ x", [[2.1]], 1, {"s": (1, 2), "x": [[1], [2]]}, "not_average"),
        ("softmax(s) @ x", [[0.9]], 1, {"s": (1, 2), "x": [[1], [2]]}, "not_average"),
        ("relu(x @ w)", [[0.0], [0.0]], 1, {"x": [[1, 2], [-1, -2]], "w": (2, 1)}, None),
        ("relu(x @ w)", [[1.0], [1.0]], 1, {"x": [[1, 2], [-1, -2]], "w": (2, 1)}, "not_linear"),
        ("x @ w + y", [[1.0], [2.0]], 1,
         {"x": [[1, 2], [1, 2]], "w": (2, 1), "y": (2, 1)}, None),  # a residual, not a bias
    ],
)  # fmt: skip
def test_what_no_input_gives(
    formula: str, printed: Any, decimals: int, inputs: dict[str, Any], kind: str | None
) -> None:
    result = judged(formula, printed, decimals, **inputs)
    if kind is None:
        assert result.verdict in ("agrees", "unchecked")
    else:
        assert (result.verdict, kinds(result)) == ("wrong", [kind])
        assert kind not in {slip.kind for slip in CATALOGUE}


def test_a_token_without_a_column_cannot_be_produced() -> None:
    logits = {"id": "logits", "formula": "x @ w", "printed": [1.0, 2.0], "decimals": 1}
    given = [{"id": "x", "shape": [3], "printed": "..."}, {"id": "w", "shape": [3, 2]}]
    for token, verdict in (("no", "unchecked"), ("<end>", "wrong")):
        step = {**logits, "columns": ["Yes", "No"], "produces": ["yes", token], "case": "ignore"}
        result = audit(read_example(json.dumps({"steps": [*given, step]}), "t", "t"))["logits"]
        assert result.verdict == verdict
        assert (token in (result.slip("en") or "")) == (verdict == "wrong")


def test_three_impossible_results_of_the_by_hand_text() -> None:
    """Squares of a normalised row, rows 3 and 4 of a layer, the columns of the output."""
    result = audit_of("by-hand")
    ids = ("ffn", "flatten", "logits")
    assert [kinds(result[id_]) for id_ in ids] == [
        ["not_linear"],
        ["not_normalised"],
        ["no_column"],
    ]
    assert 1.2**2 + 1.33**2 + 2.11**2 > 6
    assert 1.2**2 + 1.56**2 + 1.57**2 + 1.7**2 > 6
    row_3, row_4 = [1.64, 1.09, -0.23, -0.26, -1.4, -0.26], [1.65, 0.99, -0.34, -0.16, -1.47, -0.21]
    rise = sum(max(a - b + 0.01, 0) for a, b in zip(row_3, row_4, strict=True))
    assert rise < 1.23 - 0.01  # with every weight 1 where it helps, 0 where it does not
    for id_ in ids:
        said = result[id_].to_dict("zh")
        assert said["reason"] and said["reason"] in said["slip"]


def test_an_approximation_that_is_announced_may_round_either_way() -> None:
    result = audit_of("illustrated")
    assert result["softmax_rounded"].verdict == "agrees"
    assert result["softmax_1"].verdict == "wrong"  # there the text writes "="
    steps = [{"id": "x", "printed": [0.063, 0.468]}]
    for printed, verdict in (([0.0, 0.4], "agrees"), ([0.2, 0.4], "wrong")):
        step = {"id": "y", "formula": "x", "printed": printed, "decimals": 1, "approximate": True}
        found = audit(read_example(json.dumps({"steps": [*steps, step]}), "t", "t"))
        assert found["y"].verdict == verdict


@pytest.mark.parametrize(("count", "verdict"), [(100, "wrong"), (1000, "unchecked")])
def test_rows_are_compared_with_one_another_within_the_budget(count: int, verdict: str) -> None:
    """The first and the last row are the same and their results are not; no weights do that."""
    rows = [[i % (count - 1), 1] for i in range(count)]
    printed = [[0.0]] * (count - 1) + [[1.0]]
    result = judged("x @ w", printed, 1, x=rows, w={"shape": [2, 1], "printed": "..."})
    assert result.verdict == verdict


def test_an_average_with_rounded_weights_may_leave_its_numbers() -> None:
    """Six weights of 0.167 sum to 1.002, and the author may have used them as printed."""
    weights = {"id": "w", "formula": "softmax(s)"}
    for more, verdicts in (
        ({"printed": [[0.167] * 6], "decimals": 3}, {"agrees"}),
        ({"decimals": 3}, {"agrees", "unchecked"}),
        ({}, {"wrong"}),
    ):
        steps = [
            {"id": "s", "shape": [1, 6], "printed": "..."},
            {**weights, **more},
            {"id": "x", "printed": [[5]] * 6},
            {"id": "y", "formula": "w @ x", "printed": [[5.01]], "decimals": 2},
        ]
        result = audit(read_example(json.dumps({"steps": steps}), "t", "t"))["y"]
        assert result.verdict in verdicts
