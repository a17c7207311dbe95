"""Long articles: shared parts are computed once, and a search that is cut short says so."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from glassformer.audit import CATALOGUE, Change, Scene, Slip, judgement
from glassformer.audit.audit_report import audit_document
from glassformer.audit.example_file import read_example
from glassformer.audit.formulas import BoundedNumbers, Node, evaluate, exactly, parse, show
from glassformer.audit.formulas.evaluator import FormulaEvaluator, Work, WorkSpentError
from glassformer.audit.formulas.formula_functions import write_out
from glassformer.audit.formulas.terms import Name, Numeral, replace_each, walk
from glassformer.audit.judgement import audit
from glassformer.documents import render_text
from glassformer.language import Bilingual

X = [[1, 2], [3, -5]]


def chain(length: int, printed: Any) -> str:
    """A chain of residual sums of which only the last is printed."""
    steps: list[dict[str, Any]] = [{"id": "s0", "printed": X}]
    steps += [{"id": f"s{i + 1}", "formula": f"s{i} + relu(s{i})"} for i in range(length)]
    steps.append({"id": "y", "formula": f"s{length} * 1", "printed": printed, "decimals": 0})
    return json.dumps({"steps": steps})


def nested(depth: int) -> str:
    return "layer_norm(" * depth + "x" + ")" * depth


def work_for(tree: Node) -> int:
    work = Work(10**9)
    FormulaEvaluator({"x": exactly(X)}, work=work).value(tree)
    return 10**9 - work.left


def test_work_grows_with_the_length_of_a_formula_not_with_its_tree() -> None:
    once, twice, many = (work_for(write_out(parse(nested(depth)))) for depth in (1, 2, 20))
    assert many == once + 19 * (twice - once)
    assert sum(1 for _ in walk(write_out(parse(nested(20))))) < 20 * 12  # as a tree: 3^20


def test_nested_normalisation_is_that_of_the_values() -> None:
    inner = evaluate(parse("layer_norm(x)"), {"x": exactly(X)})
    outer = evaluate(parse("layer_norm(x)"), {"x": inner})
    whole = evaluate(write_out(parse(nested(2))), {"x": exactly(X)})
    assert isinstance(outer, BoundedNumbers) and isinstance(whole, BoundedNumbers)
    assert whole.mid.tolist() == outer.mid.tolist()


def test_a_formula_is_shown_at_no_more_than_a_page() -> None:
    assert len(show(write_out(parse(nested(80))))) < 4000
    assert "…" in show(write_out(parse(nested(80))))
    assert len(show(parse("+".join(["a"] * 4000)))) < 4000
    assert len(show(parse(f"[{', '.join(['1'] * 3000)}]"))) < 4000


def test_equal_parts_are_one() -> None:
    assert parse("a + b") == parse("  a+b")
    assert len({parse("a + b"), parse("a+b"), parse("b + a"), parse("a - b")}) == 3
    assert parse("f(a, k=b)") != parse("f(a, b)")
    assert parse("'a'") != parse("a")
    assert replace_each(parse("a * (a + 1)"), {Name("a"): Numeral(2)}) == parse("2 * (2 + 1)")


def test_a_budget_of_work_ends_with_its_own_error() -> None:
    with pytest.raises(WorkSpentError):
        FormulaEvaluator({"x": exactly(X)}, work=Work(1000)).value(parse(nested(5)))


def test_a_branch_knows_what_was_computed_and_adds_nothing() -> None:
    whole = FormulaEvaluator({"x": exactly(X)}, work=Work())
    whole.value(parse("exp(x) @ x"))
    work = Work(1000)
    branch = whole.branch(work)
    branch.value(parse("exp(x) @ x"))
    assert work.left == 1000
    branch.value(parse("exp(x) @ x + 1"))
    assert work.left < 1000


@pytest.mark.parametrize("length", [14, 300])
def test_a_long_chain_of_unprinted_sums_is_judged(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven blocks of a Transformer have fourteen; three hundred would overflow a stack."""
    right = [[2**length * number if number > 0 else number for number in row] for row in X]
    text = chain(length, right) if length < 40 else chain(length, [[None, None], [None, -5]])
    assert audit(read_example(text, "t", "t"))["y"].verdict == "agrees"
    monkeypatch.setattr(judgement, "MOST_WORK", 300_000)
    wrong = audit(read_example(chain(length, [[7, 7], [7, 7]]), "t", "t"))["y"]
    assert wrong.verdict == "wrong"


