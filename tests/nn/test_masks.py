"""Masks: boolean, True = may attend, broadcast to (B, H, Q, K)."""

import pytest
import torch

from glassformer.errors import ShapeError
from glassformer.nn import causal_mask, padding_mask
from glassformer.nn.attention import check_mask, token_mask, visible_keys
from tests.nn.oracles import loop_visible

T, F = True, False
CPU = torch.device("cpu")


def test_causal_mask_sees_itself_and_what_came_before() -> None:
    assert causal_mask(3).tolist() == [[T, F, F], [T, T, F], [T, T, T]]


def test_causal_mask_counts_queries_from_the_end_of_the_keys() -> None:
    assert causal_mask(2, 4).tolist() == [[T, T, T, F], [T, T, T, T]]
    assert causal_mask(1, 3).tolist() == [[T, T, T]]


def test_causal_mask_with_more_queries_than_keys_hides_everything_from_the_first() -> None:
    assert causal_mask(3, 2).tolist() == [[F, F], [T, F], [T, T]]


@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1), (4, 4), (2, 5), (5, 2), (1, 6)])
def test_causal_mask_equals_the_loop(n_queries: int, n_keys: int) -> None:
    expected = loop_visible((1, 1, n_queries, n_keys), causal=True)[0, 0]
    assert causal_mask(n_queries, n_keys).equal(expected)


def test_token_and_padding_masks() -> None:
    ids = torch.tensor([[5, 3, 0], [7, 0, 0]])
    is_token = token_mask(ids, pad_id=0)
    assert is_token.tolist() == [[T, T, F], [T, F, F]]
    assert padding_mask(is_token).shape == (2, 1, 1, 3)
    assert padding_mask(is_token)[1, 0, 0].tolist() == [T, F, F]


def test_masks_combine_with_and() -> None:
    tokens = torch.tensor([[F, T, T], [T, T, F]])
    both = visible_keys((2, 4, 3, 3), padding_mask(tokens), True, CPU)
    assert both is not None
    expected = loop_visible((2, 1, 3, 3), padding_mask(tokens), causal=True)
    assert both.equal(expected)
    assert both.equal(padding_mask(tokens) & causal_mask(3))


def test_no_mask_is_made_if_none_is_needed() -> None:
    assert visible_keys((2, 4, 3, 3), None, False, CPU) is None
    assert visible_keys((2, 4, 1, 9), None, True, CPU) is None


@pytest.mark.parametrize(
    "shape", [(), (5,), (4, 5), (1, 5), (1, 3, 4, 5), (2, 1, 1, 5), (2, 3, 4, 5)]
)
def test_shapes_that_broadcast_to_the_scores_are_accepted(shape: tuple[int, ...]) -> None:
    check_mask(torch.ones(shape, dtype=torch.bool), (2, 3, 4, 5))


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 5), (2, 4, 5), (7, 2, 3, 4, 5)])
def test_shapes_that_do_not_broadcast_are_refused_with_both_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError) as error:
        check_mask(torch.ones(shape, dtype=torch.bool), (2, 3, 4, 5))
    assert "(2, 3, 4, 5)" in str(error.value)
    assert str(shape) in str(error.value)


def test_a_mask_larger_than_the_scores_would_enlarge_them_and_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"\(1, 1, 4, 5\), got \(2, 1, 4, 5\)"):
        check_mask(torch.ones(2, 1, 4, 5, dtype=torch.bool), (1, 1, 4, 5))
