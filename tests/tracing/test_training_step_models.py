"""Training steps of unusual modules: rare operators, in-place writes, fused kernels, errors."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.errors import TraceError
from glassformer.nn import build, presets
from glassformer.tracing import Trace, trace
from glassformer.tracing.arithmetic.float64_values import limits
from glassformer.tracing.gradients import derivatives, trace_training_step
from glassformer.tracing.gradients.derivatives import Forward, Gradients

X = torch.linspace(-2, 2, 24).reshape(2, 3, 4).sin()


class Map(nn.Module):
    """A linear map, followed by a given function."""

    def __init__(self, then: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(4, 4)
        self.then = then

    def forward(self, x: Tensor) -> Tensor:
        mapped = self.map(x)
        result = self.then(mapped)
        return result


def halves_swapped(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1) * x


def written_in_place(x: Tensor) -> Tensor:
    y = x * 2
    y[:, 0] = x[:, 1] * 3
    y += x
    y[..., 1:3].mul_(x[..., :2])
    return y.relu_()


def looked_up(x: Tensor) -> Tensor:
    chosen = x[:, torch.tensor([0, 2, 2])]
    gathered = x.gather(-1, torch.tensor([[[0, 3]], [[1, 1]]]).expand(2, 3, 2))
    return chosen.sum(-1) + gathered.prod(-1)


def spread_out(x: Tensor) -> Tensor:
    wide = x[:, :1].expand(2, 3, 4)
    return wide * x + x.mT.reshape(2, 3, 4) + x.unsqueeze(1).repeat(1, 2, 1, 1).amax(1)


def many_functions(x: Tensor) -> Tensor:
    smooth = x.tanh() + x.sigmoid() + F.silu(x) + x.exp() + (x**2 + 1).log() + x.abs().sqrt()
    return smooth / (1 + x.square()) - x.std(-1, keepdim=True) + x.clamp(-0.5, 0.5) * x.cumsum(1)


def products(x: Tensor) -> Tensor:
    pairs = torch.einsum("btd,bsd->bts", x, x)
    vector = x[0, 0] @ x[1].mT
    return (pairs @ x + torch.outer(x[0, 0], x[0, 1])[:3]) * vector.unsqueeze(-1) + x @ x[0, 0][
        :, None
    ]


ODD = [
    halves_swapped, written_in_place, looked_up, spread_out, many_functions, products,
]  # fmt: skip


def traced_and_gradients(
    model: nn.Module, *inputs: Tensor, loss: Callable[[Tensor], Tensor]
) -> tuple[Trace, dict[str, Tensor]]:
    twin = copy.deepcopy(model)
    loss(twin(*inputs)).backward()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    traced = trace_training_step(model, *inputs, loss=loss, optimiser=optimiser)
    return traced, {n: p.grad for n, p in twin.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("then", ODD)
def test_odd_operators(then: Callable[[Tensor], Tensor]) -> None:
    traced, expected = traced_and_gradients(Map(then), X, loss=lambda y: y.square().mean())
    for name, gradient in expected.items():
        torch.testing.assert_close(traced[f"gradients.{name}"].value, gradient)
    report = traced.verify()
    assert report.opaque == []
    assert report.ok, str(report)


def straight_through(x: Tensor) -> Tensor:
    return x + (x.round() - x).detach()


def a_part_detached(x: Tensor) -> Tensor:
    first, second = x.detach()[:, 1:].chunk(2, dim=-1)
    return torch.cat([first * x[:, 1:, :2], second, x[:, :2, :2].data * x[:, :2, :2]], dim=1)


def detached_in_place(x: Tensor) -> Tensor:
    doubled = x * 2
    doubled.detach_()
    return doubled.mul_(3) * x


def written_past_autograd(x: Tensor) -> Tensor:
    y = x * 2
    y.data[:, 0] = 1.5
    with torch.no_grad():
        y.clamp_(-1, 1)
    return y * x


def a_target_without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        target = x.mean(-1, keepdim=True).expand_as(x)
        with torch.enable_grad():
            kept = x * 3
    return (x - target).square() + kept * largest(x)


@torch.no_grad()
def largest(x: Tensor) -> Tensor:
    return x.abs().max()


@pytest.mark.parametrize(
    "then",
    [
        straight_through, a_part_detached, detached_in_place, written_past_autograd,
        a_target_without_gradient,
    ],
)  # fmt: skip
def test_detach_and_no_grad_stop_the_gradient(then: Callable[[Tensor], Tensor]) -> None:
    traced, expected = traced_and_gradients(Map(then), X, loss=lambda y: y.square().mean())
    for name, gradient in expected.items():
        assert torch.equal(traced[f"gradients.{name}"].value, gradient)
    assert traced.verify().ok


@pytest.mark.parametrize("then", [many_functions, products, looked_up])
def test_only_a_gradient_is_written_with_a_partial_sign(then: Callable[[Tensor], Tensor]) -> None:
    """Not what its derivative computes on the way: 2x, exp(x), a copy of the other factor."""
    traced, _ = traced_and_gradients(Map(then), X, loss=lambda y: y.square().mean())
    on_the_way = 0
    for step in traced.steps:
        of = step.name.removeprefix("gradients.").rpartition(".")[0]
        is_gradient = step.name.removeprefix("gradients.") in traced
        if is_gradient or ".through." in step.name or f"gradients.{of}" not in traced:
            continue
        if traced.naming.symbol(step).lead == "∂":
            assert torch.isin(step.value, traced[f"gradients.{of}"].value).all(), step.name
        else:
            on_the_way += 1
    assert on_the_way


def test_the_gradient_of_nothing_is_written_too() -> None:
    traced = traced_step(Map(lambda x: x.sum() + torch.where(x[:0] > 0, x[:0] * 2, x[:0]).sum()))
    assert all(str(traced.naming.symbol(step)) for step in traced.steps)


def test_an_in_place_write_to_what_the_backward_pass_needs_is_refused_as_by_torch() -> None:
    with pytest.raises(TraceError, match="torch itself refuses the backward pass of this model: o"):
        traced_step(Map(lambda x: x.exp().mul_(2)))


def traced_step(model: nn.Module) -> Trace:
    rates = torch.optim.SGD(model.parameters(), lr=0.1)
    return trace_training_step(model, X, loss=lambda y: y.sum(), optimiser=rates)


def test_an_operator_without_a_rule_is_opaque_but_its_gradient_is_autograds() -> None:
    traced, expected = traced_and_gradients(
        Map(lambda x: torch.special.i0e(x)), X, loss=lambda y: y.sum()
    )
    report = traced.verify()
    opaque = next(traced[name] for name in report.opaque if traced[name].op == "special_i1e")
    assert {traced[name].op for name in report.opaque} == {"special_i0e", "special_i1e"}
    assert report.ok
    torch.testing.assert_close(traced["gradients.map.weight"].value, expected["map.weight"])
    assert opaque[0, 0, 0].expression is None
    assert [operand.argument for operand in opaque.operands] == ["self"]


@pytest.mark.parametrize("layer", ["ours, fused", "torch.nn"])
def test_fused_attention_is_expanded_and_agrees_up_to_rounding(layer: str) -> None:
    torch.manual_seed(0)
    model: nn.Module
    if layer == "torch.nn":
        model = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        inputs = X
    else:
        sizes = {"vocab_size": 9, "d_model": 4, "n_heads": 2, "n_layers": 1, "max_len": 4}
        model, inputs = build(presets.gpt2(**sizes, dropout=0.0)), torch.tensor([[1, 2, 3]])
    traced, expected = traced_and_gradients(model, inputs, loss=lambda y: y.square().mean())
    assert any(step.expanded for step in traced.steps)
    for name, gradient in expected.items():
        torch.testing.assert_close(
            traced[f"gradients.{name}"].value, gradient, rtol=1e-5, atol=1e-7
        )


def test_running_statistics_and_random_numbers_are_as_after_one_step() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    twin = copy.deepcopy(model)
    optimisers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    torch.manual_seed(7)
    trace_training_step(model, X[0], loss=lambda y: y.square().sum(), optimiser=optimisers[0])
    after = torch.rand(1)
    torch.manual_seed(7)
    twin(X[0]).square().sum().backward()
    optimisers[1].step()
    assert after == torch.rand(1)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=0, atol=0)


class Dropping(nn.Module):
    """Every kind of dropout with probability p, followed by one with probability 0.5."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.map = nn.Linear(4, 4)
        self.in_place, self.alpha = nn.Dropout(p, inplace=True), nn.AlphaDropout(p)
        self.channels = nn.Dropout1d(p)

    def forward(self, x: Tensor) -> Tensor:
        y = self.map(x)
        self.in_place(y)
        y = self.channels(self.alpha(y))
        attended = F.scaled_dot_product_attention(y, y, y, dropout_p=self.p)
        dropped = F.dropout(attended, self.p)
        return F.dropout(dropped + x, 0.5)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_a_dropout_of_nothing_or_of_everything_draws_no_random_numbers(p: float) -> None:
    torch.manual_seed(0)
    model = Dropping(p)
    twin = copy.deepcopy(model)
    optimisers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    torch.manual_seed(7)
    traced = trace_training_step(model, X, loss=lambda y: y.square().sum(), optimiser=optimisers[0])
    after = torch.rand(1)
    torch.manual_seed(7)
    loss = twin(X).square().sum()
    loss.backward()
    optimisers[1].step()
    assert after == torch.rand(1)
    torch.testing.assert_close(traced["loss"].value, loss.detach())
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=0, atol=0)
    assert traced.verify().ok


