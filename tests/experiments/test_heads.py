"""Scores of heads against the model's own attention, and against matrices written out by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.errors import TraceError, UnknownNameError
from glassformer.experiments import composition, head_scores
from glassformer.nn import build
from glassformer.tracing import Trace, trace
from tests.experiments.conftest import made

REPEATED = torch.tensor([[4, 9, 7, 4, 9, 7, 4]])
OTHER = torch.tensor([[1, 2, 1, 3, 2]])


def runs(model: Any) -> list[Trace]:
    return [trace(model, ids) for ids in (REPEATED, OTHER)]


def attentions(model: Any, ids: Tensor) -> Tensor:
    """(layers, heads, queries, keys)."""
    with torch.no_grad():
        return torch.stack([a[0] for a in model(ids, output_attentions=True).attentions])


def eager(name: str) -> Any:
    model = made(name)
    model.set_attn_implementation("eager")
    return model


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_where_heads_look(name: str) -> None:
    model = eager(name)
    one, other = attentions(model, REPEATED), attentions(model, OTHER)
    previous = sum(a[..., at, at - 1] for a in (one, other) for at in range(1, a.shape[-1]))
    induction = (
        sum(one[..., at, at - 2] for at in (3, 4, 5, 6)) + other[..., 2, 1] + other[..., 4, 2]
    )
    duplicate = (
        one[..., 3, 0] + one[..., 4, 1] + one[..., 5, 2] + one[..., 6, 0] + one[..., 6, 3]
        + other[..., 2, 0] + other[..., 4, 1]
    )  # fmt: skip
    wanted = {"previous": previous / 10, "induction": induction / 6, "duplicate": duplicate / 6}
    for score, values in wanted.items():
        found = head_scores(runs(model), score)  # type: ignore[arg-type]
        torch.testing.assert_close(found.values, values, rtol=1e-9, atol=1e-12)
    rows = found.rows()
    assert len(rows) == 6
    assert rows[3]["score"] == float(found.values[1, 1])
    assert float(found.cell(1, 1)[0, 3, 0].value) == pytest.approx(float(one[1, 1, 3, 0]))


def test_a_perfect_induction_head_scores_one() -> None:
    """Weights that look where induction looks, and nowhere else."""

    def attend(ids: Tensor, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        weights = torch.softmax(queries @ keys.mT, -1)
        return weights @ (values + ids[..., None])

    aim = torch.tensor([0, 0, 0, 1, 2, 3, 4])
    keys = torch.eye(7, dtype=torch.float64)[None, None]
    queries = 300.0 * keys[..., aim, :]
    run = trace(attend, REPEATED, queries, keys, torch.ones(1, 1, 7, 2, dtype=torch.float64))
    assert head_scores([run], "induction").values.tolist() == [[pytest.approx(1.0)]]


def test_copying_is_raising_the_logit_of_what_is_looked_at() -> None:
    """GPT-2's direct path written out: a head's context, its rows of W_O, the norm, the output."""
    model = eager("gpt2")
    ids = torch.randint(50, (1, 16), generator=torch.Generator().manual_seed(1))
    weights = attentions(model, ids)
    contexts: dict[int, Tensor] = {}
    last: list[Tensor] = []
    for layer, block in enumerate(model.transformer.h):
        block.attn.c_proj.register_forward_pre_hook(
            lambda _, args, layer=layer: contexts.__setitem__(layer, args[0][0])
        )
    model.transformer.ln_f.register_forward_pre_hook(lambda _, args: last.append(args[0][0]))
    with torch.no_grad():
        model(ids)
        norm = model.transformer.ln_f
        size = (last[0].var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
        wanted = torch.zeros(3, 2, dtype=torch.float64)
        for layer, block in enumerate(model.transformer.h):
            for head in range(2):
                rows = slice(4 * head, 4 * head + 4)
                written = contexts[layer][:, rows] @ block.attn.c_proj.weight[rows]
                normed = (written - written.mean(-1, keepdim=True)) / size * norm.weight
                top = model.lm_head(normed).topk(5).indices
                seen = ids[0][weights[layer, head].argmax(-1)]
                wanted[layer, head] = (top == seen[:, None]).any(-1).double().mean()
    found = head_scores([trace(made("gpt2"), ids)], "copy")
    assert torch.equal(found.values, wanted)
    assert 0 < float(wanted.sum()) < 6  # a check that can fail


def test_composition_is_what_one_head_writes_and_another_reads() -> None:
    model = eager("gpt2")
    contexts: dict[int, Tensor] = {}
    streams: dict[int, Tensor] = {}
    for layer, block in enumerate(model.transformer.h):
        block.attn.c_proj.register_forward_pre_hook(
            lambda _, args, layer=layer: contexts.__setitem__(layer, args[0][0])
        )
        block.ln_1.register_forward_pre_hook(
            lambda _, args, layer=layer: streams.__setitem__(layer, args[0][0])
        )
    found = composition([trace(made("gpt2"), REPEATED)], "keys")
    with torch.no_grad():
        model(REPEATED)
        first, second = model.transformer.h[0], model.transformer.h[2]
        written = contexts[0][:, 4:] @ first.attn.c_proj.weight[4:]
        stream = streams[2]
        size = (stream.var(-1, correction=0, keepdim=True) + second.ln_1.eps).sqrt()
        read = (written - written.mean(-1, keepdim=True)) / size * second.ln_1.weight
        matrix = second.attn.c_attn.weight[:, 8:12]  # the keys of head 0
        keys = second.ln_1(stream) @ matrix + second.attn.c_attn.bias[8:12]
        wanted = float((read @ matrix).norm() / keys.norm())
    assert float(found.values[1, 4]) == pytest.approx(wanted, rel=1e-9)
    assert found.values[:, :2].isnan().all()
    assert [row["share"] for row in found.rows()] == sorted(
        (row["share"] for row in found.rows()), reverse=True
    )
    one, other = found.cell(1, 4)
    assert one.shape == (1, 7, 4) == other.shape


def test_what_has_no_score_is_named() -> None:
    run = trace(made("gpt2"), torch.tensor([[1, 2, 3]]))
    with pytest.raises(TraceError, match="give texts in which tokens repeat"):
        head_scores([run], "induction")
    with pytest.raises(UnknownNameError, match="did you mean 'induction'"):
        head_scores([run], "induktion")  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="needs runs"):
        head_scores([])
    with pytest.raises(TraceError, match="has no self-attention"):
        head_scores([trace(torch.nn.Linear(3, 2), torch.ones(1, 3))])
    with pytest.raises(TraceError, match="has no logits for each token"):
        head_scores([trace(made("bert"), REPEATED)], "copy")
    with pytest.raises(UnknownNameError, match="unknown side"):
        composition([run], "query")  # type: ignore[arg-type]


def test_a_layer_that_runs_again_has_heads_each_time() -> None:
    model = eager("albert")
    weights = attentions(model, REPEATED)
    found = head_scores([trace(model, REPEATED)], "previous")
    wanted = sum(weights[..., at, at - 1] for at in range(1, 7)) / 6
    torch.testing.assert_close(found.values, wanted, rtol=1e-9, atol=1e-12)
    assert found.layers[1].endswith("attention call 2")
    assert float(found.cell(2, 1)[0, 3, 0].value) == pytest.approx(float(weights[2, 1, 3, 0]))
    shares = composition([trace(model, REPEATED)], "queries")
    assert shares.values.isfinite().sum() == 12  # 3 pairs of layers, 2 × 2 heads each


@pytest.mark.parametrize("source", [OTHER, torch.tensor([[8, 8, 8, 8, 8, 8, 8]])])
def test_of_an_encoder_decoder_the_decoders_self_attention_is_scored(source: Tensor) -> None:
    """With its own ids, also where the source is as long as the target."""
    model = eager("bart")
    inputs: dict[str, Any] = {"input_ids": source, "decoder_input_ids": REPEATED}
    with torch.no_grad():
        weights = model(**inputs, output_attentions=True).decoder_attentions
    one = torch.stack([layer[0] for layer in weights])
    wanted = sum(one[..., at, at - 2] for at in (3, 4, 5, 6)) / 4
    run = trace(model, **inputs)
    found = head_scores([run], "induction")
    torch.testing.assert_close(found.values, wanted, rtol=1e-9, atol=1e-12)
    assert [layer.split(".")[-1] for layer in found.layers] == ["self_attn", "self_attn"]
    assert composition([run]).values.isfinite().sum() == 4
    assert head_scores([run], "copy").values.shape == (2, 2)


def test_what_would_be_scored_wrongly_is_refused() -> None:
    rows = trace(made("gpt2"), REPEATED.repeat(2, 1))
    for refused in (head_scores, composition):
        with pytest.raises(TraceError, match="is of several texts at once"):
            refused([rows])
    with pytest.raises(TraceError, match="more than sums, norms and linear maps"):
        head_scores([trace(made("bert_mlm"), REPEATED)], "copy")


def test_heads_that_are_not_split_yet_compose_one_by_one() -> None:
    """Our own keys are (batch, position, heads · width) when they are made."""
    torch.manual_seed(0)
    model: Any = build("gpt2", vocab_size=50, d_model=8, n_heads=2, n_layers=2).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    run = trace(model, REPEATED)
    found = composition([run], "keys")
    first, second = model.decoder.blocks
    stream = run.stages["decoder.blocks.1.resid_pre"].value[0]
    norm = second.attention_norm
    with torch.no_grad():
        size = (stream.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
        for earlier in range(2):
            rows = slice(4 * earlier, 4 * earlier + 4)
            context = run["decoder.blocks.0.attention.context"].value[0, earlier]
            written = context @ first.attention.to_output.weight[:, rows].T
            read = (written - written.mean(-1, keepdim=True)) / size * norm.weight
            keys = second.attention.to_keys(norm(stream))
            for later in range(2):
                own = slice(4 * later, 4 * later + 4)
                added = read @ second.attention.to_keys.weight[own].T
                wanted = float(added.norm() / keys[:, own].norm())
                assert float(found.values[earlier, 2 + later]) == pytest.approx(wanted, rel=1e-9)
    assert torch.equal(found.cell(0, 3)[1].value[0], keys[:, 4:])