@pytest.mark.parametrize("depth", [4, 30])
def test_nested_normalisation_with_wrong_digits_is_judged(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judgement, "MOST_WORK", 300_000)
    steps = [
        {"id": "x", "printed": X},
        {"id": "y", "formula": nested(depth), "printed": [[3, 4], [3, 4]], "decimals": 0},
    ]
    assert audit(read_example(json.dumps({"steps": steps}), "t", "t"))["y"].verdict == "wrong"


def test_a_search_that_is_not_finished_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    example = read_example(chain(4, [[700, 711], [723, 741]]), "t", "t")
    whole = audit(example)["y"]
    assert (whole.slip("en"), whole.note) == ("no known slip", None)
    monkeypatch.setattr(judgement, "MOST_WORK", 20_000)
    found = audit(example)
    data = found["y"].to_dict("en")
    assert (data["verdict"], data["slip"]) == ("wrong", None)
    assert data["note"] == "cause not searched further"
    assert found["y"].to_dict("zh")["note"] == "未继续查找原因"
    for language in ("en", "zh"):
        said = render_text(audit_document(found, language), "md")
        assert str(found["y"].to_dict(language)["note"]) in said


def test_one_hard_step_leaves_work_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for pairs in the first wrong step leaves budget for the second."""
    steps = json.loads(chain(8, [[700, 711], [723, 741]]))["steps"]
    by_number = [[1, 4], [9, 25]]
    steps.append({"id": "z", "formula": "s0 @ s0", "printed": by_number, "decimals": 0})
    monkeypatch.setattr(judgement, "MOST_WORK", 1_000_000)
    found = audit(read_example(json.dumps({"steps": steps}), "t", "t"))
    assert found["y"].note is not None
    assert ("elementwise",) in [part.kinds for part in found["z"].explanations]


def _fails(tree: Node, scene: Scene) -> Iterator[Change]:
    yield Change(Name("nothing"), Bilingual("a step that does not exist", "不存在的步骤"))
    raise TypeError("no such\nthing")


def test_a_slip_that_fails_does_not_end_the_report() -> None:
    broken = Slip("broken", Bilingual("a broken one", "出错的一种"), _fails)
    steps = [
        {"id": "a", "printed": [[1, 2], [3, 4]]},
        {"id": "b", "formula": "a @ a", "printed": [[1, 4], [9, 16]], "decimals": 0},
    ]
    found = audit(read_example(json.dumps({"steps": steps}), "t", "t"), (broken, *CATALOGUE))
    assert ("elementwise",) in [part.kinds for part in found["b"].explanations]
    data = found["b"].to_dict("en")
    assert data["note"] == "the search for “a broken one” failed (TypeError: no such thing)"
    assert found["b"].to_dict("zh")["note"] == "查找“出错的一种”时出错（TypeError: no such thing）"
    assert str(data["note"]) in render_text(audit_document(found, "en"), "md")


def test_exact_elimination_of_a_large_matrix_ends_with_its_budget() -> None:
    """Fractions grow, and their digits count as work; once it is spent, rows are not compared."""
    random = np.random.default_rng(0)
    given = [{"id": "x", "printed": np.round(random.normal(size=(73, 73)), 11).tolist()}]
    hidden = [{"id": "w", "shape": [73, 2], "printed": "..."}]
    numbers = np.round(random.normal(size=(73, 2)), 2).tolist()
    made = [{"id": "y", "formula": "x @ w", "printed": numbers, "decimals": 2}]
    example = read_example(json.dumps({"steps": given + hidden + made}), "large", "large")
    judge = judgement._Judge(example, ())
    verdicts = [judge.judge(step).verdict for step in example.in_order]
    assert verdicts[-1] == "unchecked"
    assert judge._marks.left < 0


def test_what_is_recomputed_counts_for_the_whole_report(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        {"id": "x", "printed": X},
        {"id": "y", "formula": "x @ x", "printed": [[91, 17], [43, 8]], "decimals": 0},
    ]
    example = read_example(json.dumps({"steps": steps}), "my", "my")
    judge = judgement._Judge(example, CATALOGUE)
    spent = judgement.MOST_IN_ALL - judge._whole.left
    assert spent > 2 * 300  # x and x @ x, from print and end to end
    monkeypatch.setattr(judgement, "MOST_IN_ALL", spent + 1000)
    found = audit(example)["y"]
    assert found.verdict == "wrong"
    assert found.note is not None and "not searched further" in found.note.en
