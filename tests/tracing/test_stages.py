"""The stages of any Transformer, compared with the outputs that the models themselves report."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn import build, presets
from glassformer.tracing import Trace, trace
from tests.tracing.foreign_models import FAMILIES, torch_transformer


def traced_family(name: str, **options: Any) -> tuple[Trace, Any]:
    """A trace, and the outputs that the model itself reports."""
    torch.manual_seed(0)
    family = FAMILIES[name]
    model, inputs = family.make().eval(), family.inputs()
    with torch.no_grad():
        said = model(**inputs, **options)
    return trace(model, **inputs), said


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("llama", "model.layers"),
        ("gpt2", "transformer.h"),
        ("bert", "bert.encoder.layer"),
        ("gptj", "transformer.h"),
        ("mixtral", "model.layers"),
        ("vit", "vit.layers"),
    ],
)
def test_the_input_of_a_block_is_the_models_hidden_state(name: str, block: str) -> None:
    traced, said = traced_family(name, output_hidden_states=True)
    first, second = (traced[f"{block}.{number}.resid_pre"] for number in (0, 1))
    torch.testing.assert_close(second.value, said.hidden_states[1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(first.value, said.hidden_states[0], rtol=1e-5, atol=1e-6)
    if name != "bert":  # where a norm follows the addition
        assert traced[f"{block}.0.resid_post"] is second
    if name != "gptj":  # attention and feed-forward side by side
        assert traced[f"{block}.0.resid_mid"].stage == "resid_mid"


def test_parallel_attention_and_feed_forward_are_parts_of_the_stream() -> None:
    traced, _ = traced_family("gptj")
    stream, attention, feed_forward, total = (
        traced[f"transformer.h.0.{stage}"].value
        for stage in ("resid_pre", "attn_out", "mlp_out", "resid_post")
    )
    assert torch.equal(attention + feed_forward + stream, total)
    assert traced["transformer.h.0.mlp_out"].module.startswith("transformer.h.0.mlp")


def test_attention_by_its_structure() -> None:
    """GPT-J has written-out attention with its own names."""
    traced, said = traced_family("gptj", output_attentions=True)
    place = "transformer.h.1.attn"
    torch.testing.assert_close(traced[f"{place}.weights"].value, said.attentions[1])
    queries, keys = traced[f"{place}.queries"], traced[f"{place}.keys"]
    assert (queries.name, queries.stage) == (f"{place}.query.2", "queries")
    assert keys.name == f"{place}.key.2"
    context = traced[f"{place}.weights"].value @ traced[f"{place}.values"].value.view(
        2, 7, 2, 8
    ).transpose(1, 2)
    torch.testing.assert_close(traced[f"{place}.context"].value, context)


def test_rotary_positions_in_their_pieces() -> None:
    traced, _ = traced_family("llama")
    place = "model.layers.0.self_attn"
    for side in ("queries", "keys"):
        parts = [traced[f"{place}.{side}_{part}"].value for part in ("cosine_part", "sine_part")]
        torch.testing.assert_close(traced[f"{place}.{side}_rotated"].value, sum(parts))
        turned = traced[f"{place}.{side}_turned"]
        assert turned.stage == f"{side}_turned"
        second, first = turned.value.chunk(2, -1)
        before = torch.cat([first, -second], -1)
        projected = traced[f"{place}.{'query' if side == 'queries' else 'key'}_states"].value
        torch.testing.assert_close(before, projected.view(2, 7, -1, 8).transpose(1, 2))


def test_cross_attention_and_packed_projections() -> None:
    torch.manual_seed(0)
    model, inputs = torch_transformer()
    traced = trace(model.eval(), **inputs)
    stages = [name for name in traced.stages if name.startswith("decoder.layers.0.")]
    block = [name.rpartition(".")[2] for name in stages if name.count(".") == 3]
    assert block == [
        "resid_pre", "attn_out", "resid_mid", "cross_out", "resid_cross", "mlp_out", "resid_post",
    ]  # fmt: skip
    assert traced["decoder.layers.0.resid_pre"] is traced["tgt"]
    attention = "encoder.layers.0.self_attn"
    queries, keys = traced[f"{attention}.queries"], traced[f"{attention}.keys"]
    assert queries.shape == keys.shape == (2, 4, 9, 8)
    scores = queries.value @ keys.value.mT
    torch.testing.assert_close(traced[f"{attention}.scores"].value, scores)
    assert not torch.equal(queries.value, keys.value)
    # A part of a packed projection leads to the step that made it.
    assert queries[0, 1, 2, 3].step is traced[f"{attention}.contiguous"]
    assert queries.stage == "queries"
    assert queries.labels == (None, None, None, None)


@pytest.mark.parametrize("preset", ["gpt2", "llama", "vaswani_2017_base"])
def test_our_own_models_have_the_same_stages(preset: str) -> None:
    sizes = {"vocab_size": 9, "d_model": 8, "n_heads": 2, "n_layers": 2, "max_len": 6}
    model = build(getattr(presets, preset)(**sizes))
    ids = torch.tensor([[1, 2, 3]])
    pair = preset == "vaswani_2017_base"
    traced = trace(model, ids, ids) if pair else trace(model, ids)
    found = {name.rpartition(".")[2] for name in traced.stages}
    assert {"queries", "keys", "values", "scores", "weights", "context"} <= found
    assert {"resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post"} <= found
    assert ("resid_cross" in found) == pair
    assert all(step.stage is not None for step in traced.stages.values())


class Perceptrons(nn.Module):
    """Residual, but not a Transformer; its loop runs over layers, not positions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        probabilities = x.softmax(-1)
        return F.gelu(probabilities, approximate="tanh") + x


