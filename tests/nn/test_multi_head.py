"""The attention module: heads, widths, output map, initialisation, recording, switching."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.nn import (
    AttentionConfig,
    MultiHeadAttention,
    causal_mask,
    record_attention,
    set_attention,
)
from glassformer.nn.attention import join_heads, split_heads
from glassformer.nn.config import Initialisation
from glassformer.nn.layers import initialise
from tests.nn.oracles import (
    FLOAT64_SHARE,
    dot_score,
    loop_attention,
    loop_linear,
    loop_visible,
    seeded,
    share,
)

D = 12
both = pytest.mark.parametrize("implementation", ["written", "fused"])


def make(d_model: int = D, **settings: Any) -> MultiHeadAttention:
    """A float64 attention with every parameter random, including biases."""
    module = MultiHeadAttention(d_model, AttentionConfig(**settings)).double()
    for seed, parameter in enumerate(module.parameters()):
        parameter.data.copy_(seeded(*parameter.shape, seed=seed))
    return module


def rows_of_head(x: Tensor, head: int, width: int) -> Tensor:
    return x[head * width : (head + 1) * width]


def by_separate_heads(module: MultiHeadAttention, x: Tensor, source: Tensor) -> Tensor:
    """Each head on its own, with its own three matrices, by loops; then W_O on all of them."""
    heads = []
    for head in range(module.n_heads):
        projected = []
        shared = head // (module.n_heads // module.n_kv_heads)
        for map_, own, read, width in (
            (module.to_queries, head, x, module.d_head),
            (module.to_keys, shared, source, module.d_head),
            (module.to_values, shared, source, module.d_value),
        ):
            bias = None if map_.bias is None else rows_of_head(map_.bias, own, width)
            projected.append(loop_linear(read, rows_of_head(map_.weight, own, width), bias))
        q, k, v = (p.unsqueeze(1) for p in projected)
        heads.append(loop_attention(q, k, v, dot_score(module.divisor)).context.squeeze(1))
    joined = torch.cat(heads, dim=-1)
    if module.to_output is None:
        return joined
    return loop_linear(joined, module.to_output.weight, module.to_output.bias)


SHAPES: dict[str, dict[str, Any]] = {
    "one head": {"n_heads": 1},
    "narrow heads": {"n_heads": 4},
    "full-width heads": {"n_heads": 3, "d_head": D},
    "values of another width": {"n_heads": 3, "d_head": 5, "d_value": 2},
    "grouped heads": {"n_heads": 4, "n_kv_heads": 2},
    "one key head for all": {"n_heads": 6, "n_kv_heads": 1},
    "bias": {"n_heads": 2, "bias": True, "output_bias": True},
    "no output map": {"n_heads": 2, "output_map": False},
    "no output map, free width": {"n_heads": 3, "d_head": 2, "d_value": 7, "output_map": False},
}


@both
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_separate_heads_concatenated(shape: str, implementation: Any) -> None:
    module = make(**SHAPES[shape])
    set_attention(module, implementation)
    x, source = seeded(2, 4, D), seeded(2, 5, D, seed=1)
    assert share(module(x), by_separate_heads(module, x, x)) <= FLOAT64_SHARE
    assert share(module(x, source), by_separate_heads(module, x, source)) <= FLOAT64_SHARE


@pytest.mark.parametrize(
    ("settings", "divisor"),
    [
        ({}, math.sqrt(3)),
        ({"divisor": "sqrt_head"}, math.sqrt(3)),
        ({"divisor": "sqrt_model"}, math.sqrt(D)),
        ({"divisor": "none"}, 1.0),
        ({"divisor": 2.5}, 2.5),
        ({"d_head": 10}, math.sqrt(10)),
        ({"d_head": 10, "d_value": 3, "divisor": "sqrt_head"}, math.sqrt(10)),
    ],
)
@both
def test_scores_are_divided_by_what_the_config_says(
    settings: dict[str, Any], divisor: float, implementation: Any
) -> None:
    module = make(n_heads=4, **settings)
    set_attention(module, implementation)
    assert module.divisor == pytest.approx(divisor, rel=1e-15)
    x = seeded(1, 4, D)
    assert share(module(x), by_separate_heads(module, x, x)) <= FLOAT64_SHARE


def test_dividing_queries_is_dividing_scores() -> None:
    scaled, plain = make(n_heads=4), make(n_heads=4, divisor="none")
    plain.to_queries.weight.data /= math.sqrt(3)
    x = seeded(2, 4, D)
    assert share(plain(x), scaled(x)) <= FLOAT64_SHARE


def test_32_heads_run_as_easily_as_one() -> None:
    module = make(d_model=64, n_heads=32)
    x = seeded(1, 3, 64)
    got = module(x, causal=True)
    q, k, v = (split_heads(m(x), 32) for m in (module.to_queries, module.to_keys, module.to_values))
    visible = loop_visible((1, 32, 3, 3), causal=True)
    context = loop_attention(q, k, v, dot_score(math.sqrt(2)), visible).context
    assert module.to_output is not None
    assert share(got, module.to_output(join_heads(context))) <= FLOAT64_SHARE


def test_the_text_example_256_by_4_has_heads_of_64() -> None:
    module = MultiHeadAttention(256, AttentionConfig(n_heads=4))
    assert module.d_head == 64
    assert [p.shape for p in module.parameters()] == [(256, 256)] * 4


def test_join_heads_is_the_inverse_of_split_heads() -> None:
    x = torch.arange(24.0).view(1, 2, 12)
    heads = split_heads(x, 3)
    assert heads[0, 1, 0].tolist() == [4.0, 5.0, 6.0, 7.0]
    assert heads[0, 2, 1].tolist() == [20.0, 21.0, 22.0, 23.0]
    assert join_heads(heads).equal(x)


@both
def test_the_output_map_folds_into_the_value_maps(implementation: Any) -> None:
    """W_O · concat(heads) is a sum of heads with D-wide values W_O,h W_V,h."""
    module = make(n_heads=3)
    folded = make(n_heads=3, d_head=4, d_value=D, output_map=False)
    set_attention(folded, implementation)
    folded.to_queries, folded.to_keys = module.to_queries, module.to_keys
    assert module.to_output is not None
    for head in range(3):
        columns = module.to_output.weight[:, head * 4 : head * 4 + 4]
        product = columns @ rows_of_head(module.to_values.weight, head, 4)
        folded.to_values.weight.data[head * D : (head + 1) * D] = product
    x = seeded(2, 5, D)
    summed = folded(x).unflatten(-1, (3, D)).sum(dim=2)
    assert share(summed, module(x)) <= FLOAT64_SHARE


def test_additive_attention_equals_the_loop() -> None:
    module = make(n_heads=2, score="additive", n_kv_heads=1)
    x, mask = seeded(2, 4, D), seeded(2, 1, 4, 4, seed=5) > -0.5
    vector = module.score_vector
    assert vector is not None
    expected = loop_attention(
        split_heads(module.to_queries(x), 2),
        split_heads(module.to_keys(x), 1),
        split_heads(module.to_values(x), 1),
        lambda query, key, head: (vector[head] * torch.tanh(query + key)).sum(),
        loop_visible((2, 2, 4, 4), mask, causal=True),
    )
    with record_attention(module) as recorded:
        got = module(x, mask=mask, causal=True)
    assert module.to_output is not None
    assert share(got, module.to_output(join_heads(expected.context))) <= FLOAT64_SHARE
    assert share(recorded[""][0], expected.weights) <= FLOAT64_SHARE


@pytest.mark.parametrize("score", ["dot", "additive"])
@both
def test_gradients_equal_finite_differences(score: Any, implementation: Any) -> None:
    module = make(d_model=4, n_heads=2, score=score, bias=True)
    set_attention(module, implementation)
    x, source = seeded(1, 3, 4).requires_grad_(), seeded(1, 2, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(module, (x, source), fast_mode=True)


# Initialisation


@pytest.mark.parametrize(
    ("scheme", "deviation"),
    [
        ("normal", 0.02),
        ("xavier", math.sqrt(2 / (400 + 200))),
        ("kaiming", math.sqrt(2 / 400)),
    ],
)
def test_initial_matrices_have_the_deviation_of_their_scheme(
    scheme: Initialisation, deviation: float
) -> None:
    torch.manual_seed(0)
    config = AttentionConfig(n_heads=2, d_head=100, bias=True, output_bias=True)
    module = MultiHeadAttention(400, config)
    initialise(module, scheme)
    for map_ in (module.to_queries, module.to_keys, module.to_values):
        # The deviation of 80,000 draws has a standard error of 0.25 %; 1 % is four of those.
        weight = map_.weight.detach()
        assert float(weight.std()) == pytest.approx(deviation, rel=0.01)
        assert abs(float(weight.mean())) < 4 * deviation / math.sqrt(80_000)
        assert map_.bias.eq(0).all()


def test_xavier_is_uniform_and_the_others_are_normal() -> None:
    torch.manual_seed(0)
    for scheme, kurtosis in (("normal", 3.0), ("xavier", 1.8), ("kaiming", 3.0)):
        linear = nn.Linear(400, 200)
        initialise(linear, scheme)  # type: ignore[arg-type]
        standard = linear.weight.detach() / linear.weight.detach().std()
        assert float(standard.pow(4).mean()) == pytest.approx(kurtosis, rel=0.05)


# Recording and switching


@both
@pytest.mark.parametrize("settings", [{}, {"n_kv_heads": 2}, {"score": "additive"}], ids=str)
def test_recorded_weights_are_rows_that_sum_to_one(
    settings: dict[str, Any], implementation: Any
) -> None:
    module = make(n_heads=4, **settings)
    set_attention(module, implementation)
    x, source = seeded(2, 3, D), seeded(2, 5, D, seed=1)
    plain = module(x, source)
    with record_attention(module) as recorded:
        observed = module(x, source)
    (weights,) = recorded[""]
    assert weights.shape == (2, 4, 3, 5)
    assert not weights.requires_grad
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 3, dtype=torch.float64))
    assert observed.equal(plain)


def test_recording_stops_after_its_block_and_after_an_error() -> None:
    module = make(n_heads=2)
    with pytest.raises(RuntimeError, match="stop"), record_attention(module) as recorded:
        raise RuntimeError("stop")
    module(seeded(1, 2, D))
    assert not recorded and not module._forward_hooks


def test_recordings_may_be_nested() -> None:
    module, x = make(n_heads=2), seeded(1, 2, D)
    with record_attention(module) as outer:
        module(x)
        with record_attention(module) as inner:
            module(x)
        module(x)
    assert (len(outer[""]), len(inner[""])) == (3, 1)


def test_recording_names_every_attention_and_every_call() -> None:
    modules = nn.ModuleDict({"first": make(n_heads=2), "second": make(n_heads=3)})
    x = seeded(1, 2, D)
    with record_attention(modules) as recorded:
        modules["second"](modules["first"](x))
        modules["second"](x)
    assert {name: len(calls) for name, calls in recorded.items()} == {"first": 1, "second": 2}


def test_set_attention_switches_every_attention_and_returns_the_module() -> None:
    modules = nn.ModuleList([make(n_heads=2), nn.Sequential(make(n_heads=3))])
    assert set_attention(modules, "written") is modules
    inside = [m for m in modules.modules() if isinstance(m, MultiHeadAttention)]
    assert [m.implementation for m in inside] == ["written", "written"]


def test_written_and_fused_have_the_same_dropout_rate() -> None:
    module = MultiHeadAttention(D, AttentionConfig(n_heads=2, dropout=0.5, output_map=False))
    nn.init.zeros_(module.to_queries.weight)
    module.to_values.weight.data.copy_(torch.eye(D))
    x = torch.ones(1, 4000, D)
    for implementation in ("written", "fused"):
        set_attention(module, implementation)
        torch.manual_seed(0)
        # Each output is the sum of 4000 equal weights of which half survive, doubled.
        assert float(module(x[:, :200], x).detach().mean()) == pytest.approx(1.0, abs=0.01)


def test_self_attention_is_cross_attention_with_itself() -> None:
    module, x = make(n_heads=3), seeded(2, 4, D)
    assert module(x).equal(module(x, x))
    assert share(module(x, mask=causal_mask(4)), module(x, causal=True)) <= FLOAT64_SHARE
