"""Finite weights never give NaN or infinity, in float32.

A run of imdb at a high learning rate once met a loss that was no number. These are the places where
one could come from: texts of padding alone, scores so large that softmax is certain, updates in
which nothing is scored, gradients of length zero.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from glassformer.data import Update
from glassformer.nn import set_attention
from glassformer.training.training_loop import Trainer
from tests.training.made import tiny
from tests.training.runs import make_trainer, run_updates

MODELS = ["imdb", "multi30k", "shakespeare"]


def one_update(trainer: Trainer, update: Update) -> tuple[float, float]:
    """Loss and gradient norm of one step."""
    (record,) = run_updates(trainer, [update])
    return record["loss"], record["grad_norm"]


def all_finite(model: nn.Module) -> bool:
    return all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def first_update(trainer: Trainer) -> Update:
    return next(iter(trainer.loader.updates(0, 1)))


@pytest.mark.parametrize("attention", ["fused", "written"])
@pytest.mark.parametrize("factor", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("name", MODELS)
def test_large_weights(name: str, factor: float, attention: str, tmp_path: Path) -> None:
    """Scores grow with the square of the factor: a million times those of a fresh model."""
    trainer = make_trainer(tiny(name), tmp_path)
    set_attention(trainer.model, "fused" if attention == "fused" else "written")
    with torch.no_grad():
        for part in trainer.model.modules():
            if isinstance(part, nn.Linear):
                part.weight.mul_(factor)
    nll, norm = one_update(trainer, first_update(trainer))
    assert torch.tensor([nll, norm]).isfinite().all()
    assert all_finite(trainer.model)


@pytest.mark.parametrize("name", MODELS)
def test_nothing_scored(name: str, tmp_path: Path) -> None:
    trainer = make_trainer(tiny(name, optimiser__weight_decay=0.0), tmp_path)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    update = first_update(trainer)
    silent = replace(update, batches=tuple(batch.unscored() for batch in update.batches))
    assert one_update(trainer, silent) == (0.0, 0.0)
    for old, new in zip(before, trainer.model.parameters(), strict=True):
        assert torch.equal(old, new)


def test_a_text_of_padding_alone(tmp_path: Path) -> None:
    trainer = make_trainer(tiny("imdb"), tmp_path)
    update = first_update(trainer)
    pad_id = trainer.problem.model.pad_id
    assert pad_id is not None
    (batch,) = update.batches
    ids = batch.inputs[0]
    assert ids is not None
    ids[0] = pad_id
    nll, norm = one_update(trainer, update)
    assert torch.tensor([nll, norm]).isfinite().all()
    assert all_finite(trainer.model)
