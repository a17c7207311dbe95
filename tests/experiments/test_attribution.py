"""Numbers shared out: against autograd, Captum and sums that must come out."""

from dataclasses import replace
from typing import Any

import captum.attr
import pytest
import torch
from torch import Tensor

import glassformer as gf
from glassformer.errors import ConfigError, TraceError, UnknownNameError
from glassformer.experiments import (
    ablate,
    contributions,
    difference,
    gradients,
    logit_lens,
    sweep,
    words,
)
from glassformer.experiments.attribution import token_steps
from glassformer.nn import build
from glassformer.tracing import Cell, Trace, trace
from tests.experiments.conftest import IDS, made, target


def cell_of(run: Trace) -> Cell:
    logits = run["logits"]
    return logits[0, 2] if len(logits.shape) == 2 else logits[0, -1, 5]


def embedded(model: Any) -> Tensor:
    found: Tensor = model.get_input_embeddings()(IDS).detach()
    return found


def scored(model: Any) -> Any:
    return lambda x: target(model(inputs_embeds=x).logits)


def test_gradients_are_those_of_autograd(model: Any) -> None:
    run = trace(model, IDS)
    x = embedded(model).requires_grad_()
    (wanted,) = torch.autograd.grad(scored(model)(x), x)
    weight = next(name for name in run.parameters if name.endswith("weight") and "1." in name)
    parameter = model.get_parameter(weight)
    (wanted_weight,) = torch.autograd.grad(target(model(IDS).logits), parameter)
    found = gradients(cell_of(run), [*token_steps(run), run[weight]])
    torch.testing.assert_close(found[0], wanted, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found[-1], wanted_weight, rtol=1e-9, atol=1e-12)


def test_leaving_a_word_out_is_captums_ablation(model: Any) -> None:
    run = trace(model, IDS)
    mask = torch.arange(IDS.shape[1])[None, :, None].expand_as(embedded(model))
    ablation = captum.attr.FeatureAblation(scored(model))
    wanted = ablation.attribute(embedded(model), baselines=0.0, feature_mask=mask)[0, :, 0]
    found = words(cell_of(run))
    torch.testing.assert_close(
        torch.tensor(found.scores, dtype=torch.float64), wanted.detach(), rtol=1e-7, atol=1e-9
    )
    without = found.trace(1)
    assert float(cell_of(run).value) - float(cell_of(without).value) == found.scores[1]


def test_where_no_single_word_decides_that_is_said() -> None:
    found = words(gf.load("toy").trace("I am not happy")["logits"][0, 0])
    assert found.note().startswith("A word's score is")
    small = replace(found, scores=tuple(score / 100 for score in found.scores))
    assert small.note() == (
        "No single word decides this number: “not”, which changes it most, changes it by 2%. "
        f"{found.note()}"
    )
    assert "“not”也只让它变化 2%。一个词" in small.note("zh")


def test_leaving_words_out_keeps_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = trace(made("gpt2"), IDS)
    made_runs: list[Trace] = []
    edit = Trace.edit

    def noted(self: Trace, edits: Any) -> Trace:
        made_runs.append(edit(self, edits))
        return made_runs[-1]

    monkeypatch.setattr(Trace, "edit", noted)
    found = words(cell_of(run))
    assert len(made_runs) == IDS.shape[1]
    assert all(not without.steps for without in made_runs)
    for token, score in enumerate(found.scores):
        assert float(cell_of(run).value) - float(found.cell(token).value) == score


def test_integrated_gradients_are_captums(model: Any) -> None:
    run = trace(model, IDS)
    found = words(cell_of(run), "integrated", steps=8)
    wanted = captum.attr.IntegratedGradients(scored(model)).attribute(
        embedded(model), baselines=0.0, n_steps=8, method="gausslegendre"
    )
    torch.testing.assert_close(
        torch.tensor(found.scores, dtype=torch.float64), wanted.sum(-1)[0], rtol=1e-5, atol=1e-8
    )


