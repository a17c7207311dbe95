"""Why a weight changed: three steps of each optimiser, each cell recomputed in float64."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adafactor, Adagrad, Adam, AdamW, Muon, Optimizer, RMSprop

from glassformer.errors import TraceError
from glassformer.nn import build, presets
from glassformer.tracing import Trace
from glassformer.tracing.gradients import trace_training_step, why_moved
from glassformer.tracing.notes import Note
from glassformer.training.optimiser import Muon as OurMuon

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
    "sgd, uphill": lambda p: SGD(p, lr=0.1, momentum=0.9, maximize=True, weight_decay=0.01),
    "adam, amsgrad": lambda p: Adam(p, lr=1e-2, betas=(0.8, 0.5), amsgrad=True),
    "adamw, amsgrad, uphill": lambda p: AdamW(p, lr=1e-2, amsgrad=True, maximize=True),
    "rmsprop": lambda p: RMSprop(p, lr=1e-2),
    "rmsprop, uphill": lambda p: RMSprop(p, lr=1e-2, alpha=0.9, maximize=True, weight_decay=0.1),
    "rmsprop, centred, momentum": lambda p: RMSprop(
        p, lr=1e-2, centered=True, momentum=0.9, eps=1e-4
    ),
    "adagrad": lambda p: Adagrad(p, lr=1e-2),
    "adagrad, slowing, uphill": lambda p: Adagrad(
        p, lr=0.1, lr_decay=0.5, weight_decay=0.1, initial_accumulator_value=0.1, maximize=True
    ),
}


def loss(logits: Tensor) -> Tensor:
    return F.cross_entropy(logits, CLASSES)


def small_model() -> nn.Module:
    torch.manual_seed(3)
    config = presets.bloem_2024(vocab_size=6, d_model=4, n_heads=2, n_layers=1, max_len=4)
    return build(config, attention="written")


@dataclass
class ByHand:
    """The textbook's update of one weight, in Python floats."""

    weight: float
    memory: dict[str, float] = field(default_factory=dict)
    step: int = 0
    travelled: float = 0.0
    """How far it has moved, there and back: what its rounding is measured by."""

    def move(self, gradient: float, group: Mapping[str, Any], kind: str) -> None:
        self.step += 1
        gradient = -gradient if group["maximize"] else gradient
        rate, decay = float(group["lr"]), float(group["weight_decay"])
        if group.get("decoupled_weight_decay"):
            self.weight -= rate * decay * self.weight
        else:
            gradient += decay * self.weight
        change = rate * float(getattr(self, kind)(gradient, group))
        self.travelled += abs(change)
        self.weight -= change

    def adam(self, gradient: float, group: Mapping[str, Any]) -> float:
        beta1, beta2 = group["betas"]
        m = self.memory["m"] = beta1 * self.memory.get("m", 0.0) + (1 - beta1) * gradient
        v = self.memory["v"] = beta2 * self.memory.get("v", 0.0) + (1 - beta2) * gradient**2
        if group["amsgrad"]:
            v = self.memory["largest"] = max(v, self.memory.get("largest", 0.0))
        corrected = m / (1 - beta1**self.step), v / (1 - beta2**self.step)
        return float(corrected[0] / (corrected[1] ** 0.5 + group["eps"]))

    adamw = adam

    def rmsprop(self, gradient: float, group: Mapping[str, Any]) -> float:
        alpha = group["alpha"]
        v = self.memory["v"] = alpha * self.memory.get("v", 0.0) + (1 - alpha) * gradient**2
        if group["centered"]:
            m = self.memory["m"] = alpha * self.memory.get("m", 0.0) + (1 - alpha) * gradient
            v -= m**2
        scaled = gradient / (v**0.5 + group["eps"])
        velocity = self.memory["u"] = group["momentum"] * self.memory.get("u", 0.0) + scaled
        return float(velocity)

    def adagrad(self, gradient: float, group: Mapping[str, Any]) -> float:
        before = self.memory.get("squares", group["initial_accumulator_value"])
        squares = self.memory["squares"] = before + gradient**2
        slowing = 1 + (self.step - 1) * group["lr_decay"]
        return float(gradient / (squares**0.5 + group["eps"]) / slowing)

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
    kind = type(optimiser).__name__.lower()
    for _ in range(3):
        traced = trace_training_step(model, IDS, loss=loss, optimiser=optimiser)
        ordinary.zero_grad()
        loss(twin(IDS)).backward()
        ordinary.step()
        assert "new weights are bitwise equal to the optimiser's" in traced.notes
        assert traced.verify(sample=1_000).ok
        for parameter, tensor in model.named_parameters():
            moved = cells_of(traced, f"update.{parameter}.weight")
            assert moved == [float(w) for w in tensor.flatten().tolist()]
            gradients = cells_of(traced, f"gradients.{parameter}")
            for hand, gradient, weight in zip(hands[parameter], gradients, moved, strict=True):
                hand.move(gradient, groups[id(tensor)], kind)
                rounding = 2e-8 + 1e-6 * hand.travelled
                assert weight == pytest.approx(hand.weight, rel=2e-6, abs=rounding)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    torch.testing.assert_close(
        optimiser.state_dict()["state"], ordinary.state_dict()["state"], rtol=0, atol=0
    )


