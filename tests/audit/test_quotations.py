"""Printed formulas are computed and printed code is parsed; a user's code is never executed."""

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.audit.example_file import load_example, read_example
from glassformer.audit.formulas.evaluator import Work
from glassformer.audit.judgement import audit
from glassformer.audit.quotation import Notation, NotationError
from glassformer.audit.verdicts import Audit, StepResult
from glassformer.errors import ConfigError
from tests.audit.audits import audit_of


def wrong(result: Audit) -> dict[str, list[tuple[str, ...]]]:
    return {
        step.step.id: [found.kinds for found in step.explanations]
        for step in result.results
        if step.verdict == "wrong"
    }


def test_the_mistakes_of_transformers_from_scratch() -> None:
    result = audit_of("from-scratch")
    assert wrong(result) == {
        "parameters_multi": [("power",)],
        "parameters_output": [("power",)],
        "scaled_scores": [("subscript",)],
        "constructor_code": [("syntax",)],
        "mask_code": [("unread",)],
        "mapped": [("term",)],
        "forward_code": [("syntax",)],
        "scaling_code": [("divisor",)],
        "classifier_code": [("syntax",)],
    }
    # By hand: 3hk^(k/h) is no 3k², and √256 is not the root of a head's width.
    assert 3 * 4 * 256**64 != 3 * 256**2 == 3 * 4 * 256 * 64
    assert "√256 instead of √64" in (result["scaling_code"].slip("en") or "")
    assert result["basic_code"].verdict == "agrees"  # run with torch, against the formula


def test_the_mistakes_of_the_notes() -> None:
    result = audit_of("notes")
    assert wrong(result) == {
        "w": [("symbol",)],
        "attended": [("symbol", "subscript")],
        "feed_forward_code": [("syntax",)],
    }
    assert "defined in terms of itself" in str(result["w"].reason)
    assert "v[i, c] where v[j, c] belongs" in (result["attended"].slip("en") or "")


@pytest.mark.parametrize("name", ["from-scratch", "notes"])
def test_code_is_called_wrong_where_python_refuses_it(name: str) -> None:
    for step in load_example(name).steps:
        if step.quoted is not None and step.quoted.language == "python":
            try:
                ast.parse(step.quoted.text)
                broken = False
            except SyntaxError:
                broken = True
            kinds = [found.kinds for found in audit_of(name)[step.id].explanations]
            assert (("syntax",) in kinds) == broken


@given(seed=st.integers(0, 2**32 - 1), letters=st.permutations("ijc"))
@settings(max_examples=20)
def test_index_notation_is_einsum(seed: int, letters: list[str]) -> None:
    random = np.random.default_rng(seed)
    a, b, c = letters
    sizes = dict(zip("ijc", (2, 3, 4), strict=True))
    u = random.normal(size=(sizes[a], sizes[b]))
    v = random.normal(size=(sizes[b], sizes[c]))
    steps = {"u": u, "v": v, "n": np.asarray(3.0)}
    formula = Notation(f"sum_{b}(u[{a}, {b}] * v[{b}, {c}]) / sqrt(n) - 2 ^ n")
    found = formula.value(steps, a + c, (sizes[a], sizes[c]), Work())
    expected = np.einsum(f"{a}{b},{b}{c}->{a}{c}", u, v) / np.sqrt(3.0) - 8.0
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    weights = Notation(f"softmax_{b}(u[{a}, {b}])").value(steps, a + b, u.shape, Work())
    np.testing.assert_allclose(weights, np.exp(u) / np.exp(u).sum(1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sum_j(u[i, j])", "the index i is left over"),
        ("sum_c(u[i, j])", "nothing to sum over c"),
        ("u[i]", "u has 2 indices, not 1"),
        ("z", "z is not defined"),
        ("u[i, j] * u[j, i]", "has two different sizes"),
        ("9" * 400, "too large"),
        ("n * (1, 2)", "not part of the notation"),
    ],
)
def test_a_formula_without_meaning_says_why(text: str, message: str) -> None:
    steps = {"u": np.ones((2, 3)), "n": np.asarray(1.0)}
    with pytest.raises(NotationError, match=message):
        Notation(text).value(steps, "", (), Work())


def one(step: dict[str, Any], *before: dict[str, Any]) -> StepResult:
    given = [{"id": "a", "printed": [[1, 2], [3, 5]]}, {"id": "n", "printed": 3}, *before]
    example = read_example(json.dumps({"steps": [*given, {"id": "r", **step}]}), "my", "my.json")
    return audit(example)["r"]


