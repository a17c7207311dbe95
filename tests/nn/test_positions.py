"""Positions: sinusoids against math.sin, the limit of learned ones, rotary pairs."""

import math

import pytest
import torch

from glassformer.errors import InputError
from glassformer.nn.positions import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    rotate,
    sinusoidal_angles,
    sinusoidal_table,
    sinusoids,
)
from tests.nn.oracles import loop_sinusoid, seeded, share
from tests.nn.without_double import mps_without_double

# The spacing of float32 near 1 is 6e-8: a table cannot be closer to math.sin.
ROUNDED = 6e-8


# Sinusoids


@pytest.mark.parametrize("width", [1, 2, 3, 5, 6, 7, 16, 512])
def test_sinusoids_equal_math_sin_and_cos(width: int) -> None:
    table = sinusoidal_table(40, width)
    assert table.shape == (40, width)
    for position in range(40):
        expected = [loop_sinusoid(position, i, width) for i in range(width)]
        assert table[position].tolist() == pytest.approx(expected, rel=0, abs=ROUNDED)


@pytest.mark.parametrize("base", [100.0, 500_000.0])
def test_the_base_is_the_longest_wavelength(base: float) -> None:
    table = sinusoidal_table(9, 8, base)
    expected = [[loop_sinusoid(t, i, 8, base) for i in range(8)] for t in range(9)]
    torch.testing.assert_close(table, torch.tensor(expected), rtol=0, atol=ROUNDED)


def test_each_pair_has_length_one() -> None:
    pairs = sinusoidal_table(2000, 64).unflatten(-1, (32, 2))
    torch.testing.assert_close(pairs.square().sum(-1), torch.ones(2000, 32), rtol=0, atol=2e-7)


def test_an_odd_width_is_the_even_one_less_its_last_cosine() -> None:
    angles = sinusoidal_angles(torch.arange(5), 7)
    assert angles.shape == (5, 4)
    assert sinusoidal_table(5, 7)[:, -1].tolist() == pytest.approx(
        angles[:, -1].sin().tolist(), abs=ROUNDED
    )


def test_far_positions_are_as_exact_as_near_ones() -> None:
    far = sinusoids(torch.tensor([1_000_003]), 16)[0]
    expected = [loop_sinusoid(1_000_003, i, 16) for i in range(16)]
    # A float64 angle of a million is known to 1e-10.
    assert far.tolist() == pytest.approx(expected, rel=0, abs=ROUNDED)


def test_a_shift_is_one_rotation_whatever_the_position() -> None:
    """The reason the paper gives: PE(pos + k) is a linear function of PE(pos)."""
    table = sinusoids(torch.arange(50), 8).double().unflatten(-1, (4, 2))
    for k in (1, 7):
        angle = sinusoidal_angles(torch.tensor([k]), 8)[0]
        cos, sin = angle.cos(), angle.sin()
        turned_sin = table[..., 0] * cos + table[..., 1] * sin
        torch.testing.assert_close(table[k:, :, 0], turned_sin[:-k], rtol=0, atol=3e-7)


def test_positions_in_and_beyond_the_table_agree() -> None:
    short, long = SinusoidalPositions(4, 10), SinusoidalPositions(40, 10)
    positions = torch.arange(40)
    assert short(positions, 40).equal(long(positions, 40))
    assert short(positions[:4], 4).equal(long(positions[:4], 4))


def test_computed_positions_have_the_precision_of_the_table() -> None:
    module = SinusoidalPositions(4, 6).to(torch.bfloat16)
    assert module(torch.arange(9), 9).dtype is torch.bfloat16
    assert module.double()(torch.arange(9), 9).dtype is torch.float64


def test_sinusoids_are_neither_parameters_nor_saved() -> None:
    module = SinusoidalPositions(4, 6)
    assert not list(module.parameters()) and not module.state_dict()


# Learned


def test_learned_positions_are_rows_of_a_table() -> None:
    module = LearnedPositions(5, 3)
    assert module(torch.tensor([2, 0, 4]), 5).equal(module.table.weight[[2, 0, 4]])
    assert module(torch.tensor([[1, 1], [0, 3]]), 4).shape == (2, 2, 3)


def test_learned_positions_end_and_the_message_names_both_lengths() -> None:
    module = LearnedPositions(5, 3)
    module(torch.arange(5), 5)
    with pytest.raises(InputError, match="has 6 positions, the model has learned 5"):
        module(torch.arange(6), 6)


# Rotary