def test_integrated_gradients_add_up() -> None:
    """To what the number is more than without words; with positions, the way to zero is smooth."""
    found = words(cell_of(trace(made("gpt2"), IDS)), "integrated", steps=60)
    assert found.whole is not None
    assert sum(found.scores) == pytest.approx(found.whole, rel=1e-2)


def test_another_baseline_is_captums(model: Any) -> None:
    """The embedding of a token in the place of a word, as published attributions use [MASK]."""
    run = trace(model, IDS)
    vector = model.get_input_embeddings().weight[8].detach()
    instead = vector.expand_as(embedded(model))
    mask = torch.arange(IDS.shape[1])[None, :, None].expand_as(instead)
    ablated = captum.attr.FeatureAblation(scored(model)).attribute(
        embedded(model), baselines=instead, feature_mask=mask
    )
    integrated = captum.attr.IntegratedGradients(scored(model)).attribute(
        embedded(model), baselines=instead, n_steps=8, method="gausslegendre"
    )
    for baseline in (8, vector):
        for method, wanted in (
            ("leave one out", ablated[0, :, 0]),
            ("integrated", integrated.sum(-1)[0]),
        ):
            found = words(cell_of(run), method, steps=8, baseline=baseline)  # type: ignore[arg-type]
            scores = torch.tensor(found.scores, dtype=torch.float64)
            torch.testing.assert_close(scores, wanted.detach(), rtol=1e-5, atol=1e-8)
            assert "baseline" in found.note()
    (slope,) = gradients(cell_of(run), token_steps(run))
    first_order = words(cell_of(run), "gradient", baseline=8)
    wanted = (slope * (embedded(model) - vector)).sum(-1)[0]
    assert list(first_order.scores) == pytest.approx(wanted.tolist(), rel=1e-9)
    with pytest.raises(ConfigError, match="baseline must be at most 49"):
        words(cell_of(run), baseline=50)
    with pytest.raises(TraceError, match="the baseline is a vector of 8 numbers"):
        words(cell_of(run), baseline=vector[:3])
    with pytest.raises(TraceError, match="rollout takes no baseline"):
        words(cell_of(run), "rollout", baseline=8)


def test_gradient_times_embedding(model: Any) -> None:
    run = trace(model, IDS)
    x = embedded(model).requires_grad_()
    (gradient,) = torch.autograd.grad(scored(model)(x), x)
    found = words(cell_of(run), "gradient")
    wanted = (gradient * x).sum(-1)[0].detach()
    torch.testing.assert_close(
        torch.tensor(found.scores, dtype=torch.float64), wanted, rtol=1e-9, atol=1e-12
    )


def test_rollout_by_hand() -> None:
    model = made("bert")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(IDS, output_attentions=True).attentions
    joint = torch.eye(5, dtype=torch.float64)
    for weights in attentions:
        joint = (weights[0].mean(0) + torch.eye(5, dtype=torch.float64)) / 2 @ joint
    found = words(cell_of(trace(model, IDS)), "rollout")
    torch.testing.assert_close(
        torch.tensor(found.scores, dtype=torch.float64), joint.mean(0), rtol=1e-9, atol=1e-12
    )
    assert sum(found.scores) == pytest.approx(1)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("heads", [False, True])
def test_the_parts_of_a_logit_add_up_to_it(name: str, heads: bool) -> None:
    model = made(name)
    cell = cell_of(trace(model, IDS))
    found = contributions(cell, heads=heads)
    # (Llama's norm computes in float32, whatever the model does.)
    assert found.total == pytest.approx(float(cell.value), rel=1e-6 if name == "llama" else 1e-9)
    assert len(found.parts) == (1 + 3 * 3 + 1 if heads else 1 + 3 * 2 + 1)