def adafactor_by_hand(
    weight: Tensor, gradient: Tensor, memory: dict[str, Tensor], step: int, group: Mapping[str, Any]
) -> Tensor:
    """Shazeer and Stern 2018, algorithms 4 and 5, in float64."""
    rate = min(group["lr"], step**-0.5) * max(group["eps"][1], weight.square().mean().sqrt())
    new, squares = step ** group["beta2_decay"], gradient.square()
    for name, axis in (("rows", 1), ("columns", 0)) if gradient.ndim == 2 else (("cells", ()),):
        fresh = squares.mean(axis, keepdim=True) if axis != () else squares
        memory[name] = (1 - new) * memory.get(name, torch.zeros_like(fresh)) + new * fresh
    variance = (
        memory["rows"] @ memory["columns"] / memory["rows"].mean()
        if gradient.ndim == 2
        else memory["cells"]
    )
    update = (-gradient if group["maximize"] else gradient) / variance.sqrt()
    clipped = update / max(1.0, float(update.square().mean().sqrt()) / group["d"])
    decayed: Tensor = weight * (1 - group["lr"] * group["weight_decay"])
    moved: Tensor = decayed - rate * clipped
    return moved


@pytest.mark.parametrize(
    "options",
    [{"lr": 1e-2}, {"lr": 0.9, "d": 1.5, "weight_decay": 0.1, "maximize": True}],
)
def test_adafactor_over_three_steps(options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    x, targets = torch.randn(6, 5), torch.tensor([0, 1, 2, 2, 1, 0])
    optimiser = Adafactor(model.parameters(), **options)
    memories: dict[str, dict[str, Tensor]] = {name: {} for name, _ in model.named_parameters()}
    for step in (1, 2, 3):
        before = {name: p.detach().double() for name, p in model.named_parameters()}
        traced = trace_training_step(
            model, x, loss=lambda y: F.cross_entropy(y, targets), optimiser=optimiser
        )
        report = traced.verify()
        assert report.ok and not report.opaque, str(report)
        for name, parameter in model.named_parameters():
            shown = traced[f"update.{name}.weight"].value
            gradient = traced[f"gradients.{name}"].value.double()
            group = optimiser.param_groups[0]
            expected = adafactor_by_hand(before[name], gradient, memories[name], step, group)
            torch.testing.assert_close(shown.double(), expected, rtol=1e-5, atol=1e-7)
            torch.testing.assert_close(shown, parameter.detach(), rtol=1e-6, atol=1e-7)
    assert "row_variance = " in str(why_moved(traced, "0.weight", (1, 2)))


def by_singular_values(matrix: Tensor) -> Tensor:
    """Newton–Schulz keeps the singular vectors and maps each singular value by a polynomial."""
    left, values, right = torch.linalg.svd(matrix / matrix.norm(), full_matrices=False)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    mapped: Tensor = (left * values) @ right
    return mapped


@pytest.mark.parametrize(
    "make",
    [
        lambda p: Muon(p, lr=0.02),
        lambda p: Muon(p, lr=0.02, nesterov=False, weight_decay=0.0),
        lambda p: Muon(p, lr=0.02, adjust_lr_fn="match_rms_adamw", ns_steps=3),
        lambda p: OurMuon(p, lr=0.02, weight_decay=0.1),
    ],
)
def test_muon_over_three_steps(make: Callable[[Any], Optimizer]) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(m, n, bias=False) for m, n in ((6, 4), (4, 7), (7, 7))))
    twin = copy.deepcopy(model)
    optimiser, ordinary = make(model.parameters()), make(twin.parameters())
    x = torch.randn(5, 6)
    for _ in range(3):
        traced = trace_training_step(
            model, x, loss=lambda y: y.square().mean(), optimiser=optimiser
        )
        ordinary.zero_grad()
        twin(x).square().mean().backward()
        ordinary.step()
        report = traced.verify()
        assert report.ok and not report.opaque, str(report)
        for name, parameter in twin.named_parameters():
            assert torch.equal(traced[f"update.{name}.weight"].value, parameter.detach())
            orthogonal = traced[f"update.{name}.orthogonal"].value
            if orthogonal.dtype == torch.float32:  # in torch's bfloat16 small values are rounding
                direction = traced[f"update.{name}.direction"].value
                expected = by_singular_values(direction.double())
                torch.testing.assert_close(orthogonal.double(), expected, rtol=0, atol=1e-4)
        assert "new weights are bitwise equal to the optimiser's" in traced.notes
    assert "orthogonal = " in str(why_moved(traced, "0.weight", (1, 2)))


