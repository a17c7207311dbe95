"""Operators that the trace decomposes: the numbers are the kernel's, and gradients pass through."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.tracing import trace, trace_training_step


class Applied(nn.Module):
    """A function of one trained matrix."""

    def __init__(self, function: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(shape))
        self.function = function

    def forward(self) -> Tensor:
        return self.function(self.weight)


IDS, STARTS = torch.tensor([3, 0, 1, 1, 2]), torch.tensor([0, 2, 2])


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda w: F.embedding_bag(IDS, w, STARTS, mode="mean"), (4, 3)),
        (lambda w: F.embedding_bag(IDS, w, STARTS, mode="max"), (4, 3)),
        (lambda w: torch.cdist(w, IDS[:3].float()[None]), (4, 3)),
        (lambda w: F.pdist(w), (4, 3)),
        (lambda w: F.bilinear(w[:, :2], w[:, 1:], torch.ones(2, 2, 2)), (4, 3)),
        (
            lambda w: F.ctc_loss(
                w.log_softmax(-1),
                torch.tensor([[1, 1, 0], [3, 2, 1]]),
                torch.tensor([7, 5]),
                torch.tensor([2, 3]),
            ),
            (7, 2, 4),
        ),
    ],
    ids=["mean of a bag", "largest of a bag", "cdist", "pdist", "bilinear", "ctc_loss"],
)
def test_gradients_pass_through_decompositions(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...]
) -> None:
    """`trace_training_step` itself compares its gradients with autograd's."""
    model = Applied(function, shape)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    traced = trace_training_step(model, loss=lambda y: (y * y).sum(), optimiser=optimiser)
    report = traced.verify()
    assert report.ok, str(report)
    assert report.opaque == []


def test_a_target_longer_than_its_input_has_no_probability() -> None:
    log_probs = torch.zeros(2, 1, 4).log_softmax(-1)
    for labels in ([1, 1], [1, 2], []):
        targets, lengths = torch.tensor([labels]).long(), torch.tensor([len(labels)])
        arguments = (log_probs, targets, torch.tensor([2]), lengths)
        expected = F.ctc_loss(*arguments, reduction="none")
        traced = trace(lambda: F.ctc_loss(*arguments, reduction="none"))  # noqa: B023
        torch.testing.assert_close(traced.outputs["output"].value, expected)


@pytest.mark.filterwarnings("ignore")  # torch is about to move its quantised tensors elsewhere
@pytest.mark.parametrize("size", [1.0, 1e-3, 0.0])
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("reduce_range", [False, True])
def test_a_quantised_linear_layer(by_row: bool, reduce_range: bool, size: float) -> None:
    torch.manual_seed(0)
    matrix, x, bias = torch.randn(4, 6), size * torch.randn(2, 3, 6), torch.arange(4.0)
    scales, zeros = torch.tensor([0.02, 0.01, 0.03, 0.02]).double(), torch.zeros(4).long()
    packed = torch.ops.quantized.linear_prepack(
        torch.quantize_per_channel(matrix, scales, zeros, 0, torch.qint8)
        if by_row
        else torch.quantize_per_tensor(matrix, 0.02, 0, torch.qint8),
        bias,
    )

    def layer(x: Tensor) -> Tensor:
        made: Tensor = torch.ops.quantized.linear_dynamic(x, packed, reduce_range)
        return made

    traced = trace(layer, x)
    report = traced.verify()
    assert report.ok, str(report)
    assert report.opaque == []
    # The layer adds 6 products of integers exactly, then rounds a few times.
    torch.testing.assert_close(traced.outputs["output"].value, layer(x), rtol=1e-6, atol=1e-6)


