"""Parts switched off and taken from other runs, against forward hooks on the plain model."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import TraceError, UnknownNameError
from glassformer.experiments import (
    ablate,
    contributions,
    head_scores,
    logit_lens,
    patch,
    sweep,
    words,
)
from glassformer.experiments.intervention import StepPart
from glassformer.nn import build
from glassformer.tracing import Cell, Trace, trace
from tests.experiments.conftest import IDS, OTHER, made
from tests.tracing.test_stages import Layout, Returned, layouts


def hooked(
    model: Any, module: nn.Module, change: Callable[[Tensor], Tensor], ids: Tensor
) -> Tensor:
    """The logits with a module's first output changed."""

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (change(output[0]), *output[1:])
        return change(output)

    handle = module.register_forward_hook(hook)
    try:
        with torch.no_grad():
            logits: Tensor = model(ids).logits
        return logits
    finally:
        handle.remove()


def logits_of(run: Trace) -> Tensor:
    return run["logits"].value


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layer", [0, 2])
def test_a_head_without_its_context(layer: int) -> None:
    model = made("gpt2")
    attention = model.transformer.h[layer].attn

    def without_head(x: Tensor) -> Tensor:
        return torch.cat([x[..., :4], torch.zeros_like(x[..., 4:])], -1)

    handle = attention.c_proj.register_forward_pre_hook(lambda _, args: (without_head(args[0]),))
    with torch.no_grad():
        wanted = model(IDS).logits
    handle.remove()
    run = ablate(trace(model, IDS), f"transformer.h.{layer}.attn", head=1)
    assert_close(logits_of(run), wanted)


def test_a_position_a_neuron_and_a_whole_layer() -> None:
    model = made("gpt2")
    block = model.transformer.h[1]
    run = trace(model, IDS)

    def position(x: Tensor) -> Tensor:
        return torch.cat([x[:, :2], torch.zeros_like(x[:, 2:3]), x[:, 3:]], 1)

    found = ablate(run, "transformer.h.1.resid_post", position=2)
    assert_close(logits_of(found), hooked(model, block, position, IDS))

    def neuron(x: Tensor) -> Tensor:
        return torch.where(torch.arange(x.shape[-1]) == 5, 7.0, x)

    found = ablate(run, "transformer.h.1.mlp.act", neuron=5, to=7.0)
    assert_close(logits_of(found), hooked(model, block.mlp.act, neuron, IDS))
    skipped = ablate(run, "transformer.h.1")  # what the layer adds to the stream is nothing
    with torch.no_grad():
        kept = [model.transformer.h[at] for at in (0, 2)]
        model.transformer.h = nn.ModuleList(kept)
        kept[1].attn.layer_idx = 1  # its place in the cache
        wanted = model(IDS).logits
    assert_close(logits_of(skipped), wanted)


def test_a_mean_over_runs_of_any_length() -> None:
    model = made("gpt2")
    runs = [trace(model, ids) for ids in (IDS, OTHER, torch.tensor([[3, 3, 1]]))]
    found = ablate(runs[0], "transformer.h.0.mlp_out", to="mean", over=runs)
    module = model.transformer.h[0].mlp
    outputs = []
    for ids in (IDS, OTHER, torch.tensor([[3, 3, 1]])):
        hooked(model, module, lambda x: outputs.append(x[0]) or x, ids)  # type: ignore[func-returns-value]
    mean = torch.cat(outputs).mean(0)  # each position counts as much
    assert_close(logits_of(found), hooked(model, module, lambda x: mean.expand_as(x), IDS))
    with pytest.raises(TraceError, match="from runs of a data set"):
        ablate(runs[0], "transformer.h.0.mlp_out", to="mean")
    with pytest.raises(TraceError, match="no mean"):
        ablate(runs[0], "transformer.h.0.attn.weights", to="mean", over=runs)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_the_stream_of_another_run(name: str) -> None:
    model = made(name)
    one, other = trace(model, IDS), trace(model, OTHER)
    layers = [stage for stage in one.stages if stage.endswith(".mlp_out")]
    block = layers[1].removesuffix(".mlp_out")
    module = model.get_submodule(f"{block}.output.dense" if name == "bert" else f"{block}.mlp")
    kept: list[Tensor] = []
    hooked(model, module, lambda x: kept.append(x) or x, OTHER)  # type: ignore[func-returns-value]

    def change(x: Tensor) -> Tensor:
        return torch.cat([x[:, :3], kept[0][:, 3:4], x[:, 4:]], 1)

    found = patch(one, other, layers[1], position=3)
    assert_close(logits_of(found), hooked(model, module, change, IDS))
    whole = patch(one, other, next(s for s in one.stages if s.endswith(".resid_pre")))
    assert_close(logits_of(whole), logits_of(other))