def test_a_part_is_its_product_with_the_direction_of_the_logit() -> None:
    """GPT-2's last norm and output map written out by hand."""
    model = made("gpt2")
    kept: dict[str, Tensor] = {}
    for at, block in enumerate(model.transformer.h):
        block.mlp.register_forward_hook(
            lambda _, __, out, at=at: kept.__setitem__(f"mlp{at}", out[0, -1])
        )
    model.transformer.ln_f.register_forward_pre_hook(
        lambda _, args: kept.__setitem__("x", args[0][0, -1])
    )
    with torch.no_grad():
        model(IDS)
        norm = model.transformer.ln_f
        size = (kept["x"].var(correction=0) + norm.eps).sqrt()
        row = model.lm_head.weight[5] * norm.weight / size
        direction = row - row.mean()
    found = dict(
        zip(
            *(lambda c: (c.parts, c.values))(contributions(cell_of(trace(model, IDS)))), strict=True
        )
    )
    for at in range(3):
        wanted = float(direction @ kept[f"mlp{at}"])
        assert found[f"transformer.h.{at}.mlp_out"] == pytest.approx(wanted, rel=1e-9)


def test_the_lens_reads_with_the_models_own_norm_and_output_map() -> None:
    model = made("gpt2")
    found = logit_lens(trace(model, IDS))
    with torch.no_grad():
        states = model(IDS, output_hidden_states=True).hidden_states[:-1]  # the last is normed
        wanted = torch.stack([model.lm_head(model.transformer.ln_f(state)) for state in states])
    torch.testing.assert_close(found.values[:-1], wanted, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.values[-1], model(IDS).logits.detach(), rtol=1e-9, atol=1e-9)


def test_results_are_data_and_read_well() -> None:
    model = made("gpt2")
    run = trace(model, IDS, axis_labels={"input_ids": ["I", "am", "not", "so", "sad"]})
    found = words(cell_of(run))
    assert [row["token"] for row in found.rows()] == ["I", "am", "not", "so", "sad"]
    assert found.to_dict()["method"] == "leave one out"
    assert found.strongest in ("I", "am", "not", "so", "sad")
    assert "sad" in str(found)


def test_what_cannot_be_asked_is_named() -> None:
    run = trace(torch.nn.Linear(3, 2), torch.ones(1, 3))
    with pytest.raises(TraceError, match="there are no words to ask for"):
        words(run.outputs["output"][0, 0])
    gpt2 = trace(made("gpt2"), IDS)
    with pytest.raises(UnknownNameError, match="unknown method 'guess'"):
        words(cell_of(gpt2), "guess")  # type: ignore[arg-type]
    for steps in (0, 10**5, 2.5):
        with pytest.raises(ConfigError, match="steps"):
            words(cell_of(gpt2), "integrated", steps=steps)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="no residual stream"):
        contributions(run.outputs["output"][0, 0])
    bert = trace(made("bert"), IDS)
    with pytest.raises(TraceError, match="do not add up"):
        contributions(cell_of(bert))
    model = made("gpt2")
    # (As small as the probabilities of a large vocabulary.)
    shares = trace(lambda ids: model(ids).logits.softmax(-1) / 1000, IDS)
    with pytest.raises(TraceError, match="do not add up"):
        contributions(shares.outputs["output"][0, -1, 7])
    whole = next(s for s in bert.inputs.values() if not s.dtype.is_floating_point)
    with pytest.raises(TraceError, match="only real numbers have gradients"):
        contributions(whole[0, 0])
    with pytest.raises(TraceError, match="expected two cells"):
        difference(cell_of(gpt2), 7)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="expected steps"):
        gradients(cell_of(gpt2), ["logits"])  # type: ignore[list-item]
    with pytest.raises(TraceError, match=r"expected a trace, trace\(model, …\), got GPT2"):
        logit_lens(model)
    with pytest.raises(TraceError, match="expected a trace"):
        ablate(model, "transformer.h.0")
    with pytest.raises(TraceError, match="expected a list of traces, got Trace"):
        ablate(gpt2, "transformer.h.0.attn", head=0, to="mean", over=gpt2)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="what is asked about is a cell"):
        sweep(gpt2, measure=lambda run: run["logits"].value[0, 0, 0])  # type: ignore[arg-type,return-value]


def test_of_a_model_in_bfloat16_the_parts_add_up_within_its_rounding() -> None:
    torch.manual_seed(0)
    model = build("gpt2", vocab_size=50, d_model=16, n_heads=2, n_layers=2).bfloat16()
    cell = trace(model, IDS).outputs["output"][0, -1, 7]
    assert contributions(cell).total == pytest.approx(float(cell.value), rel=0.05)


