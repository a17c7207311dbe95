"""The trace in 140 lines (examples/mini_trace.py) says the same as the real one."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import examples.mini_trace as mini
from glassformer.tracing import trace


@pytest.mark.parametrize(
    "file",
    ["README.md", "README.zh-CN.md", "docs/trace.md", "docs/architecture.md", mini.__file__],
)
def test_it_is_as_long_as_is_said(file: str) -> None:
    length = len(Path(mini.__file__).read_text("utf-8").splitlines())
    root = Path(__file__).parents[1]
    assert re.search(rf"\b{length} (lines|行)", (root / file).read_text("utf-8"))


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(-1))


def test_its_values_are_those_of_the_real_trace(network: nn.Module) -> None:
    x = torch.randn(2, 3)
    with torch.inference_mode(), mini.Recorder() as recorder:
        network(x)
    recorded = [call.result for call in recorder.calls.values() if call.operator in mini.RULES]
    computed = [step.value for step in trace(network, x).steps if step.role == "activation"]
    assert len(recorded) == len(computed) == 4
    for ours, real in zip(recorded, computed, strict=True):
        torch.testing.assert_close(ours, real, rtol=0, atol=0)


def test_explaining_reaches_an_input(network: nn.Module) -> None:
    x = torch.tensor([[1.0, 0.0, -2.0]])
    with torch.inference_mode():
        with mini.Recorder() as recorder:
            output = network(x)
        lines = mini.explain(recorder, mini.Cell(output, (0, 1)))
    assert [line.count("aten::") for line in lines] == [1, 1, 1, 1, 0]
    assert lines[-1].endswith("an input or a parameter")


def test_an_edit_is_a_run_on_the_edited_input(network: nn.Module) -> None:
    x = torch.randn(2, 3)
    with torch.inference_mode():
        with mini.Recorder() as recorder:
            output = network(x)
        after = mini.edit(recorder, mini.Cell(x, (1, 2)), 0.5)
        other = x.clone()
        other[1, 2] = 0.5
        torch.testing.assert_close(after(output), network(other), rtol=0, atol=0)


def test_a_wrong_rule_is_noticed(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(index: tuple[int, ...], x: torch.Tensor, axis: int) -> mini.Arithmetic:
        right = mini.softmax(index, x, axis)
        return right._replace(value=2 * right.value)

    monkeypatch.setitem(mini.RULES, torch.ops.aten.softmax.int, doubled)
    x = torch.randn(1, 3)
    with torch.inference_mode():
        with mini.Recorder() as recorder:
            output = network(x)
        with pytest.raises(AssertionError, match="does not give"):
            mini.explain(recorder, mini.Cell(output, (0, 0)))
