"""Every rule: its cells recomputed from the operands shown, and compared with the operator."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import glassformer
from glassformer.errors import TraceError
from glassformer.tracing import replay, trace
from glassformer.tracing.arithmetic.expressions import Entry, Expression
from glassformer.tracing.arithmetic.rules import rule_registry
from glassformer.tracing.arithmetic.rules.rule_formulas import FORMULAS
from glassformer.tracing.arithmetic.rules.rule_notation import formula
from glassformer.tracing.capture.memory import as_real
from tests.tracing.operator_examples import EXAMPLES


def tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_cell_follows_from_its_operands(name: str) -> None:
    function = EXAMPLES[name]
    traced = trace(function)
    report = traced.verify()
    assert report.opaque == []
    assert report.ok, str(report)
    assert report.cells > 0
    for ours, expected in zip(traced.outputs.values(), tensors(function()), strict=True):
        torch.testing.assert_close(ours.value, as_real(expected.detach()), equal_nan=True)
    again = replay(traced)
    for step, twin in zip(traced.steps, again.steps, strict=True):
        torch.testing.assert_close(step.value, twin.value, rtol=0, atol=0, equal_nan=True)


def test_a_nan_among_the_cells() -> None:
    rows = torch.tensor([[3.0, torch.nan, 1.0, 2.0], [4.0, 2.0, 3.0, 1.0]])
    for function in (
        lambda: rows.median(1),
        lambda: rows.median(),
        lambda: rows.nanmedian(1),
        lambda: rows.kthvalue(4, 1),
        lambda: rows.sort(descending=True),
        lambda: (rows.topk(2), rows.topk(2, sorted=False), rows.topk(2, largest=False)),
        lambda: rows.angle(),
    ):
        report = trace(function).verify()
        assert report.ok and not report.opaque, str(report)


ENDS = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 3e38, -3e38, 1.0, -2.5])
BOUNDARIES = torch.tensor([-1.0, 0.0, 2.0])
OF_ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "searchsorted": lambda x: torch.searchsorted(BOUNDARIES, x),
    "searchsorted right": lambda x: torch.searchsorted(BOUNDARIES, x, right=True),
    "bucketize": lambda x: torch.bucketize(x, BOUNDARIES),
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "pow ½": lambda x: x**0.5,
    "pow 2": lambda x: x**2,
    "acosh": torch.acosh,
    "asinh": torch.asinh,
    "atanh": torch.atanh,
    "relu": torch.relu,
}
OF_TWO: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "xlogy": torch.xlogy,
    "xlog1py": torch.special.xlog1py,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "hypot": torch.hypot,
    "pow": torch.pow,
    "copysign": torch.copysign,
    "fmax": torch.fmax,
}


@pytest.mark.parametrize("name", [*OF_ONE, *OF_TWO])
def test_nan_and_infinities(name: str) -> None:
    """For NaN, infinities and extremes, in all pairs, a rule gives the same result as torch."""
    if name in OF_ONE:
        traced = trace(OF_ONE[name], ENDS)
    else:
        traced = trace(OF_TWO[name], ENDS[:, None], ENDS[None, :])
    report = traced.verify()
    assert report.ok and not report.opaque, str(report)
    assert report.cells == traced.steps[-1].value.numel()


def test_a_masked_scatter_reads_no_source_where_it_writes_nothing() -> None:
    own, mask = torch.tensor([1.0, 2.0]), torch.tensor([True, False])
    made = trace(lambda x: x.masked_scatter(mask, torch.tensor([7.0])), own).steps[-1]
    assert made[1].value == 2
    assert isinstance(made[1].expression, Entry)


def test_every_rule_has_an_example() -> None:
    seen = {
        (step.rule, step.output) for function in EXAMPLES.values() for step in trace(function).steps
    }
    missing = {key for key in rule_registry._RULES if key not in seen}
    assert not missing, (
        f"without an example in operator_examples.py or gradient_examples.py: {missing}"
    )


@pytest.mark.parametrize("operators", FORMULAS)
def test_a_formula_reads_arguments_of_its_operator(operators: str) -> None:
    overloads = [
        schema
        for name in operators.split()
        for schema in getattr(torch.ops.aten, name.partition(".")[0])._schemas.values()
    ]
    arguments = {argument.name for schema in overloads for argument in schema.arguments}
    for name in formula(FORMULAS[operators])._parsed().names:
        assert name in arguments, f"torch's schema names {sorted(arguments)}, and not {name}"


@pytest.mark.parametrize("part", ["x @ y", "x << 2", "x in y", "x < y < 1", "x[0]"])
def test_what_a_formula_cannot_say_is_named(part: str) -> None:
    with pytest.raises(TraceError, match=f"^a formula has no '{re.escape(part)}': write this rule"):
        formula(f"1 + ({part})").of(x=1.0, y=2.0)


def test_a_function_that_formulas_lack_is_named() -> None:
    with pytest.raises(TraceError, match=r"^a formula has no function 'sine': add it to FUNCTIONS"):
        formula("1 + sine(x)").of(x=1.0)


def complete_matches(source: str, kinds: set[str]) -> bool:
    """Whether a module matches on most kinds of expression and has no default case."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Match):
            continue
        patterns = [part for case in node.cases for part in ast.walk(case.pattern)]
        classes = [part.cls for part in patterns if isinstance(part, ast.MatchClass)]
        named = {ast.unparse(part).rpartition(".")[2] for part in classes}
        has_default = any(ast.unparse(case.pattern) == "_" for case in node.cases)
        if 2 * len(named & kinds) > len(kinds) and not has_default:
            return True
    return False


def test_a_new_kind_of_expression_takes_four_edits() -> None:
    """Beside its class: its value, its notation, its spreadsheet formula."""
    kinds = {kind.__name__ for kind in get_args(Expression)}
    package = Path(glassformer.__file__).parent
    found = {
        file.name
        for file in package.rglob("*.py")
        if complete_matches(file.read_text(encoding="utf-8"), kinds)
    }
    assert found == {"float64_values.py", "notation.py", "workbook_formulas.py"}
