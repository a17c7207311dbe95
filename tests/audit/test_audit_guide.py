"""docs/audit.md: its example and code run, and its lists are complete."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import slips
from glassformer.audit import possibility
from glassformer.audit.example_file import STEP_KEYS, read_example
from glassformer.audit.formulas import (
    FUNCTIONS,
    BoundedNumbers,
    evaluate,
    exactly,
    names_of,
    parse,
)
from glassformer.audit.judgement import audit
from glassformer.audit.verdicts import Audit
from tests.audit.audits import audit_of

GUIDE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_of_the_guide_gives_what_the_guide_says() -> None:
    result = audit(read_example(block("json"), "my-article", "my-article.json"))
    table = re.findall(r"^\| `(\w+)` \| (agrees|wrong) \| ?(.*?) ?\|$", GUIDE, re.MULTILINE)
    assert len(table) == 4
    for id_, verdict, finding in table:
        assert result[id_].verdict == verdict
        assert (result[id_].slip("en") or "") == finding


def test_the_formulas_to_copy_compute() -> None:
    table = GUIDE.partition("| step | formula |")[2].partition("\n\n")[0]
    formulas = re.findall(r"`([^`]+)`", table.replace("`targets` with", ""))
    assert len(formulas) == 13
    for formula in formulas:
        tree = parse(formula)
        names: dict[str, NDArray[np.float64]]
        names = {name: np.ones((3, 3)) for name in names_of(tree)}
        names |= {"mu": np.ones(3), "variance": np.ones(3), "W_O": np.ones((6, 3))}
        value = evaluate(tree, {name: exactly(part) for name, part in names.items()})
        assert isinstance(value, BoundedNumbers)
        assert np.isfinite(value.mid).all()


def test_the_code_of_the_guide_runs() -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python"), "docs/audit.md", "exec"), names)
    assert isinstance(names["result"], Audit)
    text = '{"steps": [{"id": "a", "printed": [2, 30, 400]}, {"id": "b", "formula": "log(a)", '
    text += '"printed": [0.301, 1.477, 2.602], "decimals": 3}]}'
    found = audit(read_example(text, "t", "t"), slips=[names["mine"]])["b"]
    assert found.explanations[0].kinds == ("log10",)


def test_every_function_and_every_key_is_in_the_guide() -> None:
    words = set(re.findall(r"\w+", GUIDE))
    assert set(FUNCTIONS) <= words
    assert words >= STEP_KEYS


def test_the_table_of_slips_is_that_of_its_command() -> None:
    """That the table lists what the command plants; its figures are checked by the slow test."""
    for case in slips.CASES:
        row = next(
            line for line in GUIDE.splitlines() if line.startswith(f"| {_cell(case.slip)} |")
        )
        assert f"`{case.formula}`" in row
    total = re.search(r"\*\*(\d+) of (\d+), ", GUIDE)
    assert total is not None
    right, tried = map(int, total.groups())
    assert tried == len(slips.CASES) * len(slips.SEEDS) * len(slips.SCENES)
    assert right >= 0.9 * tried


@pytest.mark.slow
def test_the_table_of_the_guide_is_what_the_command_prints() -> None:
    table, right, tried = slips.table()
    assert table.strip() in GUIDE
    assert (right, tried) == (539, 540)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_every_impossible_kind_and_every_example_is_in_the_guide() -> None:
    kinds = set(re.findall(r"Impossible\(\s*\"(\w+)\"", Path(possibility.__file__).read_text()))
    assert len(kinds) == 6
    assert kinds <= set(re.findall(r"`(\w+)`", GUIDE))
    for name in ("from-scratch", "notes"):
        found = audit_of(name)
        for step in found.results:
            assert (step.verdict == "wrong") == (f"`{step.step.id}`" in _rows(name)), step.step.id


def _rows(example: str) -> str:
    return "".join(line for line in GUIDE.splitlines() if line.startswith(f"| `{example}` |"))
