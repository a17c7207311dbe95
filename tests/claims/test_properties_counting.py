"""B07, B08, B11: formulas for parameters and multiply-adds against modules and a counter."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from glassformer.claims import costs
from glassformer.claims.bloem import SelfAttention
from glassformer.claims.costs import (
    Timing,
    attention_cost,
    attention_parameters,
    growth,
    time_calls,
)
from glassformer.claims.properties import LayerKind, layer_cost, make_layer, path_length
from glassformer.nn import (
    AttentionConfig,
    Block,
    MultiHeadAttention,
    count_parameters,
    set_attention,
)
from glassformer.nn.presets import bloem_2024

K = 256


def parameters_by_part(module: nn.Module) -> dict[str, int]:
    """Parameters counted in a module: its own by name, and those of each part that has any."""
    own = {name: p.numel() for name, p in module.named_parameters(recurse=False)}
    parts = {name: count_parameters(part) for name, part in module.named_children()}
    return {name: count for name, count in (parts | own).items() if count}


def counted_multiply_adds(module: nn.Module, n_positions: int, d_model: int) -> int:
    """PyTorch's own counter, independent of our formulas."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        set_attention(module, "written")(torch.zeros(1, n_positions, d_model))
    return int(counter.get_total_flops()) // 2


@pytest.mark.parametrize("n_heads", [1, 4, 32])
def test_heads_of_256_have_196608_parameters_and_the_output_map_65536(n_heads: int) -> None:
    counts = attention_parameters(K, AttentionConfig(n_heads=n_heads))
    assert counts.pop("to_output") == K**2 == 65_536
    assert sum(counts.values()) == 3 * n_heads * K * (K // n_heads) == 196_608


def test_the_blogs_attention_adds_the_bias_of_unifyheads() -> None:
    assert count_parameters(SelfAttention(K, heads=4)) == 196_608 + 65_536 + K


def test_wide_heads_have_as_many_parameters_each() -> None:
    counts = attention_parameters(K, AttentionConfig(n_heads=4, d_head=K))
    assert counts["to_queries"] == 4 * K**2
    assert counts["to_output"] == 4 * K**2


@pytest.mark.parametrize("k", [32, 128])
def test_block_of_the_text_has_12_k_squared_plus_10_k(k: int) -> None:
    assert count_parameters(Block(bloem_2024(d_model=k))) == 12 * k**2 + 10 * k


@given(
    n_heads=st.sampled_from([1, 2, 4]),
    d_head=st.sampled_from([None, 3, 8]),
    d_value=st.sampled_from([None, 5]),
    shared=st.booleans(),
    score=st.sampled_from(["dot", "additive"]),
    bias=st.booleans(),
    output_map=st.booleans(),
    output_bias=st.booleans(),
)
@settings(max_examples=60)
def test_attention_formula_agrees_with_the_module(
    n_heads: int, shared: bool, **settings: Any
) -> None:
    config = AttentionConfig(n_heads=n_heads, n_kv_heads=1 if shared else None, **settings)
    assert attention_parameters(8, config) == parameters_by_part(MultiHeadAttention(8, config))


@pytest.mark.parametrize("n_positions", [1, 7])
@pytest.mark.parametrize(
    "config",
    [
        AttentionConfig(n_heads=1),
        AttentionConfig(n_heads=4),
        AttentionConfig(n_heads=4, d_head=16),
        AttentionConfig(n_heads=4, d_value=3, n_kv_heads=2),
        AttentionConfig(n_heads=2, output_map=False),
    ],
)
def test_attention_cost_agrees_with_the_flop_counter(
    config: AttentionConfig, n_positions: int
) -> None:
    cost = attention_cost(n_positions, 16, config)
    counted = counted_multiply_adds(MultiHeadAttention(16, config), n_positions, 16)
    assert cost.multiply_adds == counted


@pytest.mark.parametrize("n_heads", [2, 4, 8])
def test_wide_heads_cost_h_times_one_and_narrow_ones_the_same(n_heads: int) -> None:
    one = attention_cost(50, K, AttentionConfig(n_heads=1))
    wide = attention_cost(50, K, AttentionConfig(n_heads=n_heads, d_head=K))
    narrow = attention_cost(50, K, AttentionConfig(n_heads=n_heads))
    assert wide.multiply_adds == n_heads * one.multiply_adds
    assert narrow.multiply_adds == one.multiply_adds


KINDS: tuple[LayerKind, ...] = ("dense", "convolution", "recurrence", "attention")


@pytest.mark.parametrize("kind", KINDS)
def test_layer_costs_agree_with_layer_and_flop_counter(kind: LayerKind) -> None:
    cost = layer_cost(kind, n_positions=6, d_model=8, kernel_size=3)
    layer = make_layer(kind, 6, 8, kernel_size=3)
    assert cost.parameters == count_parameters(layer)
    assert cost.multiply_adds == counted_multiply_adds(layer, 6, 8)


def test_attention_has_fewer_parameters_than_a_dense_layer_but_reads_every_input() -> None:
    """One text says that attention computes less because it reads few inputs: it reads all.

    It is cheaper than a dense layer because all pairs share three maps. Against a convolution or a
    recurrence it costs more once there are more positions than dimensions.
    """
    cost = {kind: layer_cost(kind, n_positions=1024, d_model=64) for kind in KINDS}
    assert cost["attention"].multiply_adds < cost["dense"].multiply_adds / 10
    assert cost["attention"].multiply_adds > 10 * cost["convolution"].multiply_adds
    assert cost["attention"].multiply_adds > 10 * cost["recurrence"].multiply_adds
    assert {kind: path_length(kind, 1023) for kind in KINDS} == {
        "dense": 1,
        "convolution": 1023,
        "recurrence": 1023,
        "attention": 1,
    }
    assert {kind: c.sequential_steps for kind, c in cost.items()} == {
        "dense": 1,
        "convolution": 1,
        "recurrence": 1024,
        "attention": 1,
    }


def test_short_calls_are_timed_in_loops_that_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that calls move: "a" takes 50 ms, "b" 1 s."""
    now, calls = 0.0, ""

    def call(name: str, seconds: float) -> None:
        nonlocal now, calls
        now, calls = now + seconds, calls + name

    monkeypatch.setattr(costs, "_clock", lambda: now)
    timings = time_calls([lambda: call("a", 0.05), lambda: call("b", 1.0)], repeats=3)
    warm_up = "a" + "aa" + "aaaaa" + "b"  # 1, 2, 5, … calls, until a loop takes 0.2 s
    assert calls == warm_up + 3 * "aaaaab"
    assert [timing.best for timing in timings] == pytest.approx([0.05, 1.0])
    assert [timing.spread for timing in timings] == pytest.approx([0.0, 0.0])


def test_the_spread_of_a_timing_is_how_much_longer_its_median_took() -> None:
    assert Timing(best=2.0, typical=3.0).spread == pytest.approx(0.5)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_growth_is_the_exponent_of_the_length(power: float) -> None:
    seconds = {length: 3e-5 * length**power for length in (64, 256, 1024, 4096)}
    assert growth(seconds) == pytest.approx(power)
