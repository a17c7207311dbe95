"""The verification itself is tested: it catches rules that are wrong in any way."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.tracing import trace
from glassformer.tracing.arithmetic.expressions import (
    Axis,
    Choose,
    Entry,
    Expression,
    Number,
    Operation,
    total,
)
from glassformer.tracing.arithmetic.float64_values import Evaluation
from glassformer.tracing.arithmetic.rules import of_call
from glassformer.tracing.capture.memory import Index
from glassformer.tracing.capture.operator_calls import Call
from tests.tracing.swapped_rules import swapped


class Small(nn.Module):
    """Every family of rules once."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(7, 4)
        self.norm = nn.LayerNorm(4)
        self.inner = nn.Linear(4, 4)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        scores = x @ x.mT
        allowed = torch.ones(3, 3, dtype=torch.bool).tril()
        masked = scores.masked_fill(~allowed, -torch.inf)
        weights = masked.softmax(-1)
        mixed = self.norm(x + weights @ x)
        joined = torch.cat([mixed, F.gelu(self.inner(mixed))], dim=-1)
        return joined.mean(1)


IDS = torch.tensor([[1, 5, 2]])


def off_by_one(call: Call, index: Index) -> Expression:
    """The linear rule without its last term."""
    x, parameter = call.view("input"), call.view("weight")
    k = Axis("k", x.shape[-1] - 1)
    body = Entry(x, (*index[:-1], k)) * Entry(parameter, (index[-1], k))
    return total(body, k) + Entry(call.view("bias"), index[-1:])


def scaled(call: Call, index: Index) -> Expression:
    return 1.00001 * original(call, index)


def wrong_branch(call: Call, index: Index) -> Expression:
    right = original(call, index)
    assert isinstance(right, Choose)
    return Choose(right.condition, right.no, right.yes)


def neighbour(call: Call, index: Index) -> Expression:
    """The right arithmetic of the wrong cell."""
    made = call.outputs[0]
    assert made is not None
    return original(call, (*index[:-1], (index[-1] + 1) % made.shape[-1]))


def shifted(call: Call, index: Index) -> Expression:
    return Operation("+", original(call, index), Number(2e-6))


def original(call: Call, index: Index) -> Expression:
    made = ORIGINALS[call.operator.name](call, index)
    assert made is not None
    return made


ORIGINALS = {
    step.op: rule.build
    for step in trace(Small(), IDS).steps
    if step.call is not None and (rule := of_call(step.call, 0)) is not None
}


@pytest.mark.parametrize(
    ("operator", "wrong"),
    [
        ("linear", off_by_one),
        ("linear", scaled),
        ("softmax", scaled),
        ("softmax", neighbour),
        ("layer_norm", neighbour),
        ("layer_norm", scaled),
        ("masked_fill", wrong_branch),
        ("matmul", neighbour),
        ("matmul", shifted),
        ("embedding", neighbour),
        ("cat", neighbour),
        ("gelu", shifted),
        ("mean", shifted),
        ("add", neighbour),
        ("tril", neighbour),
    ],
)
def test_a_wrong_rule_is_caught(operator: str, wrong: type) -> None:
    traced = trace(Small(), IDS)
    assert traced.verify().ok
    undo = swapped(operator, wrong)
    try:
        report = traced.verify()
    finally:
        undo()
    assert not report.ok
    assert [rule.rule for rule in report.rules.values() if rule.excess > 1] == [operator]
    assert report.worst_cell in str(report)
    assert traced.verify().ok


def test_a_trace_without_arithmetic_has_nothing_to_recompute() -> None:
    assert str(trace(lambda x: x.view(4), torch.ones(2, 2)).verify()) == (
        "no cells to recompute; nothing was computed"
    )
    opaque = trace(torch.linalg.det, torch.eye(3)).verify()
    assert str(opaque).startswith("no cells to recompute; ")
    assert "have no rule" in str(opaque)


