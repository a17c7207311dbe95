"""B01, B02, B04: permuted inputs, shuffled words, repeated words."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.claims.bloem import SelfAttention
from glassformer.claims.properties import (
    equivariance,
    invariance,
    repeated_word_spread,
    shuffle_words,
)
from glassformer.errors import ConfigError
from glassformer.nn import FeedForward, FeedForwardConfig, TextEncoder, basic_self_attention
from glassformer.nn.presets import bloem_2024
from tests.nn.oracles import FLOAT64_SHARE

T, D = 6, 8
SENTENCE = torch.tensor([0, 1, 2, 3, 0, 4])
"""the cat walks on the street"""
REVERSED = torch.arange(T - 1, -1, -1)


class MeanOverPositions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


@given(st.permutations(range(T)), st.integers(0, 2**16))
@settings(max_examples=25)
def test_attention_is_equivariant_under_any_permutation(order: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.randn(2, T, D, dtype=torch.float64)
    permutation = torch.tensor(order)
    for layer in (basic_self_attention, SelfAttention(D, heads=2).double()):
        assert equivariance(layer, x, permutation) < 1e-12


def test_attention_and_the_layers_around_it_are_equivariant_and_not_invariant() -> None:
    """One text calls all three layers "invariant", which is wrong."""
    torch.manual_seed(0)
    x = torch.randn(1, T, D)
    layers = [SelfAttention(D), nn.LayerNorm(D), FeedForward(D, FeedForwardConfig(d_ff=16))]
    for layer in layers:
        assert equivariance(layer, x, REVERSED) < 1e-5
        assert invariance(layer, x, REVERSED) > 0.05
        pooled = nn.Sequential(layer, MeanOverPositions())
        assert invariance(pooled, x, REVERSED) < 1e-5


def test_a_causal_mask_ends_equivariance() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, T, D)
    assert equivariance(SelfAttention(D, mask=True), x, REVERSED) > 0.05


def test_the_difference_is_the_largest_one() -> None:
    def running_sum(x: Tensor) -> Tensor:
        return x.cumsum(dim=1)

    x = torch.tensor([[[1.0], [2.0], [4.0]]])
    assert equivariance(running_sum, x, torch.tensor([2, 1, 0])) == 6.0  # 4, 6, 7; 7, 3, 1


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shuffled_words_change_the_class_with_positions_only(seed: int) -> None:
    config = bloem_2024(vocab_size=5, d_model=D, n_heads=2, n_layers=2, max_len=T)
    ids = SENTENCE[None]
    without = shuffle_words(config.with_(positions__kind="none"), ids, REVERSED, seed)
    assert without < FLOAT64_SHARE
    for kind in ("learned", "sinusoidal", "rotary"):
        shuffled = shuffle_words(config.with_(positions__kind=kind), ids, REVERSED, seed)
        assert shuffled > 1e-4, kind


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("kind", ["none", "learned"])
def test_both_occurrences_of_the_have_one_output_without_positions(kind: str) -> None:
    torch.manual_seed(0)
    config = bloem_2024(vocab_size=5, d_model=D, n_heads=2, n_layers=2, max_len=T)
    model = TextEncoder(config.with_(architecture="encoder", positions__kind=kind)).eval()
    spread = repeated_word_spread(model(SENTENCE[None])[0], SENTENCE)
    assert list(spread) == [0]
    assert (spread[0] < FLOAT64_SHARE) is (kind == "none")


def test_spread_is_the_largest_distance_from_the_first_occurrence() -> None:
    outputs = torch.tensor([[0.0, 0.0], [9.0, 9.0], [1.0, -3.0]])
    assert repeated_word_spread(outputs, torch.tensor([7, 8, 7])) == {7: 3.0}


def test_input_that_cannot_be_permuted_is_refused() -> None:
    x = torch.randn(1, 3, D)
    with pytest.raises(ConfigError, match=r"3 positions.*\[0, 0, 1\]"):
        equivariance(basic_self_attention, x, torch.tensor([0, 0, 1]))
    config = bloem_2024(vocab_size=5, d_model=D, n_heads=2).with_(architecture="encoder")
    with pytest.raises(ConfigError, match="classifier"):
        shuffle_words(config, SENTENCE[None], REVERSED)