class RoundedStraight(torch.autograd.Function):
    """round(x), whose backward passes the gradient on as it is."""

    @staticmethod
    def forward(_context: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(_context: Any, gradient: Tensor) -> Tensor:
        return gradient


def straight(x: Tensor) -> Tensor:
    rounded: Tensor = RoundedStraight.apply(x)  # type: ignore[no-untyped-call]  # torch's
    return rounded


def hooked(x: Tensor) -> Tensor:
    doubled = x * 2
    if doubled.requires_grad:
        doubled.register_hook(lambda gradient: gradient / 3)
    return doubled


LABELS = torch.tensor([[1, 2]])


def alignments(log_probs: Tensor) -> Tensor:
    return F.ctc_loss(log_probs.reshape(6, 1, 4), LABELS, torch.tensor([6]), torch.tensor([2]))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (hooked, "a hook on a tensor may change a part"),
        (lambda x: straight(x * 3), "function of its own, RoundedStraight, whose"),
        (lambda x: alignments(x * 2), "as if its input came from log_softmax"),
    ],
)
def test_another_gradient_than_autograds_is_refused_with_its_cause(
    function: Callable[[Tensor], Tensor], reason: str
) -> None:
    with pytest.raises(TraceError, match=rf"gradient of map\.\w+ differs .*{reason}"):
        traced_and_gradients(Map(function), X, loss=lambda y: y.sum())


