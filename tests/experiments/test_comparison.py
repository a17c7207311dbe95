"""Two runs held against each other: two texts, an edit, two checkpoints."""

import copy

import pytest
import torch

from glassformer.errors import TraceError, UnknownNameError
from glassformer.experiments import ablate, compare
from glassformer.tracing import trace
from tests.experiments.conftest import IDS, OTHER, made


def test_two_texts_of_one_length() -> None:
    model = made("gpt2")
    one, other = trace(model, IDS), trace(model, OTHER)
    found = compare(one, other)
    assert found.unaligned == ()
    sizes = [step.size for step in found.steps]
    assert sizes == sorted(sizes, reverse=True)
    logits = next(step for step in found.steps if step.name == one["logits"].name)
    with torch.no_grad():
        old, new = model(IDS).logits, model(OTHER).logits
    gap = new - old
    assert logits.size == pytest.approx(
        float(gap.square().mean().sqrt() / old.square().mean().sqrt())
    )
    assert logits.largest == pytest.approx(float(gap.abs().max()))
    here, there = logits.cells
    assert abs(float(there.value) - float(here.value)) == pytest.approx(logits.largest)
    assert here.index == there.index
    assert logits.changed == int((gap != 0).sum())
    assert all(step.name in found.same for step in one.parameters.values())
    ids = found.in_order()[0]
    assert (ids.name, ids.size) == ("input_ids", 2 / 5)


def test_two_texts_of_different_lengths_are_aligned_by_their_tokens() -> None:
    """A word more in the middle: of a causal model, what stands before it is unchanged."""
    model = made("gpt2")
    shorter, longer = torch.tensor([[1, 2, 4, 9]]), torch.tensor([[1, 2, 3, 4, 9]])
    one, other = trace(model, shorter), trace(model, longer)
    found = compare(one, other)
    by_name = {step.name: step for step in found.steps}
    logits = by_name[one["logits"].name]
    with torch.no_grad():
        gap = model(longer).logits[:, [0, 1, 3, 4]] - model(shorter).logits
    assert logits.compared == gap.numel()
    assert logits.largest == pytest.approx(float(gap.abs().max()))
    assert logits.changed == int((gap.abs() > 0).sum())
    here, there = logits.cells
    assert there.index[1] == here.index[1] + 1
    weights = by_name[one["transformer.h.0.attn.weights"].name]
    assert weights.compared == 2 * 4 * 4
    assert "input_ids" not in by_name  # the tokens that both have are the same
    assert found.is_partial


def test_texts_of_a_batch_are_aligned_by_the_tokens_of_the_first() -> None:
    model = made("gpt2")
    shorter = torch.tensor([[1, 2, 4, 9], [5, 6, 7, 8]])
    longer = torch.tensor([[1, 2, 3, 4, 9], [5, 6, 9, 7, 8]])
    one, other = trace(model, shorter), trace(model, longer)
    found = compare(one, other)
    logits = next(step for step in found.steps if step.name == one["logits"].name)
    with torch.no_grad():
        gap = model(longer).logits[:, [0, 1, 3, 4]] - model(shorter).logits
    assert logits.compared == gap.numel()
    assert logits.largest == pytest.approx(float(gap.abs().max()))


def test_texts_without_a_batch_axis_are_aligned_by_their_tokens() -> None:
    table = torch.nn.Sequential(torch.nn.Embedding(9, 3), torch.nn.Tanh())
    one, other = trace(table, torch.tensor([1, 2, 4])), trace(table, torch.tensor([1, 2, 3, 4]))
    found = compare(one, other)
    assert found.steps == ()
    assert one.steps[-1].name in found.same


def test_a_run_and_its_edit_part_at_the_edit() -> None:
    run = trace(made("gpt2"), IDS)
    edited = ablate(run, "transformer.h.1.attn", head=0)
    found = compare(run, edited)
    assert found.in_order()[0].name == run["transformer.h.1.attn.context"].name
    assert run["transformer.h.0.resid_post"].name in found.same


def test_two_checkpoints() -> None:
    model = made("gpt2")
    later = copy.deepcopy(model)
    with torch.no_grad():
        later.transformer.h[1].mlp.c_fc.weight[0, 0] += 0.5
    found = compare(trace(model, IDS), trace(later, IDS))
    changed = next(s for s in found.steps if s.name == "transformer.h.1.mlp.c_fc.weight")
    assert changed.changed == 1
    assert changed.largest == pytest.approx(0.5)
    assert changed.cells[0].index == (0, 0)
    assert found.cell("transformer.h.1.mlp.c_fc.weight")[1].value == pytest.approx(
        float(changed.cells[0].value) + 0.5
    )


def test_what_cannot_be_compared_is_named() -> None:
    run = trace(made("gpt2"), IDS)
    with pytest.raises(TraceError, match="no step in common"):
        compare(run, trace(torch.nn.Linear(3, 2), torch.ones(1, 3)))
    with pytest.raises(TraceError, match="two traces are compared, got GPT2LMHeadModel"):
        compare(run, made("gpt2"))
    with pytest.raises(UnknownNameError, match="did you mean"):
        compare(run, ablate(run, "transformer.h.1")).cell("logit")
    assert compare(run, run).steps == ()


def test_texts_without_a_token_in_common_are_not_the_same() -> None:
    model = made("gpt2")
    one, other = trace(model, IDS), trace(model, torch.tensor([[20, 21, 22]]))
    found = compare(one, other)
    logits = one["logits"].name
    assert logits in found.unaligned
    assert logits not in found.same
    assert "input_ids" in found.unaligned
