"""Our own presets and architectures: every cell is right, and named as in the source."""

import pytest
import torch
from torch import Tensor, nn

from glassformer.tracing import replay, trace
from tests.nn.small import ARCHITECTURES, EVERY, SIZES, inputs_for, make, shrunk

pytestmark = pytest.mark.no_cover  # the lines of test_rules.py, for far more cells


@pytest.mark.parametrize("cells", [4_000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SIZES)
def test_presets_are_true_in_every_cell(name: str, cells: int) -> None:
    config = EVERY[name]
    batch = 64 if name == "illustrated" else 16  # that one is a single layer of width 4
    model = make(config, attention="written").float()
    traced = trace(model, *inputs_for(config, batch, 12, torch.float32))
    report = traced.verify(sample=cells)
    assert report.cells >= cells
    assert report.opaque == []
    assert report.ok, str(report)


@pytest.mark.parametrize("attention", ["written", "fused"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_verify_and_replay(name: str, attention: str) -> None:
    config = EVERY[name]
    model = make(config, attention=attention).float().eval()
    inputs = inputs_for(config, dtype=torch.float32)
    traced = trace(model, *inputs)
    report = traced.verify(sample=1_500)
    assert report.opaque == []
    assert report.ok, str(report)
    with torch.no_grad():
        expected = model(*inputs)
    output = next(iter(traced.outputs.values())).value
    first = expected if isinstance(expected, Tensor) else next(iter(vars(expected).values()))
    torch.testing.assert_close(output, first, rtol=1e-5, atol=1e-5)
    for step, twin in zip(traced.steps, replay(traced).steps, strict=True):
        assert torch.equal(step.value, twin.value), step.name


def test_written_attention_is_named_as_the_design_says() -> None:
    config = EVERY["language_model"]
    traced = trace(make(config, attention="written"), *inputs_for(config))
    inside = [s.name for s in traced.steps if s.module.endswith("blocks.0.attention")]
    words = [name.rpartition(".")[2] for name in inside]
    for word in ("scores", "scaled", "masked", "weights", "context"):
        assert word in words


class BeamStep(nn.Module):
    """One step of beam search over a padded source: the best continuations of every beam."""

    def __init__(self, model: nn.Module, width: int) -> None:
        super().__init__()
        self.model, self.width = model, width

    def forward(self, source: Tensor, beams: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model(source.expand(beams.size(0), -1), beams)
        next_scores = logits[:, -1].log_softmax(-1) + scores[:, None]
        best, places = next_scores.flatten().topk(self.width)
        return best, places


def test_a_beam_step_of_a_padded_encoder_decoder_leads_back_to_tokens_and_parameters() -> None:
    config = shrunk("vaswani_2017_base", pad_id=0)
    step = BeamStep(make(config, attention="written").float(), 3)
    source = torch.tensor([[5, 7, 2, 9, 0, 0]])
    beams = torch.tensor([[1, 4], [1, 8], [1, 3]])
    words = ["ein", "Haus", "am", "See", "<pad>", "<pad>"]
    traced = trace(
        step, source, beams, torch.tensor([-0.1, -0.5, -1.0]), axis_labels={"source": words}
    )
    assert traced.verify(sample=3_000).ok
    ends = set()
    for place in range(3):
        trail = traced["best"][place].path()
        assert len(trail) > 8
        ends.add(trail[-1].role)
    assert ends <= {"parameter", "input"}
    logits = next(s for s in reversed(traced.steps) if s.shape[-1:] == (13,) and s.op == "linear")
    for token in range(13):
        trail = logits[0, 1, token].path()
        assert trail[-1].role in ("parameter", "input")
    cross = next(s for s in traced.steps if s.name.endswith("weights") and s.shape[-2:] == (2, 6))
    assert cross.labels[-1] == tuple(words)
    assert cross.value[..., 4:].abs().max() == 0
