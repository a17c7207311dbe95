"""A formula written in another way gets the same verdict, or an error says why not."""

import json
from typing import Any

import numpy as np
import pytest

from glassformer.audit.audit_report import audit_document, finding_text
from glassformer.audit.example_file import read_example
from glassformer.audit.judgement import audit
from glassformer.audit.verdicts import Audit
from glassformer.documents import render_text

SCORES = np.array([[1.0, 2.0], [3.0, 5.0]])
BY_COLUMN = np.exp(SCORES) / np.exp(SCORES).sum(axis=0)


def check(formula: str, printed: Any, decimals: int = 4, **keys: Any) -> Audit:
    """The audit of one step that reads a 2 × 2 matrix `m`."""
    given = {"id": "m", "printed": SCORES.tolist()}
    step = {"id": "y", "formula": formula, "printed": printed, "decimals": decimals, **keys}
    return audit(
        read_example(json.dumps({"title": "[/t]", "steps": [given, step]}), "my", "my.json")
    )


@pytest.mark.parametrize(
    "formula",
    ["softmax(m, axis=0)", "softmax(m, 0)", "softmax(m, axis=-2)", "softmax(x=m, axis=0)"],
)
def test_an_axis_by_position_by_name_or_from_the_end(formula: str) -> None:
    right = np.round(BY_COLUMN, 4).tolist()
    assert check(formula, right)["y"].verdict == "agrees"
    by_row = np.round(np.exp(SCORES) / np.exp(SCORES).sum(axis=1, keepdims=True), 4).tolist()
    wrong = check(formula, by_row)["y"]
    assert wrong.verdict == "wrong"
    assert wrong.explanations[0].kinds == ("axis",)


@pytest.mark.parametrize("formula", ["std(m)", "std(x=m)", "std(m, -1)", "std(m, sample=0)"])
def test_a_slip_is_found_however_the_call_is_written(formula: str) -> None:
    found = check(formula, np.round(SCORES.std(axis=1, ddof=1), 4).tolist())["y"]
    assert [part.kinds for part in found.explanations] == [("sample",)]


def test_weights_of_ten_thousand_words_need_no_table_of_pairs() -> None:
    """One impossible weight among as many as a vocabulary has."""
    count = 10_000
    scores = {"id": "z", "printed": [0] * count}
    weights = [1 / count] * count
    weights[17], weights[18] = 3 / count, 0
    step = {"id": "y", "formula": "softmax(z)", "printed": weights, "decimals": 4}
    example = json.dumps({"title": "t", "steps": [scores, step]})
    found = audit(read_example(example, "my", "my.json"), slips=())["y"]
    assert found.verdict == "wrong"
    said = "not a valid softmax: scores 0 and 0 get 0.0003 and 0"
    said += ", but their ratio must be e^0 = 1"
    assert found.slip("en") == said
    whole = finding_text(found, read_example(example, "my", "my.json"), "en")
    assert whole == f"{said}; 2 of 10000 numbers; off by up to 0.0002"


@pytest.mark.parametrize(("count", "remark"), [(5, []), (6, [("rounding",)])])
def test_a_rounding_behind_possible_digits_needs_six_of_them(
    count: int, remark: list[tuple[str, ...]]
) -> None:
    """Sums such as 4.09 were rounded to 4.1 before they were halved; 0.09 may stand for 0.094."""
    rows = [[1.0 + row, 2.0, 0.09] for row in range(count)]
    given = {"id": "w", "printed": [[number + 0.004 for number in row] for row in rows]}
    read = {"id": "x", "formula": "w", "printed": rows, "decimals": 2}
    halves = [round(sum(row), 1) / 2 for row in rows]
    step = {"id": "y", "formula": "sum(x) / 2", "printed": halves, "decimals": 3}
    example = json.dumps({"title": "t", "steps": [given, read, step]})
    found = audit(read_example(example, "my", "my.json"))["y"]
    assert found.verdict == "agrees"
    assert [explanation.kinds for explanation in found.explanations] == remark


def test_one_number_printed_for_several() -> None:
    found = check("m[0]", 1)["y"]
    assert found.verdict == "wrong"
    assert found.comparison is not None
    assert not found.comparison.same_shape


def test_a_root_of_a_negative_number_is_no_number() -> None:
    found = check("sqrt(m - 6)", [[0, 0], [0, 0]])["y"]
    assert found.verdict == "unchecked"
    assert found.reason is not None
    assert found.reason.en == "the formula gives no number that can be compared"


def test_a_root_of_rounding_noise_is_zero() -> None:
    assert check("sqrt(0.1 + 0.2 - 0.3 - 1e-16)", 0)["y"].verdict == "agrees"


def test_numbers_that_could_not_be_checked_are_counted() -> None:
    found = check("log(m - 2)", [[0, 0], [0, 1.0986]])
    assert found["y"].verdict == "wrong"  # log 0 is −∞
    found = check("sqrt(m - 2)", [[0, 0], [1, 1.7321]])
    assert "| ✓ agrees | 1 could not be checked |" in render_text(audit_document(found, "en"), "md")


def test_a_number_with_one_bound_is_not_checked() -> None:
    """A printed 0.0 stands for −0.02, and a negative number has no geometric mean."""
    given = {"id": "w", "printed": [-0.02, 4.0]}
    read = {"id": "x", "formula": "w", "printed": [0.0, 4.0], "decimals": 1}
    step = {"id": "y", "formula": "geometric_mean(x)", "printed": 0.0, "decimals": 1}
    example = json.dumps({"title": "t", "steps": [given, read, step]})
    assert audit(read_example(example, "my", "my.json"))["y"].verdict == "unchecked"


def test_brackets_in_titles_are_no_commands_to_the_terminal() -> None:
    found = check("m + 1", [[9, 3], [4, 6]], 0, title="[/x]", columns=["[bold]", "[/red]"])
    shown = render_text(audit_document(found, "en"), width=100, colour=False)
    assert "[/t]" in shown
    assert "[/x]" in shown
    assert "[bold]" in shown


def test_a_line_break_in_a_title_does_not_break_the_table() -> None:
    found = check("m + 1", [[2, 3], [4, 6]], 0, title="two\nlines")
    assert "| `y` | two lines | ✓ agrees |  |" in render_text(audit_document(found, "en"), "md")
