"""The benchmark of the trace on a GPU, rehearsed on the CPU; and values that lie elsewhere."""

import argparse

import pytest
import torch

from benchmarks import gpu_trace
from glassformer.errors import TraceError
from glassformer.tracing import trace


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_benchmark_finds_everything_right(dtype: torch.dtype) -> None:
    options = argparse.Namespace(
        device="cpu", layers=2, width=64, tokens=8, vocabulary=100, sample=2000, repetitions=1,
        most=2,
    )  # fmt: skip
    said: list[str] = []
    torch.manual_seed(0)
    assert gpu_trace.check(options, dtype, said.append), said
    assert "replay bit for bit: True" in said[-1]
    assert "2000 cells" in said[1]


def test_a_module_without_numbers_is_refused() -> None:
    with pytest.raises(TraceError, match="on the device meta and has no numbers"):
        trace(torch.nn.Linear(2, 2, device="meta"), torch.ones(1, 2))


def test_what_is_looked_at_is_copied_over_once() -> None:
    """On the CPU nothing is copied; a step's value is a copy all the same."""
    run = trace(torch.nn.Linear(3, 2).bfloat16(), torch.ones(1, 3, dtype=torch.bfloat16))
    view = run.outputs["output"].view
    assert view.version.on_cpu is view.version.storage
    assert view.tensor_on_cpu().data_ptr() == view.tensor().data_ptr()
    value = run.outputs["output"].value
    value.zero_()
    assert bool(run.outputs["output"].value.any())
