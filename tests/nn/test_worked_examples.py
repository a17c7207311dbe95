"""The printed numbers of the two worked examples, through our modules."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.nn import MultiHeadAttention, build, presets, record_attention, set_attention
from glassformer.nn.attention import split_heads, weigh_values
from glassformer.nn.positions import sinusoidal_table


def matrix(rows: list[list[Any]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


# "Illustrated self-attention", as printed
INPUTS = matrix([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
W_KEY = matrix([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
W_QUERY = matrix([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
W_VALUE = matrix([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
KEYS = matrix([[0, 1, 1], [4, 4, 0], [2, 3, 1]])
QUERIES = matrix([[1, 0, 2], [2, 2, 2], [2, 1, 3]])
VALUES = matrix([[1, 2, 3], [2, 8, 0], [2, 6, 3]])
SCORES = matrix([[2, 4, 4], [4, 16, 12], [4, 12, 10]])
SOFTMAX = matrix(
    [[0.063379, 0.46831, 0.46831], [6.0337e-06, 0.98201, 0.017986], [0.00029539, 0.88054, 0.11917]]
)
OUTPUTS_OF_ROUNDED_WEIGHTS = matrix([[2.0, 7.0, 1.5], [2.0, 8.0, 0.0], [2.0, 7.8, 0.3]])

# "Transformer by hand", as printed: the input of the first block, W_Q, W_K, Q, K
X = matrix(
    [
        [0.79, 1.6, 0.96, 1.64, 0.97, 1.2],
        [1.22, 0.17, 0.06, 0.79, 0.9, 0.74],
        [0.92, 1.51, 0.27, 1.31, 0.56, 1.59],
        [0.26, 0.74, 0.66, 0.22, 0.07, 0.37],
        [0.12, 0.59, 0.8, 0.62, 0.5, 0.7],
        [-0.36, 1.3, 0.76, 1.48, 0.94, 1.21],
    ]
)
HAND_W_QUERY = matrix(
    [
        [0.52, 0.45, 0.91, 0.69],
        [0.05, 0.85, 0.37, 0.83],
        [0.49, 0.1, 0.56, 0.61],
        [0.71, 0.64, 0.4, 0.14],
        [0.76, 0.27, 0.92, 0.67],
        [0.85, 0.56, 0.57, 0.07],
    ]
)
HAND_W_KEY = matrix(
    [
        [0.74, 0.57, 0.21, 0.73],
        [0.55, 0.16, 0.9, 0.17],
        [0.25, 0.74, 0.8, 0.98],
        [0.8, 0.73, 0.2, 0.31],
        [0.37, 0.96, 0.42, 0.08],
        [0.28, 0.41, 0.87, 0.86],
    ]
)
HAND_QUERY = matrix(
    [
        [3.88, 3.8, 4.08, 3.42],
        [2.55, 1.86, 2.77, 1.78],
        [3.39, 3.6, 3.49, 2.72],
        [1.02, 1.18, 1.24, 1.3],
        [1.9, 1.56, 1.88, 1.53],
        [3.04, 2.9, 2.73, 2.22],
    ]
)
HAND_KEY = matrix(
    [
        [3.71, 4.04, 4.15, 3.41],
        [2.18, 2.51, 1.64, 1.93],
        [3.28, 3.11, 3.65, 3.01],
        [1.07, 1.13, 1.64, 1.35],
        [1.49, 1.97, 2.14, 1.81],
        [2.51, 3.04, 3.45, 2.28],
    ]
)
HAND_SCORES_FIRST_ROW = [58.341, 31.2882, 49.7306, 19.7538, 28.1886, 43.1644]
HAND_SCALED_FIRST_ROW = [23.81721, 12.77409, 20.30219, 8.062904, 11.50852, 17.62]


def illustrated(implementation: Any = "written") -> MultiHeadAttention:
    """The preset, with the text's matrices (inputs times matrix: ours are stored transposed)."""
    module = build(presets.illustrated()).double()
    assert isinstance(module, MultiHeadAttention)
    module.to_keys.weight.data.copy_(W_KEY.T)
    module.to_queries.weight.data.copy_(W_QUERY.T)
    module.to_values.weight.data.copy_(W_VALUE.T)
    set_attention(module, implementation)
    return module


def to_digits(x: float, digits: int) -> float:
    return float(f"{x:.{digits - 1}e}")


def test_illustrated_keys_queries_and_values_are_exact() -> None:
    module = illustrated()
    assert module.to_keys(INPUTS).equal(KEYS)
    assert module.to_queries(INPUTS).equal(QUERIES)
    assert module.to_values(INPUTS).equal(VALUES)


def test_illustrated_scores_are_exact_and_undivided() -> None:
    module = illustrated()
    assert (module.to_queries(INPUTS) @ module.to_keys(INPUTS).T).equal(SCORES)
    assert module.divisor == 1.0


