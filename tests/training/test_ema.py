"""The EMA of the weights, by hand: one weight, a few steps."""

import pytest
import torch
from torch import nn

from glassformer.training.optimiser import EMA


@pytest.fixture
def model() -> nn.Linear:
    """One weight, 2, in float64; its EMA begins there, too."""
    one = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(one.weight, 2.0)
    return one


def follow(ema: EMA, model: nn.Linear, weight: float, n_steps: int) -> float:
    """Set the model's weight as a step would, and update the EMA."""
    nn.init.constant_(model.weight, weight)
    ema.update(n_steps)
    return float(ema.tensors()["weight"])


def test_the_first_steps_count_for_more(model: nn.Linear) -> None:
    """Decay is (1 + n) / (10 + n) at first: 2/11 after one step, 3/12 after two."""
    ema = EMA(model, decay=0.9)
    first = follow(ema, model, 13.0, n_steps=1)
    assert first == pytest.approx(2 / 11 * 2 + 9 / 11 * 13, rel=1e-14)  # 11
    second = follow(ema, model, 3.0, n_steps=2)
    assert second == pytest.approx(0.25 * 11 + 0.75 * 3, rel=1e-14)  # 5


@pytest.mark.parametrize(("n_steps", "decay"), [(79, 80 / 89), (80, 0.9), (81, 0.9), (9999, 0.9)])
def test_later_the_decay_is_the_configured_one(
    model: nn.Linear, n_steps: int, decay: float
) -> None:
    """(1 + n) / (10 + n) reaches 0.9 at n = 80: from then on a tenth of the way at each step."""
    ema = EMA(model, decay=0.9)
    assert follow(ema, model, 12.0, n_steps) == pytest.approx(12 - 10 * decay, rel=1e-14)


def test_inside_the_block_the_model_has_the_ema_and_afterwards_its_own_weights(
    model: nn.Linear,
) -> None:
    ema = EMA(model, decay=0.9)
    averaged = follow(ema, model, 12.0, n_steps=1000)
    with ema.in_place():
        assert model(torch.ones(1, 1, dtype=torch.float64)).item() == averaged != 12.0
    assert model.weight.item() == 12.0
    assert float(ema.tensors()["weight"]) == averaged


def test_a_saved_ema_is_loaded(model: nn.Linear) -> None:
    ema = EMA(model, decay=0.9)
    ema.load({"weight": torch.tensor([[7.0]], dtype=torch.float64)})
    assert follow(ema, model, 17.0, n_steps=1000) == pytest.approx(8.0, rel=1e-14)
    assert model.weight.item() == 17.0