@pytest.mark.parametrize(
    "function", [lambda x: x.detach().square(), torch.no_grad()(lambda x: x * 2)]
)
def test_a_loss_cut_off_from_its_parameters_is_refused(
    function: Callable[[Tensor], Tensor],
) -> None:
    with pytest.raises(TraceError, match="or detach, no_grad or an operator"):
        traced_step(Map(function))


def test_a_layer_converted_to_the_type_it_has_is_trained() -> None:
    """`module.to(dtype)` runs under no_grad and gives back the very parameters (Switch)."""

    class Router(Map):
        def forward(self, x: Tensor) -> Tensor:
            self.map = self.map.to(x.dtype)
            with torch.no_grad():
                x.contiguous()
            return super().forward(x)

    model = Router(lambda x: torch.empty_like(x).fill_(2) * x)
    for _ in range(2):  # nothing stays behind on the parameters
        traced, gradients = traced_and_gradients(model, X, loss=lambda y: y.square().sum())
        assert gradients.keys() == {"map.weight", "map.bias"}
        assert all(
            torch.equal(traced[f"gradients.{name}"].value, gradient)
            for name, gradient in gradients.items()
        )
        assert traced.verify().ok


def test_unwritten_memory_is_no_random_number() -> None:
    """A gradient that is lost elsewhere is not blamed on `empty_like`."""
    hooked = Map(lambda x: torch.empty_like(x).fill_(2) * x)
    next(hooked.parameters()).register_hook(lambda gradient: gradient * 2)
    with pytest.raises(TraceError, match="a hook changes it"):
        traced_and_gradients(hooked, X, loss=lambda y: y.sum())
    with pytest.raises(TraceError, match="does not depend on any parameter"):
        traced_step(Map(lambda x: torch.empty_like(x).fill_(2)))


def test_a_hook_is_named_where_it_changes_a_gradient() -> None:
    model = Map(lambda x: x * 2)
    next(model.parameters()).register_hook(lambda gradient: gradient * 2)
    with pytest.raises(TraceError, match="a hook changes it"):
        traced_and_gradients(model, X, loss=lambda y: y.sum())