def test_no_attention_is_seen_where_there_is_none() -> None:
    traced = trace(Perceptrons(), torch.randn(2, 4))
    assert traced.stages == {}
    assert all(step.stage is None for step in traced.steps)
    assert traced["probabilities"][0, 0].to_dict()["stage"] is None
    assert "resid_mid" not in traced


WIDE, TALL, ROWS = torch.randn(4, 5), torch.randn(5, 4), torch.randn(3, 4)


class WithASoftmax(nn.Module):
    """Two matrices, two projections, a learned query, and a forward pass of our choice."""

    def __init__(self, run: Callable[["WithASoftmax", Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(WIDE.clone()), nn.Parameter(TALL.clone())
        self.query = nn.Parameter(torch.randn(2, 4))
        self.vector = nn.Parameter(torch.randn(4))
        self.project, self.memory = nn.Linear(4, 4), nn.Parameter(torch.randn(5, 4))
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def experts_of(m: WithASoftmax, x: Tensor) -> Tensor:
    return torch.stack([expert(x) for expert in m.experts], dim=1)


NO_ATTENTION: dict[str, Callable[[WithASoftmax, Tensor], Tensor]] = {
    "two parameters": lambda m, x: (x @ m.first).softmax(-1) @ m.second,
    "copied": lambda m, x: (x @ m.first.mT.contiguous().mT.clone()).softmax(-1) @ m.second,
    "scaled": lambda m, x: (x @ (m.first * 0.5)).softmax(-1) @ (m.second + 1),
    "normalised": lambda m, x: (x @ F.normalize(m.first, dim=0)).softmax(-1) @ m.second,
    "linear": lambda m, x: F.linear(F.linear(x, m.first.T).softmax(-1), m.second.T),
    "constants": lambda m, x: (x @ WIDE).softmax(-1) @ TALL,
    "a router": lambda m, x: torch.einsum(
        "te,ted->td", (x @ m.first).softmax(-1), experts_of(m, x)
    ),
    "no values": lambda m, x: (m.project(x) @ x.T).softmax(-1) @ torch.ones(3, 3),
    "softmax over the queries": lambda m, x: (m.project(x) @ x.T).softmax(0) @ x,
    "sum over the queries": lambda m, x: (m.project(x) @ x.T).softmax(-1).T @ x,
}
ATTENTION: dict[str, Callable[[WithASoftmax, Tensor], Tensor]] = {
    "plain": lambda m, x: (m.project(x) @ x.T).softmax(-1) @ x,
    "in columns": lambda m, x: (x @ m.project(x).T).softmax(0).T @ x,
    "einsum": lambda m, x: torch.einsum(
        "jd,ij->id", x, torch.einsum("jd,id->ij", x, m.project(x)).softmax(-1)
    ),
    "learned queries": lambda m, x: (m.query @ x.T).softmax(-1) @ x,
    "one learned query": lambda m, x: (x @ m.vector).softmax(-1) @ x,
    "learned memory": lambda m, x: (x @ m.project(m.memory).T).softmax(-1) @ (m.memory * 2),
}


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_a_softmax_between_two_products_need_not_be_attention(name: str) -> None:
    traced = trace(WithASoftmax(NO_ATTENTION[name]), ROWS)
    assert not {"queries", "keys", "scores", "weights"} & traced.stages.keys()


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_however_it_is_written(name: str) -> None:
    """Its stages reproduce it: softmax(queries · keysᵀ) · values."""
    traced = trace(WithASoftmax(ATTENTION[name]), ROWS)
    queries, keys, values = (traced[stage].value for stage in ("queries", "keys", "values"))
    positions = values.shape[0]
    assert keys.shape[0] == positions
    scores = queries @ keys.T
    torch.testing.assert_close(traced["context"].value, scores.softmax(-1) @ values)


def test_a_function_of_matrices_is_attention_if_it_reads_keys_by_rows() -> None:
    def layer(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return (x @ first).softmax(-1) @ second

    assert trace(layer, ROWS, WIDE, TALL).stages == {}
    assert "keys" in trace(lambda q, k, v: (q @ k.T).softmax(-1) @ v, ROWS, TALL, TALL).stages


@pytest.mark.parametrize("preset", ["gpt2", "llama", "vaswani_2017_base"])
def test_a_stage_and_a_step_of_one_name_are_one(preset: str) -> None:
    sizes = {"vocab_size": 9, "d_model": 8, "n_heads": 2, "n_layers": 1, "max_len": 6}
    model, ids = build(getattr(presets, preset)(**sizes)), torch.tensor([[1, 2, 3]])
    traced = trace(model, ids, ids) if preset == "vaswani_2017_base" else trace(model, ids)
    assert all(traced[name] is step for name, step in traced.stages.items())
    values = traced[
        f"{'encoder' if preset.startswith('v') else 'decoder'}.blocks.0.attention.values"
    ]
    assert (values.shape, values.stage) == ((1, 2, 3, 4), "values")


class Scan(nn.Module):
    """A recurrence in Python, run twice."""

    def scan(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[:, 0])
        for time in range(x.size(1)):
            faded = state * 0.5
            state = faded + x[:, time]
        return state

    def forward(self, x: Tensor) -> Tensor:
        once = self.scan(x)
        return once + self.scan(x * 2)


def test_turns_of_a_loop_over_positions() -> None:
    x = torch.arange(6.0).reshape(1, 3, 2)
    traced = trace(Scan(), x)
    assert traced["t2.state"].value.tolist() == [[5.0, 6.75]]
    assert traced["t1.faded"].stage == "t1.faded"
    assert traced["t2.state.2"].value.tolist() == [[10.0, 13.5]]
    rwkv, said = traced_family("rwkv", output_hidden_states=True)
    for number in (0, 1):  # RWKV's are those that leave its blocks
        left = rwkv[f"rwkv.blocks.{number}.resid_post"].value
        torch.testing.assert_close(left, said.hidden_states[number], rtol=1e-5, atol=1e-6)
    place = "rwkv.blocks.1.attention.t3"
    ratio = rwkv[f"{place}.numerator"].value / rwkv[f"{place}.denominator"].value
    torch.testing.assert_close(rwkv[f"{place}.div"].value, ratio)


class Layout(nn.Module):
    """One self-attention with the axes of its scores in a given order."""

    def __init__(self, order: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.queries, self.keys, self.values = (nn.Linear(8, 8) for _ in range(3))
        self.out = nn.Linear(8, 8)
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (2, 4)) for part in (self.queries, self.keys, self.values))
        if self.order == "heads first":
            q, k, v = (part.permute(2, 0, 1, 3) for part in (q, k, v))
            found = (q @ k.mT / 2).softmax(-1) @ v
            joined = found.permute(1, 2, 0, 3).flatten(2)
        elif self.order == "transposed":
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))
            found = (k @ q.mT / 2).softmax(-2).mT @ v
            joined = found.transpose(1, 2).flatten(2)
        else:
            scaled = torch.einsum(f"bqhd,bkhd->{self.order}", q, k) / 2
            weighted = scaled.softmax(self.order.index("k"))
            joined = torch.einsum(f"{self.order},bkhd->bqhd", weighted, v).flatten(2)
        added: Tensor = x + self.out(joined)
        return added


def layouts() -> list[str]:
    return ["bhqk", "bqhk", "bqkh", "bhkq", "hbqk", "heads first", "transposed"]


@pytest.mark.parametrize("order", layouts())
def test_the_axes_of_a_stage_are_heads_queries_and_keys_in_any_model(order: str) -> None:
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1))
    traced = trace(Layout(order).eval(), x)
    usual = trace(Layout("bhqk").eval(), x)
    for stage in ("scores", "scaled", "weights"):
        torch.testing.assert_close(traced.stages[stage].value, usual[stage].value)
    context = usual["weights"].value @ usual["values"].value.unflatten(-1, (2, 4)).transpose(1, 2)
    torch.testing.assert_close(traced.stages["context"].value, context)
    assert traced.stages["attn_out"].name == "out"
    if order == "heads first":
        assert traced["softmax"].labels[1] is None  # the rows of the batch
    edited = traced.edit({traced.stages["weights"][0, 1, 2, 0]: 0.5})
    assert edited.stages["weights"][0, 1, 2, 0].value == 0.5
    assert edited.verify().ok