def test_a_sweep_is_its_patches_one_by_one() -> None:
    model = made("gpt2")
    one, other = trace(model, IDS), trace(model, OTHER)

    def measure(run: Trace) -> Cell:
        return run["logits"][0, -1, 5]

    said: list[int] = []
    found = sweep(one, other, measure=measure, progress=lambda done, _: said.append(done))
    assert said == list(range(1, 16))
    assert found.values.shape == (3, 5)
    for row, column in ((0, 1), (2, 3)):
        run = patch(one, other, found.layers[row], position=column)
        assert float(found.values[row, column]) == measure(run).value
        assert found.cell(row, column).value == measure(run).value
        assert found.cell(row, column).explain()
    # Where both texts have the same token so far, nothing is patched in before the first layer.
    assert found.effects[0, 0] == 0
    heads = sweep(one, over="head", measure=measure)
    assert heads.values.shape == (3, 2)
    without = ablate(one, "transformer.h.2.attn", head=1)
    assert float(heads.values[2, 1]) == measure(without).value
    assert len(heads.rows()) == 6


def test_what_is_not_there_is_named() -> None:
    run = trace(made("gpt2"), IDS)
    short = trace(made("gpt2"), IDS[:, :3])
    with pytest.raises(TraceError, match="has no head 5: it has 2, counted from 0"):
        ablate(run, "transformer.h.0.attn", head=5)
    with pytest.raises(TraceError, match="head is a whole number, counted from 0; got '0'"):
        ablate(run, "transformer.h.0.attn", head="0")
    with pytest.raises(TraceError, match="head names no place: give at least one"):
        ablate(run, "transformer.h.0.attn", head=[])
    with pytest.raises(TraceError, match="no axis of heads"):
        ablate(run, "transformer.h.0.mlp_out", head=0)
    with pytest.raises(TraceError, match="has no position 9: it has 5"):
        ablate(run, "transformer.h.0.resid_mid", position=9)
    with pytest.raises(UnknownNameError, match=r"transformer\.h\.0"):
        ablate(run, "transformer.h.0.atn")
    with pytest.raises(TraceError, match="patch one position, or take texts of the same number"):
        patch(run, short, "transformer.h.0.resid_mid")
    with pytest.raises(TraceError, match="several attentions: name one of"):
        ablate(run, "transformer", head=0)
    with pytest.raises(TraceError, match='to is "zero"'):
        ablate(run, "transformer.h.0.mlp_out", to="nought")
    with pytest.raises(UnknownNameError, match="unknown stage 'resid_q'; did you mean"):
        sweep(run, stage="resid_q", measure=lambda t: t["logits"][0, -1, 0])


@pytest.mark.parametrize("part", ["query", "key", "value"])
def test_a_head_before_the_heads_are_split(part: str) -> None:
    """BERT has queries, keys and values as (batch, position, heads * width)."""
    model = made("bert")
    name = "bert.encoder.layer.1.attention.self"
    stage = {"query": "queries", "key": "keys", "value": "values"}[part]
    module = model.get_submodule(f"{name}.{part}")
    run, other = trace(model, IDS), trace(model, OTHER)

    def without_head(x: Tensor) -> Tensor:
        return torch.cat([x[..., :4], torch.zeros_like(x[..., 4:])], -1)

    found = ablate(run, f"{name}.{stage}", head=1)
    assert_close(logits_of(found), hooked(model, module, without_head, IDS))
    theirs = other[f"{name}.{stage}"].value

    def patched(x: Tensor) -> Tensor:
        x = x.clone()
        x[:, 3, :4] = theirs[:, 3, :4]
        return x

    found = patch(run, other, f"{name}.{stage}", head=0, position=3)
    assert_close(logits_of(found), hooked(model, module, patched, IDS))

    def neuron(x: Tensor) -> Tensor:
        return torch.where(torch.arange(8) == 6, 3.0, x)

    found = ablate(run, f"{name}.{stage}", head=1, neuron=2, to=3.0)
    assert_close(logits_of(found), hooked(model, module, neuron, IDS))
    with pytest.raises(TraceError, match="has no head 2: it has 2, counted from 0"):
        ablate(run, f"{name}.{stage}", head=2)


def test_the_mean_along_a_direction_is_of_each_step_by_itself() -> None:
    model = made("gpt2")
    run, other = trace(model, IDS), trace(model, OTHER)
    unit = torch.eye(8, dtype=torch.float64)[3]
    found = ablate(run, "transformer.h.1", direction=unit, to="mean", over=[run, other])
    for stage in ("attn_out", "mlp_out"):
        name = f"transformer.h.1.{stage}"
        wanted = torch.cat([run[name].value, other[name].value])[..., 3].mean()
        assert_close(found[name].value[..., 3], wanted.expand(5))


