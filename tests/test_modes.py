"""Evaluation mode for a while; every part of a model is restored afterwards."""

import pytest
from torch import nn

from glassformer.modes import evaluating


def half_frozen() -> nn.Sequential:
    """In training, but for one part; and in that, one part trains again."""
    frozen = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).eval()
    frozen[1].train()
    return nn.Sequential(nn.Linear(2, 2), frozen)


def modes(model: nn.Module) -> dict[str, bool]:
    return {name: module.training for name, module in model.named_modules()}


def test_every_module_evaluates_inside_and_is_as_it_was_afterwards() -> None:
    model = half_frozen()
    before = modes(model)
    assert before == {"": True, "0": True, "1": False, "1.0": False, "1.1": True}
    with evaluating(model.modules()) as was_training:
        assert was_training and not any(modes(model).values())
        with evaluating(model.modules()) as is_training:
            assert not is_training
        assert not any(modes(model).values()), "as it was, which was evaluation"
    assert modes(model) == before


def test_an_error_inside_changes_nothing_about_that() -> None:
    model = half_frozen()
    before = modes(model)
    with pytest.raises(ValueError, match="inside"), evaluating(model.modules()):
        raise ValueError("inside")
    assert modes(model) == before
