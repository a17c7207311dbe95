"""The arithmetic of one printed number, and the cells of a step with their verdicts."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from glassformer.audit import Example, audit, example_names, load_example, read_example
from glassformer.audit.cell_arithmetic import cell_arithmetic
from glassformer.audit.example import PrintedDigits
from glassformer.audit.formulas.bounds import BoundedNumbers
from glassformer.audit.recomputation import FromPrint
from glassformer.audit.verdicts import printed_cells


def example(*steps: dict[str, Any]) -> Example:
    return read_example(json.dumps({"title": "x", "steps": steps}), "x", "x")


A = {"id": "a", "printed": [[1, 2], [3, 4]]}
B = {"id": "b", "printed": [[5, -6], [7, 8]]}


@pytest.mark.parametrize(
    ("formula", "at", "numbers", "value"),
    [
        ("a @ b", (1, 0), "3·5 + 4·7", 43),
        ("a @ transpose(b)", (0, 1), "1·7 + 2·8", 23),
        ("a * b", (0, 1), "2 · (−6)", -12),
        ("a - b", (0, 1), "2 − (−6)", 8),
        ("softmax(a)", (0, 0), "e^1 / (e^1 + e^2)", math.e / (math.e + math.e**2)),
        ("softmax(a, axis=0)", (0, 1), "e^2 / (e^2 + e^4)", 1 / (1 + math.e**2)),
        ("sum(a)", (1,), "3 + 4", 7),
        ("mean(a, axis=0)", (1,), "(2 + 4) / 2", 3),
        ("max(b)", (0,), "max(5, (−6))", 5),
        ("relu(b)", (0, 1), "relu((−6))", 0),
        ("-a", (1, 1), "−4", -4),
    ],
)
def test_one_operation(formula: str, at: tuple[int, ...], numbers: str, value: float) -> None:
    made = example(A, B, {"id": "c", "formula": formula})
    (line, *_) = cell_arithmetic(FromPrint(made), made["c"], at)
    assert line.name == f"c[{', '.join(map(str, at))}]"
    assert line.numbers == numbers
    assert line.value == pytest.approx(value)


def test_operands_that_are_computed_have_lines_of_their_own() -> None:
    made = example(A, B, {"id": "c", "formula": "softmax(a @ b / sqrt(4))"})
    lines = cell_arithmetic(FromPrint(made), made["c"], (0, 0))
    names = [line.name for line in lines]
    assert names[:3] == ["c[0, 0]", "(a @ b / sqrt(4))[0, 0]", "(a @ b / sqrt(4))[0, 1]"]
    assert ("(a @ b)[0, 1]", "1·(−6) + 2·8", 10.0) in [
        (line.name, line.numbers, line.value) for line in lines
    ]


def test_a_given_number_has_no_arithmetic() -> None:
    made = example(A)
    assert cell_arithmetic(FromPrint(made), made["a"], (0, 0)) == []


@pytest.mark.parametrize("printed", [7, [7, 7], [[[7]]], [[7, 7, 7], [7, 7, 7]]])
def test_a_number_of_a_shape_that_the_formula_does_not_give_has_no_arithmetic(
    printed: Any,
) -> None:
    made = example(A, B, {"id": "c", "formula": "a @ b", "printed": printed, "decimals": 0})
    last = tuple(size - 1 for size in np.shape(printed))
    assert cell_arithmetic(FromPrint(made), made["c"], last) == []


@pytest.mark.parametrize("name", example_names())
def test_the_arithmetic_of_shipped_examples_gives_what_the_audit_computes(name: str) -> None:
    """Each number at face value: the first line's value is the recomputed one."""
    made = load_example(name)
    page = FromPrint(made)
    n_checked = 0
    for step in made.steps:
        if step.tree is None or step.id not in page.computed or step.id in page.misfits:
            continue
        value = page.evaluate(step.tree, faces=True)
        if not isinstance(value, BoundedNumbers):
            continue
        for at in list(np.ndindex(value.shape))[:6]:
            lines = cell_arithmetic(page, step, at)
            assert lines, (step.id, at)
            assert lines[0].value == pytest.approx(float(value.mid[at]), nan_ok=True)
            assert len(lines) <= 12
            n_checked += 1
    assert n_checked > 0


@pytest.mark.parametrize("name", example_names())
def test_the_cells_of_a_step_agree_with_the_comparison(name: str) -> None:
    for result in audit(load_example(name)).results:
        cells, digits = printed_cells(result), result.step.printed
        if not isinstance(digits, PrintedDigits):
            continue
        assert [cell.index for cell in cells] == list(np.ndindex(digits.values.shape))
        assert sum(cell.verdict is None for cell in cells) == int((~digits.shown).sum())
        if result.verdict == "wrong" and result.comparison is not None:
            wrong = [cell for cell in cells if cell.verdict == "wrong"]
            assert len(wrong) == int(result.comparison.wrong.sum())
            if result.comparison.same_shape:
                assert all(cell.right not in (None, cell.text) for cell in wrong), result.step.id
