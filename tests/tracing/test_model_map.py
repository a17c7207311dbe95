"""The shape of a model, found in its trace: towers, blocks and parts, or a graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.errors import TraceError
from glassformer.tracing import trace
from glassformer.tracing.model_map import (
    MOST_FLOW_NODES,
    MapTower,
    edges_between,
    find_map,
    forward_steps,
    mean_weights,
    stream_stripes,
)
from tests.tracing.mapped_models import NAMES, newly_traced, traced

PRE = ["norm", "attention", "norm", "feed_forward"]
POST = ["attention", "norm", "feed_forward", "norm"]
TOWERS: dict[str, list[tuple[str, int, list[str]]]] = {
    "ours: classifier": [("encoder", 1, ["attention", "feed_forward"])],
    "ours: translator": [
        ("encoder", 3, PRE),
        ("decoder", 3, ["norm", "attention", "norm", "cross", "norm", "feed_forward"]),
    ],
    "torch.nn.Transformer": [
        ("encoder", 2, POST),
        ("decoder", 2, ["attention", "norm", "cross", "norm", "feed_forward", "norm"]),
    ],
    "gpt2": [("decoder", 2, PRE)],
    "bert": [("encoder", 2, POST)],
    "t5": [
        ("encoder", 2, PRE),
        ("decoder", 2, ["norm", "attention", "norm", "cross", "norm", "feed_forward"]),
    ],
    "llama": [("decoder", 2, PRE)],
    "vit": [("encoder", 2, PRE)],
    "mixtral": [("decoder", 2, ["norm", "attention", "norm", "experts"])],
    "mamba": [("stack", 2, ["norm", "mixer"])],
    "U-Net": [],
    "LSTM": [],
    "a user's own": [],
}


@pytest.mark.parametrize("name", NAMES)
def test_towers_blocks_and_parts(name: str) -> None:
    found = find_map(traced(name))
    shape = [
        (tower.kind, len(tower.blocks), [part.kind for part in tower.blocks[-1].parts])
        for tower in found.towers
    ]
    assert shape == TOWERS[name]
    assert (found.flow is None) == bool(found.towers)
    for tower in found.towers:
        kinds = {tuple(part.kind for part in block.parts) for block in tower.blocks}
        assert len(kinds) == 1  # the blocks of a tower are alike


@pytest.mark.parametrize("name", [name for name, towers in TOWERS.items() if towers])
def test_each_step_that_a_reader_sees_is_in_one_part_or_is_the_stream(name: str) -> None:
    run = traced(name)
    towers = find_map(run).towers
    parts = [part for tower in towers for part in tower.parts]
    told = [step.number for part in parts for step in part.steps]
    told += [part.total.number for part in parts if part.total is not None]
    expected = [step.number for step in forward_steps(run) if step.is_main and step.call]
    assert sorted(told) == sorted(set(told) | set(expected))
    assert not set(expected) - set(told)


@pytest.mark.parametrize("name", ["ours: translator", "torch.nn.Transformer", "t5"])
def test_cross_attention_reads_the_encoder_whose_last_norm_is_not_the_decoders(name: str) -> None:
    encoder, decoder = find_map(traced(name)).towers
    assert (encoder.memory, decoder.memory) == (None, 0)
    assert not any("decoder" in step.module for part in encoder.parts for step in part.steps)
    assert not any("encoder." in step.module for part in decoder.parts for step in part.steps)


def test_tokens_have_their_texts_or_their_numbers() -> None:
    assert find_map(traced("ours: classifier")).towers[0].tokens == ["I", "am", "not", "happy"]
    assert find_map(traced("gpt2")).towers[0].tokens == [str(place) for place in range(7)]


def test_tokens_may_be_the_first_axis() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16)  # (tokens, batch, features)
    run = trace(
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), torch.randn(5, 3, 8)
    )
    (tower,) = find_map(run).towers
    assert (tower.axis, tower.n_tokens) == (-3, 5)
    stripes = stream_stripes(tower, tower.start, most=4, n_stripes=8)
    assert np.array_equal(stripes, tower.start.value[:4, 0].numpy())


def _tower(name: str) -> MapTower:
    return find_map(traced(name)).towers[0]


def test_stripes_are_the_largest_number_of_each_group_of_features() -> None:
    tower = _tower("ours: translator")
    values = tower.start.value[0].numpy()
    stripes = stream_stripes(tower, tower.start, most=3, n_stripes=10)
    assert stripes.shape == (3, 10)
    for token in range(3):
        for stripe in range(10):
            low, high = stripe * 192 // 10, (stripe + 1) * 192 // 10
            assert stripes[token, stripe] == max(values[token, low:high], key=abs)


def test_short_vectors_are_shown_whole() -> None:
    tower = _tower("ours: classifier")
    stripes = stream_stripes(tower, tower.start, most=48, n_stripes=16)
    assert np.array_equal(stripes, tower.start.value[0].numpy())


@pytest.mark.parametrize(("name", "heads"), [("llama", 2), ("torch.nn.Transformer", 4)])
def test_weights_are_the_mean_over_the_heads_of_the_first_sequence(name: str, heads: int) -> None:
    tower = _tower(name)
    part = next(part for part in tower.parts if part.attention is not None)
    assert part.attention is not None
    weights = part.attention.weights
    mean, found = mean_weights(tower, weights, most=5)
    first = weights.value.double().reshape(2, heads, *weights.shape[-2:])[0]
    assert found == heads
    np.testing.assert_allclose(mean, first.mean(0)[:5, :5].numpy(), rtol=1e-12)


# --- graphs ---


def test_the_skip_connections_of_a_u_net() -> None:
    flow = find_map(traced("U-Net")).flow
    assert flow is not None
    names = [node.path for node in flow.nodes]
    edges = {(names[low], names[high]) for low, high in flow.edges}
    assert {("first", "cat.2"), ("second", "cat"), ("grow", "cat"), ("image", "down1")} <= edges
    assert ("first", "cat") not in edges


def test_the_turns_of_a_loop_are_opened_together_or_not_at_all() -> None:
    flow = find_map(traced("LSTM")).flow
    assert flow is not None
    turns = [node.path for node in flow.nodes if node.is_group]
    assert turns == [f"layer{layer}.t{turn}" for layer in range(2) for turn in range(5)]
    edges = {(flow.nodes[low].path, flow.nodes[high].path) for low, high in flow.edges}
    assert ("layer0.t3", "layer0.t4") in edges
    assert ("layer0.t3", "layer0.t1") not in edges


def test_a_closed_trace_has_no_map() -> None:
    run = newly_traced("U-Net")
    run.close()
    with pytest.raises(TraceError, match="this trace was closed"):
        find_map(run)


@pytest.mark.parametrize("name", ["U-Net", "LSTM", "a user's own"])
def test_a_graph_has_all_steps_no_cycle_and_a_readable_size(name: str) -> None:
    run = traced(name)
    flow = find_map(run).flow
    assert flow is not None
    assert len(flow.nodes) <= MOST_FLOW_NODES + len(run.inputs)
    assert all(low < high for low, high in flow.edges)
    told = [step.number for node in flow.nodes for step in node.steps if step.call]
    assert sorted(told) == [s.number for s in forward_steps(run) if s.is_main and s.call]


def test_edges_go_through_steps_that_are_not_shown() -> None:
    run = traced("ours: classifier")
    pooled, logits = run["pooled"], run["logits"]
    totals = run["totals"]
    assert edges_between([[totals], [pooled], [logits]]) == [(0, 1), (1, 2)]
    assert edges_between([[totals], [logits]]) == [(0, 1)]  # through `pooled`
