"""The baselines: padding and the future change nothing; stepwise equals parallel."""

import pytest
import torch
from torch import nn

from glassformer.decoding import Beam, Greedy, translate
from glassformer.decoding.stepper import PrefixStepper
from glassformer.errors import ConfigError
from glassformer.nn import AttentionConfig, BlockConfig, ModelConfig
from glassformer.nn.baselines import KINDS, Translator
from glassformer.training.learner import squared_error

pytestmark = pytest.mark.usefixtures("in_float64")
SIZES = ModelConfig(
    vocab_size=20,
    d_model=8,
    n_layers=2,
    max_len=16,
    pad_id=0,
    attention=AttentionConfig(n_heads=1),
    block=BlockConfig(dropout=0.0),
)


@pytest.fixture(params=["rnn", "conv"])
def translator(request: pytest.FixtureRequest) -> Translator:
    torch.manual_seed(0)
    model = KINDS[request.param](SIZES).eval()
    assert isinstance(model, Translator)
    return model


def test_padding_of_the_source_changes_nothing(translator: Translator) -> None:
    target = torch.tensor([[2, 5, 6]])
    alone = translator(torch.tensor([[7, 8, 3]]), target)
    padded = translator(torch.tensor([[7, 8, 3, 0, 0]]), target)
    assert torch.allclose(alone, padded, rtol=0, atol=1e-12)


def test_no_position_sees_what_comes_after_it(translator: Translator) -> None:
    source = torch.tensor([[7, 8, 3]])
    short = translator(source, torch.tensor([[2, 5]]))
    long = translator(source, torch.tensor([[2, 5, 9, 9]]))
    assert torch.allclose(short, long[:, :2], rtol=0, atol=1e-12)


def test_stepwise_logits_are_those_of_the_whole_prefix(translator: Translator) -> None:
    sources = [[7, 8, 3], [4, 3]]
    stepper = PrefixStepper(translator, [[2], [2]], sources)
    stepper.start()
    stepper.step(torch.tensor([[5, 6], [5, 7]]), torch.zeros(2, 2, dtype=torch.long))
    logits = stepper.step(torch.tensor([[9, 9], [9, 9]]), torch.tensor([[1, 0], [0, 0]]))
    padded = torch.tensor([[7, 8, 3], [4, 3, 0]])
    whole = translator(padded, torch.tensor([[2, 6, 9], [2, 5, 9]]))
    assert torch.allclose(logits[:, 0], whole[:, -1], rtol=0, atol=1e-12)
    stepper.keep(torch.tensor([1]))
    assert stepper.step(torch.tensor([[1, 1]])).shape == (1, 2, 20)


def test_translations_in_batches_are_those_of_each_text_alone(translator: Translator) -> None:
    sources = [[7, 8, 3], [4, 3], [9, 5, 6, 3], [11, 3], [8, 8, 3]]

    def translated(texts: list[list[int]], batch_size: int) -> list[tuple[int, ...]]:
        found = translate(
            translator, texts, start=2, end=3, search=Beam(size=2), batch_size=batch_size
        )
        return [one.best.tokens for one in found]

    alone = [tokens for source in sources for tokens in translated([source], 1)]
    assert translated(sources, 2) == translated(sources, 9) == alone
    assert len(set(alone)) > 1
    greedy, narrow = (
        translate(translator, sources, start=2, end=3, search=search)
        for search in (Greedy(), Beam(size=1))
    )
    assert [one.best.tokens for one in greedy] == [one.best.tokens for one in narrow]


@pytest.mark.parametrize("kind", ["lstm", "rnn"])
def test_a_width_that_cannot_be_halved_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match="expected an even number, got 7"):
        KINDS[kind](SIZES.with_(d_model=7))


def test_the_recurrent_classifier_skips_padding() -> None:
    torch.manual_seed(0)
    model = KINDS["lstm"](SIZES).eval()
    alone, padded = model(torch.tensor([[7, 8]])), model(torch.tensor([[7, 8, 0, 0]]))
    assert torch.allclose(alone, padded, rtol=0, atol=1e-12)


def test_a_rating_is_mean_biases_and_dot_product() -> None:
    model = KINDS["factors"](SIZES.with_(target_vocab_size=5))
    person, film = torch.tensor([3]), torch.tensor([4])
    parts = dict(model.named_parameters())
    with torch.no_grad():
        parts["of_person.weight"][3] = 0.5
        expected = 3.5 + 0.5 + parts["people.weight"][3] @ parts["films.weight"][4]
        assert torch.allclose(model(person, film), expected)


def test_squared_errors_ignore_unscored_labels() -> None:
    loss = squared_error(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 2.0, -100.0]))
    assert loss.objective == 1.0


def test_every_kind_has_a_gradient_everywhere() -> None:
    ids = torch.tensor([[7, 8, 3], [4, 3, 0]])
    for kind, build in KINDS.items():
        if kind in ("transformer", "factors"):
            continue
        model: nn.Module = build(SIZES)
        inputs = (ids,) if kind == "lstm" else (ids, ids[:, :2])
        model(*inputs).square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