def test_a_model_whose_second_run_differs_is_refused() -> None:
    runs: list[int] = []

    def counted(x: Tensor) -> Tensor:
        runs.append(1)
        return x * len(runs)

    with pytest.raises(TraceError, match=r"ran twice and computed a loss of .*, then"):
        traced_and_gradients(Map(counted), X, loss=lambda y: y.square().sum())


def test_ctc_loss_of_log_probabilities_is_traced() -> None:
    traced, _ = traced_and_gradients(
        Map(lambda x: alignments(x.reshape(6, 4).log_softmax(-1))), X, loss=lambda y: y.sum()
    )
    assert traced.verify().ok


def overlapping(x: Tensor) -> Tensor:
    windows = x.flatten().unfold(0, 5, 2)
    rows = x.as_strided((3, 4), (2, 1))
    return (windows * torch.arange(5.0)).sum() + rows.square().sum()


def frequencies(x: Tensor) -> Tensor:
    spectrum = torch.fft.rfft(x.flatten(1), norm="ortho")
    again = torch.fft.irfft(spectrum * spectrum.conj())
    window = torch.hann_window(4)
    short = torch.stft(x.flatten(1), 4, window=window, return_complex=True)
    total: Tensor = again.sum(-1) + short.abs().square().sum((1, 2))
    plane: Tensor = torch.fft.fft2(x).real
    return total + plane[:, 0, 0]


def signs(x: Tensor) -> Tensor:
    return x.sgn() * x.square() + torch.complex(x, x.mT.reshape(2, 3, 4)).abs()


@pytest.mark.parametrize("then", [overlapping, frequencies, signs])
def test_windows_that_overlap_and_complex_numbers(then: Callable[[Tensor], Tensor]) -> None:
    traced, expected = traced_and_gradients(Map(then), X, loss=lambda y: y.square().mean())
    for name, gradient in expected.items():
        torch.testing.assert_close(traced[f"gradients.{name}"].value, gradient)
    report = traced.verify()
    assert report.ok, str(report)


class Force(nn.Module):
    """The force of a learned energy: its gradient with respect to the positions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hidden, self.energy = nn.Linear(4, 5), nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            energy = self.energy(torch.tanh(self.hidden(x))).sum()
            (slope,) = torch.autograd.grad(energy, x, create_graph=True)
        return -slope


def test_a_model_that_computes_gradients_itself() -> None:
    model = Force()
    weight = (model.energy.weight * (1 - model.hidden(X).tanh().square())).detach()
    expected = -(weight @ model.hidden.weight.detach())
    traced = trace(model, X)
    torch.testing.assert_close(traced.outputs["output"].value, expected)
    assert traced.verify().ok and not traced.verify().opaque
    edited = traced.edit({("energy.weight", (0, 0)): 0.0})
    with torch.no_grad():
        model.energy.weight[0, 0] = 0.0
    assert torch.equal(edited.outputs["output"].value, model(X).detach())
    trained, gradients = traced_and_gradients(model, X, loss=lambda y: y.square().mean())
    for name, gradient in gradients.items():
        torch.testing.assert_close(trained[f"gradients.{name}"].value, gradient)
    assert trained.verify().ok


@pytest.mark.parametrize(
    ("model", "x", "loss", "message"),
    [
        (Map(torch.relu), X, lambda y: y, r"the loss must be one number, got \(2, 3, 4\)"),
        (Map(torch.relu), X, lambda y: 3.0, "the loss must be one number, got float"),
        (Map(torch.relu), X, lambda y: torch.ones(1), "does not depend on any parameter"),
        (Map(torch.special.bessel_j0), X, lambda y: y.sum(), "operator without a derivative"),
        (torch.relu, X, lambda y: y.sum(), "expected a module to train"),
    ],
)
def test_what_cannot_be_traced_is_refused_and_nothing_changes(
    model: nn.Module, x: Tensor, loss: Callable[[Tensor], Tensor], message: str
) -> None:
    parameters = list(model.parameters()) if isinstance(model, nn.Module) else [nn.Parameter(X)]
    before = [p.detach().clone() for p in parameters]
    optimiser = torch.optim.SGD(parameters, lr=0.1)
    state = torch.get_rng_state()
    with pytest.raises(TraceError, match=message):
        trace_training_step(model, x, loss=loss, optimiser=optimiser)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(p, was) for p, was in zip(parameters, before, strict=True))


def test_eigenvalues_have_gradients_though_their_vectors_are_not_asked_for() -> None:
    model = Map(lambda x: torch.linalg.eigvals(x[0, :3, :3]).abs())
    traced, expected = traced_and_gradients(model, X, loss=lambda y: y.square().mean())
    torch.testing.assert_close(traced["gradients.map.weight"].value, expected["map.weight"])
    assert traced.verify().ok


def test_a_wrong_derivative_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check against autograd can fail."""

    def forgets_the_slope(_forward: Forward, g: Tensor) -> Gradients:
        yield "self", g

    monkeypatch.setitem(derivatives._DERIVATIVES, "relu", forgets_the_slope)
    with pytest.raises(TraceError, match="differs from autograd's"):
        traced_and_gradients(Map(torch.relu), X, loss=lambda y: y.sum())


