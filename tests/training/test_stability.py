"""Finite weights never give NaN or infinity, in float32.

A run of imdb at a high learning rate once met a loss that was no number. These are the places where
one could come from: texts of padding alone, scores so large that softmax is certain, steps in
which nothing is scored, gradients of length zero.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from glassformer.data.loader import StepBatches
from glassformer.nn import set_attention
from glassformer.training.training_loop import Trainer
from tests.training.made import tiny
from tests.training.runs import make_trainer, run_steps

MODELS = ["imdb", "multi30k", "shakespeare"]


def one_step(trainer: Trainer, step: StepBatches) -> tuple[float, float]:
    """Loss and gradient norm of one step."""
    (record,) = run_steps(trainer, [step])
    return record["loss"], record["grad_norm"]


def all_finite(model: nn.Module) -> bool:
    return all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def first_step(trainer: Trainer) -> StepBatches:
    return next(iter(trainer.loader.steps(0, 1)))


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
    nll, norm = one_step(trainer, first_step(trainer))
    assert torch.tensor([nll, norm]).isfinite().all()
    assert all_finite(trainer.model)


@pytest.mark.parametrize("name", MODELS)
def test_nothing_scored(name: str, tmp_path: Path) -> None:
    trainer = make_trainer(tiny(name, optimiser__weight_decay=0.0), tmp_path)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    step = first_step(trainer)
    silent = replace(step, batches=tuple(batch.unscored() for batch in step.batches))
    assert one_step(trainer, silent) == (0.0, 0.0)
    for old, new in zip(before, trainer.model.parameters(), strict=True):
        assert torch.equal(old, new)


def test_a_text_of_padding_alone(tmp_path: Path) -> None:
    trainer = make_trainer(tiny("imdb"), tmp_path)
    step = first_step(trainer)
    pad_id = trainer.problem.model.pad_id
    assert pad_id is not None
    (batch,) = step.batches
    ids = batch.inputs[0]
    assert ids is not None
    ids[0] = pad_id
    nll, norm = one_step(trainer, step)
    assert torch.tensor([nll, norm]).isfinite().all()
    assert all_finite(trainer.model)