def test_the_lens_reads_the_logits_that_the_model_returns() -> None:
    """Cohere scales them."""
    model = made("gpt2")

    def forward(ids: Tensor) -> dict[str, Tensor]:
        logits = model(ids).logits
        logits = logits / 16
        return {"logits": logits}

    found = logit_lens(trace(forward, IDS))
    torch.testing.assert_close(found.values[-1], model(IDS).logits.detach() / 16)


def test_what_an_edit_has_set_hands_no_gradient_on() -> None:
    """Against autograd through a hook that sets the same numbers: a whole step, and some cells."""
    model = made("gpt2")
    run = trace(model, IDS)
    block = "transformer.h.1"
    for position in (None, 2):
        edited = ablate(run, f"{block}.mlp_out", position=position, to=0.25)

        def hook(_: Any, __: Any, output: Tensor, at: int | None = position) -> Tensor:
            here = torch.arange(output.shape[1])[None, :, None]
            return torch.where(here == here if at is None else here == at, 0.25, output)

        x = embedded(model).requires_grad_()
        handle = model.get_submodule(f"{block}.mlp").register_forward_hook(hook)
        score = scored(model)(x)
        (wanted,) = torch.autograd.grad(score, x)
        handle.remove()
        assert float(cell_of(edited).value) == pytest.approx(float(score.detach()), rel=1e-9)
        found = gradients(cell_of(edited), [token_steps(edited)[0]])[0]
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
        shares = words(cell_of(edited), "integrated", steps=60)
        assert shares.whole is not None
        assert sum(shares.scores) == pytest.approx(shares.whole, rel=1e-2)
    stopped = ablate(run, "transformer.h.2.resid_post")
    assert not gradients(cell_of(stopped), [token_steps(stopped)[0]])[0].any()


def test_segments_and_positions_are_no_words() -> None:
    model = made("bert")
    inputs: dict[str, Any] = {
        "input_ids": IDS,
        "token_type_ids": torch.ones_like(IDS),
        "position_ids": torch.arange(IDS.shape[1])[None],
    }
    found = words(cell_of(trace(model, **inputs)))
    assert len(found.tokens) == IDS.shape[1]
    rest = {name: value for name, value in inputs.items() if name != "input_ids"}
    for token, score in enumerate(found.scores):
        x = embedded(model)
        whole = target(model(inputs_embeds=x, **rest).logits)
        x[:, token] = 0
        without = target(model(inputs_embeds=x, **rest).logits)
        wanted = float((whole - without).detach())
        assert score == pytest.approx(wanted, rel=1e-7, abs=1e-9)


def test_two_texts_added_are_refused() -> None:
    class Added(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.of_word, self.of_place = (torch.nn.Embedding(9, 4) for _ in range(2))

        def forward(self, one: Tensor, other: Tensor) -> Tensor:
            added: Tensor = self.of_word(one) + self.of_place(other)
            return added

    run = trace(Added(), torch.tensor([[1, 2]]), torch.tensor([[0, 1]]))
    output = next(iter(run.outputs.values()))
    with pytest.raises(TraceError, match="one, other are looked up and added"):
        words(output[0, 0, 0])


def test_the_lens_reads_a_layer_each_time_it_runs() -> None:
    model = made("albert")
    found = logit_lens(trace(model, IDS))
    with torch.no_grad():
        before, *states = model(IDS, output_hidden_states=True).hidden_states
        norm = model.albert.encoder.albert_layer_groups[0].albert_layers[0].full_layer_layer_norm
        states = [norm(before), *states]  # the last norm reads what no layer has normed yet
        read = [model.albert.pooler_activation(model.albert.pooler(s[:, 0])) for s in states]
        wanted = torch.stack([model.classifier(state) for state in read])
    torch.testing.assert_close(found.values, wanted, rtol=1e-9, atol=1e-9)


def test_rollout_of_several_texts_is_refused() -> None:
    run = trace(made("gpt2"), IDS.repeat(2, 1))
    with pytest.raises(TraceError, match="is of several texts at once"):
        words(run["logits"][1, -1, 5], "rollout")
