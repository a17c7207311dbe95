"""Why a weight moved: three steps of each optimiser, every cell recomputed by hand in float64."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from glassformer.errors import TraceError
from glassformer.nn import build, presets
from glassformer.trace import Trace
from glassformer.trace.training import trace_training_step, why_moved

IDS = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])
CLASSES = torch.tensor([0, 1])


def two_groups(parameters: list[nn.Parameter]) -> list[dict[str, Any]]:
    slow = {"params": parameters[:4], "lr": 1e-3, "weight_decay": 0.0}
    return [slow, {"params": parameters[4:]}]


OPTIMISERS: dict[str, Callable[[list[nn.Parameter]], Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.1),
    "sgd, momentum": lambda p: SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    "sgd, nesterov, decay": lambda p: SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "adam": lambda p: Adam(p, lr=1e-2),
    "adam, decay": lambda p: Adam(p, lr=1e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adamw": lambda p: AdamW(p, lr=1e-2, weight_decay=0.1),
    "adamw, two groups": lambda p: AdamW(two_groups(p), lr=1e-2),
}


def loss(logits: Tensor) -> Tensor:
    return F.cross_entropy(logits, CLASSES)


def small_model() -> nn.Module:
    torch.manual_seed(3)
    config = presets.bloem_2024(vocab_size=6, d_model=4, n_heads=2, n_layers=1, max_len=4)
    return build(config, attention="written")


@dataclass
class ByHand:
    """The textbook's update of one weight, in Python's own float64."""

    weight: float
    memory: dict[str, float] = field(default_factory=dict)
    step: int = 0

    def move(self, gradient: float, group: Mapping[str, Any], adam: bool) -> None:
        self.step += 1
        rate, decay = float(group["lr"]), float(group["weight_decay"])
        if group.get("decoupled_weight_decay"):
            self.weight -= rate * decay * self.weight
        else:
            gradient += decay * self.weight
        self.weight -= rate * (self.adam(gradient, group) if adam else self.sgd(gradient, group))

    def adam(self, gradient: float, group: Mapping[str, Any]) -> float:
        beta1, beta2 = group["betas"]
        m = self.memory["m"] = beta1 * self.memory.get("m", 0.0) + (1 - beta1) * gradient
        v = self.memory["v"] = beta2 * self.memory.get("v", 0.0) + (1 - beta2) * gradient**2
        corrected = m / (1 - beta1**self.step), v / (1 - beta2**self.step)
        return float(corrected[0] / (corrected[1] ** 0.5 + group["eps"]))

    def sgd(self, gradient: float, group: Mapping[str, Any]) -> float:
        if not group["momentum"]:
            return gradient
        before = self.memory.get("velocity")
        fresh = (1 - group["dampening"]) * gradient
        velocity = gradient if before is None else group["momentum"] * before + fresh
        self.memory["velocity"] = velocity
        return gradient + group["momentum"] * velocity if group["nesterov"] else velocity


def cells_of(traced: Trace, name: str) -> list[float]:
    return [float(value) for value in traced[name].value.flatten().tolist()]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_three_steps_cell_by_cell(name: str) -> None:
    model = small_model()
    twin = copy.deepcopy(model)
    optimiser, ordinary = (OPTIMISERS[name](list(m.parameters())) for m in (model, twin))
    groups = {id(p): group for group in optimiser.param_groups for p in group["params"]}
    hands = {
        parameter: [ByHand(float(w)) for w in tensor.flatten().tolist()]
        for parameter, tensor in model.named_parameters()
    }
    is_adam = not isinstance(optimiser, SGD)
    for _ in range(3):
        traced = trace_training_step(model, IDS, loss=loss, optimiser=optimiser)
        ordinary.zero_grad()
        loss(twin(IDS)).backward()
        ordinary.step()
        assert "new weights equal the optimiser's to the bit" in traced.notes
        assert traced.verify(sample=1_000).ok
        for parameter, tensor in model.named_parameters():
            moved = cells_of(traced, f"update.{parameter}.weight")
            assert moved == [float(w) for w in tensor.flatten().tolist()]
            gradients = cells_of(traced, f"gradients.{parameter}")
            for hand, gradient, weight in zip(hands[parameter], gradients, moved, strict=True):
                hand.move(gradient, groups[id(tensor)], is_adam)
                assert weight == pytest.approx(hand.weight, rel=2e-6, abs=2e-8)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    torch.testing.assert_close(
        optimiser.state_dict()["state"], ordinary.state_dict()["state"], rtol=0, atol=0
    )


def test_moments_are_taken_from_the_optimiser_and_given_back() -> None:
    model = small_model()
    optimiser = AdamW(model.parameters(), lr=1e-2)
    loss(model(IDS)).backward()
    optimiser.step()
    weight = model.get_parameter("to_classes.weight")
    before = optimiser.state[weight]["exp_avg"].clone()
    traced = trace_training_step(model, IDS, loss=loss, optimiser=optimiser)
    name = "to_classes.weight"
    assert torch.equal(traced[f"state.{name}.first_moment"].value, before)
    after = optimiser.state[weight]
    assert torch.equal(traced[f"update.{name}.first_moment"].value, after["exp_avg"])
    assert torch.equal(traced[f"update.{name}.second_moment"].value, after["exp_avg_sq"])
    assert traced["update.step"].value == 2 == after["step"]


def test_the_arithmetic_of_a_new_weight_leads_to_gradient_moments_and_settings() -> None:
    model = small_model()
    optimiser = AdamW(model.parameters(), lr=1e-2)
    traced = trace_training_step(model, IDS, loss=loss, optimiser=optimiser)
    reached, waiting = set(), [traced["update.to_classes.weight.weight"][1, 2]]
    while waiting:
        cell = waiting.pop()
        if cell.step.name not in reached:
            reached.add(cell.step.name)
            waiting.extend(cell.operands)
    assert {
        "to_classes.weight",
        "gradients.to_classes.weight",
        "state.to_classes.weight.first_moment",
        "state.to_classes.weight.second_moment",
        "update.learning_rate",
        "update.step",
        "update.bias_correction_1",
        "update.root_of_bias_correction_2",
        "ids",
        "encoder.embedding.weight",
    } <= reached


def test_other_ways_of_computing_the_same_update_agree_to_rounding() -> None:
    for options in ({"foreach": True}, {"fused": True}, {"lr": torch.tensor(1e-2)}):
        model = small_model()
        optimiser = AdamW(model.parameters(), **options)
        for _ in range(3):
            traced = trace_training_step(model, IDS, loss=loss, optimiser=optimiser)
            for name, parameter in model.named_parameters():
                shown = traced[f"update.{name}.weight"].value
                torch.testing.assert_close(shown, parameter.detach(), rtol=1e-6, atol=1e-7)


def test_a_parameter_that_is_not_trained_stays_where_it_is() -> None:
    model = small_model()
    frozen = model.get_parameter("encoder.embedding.weight").requires_grad_(False)
    before = frozen.clone()
    optimiser = Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    traced = trace_training_step(model, IDS, loss=loss, optimiser=optimiser)
    assert torch.equal(frozen, before)
    assert "gradients.encoder.embedding.weight" not in traced
    with pytest.raises(LookupError, match="unknown parameter that moved"):
        why_moved(traced, "encoder.embedding.weight", (0, 0))


def test_a_parameter_of_the_loss_and_one_without_axes_are_trained_too() -> None:
    model = small_model()
    temperature = nn.Parameter(torch.tensor(2.0))
    optimiser = AdamW([*model.parameters(), temperature], lr=1e-2)
    traced = trace_training_step(
        model,
        IDS,
        loss=lambda logits: F.cross_entropy(logits / temperature, CLASSES),
        optimiser=optimiser,
    )
    name = next(name for name in traced.parameters if traced[name].shape == ())
    assert traced[f"update.{name}.weight"].value == temperature.detach()
    assert traced[f"update.{name}.weight"].dtype == torch.float32
    assert temperature != 2.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: torch.optim.Adagrad(p), "the update of Adagrad is not written out"),
        (lambda p: Adam(p, amsgrad=True), "amsgrad=True is not written out"),
        (lambda p: SGD(p, maximize=True), "maximize=True is not written out"),
    ],
)
def test_an_optimiser_that_is_not_written_out_is_refused_before_anything_moves(
    make: Callable[[Any], Optimizer], message: str
) -> None:
    model = small_model()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(TraceError, match=message):
        trace_training_step(model, IDS, loss=loss, optimiser=make(model.parameters()))
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
