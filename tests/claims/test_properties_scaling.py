"""A08 and B15: the spread of scores, and the size of embeddings."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.claims.costs import (
    DERIVED_CONSTANT,
    PRINTED_CONSTANT,
    entropy_lost_by_angle,
    least_embedding_size,
    pair_entropy,
)
from glassformer.claims.properties import score_spread, softmax_gradient_size, spread_by_width
from glassformer.errors import ConfigError
from tests.claims.claim_runs import outcome_of

WIDTHS = (4, 64, 1024)


def test_scores_spread_as_the_root_of_the_width_unless_divided_by_it() -> None:
    for unscaled, scaled in zip(
        spread_by_width(WIDTHS, scaled=False), spread_by_width(WIDTHS, scaled=True), strict=True
    ):
        assert unscaled.deviation == pytest.approx(math.sqrt(unscaled.width), rel=0.05)
        assert scaled.deviation == pytest.approx(1.0, rel=0.05)
        assert scaled.divisor == math.sqrt(scaled.width)


def test_the_average_score_does_not_grow_with_the_width_but_its_size_does() -> None:
    """The text says that the average grows; for inputs with mean 0 it stays at 0 ± noise."""
    for spread in spread_by_width(WIDTHS, scaled=False):
        standard_error = spread.deviation / math.sqrt(256 * 16)
        assert abs(spread.mean) < 5 * standard_error


def test_the_average_score_grows_where_the_inputs_have_a_mean() -> None:
    for width in WIDTHS:
        spread = score_spread(width, divisor=1.0, mean=0.5)
        assert spread.mean == pytest.approx(0.25 * width, rel=0.2)


def test_the_claim_about_the_average_product_is_tried_on_unscaled_products() -> None:
    """The standard deviation of a product of two vectors of k standard normal numbers is √k."""
    figures = outcome_of("C31").figures
    for size in ("narrow", "wide"):
        assert figures[f"deviation_{size}"] == pytest.approx(math.sqrt(figures[size]), rel=0.05)
        assert figures[f"shifted_{size}"] == pytest.approx(figures[size], rel=0.2)


def test_unscaled_wide_scores_saturate_softmax_and_kill_its_gradient() -> None:
    narrow, _, wide = spread_by_width(WIDTHS, scaled=False)
    assert wide.largest_weight > 0.95 > narrow.largest_weight
    assert wide.gradient_size < narrow.gradient_size / 4
    for scaled in spread_by_width(WIDTHS, scaled=True):
        assert scaled.largest_weight < 0.4


def test_dividing_by_the_root_of_the_whole_width_is_too_much_for_several_heads() -> None:
    """Published code divides by √k with h heads of width k/h: the scores shrink by √h."""
    k, h = 256, 4
    assert score_spread(k // h, math.sqrt(k)).deviation == pytest.approx(1 / math.sqrt(h), rel=0.05)


def test_same_seed_same_figures_and_the_callers_rng_untouched() -> None:
    state = torch.random.get_rng_state()
    assert score_spread(8) == score_spread(8)
    assert score_spread(8) != score_spread(8, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=6))
def test_gradient_size_is_the_norm_of_softmaxs_jacobian(scores: list[float]) -> None:
    x = torch.tensor(scores, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, dim=-1), x)
    assert isinstance(jacobian, torch.Tensor)
    size = softmax_gradient_size(torch.softmax(x, dim=-1))
    torch.testing.assert_close(size, jacobian.norm(), rtol=1e-6, atol=1e-7)


def test_gradient_size_by_hand() -> None:
    assert softmax_gradient_size(torch.tensor([1.0, 0.0, 0.0])) == 0.0
    even = softmax_gradient_size(torch.tensor([0.5, 0.5]))  # [[¼, −¼], [−¼, ¼]]
    assert even == pytest.approx(0.5)


# --- B15: n > 8.33 ln N -------------------------------------------------------------------------


def test_23_words_need_26_1_dimensions_by_either_constant() -> None:
    assert round(least_embedding_size(23), 1) == 26.1
    assert round(least_embedding_size(23, DERIVED_CONSTANT), 1) == 26.1
    assert least_embedding_size(1) == 0.0


def test_the_printed_constant_is_two_over_the_rounded_loss() -> None:
    loss = 2 / DERIVED_CONSTANT
    assert round(loss, 2) == 0.24
    assert round(2 / round(loss, 2), 2) == PRINTED_CONSTANT
    assert pytest.approx(8.3123, abs=1e-4) == DERIVED_CONSTANT


@pytest.mark.parametrize("width", [256, 1024, 4096])
def test_integrated_loss_approaches_the_derived_one(width: int) -> None:
    """The remainder is a constant near 0.074, so the loss per dimension converges as 1 / n."""
    remainder = entropy_lost_by_angle(width) - width * 2 / DERIVED_CONSTANT
    assert 0.07 < remainder < 0.08


def test_integrated_loss_agrees_with_sampled_vectors() -> None:
    """The entropy of pairs of 1000 real vectors in 4 dimensions: the definition, not the angle."""
    generator = torch.Generator().manual_seed(0)
    n_words, width = 1000, 4
    directions = torch.randn(2, n_words, width, generator=generator, dtype=torch.float64)
    vectors = math.sqrt(width) * directions / directions.norm(dim=-1, keepdim=True)
    products = (vectors[0] @ vectors[1].T).flatten()
    probabilities = torch.softmax(products, dim=0)
    entropy = float(torch.special.entr(probabilities).sum())
    assert pair_entropy(n_words, width) == pytest.approx(entropy, abs=0.02)


@pytest.mark.parametrize("n_words", [23, 1000, 100_000])
def test_the_bound_is_where_the_entropy_of_a_pair_vanishes(n_words: int) -> None:
    bound = least_embedding_size(n_words, DERIVED_CONSTANT)
    assert (
        pair_entropy(n_words, math.floor(bound) - 1) > 0 > pair_entropy(n_words, math.ceil(bound))
    )


def test_meaningless_sizes_are_refused() -> None:
    for impossible in (least_embedding_size, lambda n: pair_entropy(n, 4)):
        with pytest.raises(ConfigError, match="vocab_size must be at least 1, got 0"):
            impossible(0)
    with pytest.raises(ConfigError, match="2 dimensions"):
        entropy_lost_by_angle(1)
