"""Muon against a second implementation: plain loops over single matrices in float64."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.nn import build, presets
from glassformer.training import OptimiserConfig
from glassformer.training.optimiser import Muon, Optimiser, orthogonalise

Matrix = NDArray[np.float64]


def newton_schulz(g: Matrix) -> Matrix:
    """Jordan's iteration, one matrix at a time."""
    x: Matrix = g.T if g.shape[0] > g.shape[1] else g
    x = x / (np.sqrt((x * x).sum()) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def reference(start: Matrix, gradients: list[Matrix], lr: float, decay: float) -> Matrix:
    """Several steps of one matrix."""
    parameter, momentum = start.copy(), np.zeros_like(start)
    for g in gradients:
        momentum = 0.95 * momentum + g
        direction = newton_schulz(g + 0.95 * momentum)
        scale = max(1.0, g.shape[0] / g.shape[1]) ** 0.5
        parameter = parameter * (1 - lr * decay) - lr * scale * direction
    return parameter


@pytest.mark.parametrize("shapes", [[(4, 4), (4, 4)], [(8, 3), (3, 8), (8, 3)]])
def test_three_steps_agree_with_the_reference(shapes: list[tuple[int, int]]) -> None:
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=shape) for shape in shapes]
    gradients = [[rng.normal(size=shape) for shape in shapes] for _ in range(3)]
    parameters = [nn.Parameter(torch.tensor(s, dtype=torch.float32)) for s in starts]
    muon = Muon(parameters, lr=0.02, weight_decay=0.1)
    for step in gradients:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = torch.tensor(gradient, dtype=torch.float32)
        muon.step()
    for at, parameter in enumerate(parameters):
        expected = reference(starts[at], [step[at] for step in gradients], 0.02, 0.1)
        assert np.allclose(parameter.detach().numpy(), expected, atol=1e-5)


def test_singular_values_come_near_one() -> None:
    matrices = torch.randn(3, 20, 10, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert values.min() > 0.6
    assert values.max() < 1.3


class Two(nn.Module):
    """A block's matrix and vector, and a table outside the blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.blocks = nn.ModuleList([nn.Linear(3, 4)])
        self.table = nn.Parameter(torch.randn(5, 3))


def test_muon_gets_the_blocks_matrices_and_adamw_the_rest() -> None:
    model = Two()
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimiser = Optimiser(model, OptimiserConfig(kind="muon"))
    optimiser.step(1.0)
    state = optimiser.tensors()
    assert "muon.encoder.blocks.0.weight.momentum" in state
    assert {key.split(".", 1)[1].rsplit(".", 1)[0] for key in state if key.startswith("adamw")} == {
        "encoder.blocks.0.bias",
        "table",
    }


def test_the_vectors_of_additive_scores_are_not_a_matrix() -> None:
    """One per head, stacked: nothing is multiplied by them as a matrix."""
    config = presets.bloem_2024(vocab_size=9, d_model=8, n_heads=2, n_layers=1)
    model = build(config.with_(attention__score="additive"))
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimiser = Optimiser(model, OptimiserConfig(kind="muon"))
    optimiser.step(1.0)
    owners = {key.partition(".")[0] for key in optimiser.tensors() if "score_vector" in key}
    assert owners == {"adamw"}


def test_the_state_of_both_comes_back() -> None:
    def run(interrupted: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Two()
        optimiser = Optimiser(model, OptimiserConfig(kind="muon", weight_decay=0.1))
        for step in range(4):
            if interrupted and step == 2:
                saved = {name: tensor.clone() for name, tensor in optimiser.tensors().items()}
                optimiser = Optimiser(model, OptimiserConfig(kind="muon", weight_decay=0.1))
                optimiser.load(saved)
            for parameter in model.parameters():
                parameter.grad = torch.sin(parameter.detach() * (step + 1))
            optimiser.step(0.5)
        return [p.detach() for p in model.parameters()]

    for a, b in zip(run(False), run(True), strict=True):
        assert torch.equal(a, b)


def test_vectors_do_not_decay() -> None:
    model = nn.Linear(2, 2)
    nn.init.ones_(model.weight)
    nn.init.ones_(model.bias)
    optimiser = Optimiser(model, OptimiserConfig(lr=0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step(1.0)
    assert torch.allclose(model.weight, torch.full((2, 2), 0.95))
    assert torch.equal(model.bias.detach(), torch.ones(2))


def test_clipping_limits_the_gradient_norm_and_returns_it() -> None:
    model = nn.Linear(1, 1, bias=False)
    optimiser = Optimiser(model, OptimiserConfig(clip=1.0))
    model.weight.grad = torch.full((1, 1), 50.0)
    assert optimiser.clip().item() == pytest.approx(50.0)
    optimiser.step(1.0)
    assert optimiser.tensors()["adamw.weight.exp_avg"].item() == pytest.approx(0.1, rel=1e-3)
