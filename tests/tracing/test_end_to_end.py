"""A padded encoder-decoder, decoded by a beam of two with a cache: every number back to its origin.

Two sentences of different length are read; two steps are decoded, and between them the beams are
reordered, so that keys and values are copied, selected and written into a growing cache.
"""

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from glassformer.nn import DecodingCache, Seq2Seq, presets, set_attention
from glassformer.tracing import Cell, Trace, replay, trace

PAD, START = 0, 1
BEAMS = 2
SOURCE = torch.tensor([[5, 8, 3, 9, 2], [7, 4, 2, PAD, PAD]])
WORDS = ["the", "cat", "sat", "down", "</s>"]


class BeamSearch(nn.Module):
    """Two steps of beam search over a batch of sentences."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The logits of the second step, the beams' scores, and the beams that were continued."""
        sentences = source.repeat_interleave(BEAMS, dim=0)
        is_token = self.model.source_tokens(sentences)
        memory = self.model.encode(sentences, is_token)
        cache = self.model.start_cache()
        opening = self.model.decode(first, memory, is_token, cache=cache)
        opened = opening[:, -1].log_softmax(-1)
        # Both beams of a sentence begin alike: the first one's two best words begin them.
        scores, words = opened[::BEAMS].topk(BEAMS)
        parents = torch.arange(0, len(sentences), BEAMS)[:, None].expand_as(words)
        logits, ranked = self.step(words, parents.flatten(), memory, is_token, cache)
        totals = (scores.flatten()[:, None] + ranked).unflatten(0, (-1, BEAMS)).flatten(1)
        best, places = totals.topk(BEAMS)
        # In the second sentence the beams change places: the cache has to follow.
        offsets = torch.arange(0, len(sentences), BEAMS)[:, None]
        survivors = (places // logits.size(-1) + offsets).flip(1).flatten()
        following = (places % logits.size(-1)).flip(1)
        later, _ = self.step(following, survivors, memory, is_token, cache)
        return later, best, survivors

    def step(
        self,
        words: Tensor,
        rows: Tensor,
        memory: Tensor,
        is_token: Tensor | None,
        cache: DecodingCache,
    ) -> tuple[Tensor, Tensor]:
        """One word more on each of the chosen beams."""
        cache.select(rows)
        decoded = self.model.decode(words.flatten()[:, None], memory, is_token, cache=cache)
        logits = decoded[:, -1]
        return logits, logits.log_softmax(-1)


def search() -> BeamSearch:
    torch.manual_seed(0)
    config = presets.vaswani_2017_base(
        vocab_size=12, d_model=8, n_heads=2, n_layers=2, d_ff=16, max_len=12, pad_id=PAD
    )
    model = Seq2Seq(config).eval()
    set_attention(model, "written")
    return BeamSearch(model)


FIRST = torch.full((len(SOURCE) * BEAMS, 1), START)


@pytest.fixture(scope="module")
def traced() -> Trace:
    return trace(search(), SOURCE, FIRST, axis_labels={"source": WORDS})


def logits_of(traced: Trace) -> Iterator[Cell]:
    later = traced.outputs["output.0"]
    for beam in range(later.shape[0]):
        for word in range(later.shape[1]):
            yield later[beam, word]


def test_the_trace_is_what_the_search_computes(traced: Trace) -> None:
    expected = search()(SOURCE, FIRST)
    for name, value in zip(traced.outputs, expected, strict=True):
        assert torch.equal(traced.outputs[name].value, value)
    assert expected[2].tolist() != sorted(expected[2].tolist()), "the beams were reordered"


def test_the_largest_operands_lead_from_every_logit_to_parameters_and_tokens(traced: Trace) -> None:
    ends = set()
    for cell in logits_of(traced):
        path = cell.path()
        assert path[0] == cell
        for above, below in pairwise(path):
            assert below in above.operands
        assert path[-1].role in ("parameter", "input"), path
        assert path[-1].expression is None
        ends.add(path[-1].step.name)
    assert ends <= {*traced.parameters, *traced.inputs}


def test_everything_a_logit_is_made_from_ends_at_parameters_inputs_and_constants(
    traced: Trace,
) -> None:
    seen: set[Cell] = set()
    waiting = [traced.outputs["output.0"][3, 5]]
    ends: dict[str, set[str]] = {}
    while waiting:
        cell = waiting.pop()
        if cell in seen:
            continue
        seen.add(cell)
        operands = cell.operands
        waiting.extend(operands)
        if not operands:
            assert not cell.step.is_opaque
            ends.setdefault(cell.role, set()).add(cell.step.name)
    assert ends["input"] == {"source", "first"}
    tokens = {cell.index for cell in seen if cell.step.name == "source"}
    assert {row for row, _ in tokens} == {1}, "one sentence does not see the other"
    assert {
        "model.encoder.embedding.weight",
        "model.decoder.blocks.1.attention.to_keys.weight",
    } <= (ends["parameter"])
    assert set(ends) == {"input", "parameter", "constant"}
    assert "model.decoder.positions.table" in ends["constant"]


def test_padding_and_the_future_have_no_weight(traced: Trace) -> None:
    weights = [step for step in traced.steps if step.name.endswith("cross_attention.weights")]
    assert weights
    for step in weights:
        padded = step.value[BEAMS:, :, :, 3:]  # the second sentence has three tokens
        assert not padded.any()
        assert padded.numel()


def test_every_cell_follows_from_its_operands_and_replay_is_exact(traced: Trace) -> None:
    report = traced.verify(sample=6_000)
    assert report.opaque == []
    assert report.ok, str(report)
    for step, twin in zip(traced.steps, replay(traced).steps, strict=True):
        torch.testing.assert_close(step.value, twin.value, rtol=0, atol=0, equal_nan=True)


def test_a_changed_parameter_changes_the_search_as_running_it_again_would(traced: Trace) -> None:
    name, index = "model.decoder.blocks.0.cross_attention.to_values.weight", (2, 3)
    edited = traced.edit({(name, index): 0.5})
    changed = search()
    with torch.no_grad():
        changed.get_parameter(name)[index] = 0.5
    later, best, _ = changed(SOURCE, FIRST)
    assert torch.equal(edited.outputs["output.0"].value, later)
    assert torch.equal(edited.outputs["output.1"].value, best)
    assert not torch.equal(later, traced.outputs["output.0"].value)


def test_labels_reach_the_cross_attention(traced: Trace) -> None:
    step = next(s for s in traced.steps if s.name.endswith("cross_attention.weights"))
    assert step.labels[-1] == tuple(WORDS)
