"""The audits of the shipped examples, compared with facts computed here by plain numpy."""

import ast
import json
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from glassformer.audit.example import PrintedDigits
from glassformer.audit.example_file import example_names, load_example, read_example
from glassformer.audit.formulas import FUNCTIONS, BoundedNumbers
from glassformer.audit.judgement import audit
from glassformer.audit.verdicts import Audit
from tests.audit.audits import audit_of
from tests.audit.fuzz import shipped

pytestmark = pytest.mark.no_cover  # the lines of test_planted_slips.py, for larger examples


@pytest.fixture(scope="module")
def by_hand() -> Audit:
    return audit_of("by-hand")


def printed(result: Audit, id_: str) -> np.ndarray:
    digits = result.example[id_].printed
    assert isinstance(digits, PrintedDigits)
    return digits.values


def right(result: Audit, id_: str) -> np.ndarray:
    value = result[id_].right
    assert isinstance(value, BoundedNumbers)
    return value.mid


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("illustrated", {"agrees": 10, "wrong": 1, "follows": 2, "unchecked": 0, "given": 4}),
        ("by-hand", {"agrees": 9, "wrong": 16, "follows": 13, "unchecked": 12, "given": 11}),
        ("masked", {"agrees": 0, "wrong": 4, "follows": 0, "unchecked": 5, "given": 1}),
        ("thrones", {"agrees": 7, "wrong": 4, "follows": 1, "unchecked": 1, "given": 4}),
        ("from-scratch", {"agrees": 14, "wrong": 9, "follows": 0, "unchecked": 1, "given": 8}),
        ("notes", {"agrees": 8, "wrong": 3, "follows": 0, "unchecked": 1, "given": 4}),
    ],
)
def test_steps_by_verdict(name: str, counts: dict[str, int]) -> None:
    assert audit_of(name).counts == counts


def kinds(result: Audit, id_: str) -> list[tuple[str, ...]]:
    return [found.kinds for found in result[id_].explanations]


def test_the_slips_of_the_by_hand_text(by_hand: Audit) -> None:
    assert {
        step.step.id: kinds(by_hand, step.step.id)
        for step in by_hand.results
        if step.verdict == "wrong"
    } == {
        "sentence_words": [("token",)],
        "exponent": [("index",)],
        "position": [("sine", "index")],
        "value": [("pasted",), ("operand",)],
        "scaled": [("divisor", "rounding")],
        "stats_1": [("geometric",)],
        "norm_1": [("geometric",)],
        "stats_2": [("sample", "rows")],
        "masked_a1": [("factor",)],
        "masked_a1_masked": [("transposed", "zero_mask")],
        "masked_a2": [("factor",)],
        "masked_a2_masked": [("zero_mask", "triangle")],
        "probabilities": [("not_softmax",)],
        "ffn": [("not_linear",)],
        "flatten": [("not_normalised",)],
        "logits": [("no_column",)],
    }
    assert kinds(by_hand, "head") == [("rounding",)]  # a remark: the digits are possible