class SignsOfMomentum(Optimizer):
    """w − lr · sign(m), m = β·m + g; it writes out its own update, rightly or with another sign."""

    def __init__(self, params: Any, sign: float = 1) -> None:
        super().__init__(params, {"lr": 0.01, "beta": 0.9})
        self._sign = sign

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"memory": torch.zeros_like(parameter)}

    def written_update(
        self, note: Any, weight: Tensor, gradient: Tensor, state: Any, settings: Any
    ) -> Tensor:
        memory = note("memory", state["memory"] * settings["beta"] + gradient)
        direction = note("direction", memory.sign() * self._sign)
        return torch.sub(weight, direction, alpha=settings["lr"])

    @torch.no_grad()
    def step(self, _closure: Any = None) -> None:  # type: ignore[override]  # no loss
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter] = self.state[parameter] or self.first_state(parameter)
                state["memory"].mul_(group["beta"]).add_(parameter.grad)
                parameter.sub_(state["memory"].sign(), alpha=group["lr"])


def test_an_optimiser_that_writes_out_its_update_is_traced() -> None:
    model = small_model()
    optimiser = SignsOfMomentum(model.parameters())
    for _ in range(2):
        traced = trace_training_step(model, IDS, loss=loss, optimiser=optimiser)
    assert traced.verify().ok
    memory, direction = (traced[f"update.to_classes.weight.{n}"] for n in ("memory", "direction"))
    before = traced["state.to_classes.weight.memory"].value
    gradient = traced["gradients.to_classes.weight"].value
    torch.testing.assert_close(memory.value, before * 0.9 + gradient)
    assert before.any() and torch.equal(direction.value, memory.value.sign())


def test_an_update_written_out_falsely_is_refused() -> None:
    model = small_model()
    with pytest.raises(TraceError, match=r"recorded update of .* differs from the optimiser's"):
        trace_training_step(
            model, IDS, loss=loss, optimiser=SignsOfMomentum(model.parameters(), sign=-1)
        )


def test_an_optimiser_is_not_known_by_its_name() -> None:
    model = small_model()
    namesake = type("Muon", (torch.optim.Rprop,), {})
    with pytest.raises(TraceError, match=r"updates by Muon cannot be traced.* written_update"):
        trace_training_step(model, IDS, loss=loss, optimiser=namesake(model.parameters()))


def test_moments_are_read_from_the_optimiser_and_updated_there() -> None:
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


def test_other_implementations_of_the_same_update_agree_up_to_rounding() -> None:
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