def test_a_product_that_mixes_heads_is_not_one_of_queries_and_keys() -> None:
    mix = nn.Parameter(torch.randn(2, 2))

    def talking(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT
        mixed = torch.einsum("bhqk,hg->bgqk", scores / 2, mix)
        return mixed.softmax(-1) @ v

    traced = trace(talking, *(torch.randn(1, 2, 3, 4) for _ in range(3)))
    found = {stage: step.name for stage, step in traced.found_stages.attentions[0].stages.items()}
    assert (found["queries"], found["keys"], found["scores"]) == ("q", "k", "scores")


def test_a_block_of_attention_alone_has_an_end() -> None:
    layers = nn.Sequential(Layout("bhqk"), Layout("bhqk")).eval()
    traced = trace(layers, torch.randn(1, 3, 8))
    assert {"0.resid_pre", "0.attn_out", "0.resid_post", "1.resid_post"} <= traced.stages.keys()
    assert traced.stages["1.resid_post"] is traced.outputs["output"]


class Returned(nn.Module):
    """A block that returns its sums, in one of several ways of writing them."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.mix, self.way = Layout("bhqk"), way
        self.widen, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def attend(self, x: Tensor) -> Tensor:
        attended: Tensor = self.mix(x) - x
        return attended

    def feed(self, x: Tensor) -> Tensor:
        fed: Tensor = self.widen(x)
        return fed

    def forward(self, x: Tensor) -> Tensor:
        read = self.norm(x)
        if self.way == "parallel":
            return x + self.attend(read) + self.feed(read)
        if self.way == "scaled":
            x = 0.7 * x + self.attend(read)
            return 0.5 * x + self.feed(x)
        x = x + self.attend(read)
        return x + self.feed(x)


@pytest.mark.parametrize("way", ["plain", "parallel", "scaled"])
def test_a_block_begins_and_ends_with_its_module(way: str) -> None:
    model = nn.Sequential(Returned(way), Returned(way), nn.Linear(8, 8)).eval()
    x = torch.randn(1, 3, 8)
    traced = trace(model, x)
    with torch.no_grad():
        first = model[0](x)
        second = model[1](first)
    for name, expected in {"0.resid_post": first, "1.resid_post": second}.items():
        torch.testing.assert_close(traced.stages[name].value, expected)
    torch.testing.assert_close(traced.stages["0.resid_pre"].value, x)
    assert traced.stages["1.resid_pre"] is traced.stages["0.resid_post"]


def scan(x: Tensor) -> Tensor:
    state = torch.zeros_like(x[:, 0])
    given = F.linear(x, torch.eye(8))
    for row in range(x.size(1)):
        state = F.linear(state, torch.eye(8) / 2) + given[:, row]
    return state


@pytest.mark.parametrize("model", [nn.LSTM(8, 8, 2, batch_first=True), nn.GRUCell(8, 8), scan])
def test_a_recurrence_is_no_residual_stream(model: Any) -> None:
    x = torch.randn(3, 8) if isinstance(model, nn.GRUCell) else torch.randn(1, 3, 8)
    traced = trace(model, x)
    assert not [name for name in traced.stages if "resid" in name]