def test_position_by_numpy(by_hand: Audit) -> None:
    i, p = np.meshgrid(np.arange(6), np.arange(6), indexing="ij")
    angle = p / 10000 ** (2 * (i // 2) / 6)
    expected = np.where(i % 2 == 0, np.sin(angle), np.cos(angle))
    assert np.allclose(right(by_hand, "position"), expected, rtol=0, atol=1e-12)
    # What was done instead, cell by cell.
    angle = p / 10000 ** (2 * i / 6)
    sine = (i % 2 == 0) | np.isin(p, (1, 3, 4))
    done = np.where(sine, np.sin(angle), np.cos(angle))
    assert np.abs(done - printed(by_hand, "position")).max() <= 0.00005001
    found = {slip.kind: slip for slip in by_hand["position"].explanations[0].slips}
    assert found["index"].cells is None
    assert found["sine"].cells == tuple((r, c) for r in (1, 3, 5) for c in (1, 3, 4))


def test_the_encoder_by_numpy(by_hand: Audit) -> None:
    def p(id_: str) -> np.ndarray:
        return printed(by_hand, id_)

    assert np.allclose(right(by_hand, "value"), p("x") @ p("w_value"), atol=1e-12)
    assert np.array_equal(p("value"), p("query"))
    assert np.allclose(right(by_hand, "scaled"), p("scores") / 2, atol=1e-12)
    done = np.round(p("scores"), 2) / np.sqrt(6)
    assert np.abs(done - p("scaled")).max() <= 0.00000501
    add_1 = p("attention_output") + p("x")
    assert by_hand["stats_1"].comparison is not None
    assert by_hand["stats_1"].comparison.wrong.tolist() == [[True, False]] + [[False, False]] * 5
    assert np.exp(np.log(add_1[0]).mean()) == pytest.approx(9.26, abs=0.005)
    assert right(by_hand, "stats_1")[0] == pytest.approx([add_1[0].mean(), add_1[0].std()])
    add_2 = p("add_2")
    pooled = [add_2[i : i + 2].std(ddof=1) for i in range(6)]
    assert p("stats_2")[:, 1] == pytest.approx(pooled, abs=0.000000501)
    assert right(by_hand, "stats_2")[:, 1] == pytest.approx(add_2.std(axis=1))
    assert by_hand["stats_2"].comparison is not None
    assert by_hand["stats_2"].comparison.wrong.tolist() == [[False, True]] * 6


def test_end_to_end_is_the_whole_computation(by_hand: Audit) -> None:
    """Computed independently from the embedding to the head, without rounding or mistakes."""
    i, p = np.meshgrid(np.arange(6), np.arange(6), indexing="ij")
    angle = p / 10000 ** (2 * (i // 2) / 6)
    position = np.where(i % 2 == 0, np.sin(angle), np.cos(angle))
    x = (printed(by_hand, "embedding") + position).T
    query, key, value = (x @ printed(by_hand, f"w_{name}") for name in ("query", "key", "value"))
    powers = np.exp(query @ key.T / 2)
    head = powers / powers.sum(axis=1, keepdims=True) @ value
    assert by_hand["head"].verdict == "follows"
    assert by_hand["head"].causes == ("position", "value", "scaled")
    assert np.allclose(right(by_hand, "head"), head, rtol=1e-12)
    add_1 = head @ printed(by_hand, "w_output") + x
    norm_1 = (add_1 - add_1.mean(1, keepdims=True)) / (add_1.std(1, keepdims=True) + 1e-4)
    end = by_hand["norm_1"].end_to_end
    assert isinstance(end, BoundedNumbers)
    assert np.allclose(end.mid, norm_1, rtol=1e-9)


def test_illustrated_by_numpy() -> None:
    result = audit_of("illustrated")
    wrong = [step.step.id for step in result.results if step.verdict == "wrong"]
    assert wrong == ["softmax_1"]
    scores = printed(result, "scores")
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.round(weights, 1)[0].tolist() == [0.1, 0.5, 0.5]  # printed: 0.0, 0.5, 0.5
    end = result["outputs"].end_to_end
    assert isinstance(end, BoundedNumbers)
    assert np.allclose(end.mid, weights @ printed(result, "values"), atol=1e-12)


def test_the_prediction_holds_whatever_is_not_printed() -> None:
    """0.56 is the largest: the unprinted probabilities share less than that."""
    result = audit_of("thrones")
    assert result["prediction"].verdict == "agrees"
    assert result["logits"].comparison is not None
    assert result["logits"].comparison.checked == 0


@pytest.mark.parametrize("name", example_names())
def test_the_result_does_not_depend_on_what_steps_are_called(name: str) -> None:
    raw = shipped(name)
    ids = [step["id"] for step in raw["steps"]]
    new = {id_: f"zz{len(ids) - at}" for at, id_ in enumerate(ids)}
    new |= {f"{id_}2": f"{now}2" for id_, now in new.items()}  # a power whose height was lost
    renamed = json.loads(json.dumps(raw))
    for step in renamed["steps"]:
        step["id"] = new[step["id"]]
        step.pop("inputs", None)
        for key in ("formula", "as_printed"):
            if key in step:
                step[key] = _rename(step[key], new)
    before, after = audit_of(name), audit(read_example(json.dumps(renamed), name, name))
    for old, now in zip(before.results, after.results, strict=True):
        if old.step.quoted is not None and old.step.quoted.result is not None:
            assert now.verdict == "unchecked"  # code of an example that is not ours is not run
            continue
        assert now.verdict == old.verdict
        assert [e.kinds for e in now.explanations] == [e.kinds for e in old.explanations]
        assert now.to_dict()["right"] == old.to_dict()["right"]


def _rename(formula: str, new: dict[str, str]) -> str:
    """Rename steps, but not functions of the same name."""
    return re.sub(r"[^\W\d]\w*(?!\w*\s*[(=])", lambda m: new.get(m[0], m[0]), formula)


def test_the_code_of_the_audit_names_no_step_of_the_examples() -> None:
    """Lessons and claims are about one example each and may; what finds mistakes may not."""
    literals: set[str] = set()
    files = [*Path(str(resources.files("glassformer.audit"))).rglob("*.py")]
    assert len(files) > 20
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        literals |= {value for value in constants if isinstance(value, str)}
    ids = {step.id for name in example_names() for step in load_example(name).steps}
    # Functions and parameters of the language may share their names with steps.
    parameters = {part.name for function in FUNCTIONS.values() for part in function.parameters}
    shared = {*FUNCTIONS, *parameters}
    assert (ids & literals) - shared == set()


@pytest.mark.parametrize("name", example_names())
def test_titles_are_in_both_languages(name: str) -> None:
    example = load_example(name)
    for title in (example.title, *(step.title for step in example.steps)):
        assert re.search("[\u4e00-\u9fff]", title.zh)
        assert title.en.isascii()
        assert "变压器" not in title.zh
