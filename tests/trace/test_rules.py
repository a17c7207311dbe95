"""Every rule: its cells recomputed from the operands it shows, and the operator's own result."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.trace import replay, trace
from glassformer.trace.memory import as_real
from glassformer.trace.rules import registry
from tests.trace.operator_examples import EXAMPLES


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
        lambda: rows.angle(),
    ):
        report = trace(function).verify()
        assert report.ok and not report.opaque, str(report)


def test_every_rule_has_an_example() -> None:
    seen = {
        (step.rule, step.output) for function in EXAMPLES.values() for step in trace(function).steps
    }
    assert {key for key in registry.rules() if key not in seen} == set()