def planes(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    """Windows over an image, and writes to indexed positions."""
    wide = F.conv_transpose2d(x, torch.arange(12.0).reshape(2, 1, 3, 2).sin(), stride=2)
    most, where = F.max_pool2d(wide, 3, 2, return_indices=True)
    mean = F.adaptive_avg_pool2d(wide, (2, 3))
    evened = F.avg_pool2d(mean, 2, 1, 1)
    return most, where, evened, x.scatter_add(3, at, x), x.index_put((at[0, 0, 0, :1],), x[1:])


@pytest.mark.parametrize(
    ("operator", "output", "wrong"),
    [
        ("conv_transpose2d", 0, neighbour),
        ("conv_transpose2d", 0, scaled),
        ("max_pool2d_with_indices", 0, neighbour),
        ("max_pool2d_with_indices", 1, neighbour),
        ("adaptive_avg_pool2d", 0, neighbour),
        ("avg_pool2d", 0, scaled),
        ("scatter_add", 0, neighbour),
        ("index_put", 0, neighbour),
    ],
)
def test_a_wrong_rule_of_a_window_or_a_write_is_caught(
    operator: str, output: int, wrong: type
) -> None:
    torch.manual_seed(0)
    traced = trace(planes, torch.randn(2, 2, 4, 3), torch.tensor([0, 1]).expand(2, 2, 4, 2))
    assert traced.verify().ok, str(traced.verify())
    call = next(step.call for step in traced.steps if step.op == operator)
    assert call is not None
    right = of_call(call, output)
    assert right is not None
    ORIGINALS[operator] = right.build
    undo = swapped(operator, wrong, output)
    try:
        report = traced.verify()
    finally:
        undo()
        del ORIGINALS[operator]
    assert [rule.rule for rule in report.rules.values() if rule.excess > 1] == [operator]


def test_a_wrong_number_is_caught() -> None:
    traced = trace(Small(), IDS)
    step = traced["scores"]
    step.view.tensor()[0, 1, 1] += 1e-4
    report = traced.verify()
    assert not report.ok
    assert report.rules["matmul"].cell == "scores[0, 1, 1]"


def test_a_sample_is_spread_over_all_steps_and_repeatable() -> None:
    traced = trace(nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 2)), torch.ones(9, 50))
    report = traced.verify(sample=200, seed=3)
    assert report.cells == 200
    assert {name: rule.cells for name, rule in report.rules.items()} == {"linear": 109, "relu": 91}
    assert str(report) == str(traced.verify(sample=200, seed=3))
    assert traced.verify().cells == sum(step.view.numel for step in traced.steps)
    assert traced.verify(sample=2).cells == 2  # fewer than there are steps


def test_the_measure_is_relative_to_what_was_added() -> None:
    """Large terms that cancel leave a rounding error that is unavoidable in float32."""
    x = torch.tensor([[1e4, -1e4, 1e-3]])
    traced = trace(lambda x, w: x @ w, x, torch.tensor([0.1, 0.1, 1.0]))
    report = traced.verify()
    assert report.ok, str(report)


def test_a_mask_fill_does_not_excuse_an_error() -> None:
    """−1e9 among the operands of a softmax does not set the scale of its result."""

    def function(x: Tensor) -> Tensor:
        return x.softmax(-1)

    traced = trace(function, torch.tensor([-1e9, 1.0, 2.0]))
    traced.outputs["output"].view.tensor()[1] += 1e-4
    assert not traced.verify().ok


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_sum_of_two_masks_is_stored_as_infinity(dtype: torch.dtype) -> None:
    mask = torch.full((1,), torch.finfo(dtype).min, dtype=dtype)
    t = trace(lambda x: x + x, mask)
    assert t.steps[-1][0].value == -math.inf
    assert t.steps[-1][0].reproduced
    assert "≠" not in t.steps[-1][0].explain()


def test_an_infinity_below_the_largest_number_of_the_dtype_is_an_error() -> None:
    half = Evaluation(Number(-65520.0))
    assert half.relative_difference(-math.inf, torch.float16) == 0
    assert half.relative_difference(math.inf, torch.float16) == math.inf
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        assert half.relative_difference(-math.inf, dtype) == math.inf


def test_the_smallest_gap_is_the_dtypes() -> None:
    tiny = Evaluation(Number(1e-39))
    assert tiny.relative_difference(2e-39, torch.float32) == 0  # may be flushed to zero
    assert tiny.relative_difference(2e-39, torch.float64) == 1
    step = 2.0**-24  # of float16's subnormal numbers
    assert Evaluation(Number(1.4 * step)).relative_difference(step, torch.float16) == 0
    assert Evaluation(Number(3 * step)).relative_difference(step, torch.float16) > 0.5
    assert Evaluation(Number(1)).relative_difference(0, torch.int64) == 1


def test_the_first_line_says_how_many_cells_have_no_rule() -> None:
    explained = trace(lambda x: x.exp(), torch.ones(3))
    assert str(explained.verify()).splitlines()[0].endswith("; all have a rule")
    opaque = trace(lambda x: torch.linalg.inv(x.exp()), torch.eye(3))
    report = opaque.verify()
    assert report.without_rule == sum(step.view.numel for step in opaque.steps if step.is_opaque)
    first = str(report).splitlines()[0]
    assert first.endswith(f"; {report.without_rule} more have no rule")


def test_integers_that_float64_cannot_represent_are_not_verified() -> None:
    large = torch.tensor([2**62 + 1, 7])
    report = trace(lambda x: x - 2**62, large).verify()
    assert report.ok
    assert report.cells == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_an_rms_norm_without_eps_takes_that_of_the_dtype_it_is_computed_in(
    dtype: torch.dtype,
) -> None:
    rows = (1e-2 * torch.randn(3, 8, generator=torch.Generator().manual_seed(0))).to(dtype)
    assert trace(lambda x: F.rms_norm(x, (8,)), rows).verify().ok