def test_a_chunked_loss_is_expanded_with_all_its_logits() -> None:
    torch.manual_seed(0)
    x, matrix, targets = torch.randn(6, 4), torch.randn(5, 4), torch.tensor([0, 4, 2, 2, 1, 3])
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=2)

    def loss(x: Tensor) -> Tensor:
        return F.linear_cross_entropy(x, matrix, targets, options=options)

    traced = trace(loss, x)
    assert traced.verify().opaque == []
    assert "linear" in {step.op for step in traced.steps}
    torch.testing.assert_close(
        traced.outputs["output"].value, F.cross_entropy(x @ matrix.T, targets)
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize(
    ("padding", "aligned"), [("zeros", False), ("border", True), ("reflection", True)]
)
@pytest.mark.parametrize("axes", [2, 3])
def test_sampling_an_image_or_a_volume(mode: str, padding: str, aligned: bool, axes: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 2, *(3, 5, 4)[-axes:])
    grid = torch.rand(2, *(2, 3, 2)[-axes:], axes) * 2.6 - 1.3

    def sample(x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=aligned)

    traced = trace(sample, x, grid)
    report = traced.verify(sample=600)
    assert report.ok, str(report)
    assert report.opaque == []
    torch.testing.assert_close(traced.outputs["output"].value, sample(x, grid))


@pytest.mark.parametrize(("padding", "last"), [(-1, False), (1, False), (-1, True)])
def test_the_maximum_of_a_bag_comes_with_its_index(padding: int, last: bool) -> None:
    """All four outputs are the kernel's, an empty bag among them."""
    torch.manual_seed(0)
    weight, starts = torch.randn(4, 3), torch.tensor([0, 2, 2, 5] if last else [0, 2, 2])

    def bag() -> tuple[Tensor, ...]:
        made: tuple[Tensor, ...] = torch.ops.aten._embedding_bag(
            weight, IDS, starts, False, 2, False, None, last, padding
        )
        return made

    for ours, expected in zip(trace(bag).outputs.values(), bag(), strict=True):
        assert torch.equal(ours.value, expected)


TURNS = torch.complex(torch.linspace(-2, 2, 6), torch.linspace(3, 0, 6)).reshape(2, 3)
MATRIX, OFFSET = TURNS.repeat(2, 1) * (1 + 2j), TURNS.flatten()[:4]


@pytest.mark.parametrize(
    "function",
    [
        lambda: F.linear(TURNS, MATRIX, OFFSET),
        lambda: torch.einsum("ij,kj->ik", TURNS, MATRIX),
        lambda: TURNS.sum(1) + TURNS.sum() + TURNS.mean(0, keepdim=True)[0, :2],
        lambda: F.silu(TURNS) + TURNS.reciprocal() + (1 - TURNS),
        lambda: torch.cat([TURNS, MATRIX])[torch.tensor([0, 4, 2])],
    ],
    ids=["linear", "einsum", "sum", "silu", "moves"],
)
def test_complex_operators_without_a_rule_are_decomposed(
    function: Callable[[], Tensor],
) -> None:
    traced = trace(function)
    report = traced.verify()
    assert report.ok, str(report)
    assert report.opaque == []
    torch.testing.assert_close(traced.outputs["output"].value, torch.view_as_real(function()))


class Packed(nn.Module):
    """A recurrent layer over sequences of different lengths."""

    def __init__(self, layer: nn.RNNBase, is_sorted: bool) -> None:
        super().__init__()
        self.layer, self.is_sorted = layer, is_sorted

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
        packed = pack_padded_sequence(x, lengths, enforce_sorted=self.is_sorted)
        outputs, last = self.layer(packed)
        return pad_packed_sequence(outputs, padding_value=-1.5)[0], last


@pytest.mark.parametrize("lengths", [[4, 2, 1], [2, 4, 4]], ids=["sorted", "not sorted"])
@pytest.mark.parametrize(
    "layer",
    [nn.LSTM(2, 3, num_layers=2, bidirectional=True), nn.GRU(2, 3), nn.RNN(2, 3, bias=False)],
    ids=["LSTM", "GRU", "RNN"],
)
def test_packed_sequences_are_expanded(layer: nn.RNNBase, lengths: list[int]) -> None:
    torch.manual_seed(0)
    model, x, n = Packed(layer, lengths[0] == 4), torch.randn(4, 3, 2), torch.tensor(lengths)
    traced = trace(model, x, n)
    report = traced.verify()
    assert report.ok, str(report)
    assert report.opaque == []
    outputs, last = model(x, n)
    expected = [outputs, *(last if isinstance(last, tuple) else [last])]
    for ours, theirs in zip(traced.outputs.values(), expected, strict=True):
        torch.testing.assert_close(ours.value, theirs.detach())
    assert traced["layer.layer0.t3.hidden"].shape == (lengths.count(4), 3)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    trained = trace_training_step(
        model, x, n, loss=lambda y: y[0].square().sum(), optimiser=optimiser
    )
    assert trained.verify().ok and not trained.verify().opaque
