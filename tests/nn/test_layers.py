"""Layers that act on each position separately, against loops and torch's own."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn import BlockConfig, FeedForward, FeedForwardConfig, ImageConfig, TokenEmbedding
from glassformer.nn.layers import PatchEmbedding, PlainNorm, layer_norm, make_norm, rms_norm, tie
from glassformer.nn.models import pool
from tests.nn.oracles import FLOAT64_SHARE, loop_linear, seeded, share

# Norms


def loop_norm(row: Tensor, eps: float) -> list[float]:
    numbers = row.tolist()
    mean = sum(numbers) / len(numbers)
    variance = sum((x - mean) ** 2 for x in numbers) / len(numbers)
    return [(x - mean) / math.sqrt(variance + eps) for x in numbers]


def test_layer_norm_by_hand() -> None:
    got = layer_norm(torch.tensor([1.0, 3.0], dtype=torch.float64), eps=1e-300)
    assert got.tolist() == [-1.0, 1.0]


def test_layer_norm_equals_the_loop_and_torch() -> None:
    x, gain, bias = seeded(3, 5, 7), seeded(7, seed=1), seeded(7, seed=2)
    plain = layer_norm(x, eps=1e-5)
    expected = [[loop_norm(row, 1e-5) for row in rows] for rows in x]
    assert share(plain, torch.tensor(expected, dtype=torch.float64)) <= FLOAT64_SHARE
    assert share(layer_norm(x, gain, bias), F.layer_norm(x, (7,), gain, bias)) <= FLOAT64_SHARE
    assert share(layer_norm(x, gain), F.layer_norm(x, (7,), gain)) <= FLOAT64_SHARE


def test_layer_norm_of_a_constant_row_is_zero_with_a_finite_gradient() -> None:
    x = torch.full((1, 4), 3.0, requires_grad=True)
    normed = layer_norm(x)
    normed[0, 0].backward()
    assert normed.eq(0).all()
    assert x.grad is not None and x.grad.isfinite().all()


def test_rms_norm_equals_the_loop_and_torch() -> None:
    x, gain = seeded(3, 7), seeded(7, seed=1)
    root = [math.sqrt(sum(v * v for v in row) / 7 + 1e-6) for row in x.tolist()]
    expected = x / torch.tensor(root, dtype=torch.float64)[:, None]
    assert share(rms_norm(x), expected) <= FLOAT64_SHARE
    assert share(rms_norm(x, gain, 1e-6), F.rms_norm(x, (7,), gain, 1e-6)) <= FLOAT64_SHARE


def test_plain_norm_is_the_formula_of_the_by_hand_text() -> None:
    x = seeded(2, 6)
    got = PlainNorm(1e-4)(x)
    for row, normed in zip(x.tolist(), got.tolist(), strict=True):
        mean = sum(row) / 6
        deviation = math.sqrt(sum((v - mean) ** 2 for v in row) / 6)
        assert normed == pytest.approx([(v - mean) / (deviation + 1e-4) for v in row], rel=1e-13)
    assert not list(PlainNorm(1e-4).parameters())


@pytest.mark.parametrize(
    "norm", [layer_norm, rms_norm, PlainNorm(1e-4)], ids=["layer", "rms", "plain"]
)
def test_norm_gradients_equal_finite_differences(norm: Any) -> None:
    assert torch.autograd.gradcheck(norm, (seeded(2, 5).requires_grad_(),))


@pytest.mark.parametrize(
    ("kind", "expected"), [("layer", nn.LayerNorm), ("rms", nn.RMSNorm), ("plain", PlainNorm)]
)
def test_make_norm_keeps_kind_and_epsilon(kind: Any, expected: type[nn.Module]) -> None:
    norm = make_norm(6, BlockConfig(norm=kind, norm_eps=0.25))
    assert type(norm) is expected and norm.eps == 0.25


def test_no_norm_is_the_identity() -> None:
    x = seeded(2, 6)
    assert make_norm(6, BlockConfig(norm="none"))(x) is x


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_the_modules_in_use_equal_the_written_functions(kind: Any) -> None:
    norm = make_norm(6, BlockConfig(norm=kind)).double()
    for seed, parameter in enumerate(norm.parameters()):
        parameter.data.copy_(seeded(6, seed=seed))
    x = seeded(2, 3, 6, seed=5)
    written = (
        layer_norm(x, norm.weight, norm.bias, 1e-5)  # type: ignore[arg-type]
        if kind == "layer"
        else rms_norm(x, norm.weight, 1e-5)  # type: ignore[arg-type]
    )
    assert share(norm(x), written) <= FLOAT64_SHARE


# Feed-forward


def exact_gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def tanh_gelu(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {"relu": lambda x: max(x, 0.0), "gelu": exact_gelu, "gelu_tanh": tanh_gelu}


def each(x: Tensor, function: Any) -> Tensor:
    return torch.tensor([function(v) for v in x.flatten().tolist()], dtype=x.dtype).view_as(x)


def feed_forward(**settings: Any) -> FeedForward:
    module = FeedForward(4, FeedForwardConfig(d_ff=6, **settings)).double()
    for seed, parameter in enumerate(module.parameters()):
        parameter.data.copy_(seeded(*parameter.shape, seed=seed))
    return module


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("n_layers", [1, 2])
def test_feed_forward_equals_the_loop(n_layers: int, activation: str, bias: bool) -> None:
    module, x = feed_forward(n_layers=n_layers, activation=activation, bias=bias), seeded(2, 3, 4)
    expanded = loop_linear(x, module.expand.weight, module.expand.bias)
    expected = each(expanded, ACTIVATIONS[activation])
    if module.contract is not None:
        expected = loop_linear(expected, module.contract.weight, module.contract.bias)
    assert (module.contract is None) == (n_layers == 1)
    assert share(module(x), expected) <= FLOAT64_SHARE


def test_swiglu_equals_the_loop() -> None:
    module, x = feed_forward(activation="swiglu", bias=False), seeded(2, 3, 4)
    assert module.gate is not None and module.contract is not None
    gate = each(loop_linear(x, module.gate.weight), lambda v: v / (1 + math.exp(-v)))
    hidden = gate * loop_linear(x, module.expand.weight)
    assert share(module(x), loop_linear(hidden, module.contract.weight)) <= FLOAT64_SHARE


def test_feed_forward_acts_on_each_position_separately() -> None:
    module, x = feed_forward(), seeded(1, 5, 4)
    changed = x.clone()
    changed[0, 2] += 1
    same = module(x).eq(module(changed)).all(dim=-1)[0]
    assert same.tolist() == [True, True, False, True, True]


def test_feed_forward_of_one_layer_keeps_the_width() -> None:
    module = feed_forward(n_layers=1)
    assert [tuple(p.shape) for p in module.parameters()] == [(4, 4), (4,)]


# Embeddings


def test_token_vectors_are_rows_of_the_table() -> None:
    table = TokenEmbedding(5, 3)
    assert table(torch.tensor([[4, 0]])).equal(table.weight[[4, 0]][None])
    assert table(torch.tensor([[4, 0]], dtype=torch.int32)).equal(table.weight[[4, 0]][None])


def test_scaled_token_vectors_are_the_root_of_the_width_larger() -> None:
    table = TokenEmbedding(5, 9, scale=True)
    assert share(table(torch.tensor([[2]]))[0, 0], table.weight[2] * 3) <= 1e-7


def test_tie_shares_one_parameter() -> None:
    table, output = TokenEmbedding(5, 3), nn.Linear(3, 5, bias=False)
    tie(output, table)
    assert output.weight is table.weight
    assert table.weight.detach()[2].equal(output.weight.detach()[2])


def test_patches_are_in_reading_order_and_flattened_by_channel_row_column() -> None:
    """A 4×4 image of two channels with the pixels channel·100 + row·10 + column."""
    channel, row, column = torch.meshgrid(
        torch.arange(2), torch.arange(4), torch.arange(4), indexing="ij"
    )
    image = (channel * 100 + row * 10 + column).float()[None]
    embedding = PatchEmbedding(ImageConfig(size=4, patch=2, channels=2), 8)
    embedding.to_vectors.weight.data.copy_(torch.eye(8))
    embedding.to_vectors.bias.data.zero_()
    patches = embedding(image)[0].int().tolist()
    assert patches == [
        [0, 1, 10, 11, 100, 101, 110, 111],
        [2, 3, 12, 13, 102, 103, 112, 113],
        [20, 21, 30, 31, 120, 121, 130, 131],
        [22, 23, 32, 33, 122, 123, 132, 133],
    ]


def test_patches_are_what_a_strided_convolution_reads() -> None:
    config = ImageConfig(size=12, patch=4, channels=3)
    embedding = PatchEmbedding(config, 5).double()
    images = seeded(2, 3, 12, 12)
    kernel = embedding.to_vectors.weight.unflatten(1, (3, 4, 4))
    expected = F.conv2d(images, kernel, embedding.to_vectors.bias, stride=4)
    assert share(embedding(images), expected.flatten(2).mT) <= FLOAT64_SHARE
    assert config.n_patches == expected[0, 0].numel() == 9


# Pooling


LEFT = torch.tensor([[True, True, True], [False, True, True]])
RIGHT = torch.tensor([[True, True, True], [True, True, False]])


@pytest.mark.parametrize("is_token", [LEFT, RIGHT], ids=["left", "right"])
def test_pooling_ignores_padding(is_token: Tensor) -> None:
    x = seeded(2, 3, 4)
    x[~is_token] = 1e30
    rows = [x[b][is_token[b]] for b in range(2)]
    assert share(pool(x, "mean", is_token), torch.stack([r.mean(0) for r in rows])) <= 1e-15
    assert pool(x, "max", is_token).equal(torch.stack([r.amax(0) for r in rows]))
    assert pool(x, "first", is_token).equal(torch.stack([r[0] for r in rows]))


@pytest.mark.parametrize("how", ["mean", "max", "first"])
def test_pooling_without_a_mask_uses_every_position(how: str) -> None:
    x = seeded(2, 3, 4)
    everything = torch.ones(2, 3, dtype=torch.bool)
    assert share(pool(x, how), pool(x, how, everything)) <= 1e-15


@pytest.mark.parametrize("how", ["mean", "max", "first"])
def test_a_text_of_only_padding_pools_to_zeros(how: str) -> None:
    x = seeded(2, 3, 4).requires_grad_()
    pooled = pool(x, how, torch.tensor([[True, False, False], [False, False, False]]))
    pooled.sum().backward()
    assert pooled[1].eq(0).all()
    assert x.grad is not None and x.grad.isfinite().all() and x.grad[1].eq(0).all()
