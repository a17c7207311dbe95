"""Every number of a training step, compared with autograd, torch.optim, and float64 by hand."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn import ModelConfig, build, presets
from glassformer.tracing import Trace, diff, replay
from glassformer.tracing.gradients import trace_training_step, why_moved

SOURCE = torch.tensor([[1, 2, 3, 4, 0], [5, 6, 7, 0, 0]])
TARGET = torch.tensor([[1, 5, 6], [1, 7, 8]])
SMALL = {"vocab_size": 12, "d_model": 8, "n_heads": 2, "n_layers": 1, "max_len": 8}


@dataclass(frozen=True)
class Case:
    config: ModelConfig
    inputs: tuple[Tensor, ...]
    answers: Tensor


CLASSES = torch.tensor([0, 1])
NEXT = SOURCE.roll(-1, 1)
ANSWERS = torch.tensor([[5, 6, 2], [7, 8, -100]])  # the last position does not count
CLASSIFIER = presets.bloem_2024(**SMALL, pad_id=0)

CASES = {
    "classifier, relu, learned positions": Case(CLASSIFIER, (SOURCE,), CLASSES),
    "classifier, gelu, largest position": Case(
        CLASSIFIER.with_(feed_forward__activation="gelu", output__pooling="max"), (SOURCE,), CLASSES
    ),
    "additive scores": Case(
        CLASSIFIER.with_(attention__score="additive", attention__divisor="none"), (SOURCE,), CLASSES
    ),
    "language model, pre-norm, tied, dropout": Case(presets.gpt2(**SMALL), (SOURCE,), NEXT),
    "language model, rotary, grouped heads": Case(
        presets.llama(**SMALL, d_ff=16, n_kv_heads=1), (SOURCE,), NEXT
    ),
    "masked words, token types": Case(presets.bert(**SMALL, d_ff=16), (SOURCE,), NEXT),
    "encoder-decoder, tied, dropout everywhere": Case(
        presets.torch_nn_transformer(**SMALL, d_ff=16, pad_id=0), (SOURCE, TARGET), ANSWERS
    ),
    "encoder-decoder by hand": Case(
        presets.by_hand_2024(max_len=5), (SOURCE, SOURCE.flip(1)), CLASSES
    ),
}


def cross_entropy(answers: Tensor) -> Callable[[Tensor], Tensor]:
    def loss(logits: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, -2), answers.flatten())

    return loss


def model_of(case: Case) -> nn.Module:
    torch.manual_seed(0)
    return build(case.config, attention="written").train()


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-2)


@pytest.mark.parametrize("name", CASES)
def test_every_gradient_cell_is_autograds_and_follows_from_its_operands(name: str) -> None:
    case = CASES[name]
    model = model_of(case)
    twin = copy.deepcopy(model)
    loss = cross_entropy(case.answers)

    torch.manual_seed(1)
    traced = trace_training_step(model, *case.inputs, loss=loss, optimiser=adam(model))
    torch.manual_seed(1)  # the same dropout
    ordinary, value = adam(twin), loss(twin(*case.inputs))
    value.backward()
    ordinary.step()

    assert traced["loss"].value == value
    for parameter, real in twin.named_parameters():
        assert real.grad is not None
        shown = traced[f"gradients.{parameter}"].value
        scale = float(real.grad.abs().max())
        torch.testing.assert_close(shown, real.grad, rtol=1e-5, atol=2e-7 * max(scale, 1e-3))
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs), "the model is as after an ordinary step, to the bit"
    report = traced.verify()
    assert report.opaque == []
    assert report.ok, str(report)
    assert report.cells > 10_000


def test_a_gradient_by_hand() -> None:
    """y = W x + b, L = (y − 1)²: dL/dW = 2 (y − 1) x."""
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -1.0]]))
        model.bias.copy_(torch.tensor([0.25]))
    x = torch.tensor([[2.0, 1.0]])
    traced = trace_training_step(
        model,
        x,
        loss=lambda y: (y - 1).square().sum(),
        optimiser=torch.optim.SGD(model.parameters(), lr=0.1),
    )
    assert traced["loss"].value == 0.5625  # y = 0.25
    assert traced["gradients.weight"].value.tolist() == [[-3.0, -1.5]]
    assert traced["gradients.bias"].value.tolist() == [-1.5]
    torch.testing.assert_close(traced["update.weight.weight"].value, torch.tensor([[0.8, -0.85]]))
    text = traced["gradients.weight"][0, 1].explain()
    assert "∂W[1] = ∂sub·input[1]" in text  # a sum of one term is not written as a sum
    assert "(-1.5) × 1" in text


def finite_difference(traced: Trace, parameter: str, index: tuple[int, ...]) -> float:
    """The slope of the loss, by replaying the forward pass with the weight changed slightly."""
    weight, step = float(traced[parameter][index].value), 1e-4
    up, down = (
        float(traced.edit({(parameter, index): weight + move})["loss"].value)
        for move in (step, -step)
    )
    return (up - down) / (2 * step)


def test_a_gradient_is_the_slope_of_the_loss() -> None:
    case = CASES["encoder-decoder, tied, dropout everywhere"]
    model = model_of(case).double()
    traced = trace_training_step(
        model, *case.inputs, loss=cross_entropy(case.answers), optimiser=adam(model)
    )
    for parameter in (
        "encoder.embedding.weight",
        "encoder.blocks.0.attention.to_keys.weight",
        "encoder.blocks.0.feed_forward_norm.weight",
        "decoder.blocks.0.cross_attention.to_values.bias",
        "decoder.blocks.0.feed_forward.expand.weight",
    ):
        index = tuple(size // 2 for size in traced[parameter].shape)
        shown = float(traced[f"gradients.{parameter}"][index].value)
        assert shown == pytest.approx(finite_difference(traced, parameter, index), rel=1e-4)


def test_gradients_are_named_after_the_forward_pass_and_keep_its_lines() -> None:
    case = CASES["classifier, relu, learned positions"]
    model = model_of(case)
    traced = trace_training_step(
        model, *case.inputs, loss=cross_entropy(case.answers), optimiser=adam(model)
    )
    attention = "encoder.blocks.0.attention"
    for name in ("scores", "scaled", "masked", "weights", "context", "projected_queries"):
        gradient, forward = traced[f"gradients.{attention}.{name}"], traced[f"{attention}.{name}"]
        assert gradient.shape == forward.shape
    softmax = traced[f"gradients.{attention}.masked"]
    assert softmax.line is not None
    assert softmax.line.text == traced[f"{attention}.weights"].line.text  # type: ignore[union-attr]  # our own source: it has one
    assert "gradients" in {branch.name for branch in traced.tree().branches}
    assert traced.inputs["answers"].value.tolist() == [0, 1], (
        "what the loss brings along has a name"
    )


def test_a_tied_parameter_gets_the_sum_of_its_contributions() -> None:
    case = CASES["language model, pre-norm, tied, dropout"]
    model = model_of(case)
    traced = trace_training_step(
        model, *case.inputs, loss=cross_entropy(case.answers), optimiser=adam(model)
    )
    gradient = traced["gradients.decoder.embedding.weight"][1, 2]
    assert [cell.step.name.rpartition(".through.")[2] for cell in gradient.operands] == [
        "logits",
        "looked_up",
    ]
    assert gradient.value == pytest.approx(sum(float(c.value) for c in gradient.operands))
    assert traced.parameters["to_vocabulary.weight"] is traced["decoder.embedding.weight"]


def test_dropout_masks_are_constants() -> None:
    case = CASES["language model, pre-norm, tied, dropout"]
    model = model_of(case)
    traced = trace_training_step(
        model, *case.inputs, loss=cross_entropy(case.answers), optimiser=adam(model)
    )
    again = replay(traced)
    assert not diff(traced, again).steps
    masks = [step for step in traced.steps if step.op == "bernoulli"]
    assert masks and all(step.role == "constant" for step in masks)


def test_an_edit_reaches_the_new_weights() -> None:
    case = CASES["classifier, relu, learned positions"]
    model = model_of(case)
    before = copy.deepcopy(model.state_dict())
    loss = cross_entropy(case.answers)
    traced = trace_training_step(model, *case.inputs, loss=loss, optimiser=adam(model))
    edited = traced.edit({("to_classes.weight", (0, 3)): 0.75})

    before["to_classes.weight"][0, 3] = 0.75
    model.load_state_dict(before)
    rerun = trace_training_step(model, *case.inputs, loss=loss, optimiser=adam(model))
    for name in ("loss", "gradients.encoder.embedding.weight", "update.to_classes.weight.weight"):
        assert torch.equal(edited[name].value, rerun[name].value)


def test_a_module_trains_normally_after_it_was_traced() -> None:
    case = CASES["encoder-decoder, tied, dropout everywhere"]
    loss = cross_entropy(case.answers)
    traced_model = model_of(case)
    plain_model = copy.deepcopy(traced_model)
    optimisers = [adam(traced_model), adam(plain_model)]
    for step in range(4):
        for model, optimiser in zip((traced_model, plain_model), optimisers, strict=True):
            torch.manual_seed(step)
            if model is traced_model and step == 1:
                kept = trace_training_step(model, *case.inputs, loss=loss, optimiser=optimiser)
                shown = {s.name: s.value for s in kept.steps if s.role == "activation"}
                weights = kept["decoder.embedding.weight"].value
            else:
                optimiser.zero_grad()
                loss(model(*case.inputs)).backward()
                optimiser.step()
    for ours, theirs in zip(traced_model.parameters(), plain_model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert torch.equal(ours.grad, theirs.grad)  # type: ignore[arg-type]  # both were trained
    assert all(torch.equal(kept[name].value, value) for name, value in shown.items())
    assert torch.equal(kept["decoder.embedding.weight"].value, weights), "and the trace is kept"


def test_why_a_weight_moved() -> None:
    case = CASES["classifier, relu, learned positions"]
    model = model_of(case)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    traced = trace_training_step(
        model, *case.inputs, loss=cross_entropy(case.answers), optimiser=optimiser
    )
    move = why_moved(traced, "to_classes.weight", (0, 3))
    assert move.after.value == model.get_parameter("to_classes.weight")[0, 3].item()
    assert move.shared["step_size"].value == pytest.approx(1e-2 / (1 - 0.9))
    assert move.remembered["first_moment"].value == 0
    text = str(move)
    assert text.startswith("to_classes.weight[0, 3]: ")
    for word in ("gradient =", "first_moment", "second_moment", "share_kept", "new weight ="):
        assert word in text


class PlainStatistics(nn.Module):
    """A batch norm whose running statistics are neither buffers nor parameters."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        # Without a bias: before a batch norm, its gradient is 0 and nothing but rounding.
        self.inner = nn.Linear(3, 3, bias=False)
        self.kept = {"mean": torch.zeros(3), "variance": torch.ones(3)}

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = self.kept["mean"], self.kept["variance"]
        return F.batch_norm(self.inner(x), mean, variance, training=True, momentum=0.5)


def test_running_statistics_that_are_plain_attributes_move_once() -> None:
    x = torch.linspace(-1, 2, 12).reshape(4, 3).sin()
    model, twin = PlainStatistics(), PlainStatistics()
    traced = trace_training_step(
        model, x, loss=lambda y: (y * y * x).sum(),
        optimiser=torch.optim.SGD(model.parameters(), lr=0.1),
    )  # fmt: skip
    twin(x)
    for name, value in twin.kept.items():
        torch.testing.assert_close(model.kept[name], value, rtol=0, atol=0)
    assert traced.verify().ok, str(traced.verify())


def test_no_line_of_the_tracer_itself_is_shown_as_source() -> None:
    model = nn.Linear(2, 1)
    traced = trace_training_step(
        model,
        torch.ones(1, 2),
        loss=lambda y: y.square().sum(),
        optimiser=torch.optim.SGD(model.parameters(), lr=0.1),
    )
    files = {step.line.file for step in traced.steps if step.line is not None}
    assert files == {__file__}
