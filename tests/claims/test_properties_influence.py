"""B03, B10, B11, B12 and A01: what depends on what, measured by Jacobians."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from glassformer.claims.bloem import SelfAttention
from glassformer.claims.properties import (
    Influence,
    RecurrentLayer,
    influence,
    make_layer,
    of_vectors,
    path_length,
    path_lengths,
    weighted_sum,
)
from glassformer.errors import ConfigError, ShapeError, UnknownNameError
from glassformer.nn import (
    Classifier,
    FeedForward,
    FeedForwardConfig,
    LanguageModel,
    MaskedLanguageModel,
    ModelConfig,
    Seq2Seq,
    basic_self_attention,
)
from glassformer.nn.layers import PlainNorm
from glassformer.nn.presets import bert, bloem_2024, gpt2, llama, vaswani_2017_base

T, D = 5, 4


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(T, D)


def test_fixed_weighted_sum_is_4_5_and_ignores_the_first_three() -> None:
    numbers = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).unsqueeze(-1)
    weights = torch.tensor([0.0, 0.0, 0.0, 0.5, 0.5])
    assert weighted_sum(numbers, weights).item() == 4.5
    measured = influence(lambda x: weighted_sum(x, weights), numbers)
    assert measured.strength.tolist() == [[0.0, 0.0, 0.0, 0.5, 0.5]]


def test_strength_is_the_norm_of_the_jacobian_block(x: Tensor) -> None:
    matrix = torch.randn(D, D)
    mix = torch.randn(T, T)
    measured = influence(lambda vectors: mix @ (vectors @ matrix), x)
    torch.testing.assert_close(measured.strength, mix.abs() * matrix.norm())


def test_strength_agrees_with_finite_differences() -> None:
    x = torch.randn(T, D, dtype=torch.float64)
    measured = influence(basic_self_attention, x).strength
    step = 1e-6
    for j in range(T):
        squares = torch.zeros(T, dtype=torch.float64)
        for d in range(D):
            ahead, behind = x.clone(), x.clone()
            ahead[j, d] += step
            behind[j, d] -= step
            slope = (basic_self_attention(ahead) - basic_self_attention(behind)) / (2 * step)
            squares += slope.square().sum(dim=-1)
        torch.testing.assert_close(measured[:, j], squares.sqrt(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "alone",
    [
        FeedForward(D, FeedForwardConfig(d_ff=16)),
        FeedForward(D, FeedForwardConfig(d_ff=16, activation="swiglu")),
        FeedForward(D, FeedForwardConfig(n_layers=1)),
        nn.LayerNorm(D),
        nn.RMSNorm(D),
        PlainNorm(1e-5),
        nn.Linear(D, D),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_everything_but_attention_acts_on_each_position_separately(
    alone: nn.Module,
) -> None:
    measured = influence(alone, torch.randn(3, T, D))
    assert torch.equal(measured.depends, torch.eye(T, dtype=torch.bool))
    assert not measured.mixes_positions


@pytest.mark.parametrize("attention", [basic_self_attention, SelfAttention(D, heads=2)])
def test_attention_connects_every_pair(attention: Callable[[Tensor], Tensor], x: Tensor) -> None:
    measured = influence(attention, x)
    assert measured.depends.all()
    assert measured.mixes_positions
    assert measured.looks_ahead


def test_masked_attention_sees_itself_and_what_came_before(x: Tensor) -> None:
    measured = influence(SelfAttention(D, heads=2, mask=True), x)
    assert torch.equal(measured.depends, torch.ones(T, T, dtype=torch.bool).tril())
    assert measured.mixes_positions
    assert not measured.looks_ahead


@pytest.mark.parametrize("make", [gpt2, llama])
def test_language_models_are_causal_from_the_embeddings_on(
    make: Callable[..., ModelConfig],
) -> None:
    model = LanguageModel(make(vocab_size=11, d_model=8, n_heads=2, n_layers=2, max_len=T)).eval()
    ids = torch.randint(11, (1, T))
    logits = of_vectors(model, model.decoder.embedding, ids)
    measured = influence(logits, torch.randn(T, 8))
    assert torch.equal(measured.depends, torch.ones(T, T, dtype=torch.bool).tril())


@pytest.mark.parametrize("cut_attention", [False, True])
def test_only_attention_mixes_positions_in_a_whole_model(cut_attention: bool) -> None:
    sizes = bert(vocab_size=11, d_model=8, n_heads=2, n_layers=2, max_len=T)
    model = MaskedLanguageModel(sizes).eval()
    if cut_attention:
        for name, parameter in model.named_parameters():
            if "to_values.weight" in name:
                nn.init.zeros_(parameter)
    logits = of_vectors(model, model.encoder.embedding, torch.randint(11, (1, T)))
    assert influence(logits, torch.randn(T, 8)).mixes_positions is not cut_attention


def test_padding_has_no_influence_across_an_encoder_and_decoder() -> None:
    sizes = vaswani_2017_base(
        vocab_size=11, d_model=8, n_heads=2, n_layers=1, d_ff=16, max_len=T, pad_id=0
    ).with_(output__tied="none")
    model = Seq2Seq(sizes).eval()
    source = torch.tensor([[3, 4, 5, 0, 0]])
    target = torch.tensor([[1, 2, 6]])
    logits = of_vectors(model, model.encoder.embedding, source, target)
    depends = influence(logits, torch.randn(5, 8)).depends
    assert depends.tolist() == [[True, True, True, False, False]] * 3


def test_measuring_a_model_leaves_it_unchanged(x: Tensor) -> None:
    model = Classifier(bloem_2024(vocab_size=11, d_model=D, n_heads=2, n_layers=1, max_len=T))
    ids = torch.randint(11, (1, T))
    before = model(ids)
    influence(lambda v: of_vectors(model, model.encoder.embedding, ids)(v).unsqueeze(1), x)
    assert torch.equal(model(ids), before)
    assert all(p.grad is None for p in model.parameters())


def test_vectors_of_another_shape_are_refused_and_the_model_survives(x: Tensor) -> None:
    model = Classifier(bloem_2024(vocab_size=11, d_model=D, n_heads=2, n_layers=1, max_len=T))
    ids = torch.randint(11, (1, T))
    with pytest.raises(ShapeError, match=r"\(1, 5, 4\).*\(1, 3, 4\)"):
        of_vectors(model, model.encoder.embedding, ids)(x[None, :3])
    assert model(ids).shape == (1, 2)


def test_one_input_can_hide_a_connection_and_several_find_it() -> None:
    def gated(x: Tensor) -> Tensor:
        return torch.relu(x).sum(dim=1, keepdim=True)

    off, on = torch.full((2, 1), -1.0), torch.full((2, 1), 1.0)
    assert not influence(gated, off).depends.any()
    assert influence(gated, torch.stack([off, on])).depends.all()


def test_the_least_strength_counts() -> None:
    assert Influence(torch.tensor([[1.0, 1e-9], [0.0, 1.0]])).mixes_positions
    assert not Influence(torch.eye(2)).mixes_positions


@pytest.mark.usefixtures("as_users_run_it")
def test_input_that_is_not_a_sequence_is_refused(x: Tensor) -> None:
    with pytest.raises(ShapeError, match=r"\(T, D\) or \(N, T, D\)"):
        influence(basic_self_attention, x[0])
    with pytest.raises(ShapeError, match="one sequence"):
        influence(lambda v: v.squeeze(0), x)


# --- B11: dense, convolution, recurrence, attention --------------------------------------------


def test_each_kind_of_layer_connects_what_it_should(x: Tensor) -> None:
    everything = torch.ones(T, T, dtype=torch.bool)
    expected = {
        "dense": everything,
        "convolution": everything.triu(-1).tril(1),
        "recurrence": everything.tril(),
        "attention": everything,
    }
    for kind in ("dense", "convolution", "recurrence", "attention"):
        layer = make_layer(kind, T, D, kernel_size=3)
        assert torch.equal(influence(layer, x).depends, expected[kind]), kind


def test_only_the_connections_of_attention_depend_on_the_input(x: Tensor) -> None:
    for kind in ("dense", "convolution", "attention"):
        layer = make_layer(kind, T, D)
        one, other = influence(layer, x), influence(layer, 3 * x)
        same = torch.allclose(one.strength, other.strength, rtol=1e-4)
        assert same is (kind != "attention"), kind


# --- B10: path lengths --------------------------------------------------------------------------


@pytest.mark.parametrize("kernel_size", [3, 5])
def test_measured_paths_of_a_convolution_follow_the_formula(kernel_size: int, x: Tensor) -> None:
    layer = make_layer("convolution", T, D, kernel_size)
    measured = path_lengths(layer, x, most=T)
    expected = [
        [path_length("convolution", abs(i - j), kernel_size) for j in range(T)] for i in range(T)
    ]
    assert measured.tolist() == expected


def test_measured_paths_of_a_recurrence_grow_with_distance(x: Tensor) -> None:
    layer = RecurrentLayer(D)
    measured = path_lengths(layer.step, x, most=T)
    for i in range(T):
        for j in range(T):
            expected = path_length("recurrence", i - j) if j <= i else float("inf")
            assert measured[i, j] == expected


def test_attention_links_any_two_positions_in_one_step(x: Tensor) -> None:
    measured = path_lengths(make_layer("attention", T, D), x, most=1)
    assert measured.tolist() == [
        [path_length("attention", abs(i - j)) for j in range(T)] for i in range(T)
    ]
    assert measured.max() == 1


def test_moments_of_a_recurrence_add_up_to_the_layer(x: Tensor) -> None:
    """From zero states, T moments with the inputs held give what the loop gives."""
    layer = RecurrentLayer(D)
    inputs = layer.from_input(x[None])
    states = torch.zeros(1, T, D)
    for _ in range(T):
        earlier = torch.cat([torch.zeros(1, 1, D), states[:, :-1]], dim=1)
        states = torch.tanh(inputs + layer.from_state(earlier))
    torch.testing.assert_close(layer(x[None]), states)


@pytest.mark.usefixtures("as_users_run_it")
def test_bad_layers_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'convolution'"):
        make_layer("convolutions", T, D)  # type: ignore[arg-type]  # what a caller may type
    with pytest.raises(ConfigError, match="odd"):
        make_layer("convolution", T, D, kernel_size=2)
    with pytest.raises(ConfigError, match="no other position"):
        path_length("convolution", 3, kernel_size=1)
    with pytest.raises(ConfigError, match="negative"):
        path_length("attention", -1)
