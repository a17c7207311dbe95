"""The colour scale of a step: to the largest number, or its 99th percentile if that is alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.colours import Scale
from glassformer.documents.heat_maps import limit_of, scale_of, slice_scale
from glassformer.explorer.panels import Window, thumbnail
from glassformer.tasks import load
from glassformer.tracing import Step, trace
from tests.tracing.render.toys import SIGNALLING


def end_of(sizes: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Where the scale ends: at the largest, unless that is more than twice the percentile."""
    most, percentile = sizes.max(), np.percentile(sizes, 99)
    return float(most if most <= 2 * percentile else percentile)


def step_of(numbers: Tensor) -> Step:
    """The numbers as the result of a step."""
    return next(iter(trace(lambda x: x * 1.0, numbers).outputs.values()))


@pytest.mark.parametrize("count", [4_097, 10_240, 70_001])
def test_the_limit_of_many_numbers_comes_from_a_sample(count: int) -> None:
    numbers = torch.randn(count, generator=torch.Generator().manual_seed(count))
    found = scale_of(step_of(numbers))
    sample = np.abs(numbers.double().numpy()[:: (count // 4_096) | 1])
    assert found is not None
    assert found.kind == "signed"
    assert found.limit == end_of(sample)


def test_what_is_not_finite_does_not_count() -> None:
    numbers = torch.full((5_000,), 2.0)
    numbers[::3] = float("inf")
    numbers[1::3] = float("nan")
    found = scale_of(step_of(numbers))
    assert found is not None
    assert found.limit == 2.0
    nothing = scale_of(step_of(torch.full((5_000,), float("-inf"))))
    assert nothing is not None
    assert nothing.limit == 1.0


def test_weights_keep_their_colours_when_one_of_them_is_edited() -> None:
    weights = trace(lambda x: torch.softmax(x, -1), torch.eye(3))
    step = next(iter(weights.outputs.values()))
    for value, kind in ((0.0, "probability"), (1.0, "probability"), (-4.0, "signed")):
        edited = weights.edit({step[0, 0]: value})
        found = scale_of(next(iter(edited.outputs.values())))
        assert found is not None
        assert found.kind == kind
    backward, numbers = torch.ops.aten._softmax_backward_data, torch.randn(80, 80)
    logs = trace(lambda x: torch.log_softmax(x, -1), numbers)
    gradients = trace(lambda x: backward(x, x.softmax(-1), -1, x.dtype), numbers)
    for signed in (logs, gradients):
        found = scale_of(next(iter(signed.outputs.values())))
        assert found is not None
        assert found.kind == "signed"


def test_a_turned_matrix_is_sampled_in_its_own_order() -> None:
    numbers = torch.randn(80, 130, generator=torch.Generator().manual_seed(0))
    turned = step_of(numbers.T)
    assert turned.view.strides == (1, 130)
    found = scale_of(turned)
    sample = np.abs(numbers.T.double().numpy().reshape(-1)[::3])
    assert found is not None
    assert found.limit == end_of(sample)


def test_the_percentile_is_numpys_to_the_bit() -> None:
    chance = np.random.default_rng(0)
    outliers = 0
    for count in range(1, 300):
        sizes = np.abs(chance.normal(size=count))
        sizes[0] *= 1 + 9 * (count % 2)
        outliers += end_of(sizes) < sizes.max()
        assert limit_of(sizes) == end_of(sizes)
    assert 20 < outliers < 280


def test_a_few_numbers_are_all_on_the_scale() -> None:
    assert limit_of(np.array([0.0, 0.0, 6.0, 0.0])) == 6.0


def test_a_head_shown_by_itself_has_a_scale_of_its_own() -> None:
    step = step_of(torch.tensor([[[1.0, -2.0]], [[30.0, float("-inf")]]]))
    whole = scale_of(step)
    assert whole is not None and whole.limit == 30
    own = [slice_scale(whole, step.view, (head,)) for head in (0, 1)]
    assert own == [Scale("signed", 2.0), Scale("signed", 30.0)]
    shares = Scale("probability")
    assert slice_scale(shares, step.view, (0,)) == shares
    assert slice_scale(None, step.view, (0,)) is None


@pytest.mark.parametrize("dtype", SIGNALLING)
@pytest.mark.parametrize("width", [2, 6_000])
def test_memory_never_written_may_hold_a_signalling_nan(dtype: torch.dtype, width: int) -> None:
    """Warnings are errors here, and numpy warns where such a number is cast."""
    numbers = SIGNALLING[dtype].repeat(1, width // 2).view(dtype)
    for step in trace(lambda x: x.clone(), numbers).steps:
        scale = scale_of(step)
        assert scale is not None and scale.limit == 1.0
        assert np.isnan(Window(step, None, (), None, "0:2").numbers(step.view)[0, 0])
        assert thumbnail(step, scale).data


def test_a_mask_has_a_colour_where_it_is_true_alone() -> None:
    """As a share, the places that may be seen would be drawn like weights that are hidden."""
    recorded = load("en-de", attention="written").trace("A dog runs.")
    hidden = next(step for step in recorded.steps if step.dtype == torch.bool)
    assert scale_of(hidden) == Scale("signed", 1.0)