def test_positions_are_neither_classes_nor_the_vocabulary() -> None:
    run = trace(made("bert"), IDS)
    with pytest.raises(TraceError, match=r"\(1, 3\) has no axis of positions"):
        ablate(run, "logits", position=1)
    labelled = trace(
        made("bert"), IDS, axis_labels={"input_ids": list("abcde"), "logits": list("xyz")}
    )
    with pytest.raises(TraceError, match=r"\(1, 3\) has no axis of positions"):
        ablate(labelled, "logits", position=1)
    run = trace(made("gpt2"), IDS, axis_labels={"logits": [f"word {at}" for at in range(50)]})
    assert run["logits"].labels[-1] is not None
    found = ablate(run, "logits", position=1)["logits"].value
    assert (found == 0).all(-1)[0].tolist() == [False, True, False, False, False]
    name = "transformer.h.1.attn.context"  # whose heads have labels
    found = ablate(run, name, position=1)[name].value
    assert (found == 0).all(-1)[0].tolist() == [[False, True, False, False, False]] * 2


def test_a_closed_trace_is_said_to_be_closed() -> None:
    run = trace(made("gpt2"), IDS)
    number = run["logits"][0, -1, 5]
    run.close()
    asked: list[Callable[[], object]] = [
        run.verify,
        lambda: run.edit({"logits": 0.0}),
        lambda: run.stages,
        lambda: ablate(run, "transformer.h.0.attn"),
        lambda: sweep(run, measure=number),
        lambda: logit_lens(run),
        lambda: words(number),
        lambda: contributions(number),
        lambda: head_scores([run]),
    ]
    for ask in asked:
        with pytest.raises(TraceError, match="this trace was closed"):
            ask()
    assert "logits" not in run


@pytest.mark.parametrize("split", [True, False])
def test_several_heads_and_positions_are_every_combination_of_them(split: bool) -> None:
    torch.manual_seed(0)
    own = build("gpt2", vocab_size=50, d_model=8, n_heads=2, n_layers=2).double().eval()
    one, other = (trace(made("gpt2") if split else own, ids) for ids in (IDS, OTHER))
    layer = "transformer.h.1.attn" if split else "decoder.blocks.1.attention"
    both = ablate(one, layer, head=[0, 1])
    in_turn = ablate(ablate(one, layer, head=0), layer, head=1)
    assert torch.equal(both["logits"].value, in_turn["logits"].value)
    name = f"{layer}.queries"  # ours are (batch, position, heads · width)
    given = StepPart(name, head=[1, 0], position=[1, 3])
    (mine,), (theirs,) = given.find(one), given.find(other)
    assert mine.value.numel() == 2 * 2 * 4 and not torch.equal(mine.value, theirs.value)
    patched, by_turns = patch(one, other, name, head=[1, 0], position=[1, 3]), one
    for head, position in ((0, 1), (0, 3), (1, 1), (1, 3)):
        by_turns = patch(by_turns, other, name, head=head, position=position)
    assert torch.equal(patched["logits"].value, by_turns["logits"].value)
    assert torch.equal(  # of every head, these columns
        ablate(one, name, head=[0, 1], neuron=[2, 3])["logits"].value,
        ablate(ablate(one, name, head=0, neuron=[2, 3]), name, head=1, neuron=[2, 3])[
            "logits"
        ].value,
    )
    part = f"{layer.rpartition('.')[0]}.mlp_out"
    neurons = ablate(one, part, neuron=[2, 5], position=3)
    alone = ablate(ablate(one, part, neuron=2, position=3), part, neuron=5, position=3)
    assert torch.equal(neurons["logits"].value, alone["logits"].value)


@pytest.mark.parametrize("order", layouts())
def test_a_head_in_any_order_of_axes(order: str) -> None:
    model = Layout(order).eval()
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1))
    kept = torch.arange(8) < 4
    hook = model.out.register_forward_pre_hook(lambda _, given: (given[0] * kept,))
    with torch.no_grad():
        expected = model(x)
    hook.remove()
    ablated = ablate(trace(model, x), "context", head=1)
    torch.testing.assert_close(ablated.outputs["output"].value, expected)


def test_a_layer_that_returns_its_sum_adds_nothing_when_ablated() -> None:
    model = nn.Sequential(Returned("plain"), Returned("plain"), nn.Linear(8, 8)).eval()
    x = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(1))
    ablated = ablate(trace(model, x), "1")
    with torch.no_grad():
        torch.testing.assert_close(ablated.outputs["output"].value, model[2](model[0](x)))
