"""Models that we did not write: every cell is right, and edits match the edited model."""

import copy
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.tracing import Trace, diff, replay, trace
from tests.tracing.foreign_models import EXAMPLES

pytestmark = pytest.mark.no_cover  # the lines of test_rules.py, for far more cells
# The untraced run of torch's encoder takes its fast path.
torchs_own_warning = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


class Traced:
    """A model, its inputs, and its trace."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(len(name))
        self.model, self.inputs = EXAMPLES[name]()
        self.model.eval()
        self.trace = trace(self.model, **self.inputs)


@pytest.fixture(scope="module", params=EXAMPLES)
def traced(request: pytest.FixtureRequest) -> Traced:
    return Traced(request.param)


def first_tensor(result: Any) -> Tensor:
    if isinstance(result, Tensor):
        return result
    first = next(iter(result.values()))
    assert isinstance(first, Tensor)
    return first


def first_output(traced: Trace) -> Tensor:
    return next(iter(traced.outputs.values())).value


def assert_same(one: Trace, other: Trace) -> None:
    assert [step.name for step in one.steps] == [step.name for step in other.steps]
    for step, twin in zip(one.steps, other.steps, strict=True):
        torch.testing.assert_close(
            step.value, twin.value, rtol=0, atol=0, equal_nan=True, msg=f"{step.name} differs"
        )


@pytest.mark.parametrize("cells", [4_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_every_cell_shown_is_true(traced: Traced, cells: int) -> None:
    report = traced.trace.verify(sample=cells + 1_000)
    assert report.cells >= cells  # ids beyond what float64 holds are not counted
    assert report.opaque == []
    assert report.ok, str(report)
    assert report.worst <= 1e-6


@torchs_own_warning
def test_the_result_is_the_models(traced: Traced) -> None:
    with torch.no_grad():
        expected = first_tensor(traced.model(**traced.inputs))
    assert_close_where_it_counts(traced, first_output(traced.trace), expected)


def assert_close_where_it_counts(traced: Traced, ours: Tensor, expected: Tensor) -> None:
    """torch's fast path leaves zeros at padded positions; the ordinary path computes them."""
    padded = traced.inputs.get("src_key_padding_mask")
    if padded is not None and padded.shape == ours.shape[:2]:
        ours, expected = ours[~padded], expected[~padded]
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=5e-6)


def test_replay_is_bit_exact(traced: Traced) -> None:
    assert_same(replay(traced.trace), traced.trace)


def test_editing_a_parameter_equals_running_the_edited_model(traced: Traced) -> None:
    name = next(n for n, p in traced.trace.parameters.items() if "layer" in n or ".h." in n)
    step = traced.trace.parameters[name]
    index = tuple(size // 2 for size in step.shape)
    edited = traced.trace.edit({step[index]: 0.75})

    other = copy.deepcopy(traced.model)
    with torch.no_grad():
        dict(other.named_parameters())[name][index] = 0.75
    assert_same(edited, trace(other, **traced.inputs))
    changed = diff(traced.trace, edited)
    assert changed.steps[0].name == name
    assert changed.steps[0].changed == 1
    assert not torch.equal(first_output(edited), first_output(traced.trace))


def test_editing_an_input_equals_running_on_the_edited_input(traced: Traced) -> None:
    name, given = next((n, v) for n, v in traced.inputs.items() if isinstance(v, Tensor))
    value = 5 if not given.is_floating_point() else 0.25
    index = (0,) * given.ndim
    edited = traced.trace.edit({(name, index): value})

    other = given.clone()
    other[index] = value
    assert_same(edited, trace(traced.model, **{**traced.inputs, name: other}))


class SetCell:
    """A hook that sets one cell of a module's output, as an edit of that cell would."""

    def __init__(self, index: tuple[int, ...], value: float) -> None:
        self.index, self.value = index, value

    def __call__(self, module: nn.Module, args: Any, output: Tensor) -> None:
        output[self.index] = self.value


@torchs_own_warning
def test_editing_an_intermediate_equals_intervening_in_the_run(traced: Traced) -> None:
    norm, step = next(
        (module, traced.trace[name])
        for path, module in traced.model.named_modules()
        for name in [output_of(traced.trace, path)]
        if isinstance(module, nn.LayerNorm | nn.Linear) and name is not None
    )
    index = (0, *(size - 1 for size in step.shape[1:]))  # the first row has no padding
    edited = traced.trace.edit({step[index]: 2.5})

    hook = norm.register_forward_hook(SetCell(index, 2.5))
    try:
        with torch.no_grad():
            expected = first_tensor(traced.model(**traced.inputs))
    finally:
        hook.remove()
    assert_close_where_it_counts(traced, first_output(edited), expected)


def output_of(traced: Trace, path: str) -> str | None:
    """The step in which a leaf module's own parameters are used, if it is used once."""
    users = [
        step
        for step in traced.steps
        for operand in step.operands
        if operand.step is not None and operand.step.name == f"{path}.weight"
    ]
    return users[0].name if len(users) == 1 and users[0].view.ndim == 3 else None


def test_the_largest_contributions_lead_to_a_parameter_or_an_input(traced: Traced) -> None:
    step = next(iter(traced.trace.outputs.values()))
    for place in (0, -1):
        trail = step[tuple(place % size for size in step.shape)].path()
        assert len(trail) > 3
        assert trail[-1].role in ("parameter", "input")
        for cell, operand in pairwise(trail):
            assert operand in cell.operands


def test_what_a_cell_is_made_from_influences_it(traced: Traced) -> None:
    floats = [s for s in traced.trace.steps if s.dtype == torch.float32 and s.view.numel]
    for step in floats[:: max(1, len(floats) // 12)]:
        index = tuple(size // 2 for size in step.shape)
        cell = step[index]
        operands = [o for o in cell.operands if o.step.dtype == torch.float32]
        for operand in operands[:: max(1, len(operands) // 2)]:
            reached = [d for d in operand.dependents() if d.step is cell.step]
            assert any(d.mask[cell.index] for d in reached), f"{operand} misses {cell}"


def test_names_are_unique_and_stable(traced: Traced) -> None:
    names = [step.name for step in traced.trace.steps]
    assert len(set(names)) == len(names)
    again = trace(traced.model, **traced.inputs)
    assert [step.name for step in again.steps] == names
    assert all(step.line is not None and step.line.text for step in traced.trace.steps)