class Waves(nn.Module):
    """A filter with complex parameters, one for each frequency."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(5, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        filtered: Tensor = torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=8)
        return filtered


@pytest.mark.parametrize("kind", [SGD, AdamW, RMSprop, Adagrad])
def test_complex_parameters_move_as_pairs_of_numbers(kind: type[Optimizer]) -> None:
    torch.manual_seed(0)
    model, x = Waves(), torch.randn(3, 8)
    optimiser = kind(model.parameters(), lr=1e-2)  # type: ignore[call-arg]
    for _ in range(2):
        t = trace_training_step(model, x, loss=lambda y: y.square().mean(), optimiser=optimiser)
        new = t["update.filter.weight"]
        assert torch.equal(new.value, torch.view_as_real(model.filter.detach()))
        assert new[1, 0].reproduced
        assert t.verify().ok


def test_a_difference_without_doubtful_gradients_is_not_blamed_on_them() -> None:
    """AdamW rounds bfloat16 weights in another order than ours; their gradients are the same."""
    torch.manual_seed(0)
    model = nn.Linear(8, 8).bfloat16()
    t = trace_training_step(
        model,
        torch.randn(4, 8).bfloat16(),
        loss=lambda y: y.float().square().mean(),
        optimiser=AdamW(model.parameters(), lr=1e-2),
    )
    notes = [str(note) for note in t.notes]
    assert any("new weights equal the optimiser's up to" in note for note in notes)
    assert not any("lose digits" in note for note in notes), notes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: torch.optim.Rprop(p), r"updates by Rprop cannot .*SGD, .*, Adafactor or Muon"),
        (lambda p: Adam(p, capturable=True), "capturable=True cannot be traced"),
        (lambda p: SGD(p, differentiable=True), "differentiable=True cannot be traced"),
    ],
)
def test_an_unsupported_optimiser_is_refused_before_anything_changes(
    make: Callable[[Any], Optimizer], message: str
) -> None:
    model = small_model()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(TraceError, match=message):
        trace_training_step(model, IDS, loss=loss, optimiser=make(model.parameters()))
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_the_count_of_steps_is_no_constant_of_the_trace() -> None:
    """The optimiser counts on in its own tensors: read during the recording, they would be lost."""
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    optimiser = AdamW(model.parameters())
    for _ in range(2):
        traced = trace_training_step(
            model, x, loss=lambda y: y.square().mean(), optimiser=optimiser
        )
    assert all(step.value.isfinite().all() for step in traced.constants.values())
    assert {name.partition(".")[0] for name in traced.constants} == {"state", "update"}
    assert float(traced["update.step"].value) == 2


def test_a_weight_moves_at_the_rate_of_its_group() -> None:
    model, x = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), torch.randn(4, 3)
    groups = [
        {"params": list(part.parameters()), "lr": rate}
        for part, rate in zip(model, (0.25, 0.5), strict=True)
    ]
    optimiser = AdamW(groups)
    traced = trace_training_step(model, x, loss=lambda y: y.square().mean(), optimiser=optimiser)
    for name, rate in (("0.weight", 0.25), ("1.weight", 0.5)):
        move = why_moved(traced, name, (0, 0))
        assert move.shared["learning_rate"].value == rate
        assert list(move.remembered) == ["first_moment", "second_moment"]


class KeysWithABias(nn.Module):
    """A softmax ignores a bias shared by all keys: its gradient is 0 up to rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys = nn.Linear(8, 8), nn.Linear(8, 8)
        nn.init.zeros_(self.keys.bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(self.queries(x), self.keys(x), x)


@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_a_gradient_of_rounding_errors_is_noted_and_measured(kind: type[Optimizer]) -> None:
    torch.manual_seed(0)
    model, x = KeysWithABias(), torch.randn(4, 9, 8)
    optimiser = kind(model.parameters(), lr=1e-3)  # type: ignore[call-arg]  # both have it
    traced = trace_training_step(model, x, loss=lambda y: y.square().mean(), optimiser=optimiser)
    notes = {note.kind: note for note in traced.notes if isinstance(note, Note)}
    said = notes["rounding steps" if kind is AdamW else "rounding"]
    assert said.values["names"] == "keys.bias"
    assert float(str(said.values["size"])) < 1e-6 < float(str(said.values["largest"]))
    assert ("AdamW" in said) == (kind is AdamW)
    if "close weights" in notes:  # of the others
        assert float(str(notes["close weights"].values["worst"])) < 1e-3
    if kind is AdamW:
        gap = (traced["update.keys.bias.weight"].value - model.keys.bias.detach()).abs().max()
        assert float(str(said.values["gap"])) == pytest.approx(float(gap), rel=0.5)