def rotated(x: torch.Tensor, *positions: int, base: float = 10_000.0) -> torch.Tensor:
    """One vector (E,) rotated by each of these positions: (P, E)."""
    module = RotaryPositions(max(positions) + 1, x.size(-1), base).double()
    at = torch.tensor(positions)
    rows = x.expand(1, 1, len(positions), -1)
    return rotate(rows, module(at, max(positions) + 1))[0, 0]


def test_each_pair_is_rotated_by_its_angle() -> None:
    x = seeded(6)
    got = rotated(x, 3)[0]
    for i in range(3):
        angle = 3 / 10_000 ** (2 * i / 6)
        first, second = float(x[i]), float(x[i + 3])
        expected = (
            first * math.cos(angle) - second * math.sin(angle),
            second * math.cos(angle) + first * math.sin(angle),
        )
        assert (float(got[i]), float(got[i + 3])) == pytest.approx(expected, abs=2e-7)


def test_position_zero_rotates_nothing() -> None:
    x = seeded(8)
    assert rotated(x, 0)[0].equal(x)


def test_a_rotation_keeps_lengths() -> None:
    x = seeded(8)
    lengths = rotated(x, 0, 1, 17, 400).norm(dim=-1)
    torch.testing.assert_close(lengths, x.norm().expand(4), rtol=2e-7, atol=0)


def test_dot_products_depend_only_on_the_distance() -> None:
    query, key = seeded(16), seeded(16, seed=1)
    far = 300
    products = [
        float(rotated(query, start + 5)[0] @ rotated(key, start)[0]) for start in (0, 1, 40, far)
    ]
    assert products == pytest.approx([products[0]] * 4, abs=1e-5)
    assert float(rotated(query, 6)[0] @ rotated(key, 0)[0]) != pytest.approx(products[0], abs=1e-3)


def test_rotations_beyond_the_table_are_computed() -> None:
    short, long = RotaryPositions(3, 8), RotaryPositions(30, 8)
    for ours, theirs in zip(short(torch.arange(30), 30), long(torch.arange(30), 30), strict=True):
        assert ours.equal(theirs)


def test_each_row_of_a_batch_may_have_its_own_positions() -> None:
    module, x = RotaryPositions(9, 4), seeded(2, 3, 5, 4, dtype=torch.float32)
    positions = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]])
    together = rotate(x, module(positions, 5))
    for row in range(2):
        alone = rotate(x[row : row + 1], module(positions[row], 5))
        assert together[row].equal(alone[0])


def test_a_rotation_in_double_is_that_of_the_table() -> None:
    module = RotaryPositions(4, 4).double()
    cosines, sines = module(torch.arange(4), 4)
    assert cosines.dtype is sines.dtype is torch.float64
    # The table's entries are rounded to float32, half an eps each, and each is squared.
    room = 1.01 * torch.finfo(torch.float32).eps
    assert share(cosines.square() + sines.square(), torch.ones(4, 4)) <= room


# A device without float64


@pytest.mark.parametrize("make", [SinusoidalPositions, RotaryPositions])
def test_positions_beyond_the_table_need_no_float64_on_the_device(
    make: type[SinusoidalPositions | RotaryPositions],
) -> None:
    module = make(4, 10)
    positions = torch.arange(4_000, 4_009)
    expected = module(positions, 4_009)
    with mps_without_double() as device:
        there = positions.to(device)
        with pytest.raises(TypeError, match="no float64"):
            there.double()
        found = module(there, 4_009)
        for mine, other in zip(found, expected, strict=True):
            assert mine.device == device
            assert mine.cpu().equal(other), "worked out on the CPU, to the bit"


# Lengths beyond any table


def test_the_max_len_of_a_config_does_not_decide_how_much_memory_is_used() -> None:
    """The largest max_len would need a table of 4 GiB; positions beyond the table are computed."""
    far = torch.tensor([[2**24 - 1]])
    kept = SinusoidalPositions(2**24, 64)
    assert kept.table.numel() <= 2**22
    assert torch.equal(kept(far, 2**24), sinusoids(far, 64))
    assert torch.equal(kept(torch.tensor([[3]]), 4), sinusoidal_table(4, 64)[None, 3:])
    rotary = RotaryPositions(2**24, 64)
    assert rotary.cosines.numel() <= 2**22
    angles = sinusoidal_angles(far, 64)
    expected = torch.cat([angles, angles], dim=-1).cos().float()
    assert torch.equal(rotary(far, 2**24).cosines, expected)