def test_a_gradient_of_rounding_errors_is_not_refused() -> None:
    """A batch norm subtracts the mean, and with it any effect of a bias before it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 6), nn.BatchNorm1d(6))
    x = 100 * torch.randn(64, 4)
    traced, gradients = traced_and_gradients(model, x, loss=lambda y: y.pow(3).sum() * 1e3)
    assert traced.verify().ok
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    assert gradients["0.bias"].abs().max() < 1e-3 * largest


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_floats_are_compared_by_their_own_rounding(dtype: torch.dtype) -> None:
    """Fused attention rounds once, written-out attention at each step."""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).to(dtype)
    traced, _ = traced_and_gradients(
        model, torch.randn(4, 6, 16, dtype=dtype), loss=lambda y: y.float().square().sum()
    )
    assert traced.verify().ok


class Mixed(nn.Module):
    """A norm with float32 weights on bfloat16 numbers, as autocast makes it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x.bfloat16())
        return normed


@pytest.mark.parametrize("inside", [True, False])
def test_autocast_of_the_model_or_around_the_call_is_followed(inside: bool) -> None:
    """Gradients of float32 parameters are as exact as the bfloat16 they come from."""

    class Cast(nn.TransformerEncoderLayer):
        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            with torch.autocast("cpu", torch.bfloat16) if inside else nullcontext():
                return super().forward(x)

    torch.manual_seed(0)
    model, x = Cast(64, 2, 128, dropout=0.0, batch_first=True), torch.randn(1, 64, 64)
    with nullcontext() if inside else torch.autocast("cpu", torch.bfloat16):
        traced, _ = traced_and_gradients(model, x, loss=lambda y: y.float().square().mean())
        again = trace(model, x)
    assert {traced[name].dtype for name in ("linear1", "linear2")} == {torch.bfloat16}
    assert traced["gradients.linear1.weight"].dtype == torch.float32
    assert traced.verify(sample=2000).ok
    assert again["linear1"].dtype == torch.bfloat16
    assert not any("differ from the module's result" in str(note) for note in again.notes)


def test_sums_that_a_kernel_keeps_in_bfloat16_are_held_against_bfloat16() -> None:
    """A sum of many bfloat16 numbers stalls: that is neither equal nor the rule's mistake."""
    torch.manual_seed(0)
    x = torch.randn(900, 8)
    traced, _ = traced_and_gradients(Mixed(), x[:64], loss=lambda y: y.float().square().mean())
    gain = traced["gradients.norm.weight"]
    assert gain.dtype == torch.float32
    assert max(gain[place].difference for place in range(8)) > 1e-6
    assert gain.tolerance == limits(torch.bfloat16).tolerance
    assert all(gain[place].reproduced for place in range(8))
    assert traced.verify().ok

    def stalled(factor: float) -> Trace:
        table, ids = nn.Embedding(2, 4).bfloat16(), torch.zeros(900, dtype=torch.int64)
        traced, _ = traced_and_gradients(table, ids, loss=lambda y: y.float().mean())
        traced["gradients.weight"].view.tensor().mul_(factor)
        return traced

    traced = stalled(1.0)
    cell = traced["gradients.weight"][0, 1]
    assert not cell.reproduced
    said = f"rounds to bfloat16 after every addition, which gives {cell.value:.4g}\n"
    assert said in cell.explain()
    report = traced.verify()
    assert report.ok
    assert "sums in bfloat16" in str(report)
    assert not stalled(1.1).verify().ok