@pytest.mark.parametrize(
    "step",
    [
        {"formula": "a", "as_printed": "__import__('os').getcwd()"},
        {"formula": "a", "as_printed": "a.T"},
        {"formula": "a", "as_printed": "[a for a in a]"},
        {"formula": "a", "as_printed": "a["},
        {"formula": "a", "as_printed": "1" * 600},
        {"formula": "a", "as_printed": "-" * 450 + "a[i, j]"},
        {"formula": "a", "as_printed": "+".join(["n"] * 110)},
        {"formula": "a", "as_printed": 3},
        {"as_printed": "n"},
        {"formula": "n", "as_printed": "n", "printed": 3, "decimals": 0},
        {"formula": "a", "as_printed": "a[i, j]", "indices": ["i", "i"]},
        {"formula": "a", "as_printed": "a[i, j]", "indices": ["row", "j"]},
        {"code": "x = 1"},
        {"code": []},
        {"code": ["x"] * 101},
        {"code": ["x = 1"], "result": "x"},
        {"code": ["x = 1"], "whole": "yes"},
        {"formula": "n", "printed": 3, "decimals": 0, "between": [1, 0]},
        {"formula": "n", "printed": 3, "decimals": 0, "approximate": "very"},
        {"formula": "n", "printed": 3, "decimals": 0, "produces": [1]},
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(step: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^my\.json: step 'r'") as error:
        one(step)
    assert "\n" not in str(error.value)


def test_a_formula_of_the_depth_allowed_is_computed() -> None:
    found = one({"formula": "a", "as_printed": "-" * 94 + "a[i, j]", "indices": ["i", "j"]})
    assert found.verdict == "agrees"
    assert one({"formula": "n", "as_printed": "-" * 95 + "n"}).verdict == "wrong"


def test_the_code_of_a_users_file_is_never_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    code = [f"open({str(made)!r}, 'w').close()", "x = 3"]
    result = one({"formula": "n", "code": code, "result": "x"})
    assert result.verdict == "unchecked"
    assert result.reason is not None and "not run" in result.reason.en
    borrowed = {"steps": [{"from": "from-scratch"}]}
    found = audit(read_example(json.dumps(borrowed), "my", "my.json"))
    assert found["basic_code"].verdict == "unchecked"
    assert not made.exists()


def test_code_that_parses_agrees_and_code_that_does_not_is_wrong() -> None:
    assert one({"code": ["x = 1", "y = x"]}).verdict == "agrees"
    for code in (["x = = 1"], ["def f():", "x"], ["x = '\x00'"], ["(" * 300]):
        result = one({"code": code})
        assert (result.verdict, result.explanations[0].kinds) == ("wrong", ("syntax",))
    assert one({"code": ["def f(a, b=1):", "    return a"], "whole": True}).verdict == "wrong"
    assert one({"code": ["def f(a, b=1):", "    return a"]}).verdict == "agrees"


def test_a_formula_that_takes_too_long_to_mend_is_wrong_all_the_same() -> None:
    """Twelve factors with three letters each: thousands of readings, none of them right."""
    rows = {"id": "b", "printed": np.arange(3000.0).reshape(60, 50).tolist()}
    product = " * ".join(f"b[i, {letter}]" for letter in "cdefgh")
    step = {"formula": "b", "indices": ["i", "j"], "as_printed": f"b[i, j] + sum_c({product})"}
    assert one(step, rows).verdict in ("wrong", "unchecked")
    long = " + ".join(["b[i, j]"] * 50)
    result = one({"formula": "b", "indices": ["i", "j"], "as_printed": long}, rows)
    assert result.verdict == "wrong"


def test_words_have_no_printed_formula() -> None:
    step = {"formula": "words('a b')", "as_printed": "n"}
    assert one(step).verdict == "unchecked"


def test_a_printed_formula_on_numbers() -> None:
    right = {"formula": "a @ transpose(a)", "indices": ["i", "j"]}
    assert one({**right, "as_printed": "sum_c(a[i, c] * a[j, c])"}).verdict == "agrees"
    assert one({**right, "as_printed": "sum_c(a[i, c] * a[c, j])"}).verdict == "wrong"
    lost = one({**right, "as_printed": "sum_c(a[i, c] * a[i, c])"})
    assert lost.explanations[0].kinds == ("subscript",)
    other = one({**right, "as_printed": "n * a[i, j]"})
    assert (other.verdict, other.explanations) == ("wrong", ())
    assert other.reason is not None