@pytest.mark.parametrize("implementation", ["written", "fused"])
def test_illustrated_softmax_to_the_five_digits_printed(implementation: str) -> None:
    module = illustrated(implementation)
    with record_attention(module) as recorded:
        module(INPUTS[None])
    printed = recorded[""][0][0, 0]
    assert [[to_digits(w, 5) for w in row] for row in printed.tolist()] == SOFTMAX.tolist()


@pytest.mark.parametrize("implementation", ["written", "fused"])
def test_illustrated_outputs_are_those_of_the_unrounded_weights(implementation: str) -> None:
    output = illustrated(implementation)(INPUTS[None])[0]
    e = math.exp
    first = [(a + e(2) * (b + c)) / (1 + 2 * e(2)) for a, b, c in VALUES.T.tolist()]
    second = [(a + e(12) * b + e(8) * c) / (1 + e(12) + e(8)) for a, b, c in VALUES.T.tolist()]
    third = [(a + e(8) * b + e(6) * c) / (1 + e(8) + e(6)) for a, b, c in VALUES.T.tolist()]
    torch.testing.assert_close(output, matrix([first, second, third]), rtol=1e-14, atol=0)


def test_illustrated_printed_outputs_are_those_of_the_rounded_weights() -> None:
    rounded = matrix([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.9, 0.1]])
    assert float((SOFTMAX - rounded).abs().max()) < 0.07  # the text calls 0.063 a zero
    torch.testing.assert_close(rounded @ VALUES, OUTPUTS_OF_ROUNDED_WEIGHTS, rtol=1e-15, atol=1e-15)
    exact = illustrated()(INPUTS[None])[0].detach()
    assert 0.05 < float((exact - OUTPUTS_OF_ROUNDED_WEIGHTS).abs().max()) < 0.4


def by_hand_attention() -> MultiHeadAttention:
    model = build(presets.by_hand_2024()).double()
    attention = model.get_submodule("encoder.blocks.0.attention")
    assert isinstance(attention, MultiHeadAttention)
    attention.to_queries.weight.data.copy_(HAND_W_QUERY.T)
    attention.to_keys.weight.data.copy_(HAND_W_KEY.T)
    return attention


def test_by_hand_queries_and_keys_agree_to_the_two_decimals_printed() -> None:
    attention = by_hand_attention()
    # Half a unit of the last decimal, plus the effect of rounding halves either way.
    queries, keys = attention.to_queries(X).detach(), attention.to_keys(X).detach()
    assert float((queries - HAND_QUERY).abs().max()) <= 0.00505
    assert float((keys - HAND_KEY).abs().max()) <= 0.00505


def test_by_hand_scores_are_divided_by_the_root_of_six_as_printed() -> None:
    attention = by_hand_attention()
    assert attention.divisor == pytest.approx(math.sqrt(6), rel=1e-15)
    scores = HAND_QUERY @ HAND_KEY.T
    assert scores[0].tolist() == pytest.approx(HAND_SCORES_FIRST_ROW, abs=5.1e-5)
    scaled = scores[0] / attention.divisor
    # The text divides by about 2.4495, not by √6 = 2.44949, and rounds its last entry.
    assert scaled.tolist() == pytest.approx(HAND_SCALED_FIRST_ROW, rel=2e-4)
    weights = weigh_values(scores, HAND_KEY, divisor=attention.divisor).weights
    total = sum(math.exp(s / math.sqrt(6)) for s in HAND_SCORES_FIRST_ROW)
    expected = [math.exp(s / math.sqrt(6)) / total for s in HAND_SCORES_FIRST_ROW]
    assert weights[0].tolist() == pytest.approx(expected, rel=1e-4)


def test_by_hand_head_is_one_of_width_four_in_a_stream_of_six() -> None:
    attention = by_hand_attention()
    assert split_heads(attention.to_queries(X[None]), attention.n_heads).shape == (1, 1, 6, 4)
    assert attention(X[None]).shape == (1, 6, 6)


def test_by_hand_positions_agree_where_the_text_used_the_right_formula() -> None:
    """Its dimensions 0 and 1 are right; from dimension 2 on its exponents are doubled."""
    printed_sines = [0.0, 0.8415, 0.9093, 0.1411, -0.7568, -0.9589]
    ours = sinusoidal_table(6, 6)
    assert ours[:, 0].tolist() == pytest.approx(printed_sines, abs=6e-5)
    assert ours[0].tolist() == [0, 1, 0, 1, 0, 1]
    assert float(ours[1, 2]) == pytest.approx(math.sin(1 / 10_000 ** (2 / 6)), abs=1e-7)
    assert float(ours[1, 2]) != pytest.approx(0.0022, abs=1e-3)
