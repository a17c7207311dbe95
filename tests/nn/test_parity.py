"""The rows of docs/parity.md, asserted: our modules against independent implementations."""

import pytest
import torch

from benchmarks.parity import CASES, Case


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("comparison", CASES.values(), ids=lambda comparison: comparison.name)
def test_agrees(comparison: Case, dtype: torch.dtype) -> None:
    tolerance = comparison.float64 if dtype is torch.float64 else comparison.float32
    difference = comparison.run(dtype)
    assert difference.output <= tolerance
    if difference.gradient is not None:
        assert difference.gradient <= tolerance