def test_a_loss_that_depends_on_random_draws_alone_is_refused() -> None:
    model = Map(lambda x: torch.bernoulli(x.sigmoid()))
    with pytest.raises(TraceError, match="depends on parameters only through bernoulli"):
        traced_and_gradients(model, X, loss=lambda y: y.sum())


def test_a_gradient_through_random_draws_is_refused_with_their_name() -> None:
    def drawn(x: Tensor) -> Tensor:
        gamma: Tensor = torch._standard_gamma(x.exp())
        return gamma

    model = nn.Sequential(Map(drawn), Map(lambda x: x * 2))
    with pytest.raises(TraceError, match="comes through _standard_gamma, whose random numbers"):
        traced_and_gradients(model, X, loss=lambda y: y.sum())


@pytest.mark.parametrize("training", [True, False])
def test_a_random_slope_is_traced_in_training(training: bool) -> None:
    model = Map(lambda x: F.rrelu(x - 0.5, training=training))
    traced, _ = traced_and_gradients(model, X, loss=lambda y: y.square().sum())
    assert traced.verify().ok


def test_results_written_into_given_memory_pass_gradients_on() -> None:
    torch.manual_seed(0)
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)).train()  # div(out=) of torch
    traced, gradients = traced_and_gradients(
        model, torch.randn(2, 3), loss=lambda out: out.square().sum()
    )
    for name, gradient in gradients.items():
        torch.testing.assert_close(traced[f"gradients.{name}"].value, gradient)
    assert traced.verify().ok


def test_what_torch_refuses_names_the_operator_that_writes_to_a_parameter() -> None:
    """A table that is read and then shortened to its largest norm."""
    torch.manual_seed(0)
    table = nn.Embedding(5, 4, max_norm=0.5)

    class ReadBefore(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = table

        def forward(self, ids: Tensor) -> Tensor:
            size = self.table.weight.square().sum()
            looked_up: Tensor = self.table(ids)
            return looked_up * size

    model = ReadBefore()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    match = "in which embedding_renorm writes to table.weight: one of the variables"
    with pytest.raises(TraceError, match=match):
        trace_training_step(
            model, torch.tensor([1, 2]), loss=lambda y: y.sum(), optimiser=optimiser
        )


def test_parameters_may_be_written_to_without_autograd() -> None:
    """A table with a largest norm shortens its rows, another model clips its weights."""
    torch.manual_seed(0)
    table = nn.Embedding(5, 4, max_norm=0.5)

    class Clipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = table
            self.gain = nn.Parameter(torch.tensor([0.5, 2.0, -3.0, 1.0]))

        def forward(self, ids: Tensor) -> Tensor:
            with torch.no_grad():
                self.gain.clamp_(-1, 1)
                self.gain[0] += 0.25
            looked_up: Tensor = self.table(ids) + self.table(ids.flip(0))
            return looked_up * self.gain

    model = Clipped()
    ids = torch.tensor([1, 2, 2])
    traced, gradients = traced_and_gradients(model, ids, loss=lambda y: y.square().sum())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(traced[f"gradients.{name}"].value, gradients[name])
        torch.testing.assert_close(traced[f"update.{name}.weight"].value, parameter.detach())
    assert traced.verify().ok


@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("heaviside", lambda x: torch.heaviside(x, x)),
        ("igamma", lambda x: torch.igamma(x, x)),
        ("bincount", lambda x: torch.bincount(torch.tensor([0, 1, 1]), weights=x)),
    ],
)
def test_what_torch_cannot_differentiate_is_refused(
    operator: str, function: Callable[[Tensor], Tensor]
) -> None:
    model = Map(lambda x: function(x.flatten()[:3].exp()))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(TraceError, match=f"torch cannot differentiate {operator} with"):
        trace_training_step(model, X, loss=Tensor.sum, optimiser=optimiser)


def test_a_sparse_gradient_is_refused_before_the_step_is_made() -> None:
    model = nn.Sequential(nn.Embedding(5, 4, sparse=True), nn.Linear(4, 4))
    before = copy.deepcopy(model.state_dict())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(TraceError, match=r"sparse_coo has no dense storage.*sparse=False"):
        trace_training_step(model, torch.tensor([1, 2]), loss=Tensor.sum, optimiser=optimiser)
    assert all(before[name].equal(value) for name, value in model.state_dict().items())
