"""int8 and bfloat16 weights: rounding that is bounded, ties that hold, machines that cannot."""

import pytest
import torch
from torch import nn

from glassformer import modes, tasks
from glassformer.errors import ConfigError
from glassformer.nn import Seq2Seq, build, presets
from glassformer.tasks import quantisation as stored_weights
from glassformer.tasks.quantisation import Int8Embedding, Int8Linear, largest_weight, store, to_int8


def test_rounding_is_off_by_half_a_scale_at_most() -> None:
    rows = torch.randn(20, 33, dtype=torch.float64) * torch.logspace(-3, 3, 20).unsqueeze(-1)
    numbers, scales = to_int8(rows)
    assert numbers.dtype is torch.int8 and numbers.abs().max() == 127
    error = (numbers * scales.unsqueeze(-1) - rows).abs()
    assert (error <= scales.unsqueeze(-1) / 2 + 1e-12).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_products_are_exact_on_this_processor(sign: int) -> None:
    """Without VNNI, sums of products of 127 and 127 are cut off at 16 bits, silently."""
    numbers = torch.full((32, 64), 127, dtype=torch.int8)
    weights = torch.full((16, 64), sign * largest_weight(), dtype=torch.int8)
    sums = torch._int_mm(numbers, weights.t())
    assert sums.eq(sign * 64 * 127 * largest_weight()).all()


def test_where_sums_are_cut_off_weights_have_seven_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert largest_weight() in (127, 63)
    monkeypatch.setattr(stored_weights, "multiplies_int8", lambda: False)
    assert largest_weight() == 63
    mapped = store(nn.Sequential(nn.Linear(8, 4)), "int8")[0]  # type: ignore[index]  # a Sequential
    assert mapped.weight.abs().amax(dim=1).tolist() == [63] * 4
    rows = torch.randn(20, 33, dtype=torch.float64)
    numbers, scales = to_int8(rows, 63)
    assert ((numbers * scales.unsqueeze(-1) - rows).abs() <= scales.unsqueeze(-1) / 2 + 1e-12).all()


def test_a_row_of_zeros_stays_zero() -> None:
    numbers, scales = to_int8(torch.zeros(2, 5))
    assert not numbers.any() and scales.tolist() == [1, 1]


def test_the_product_is_that_of_the_rounded_numbers() -> None:
    """Against a loop over rows in float64, from the whole numbers themselves."""
    torch.manual_seed(0)
    linear = nn.Linear(24, 10)
    matrix, scales = to_int8(linear.weight.detach(), largest_weight())
    mapped = Int8Linear(matrix, scales, linear.bias)
    x = torch.randn(3, 5, 24)
    numbers, x_scales = to_int8(x.view(15, 24))
    expected = torch.stack(
        [
            (number.double() * scale) @ (matrix.double() * scales.unsqueeze(-1)).T + linear.bias
            for number, scale in zip(numbers, x_scales, strict=True)
        ]
    ).view(3, 5, 10)
    torch.testing.assert_close(mapped(x).double(), expected, rtol=1e-5, atol=1e-6)
    assert (mapped(x) - linear(x)).abs().max() < 0.05 * linear(x).abs().max()


def test_tied_tables_stay_one() -> None:
    config = presets.vaswani_2017_base(vocab_size=50, d_model=16, n_heads=2, n_layers=1, d_ff=24)
    model = build(config).eval()
    assert isinstance(model, Seq2Seq)
    source, target = torch.randint(0, 50, (2, 7)), torch.randint(0, 50, (2, 5))
    before = model(source, target)
    store(model, "int8")
    assert isinstance(model.encoder.embedding, Int8Embedding)
    assert model.encoder.embedding is model.decoder.embedding
    assert model.to_vocabulary.weight is model.encoder.embedding.weight
    assert not any(type(part) is nn.Linear for part in model.modules())
    assert (model(source, target) - before).abs().max() < 0.1 * before.abs().max()


@pytest.mark.parametrize(("name", "text"), [("en-de", "A dog runs."), ("imdb", "A great film.")])
def test_shipped_models_answer_alike(name: str, text: str) -> None:
    plain, small = tasks.load(name), tasks.load(name, weights="int8")
    if plain.task == "translate":
        ours, theirs = plain.translate([text])[0], small.translate([text])[0]
        assert ours.text == theirs.text
        assert theirs.score == pytest.approx(ours.score, abs=0.05)
    else:
        ours_, theirs_ = plain.classify([text])[0], small.classify([text])[0]
        assert ours_.label == theirs_.label
        assert theirs_.probability == pytest.approx(ours_.probability, abs=0.05)


def test_int8_models_write_on() -> None:
    """Sampling and streaming ask a model for the device and size of its table."""
    model = tasks.load("shakespeare", weights="int8")
    assert "".join(model.stream("KING:", max_new=5)) == model.generate("KING:", max_new=5).text


@pytest.mark.parametrize(
    ("kind", "device", "message"),
    [
        ("int4", "cpu", "weights must be one of float32, int8, bfloat16, got 'int4'"),
        ("int8", "cuda", "int8 weights are for the CPU"),
    ],
)
def test_unknown_weights_are_one_line(kind: str, device: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tasks.load("toy", weights=kind, device=device)  # type: ignore[arg-type]


def test_a_cpu_that_dies_of_bfloat16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "_MULTIPLY", "import os; os.abort()")
    modes.multiplies_bfloat16.cache_clear()
    with pytest.raises(ConfigError, match="cannot multiply bfloat16"):
        tasks.load("toy", weights="bfloat16")
    modes.multiplies_bfloat16.cache_clear()


def test_bfloat16_is_stored_where_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored, not run: the machine of this test need not have it."""
    monkeypatch.setattr(modes, "_MULTIPLY", "pass")
    modes.multiplies_bfloat16.cache_clear()
    model = tasks.load("imdb", weights="bfloat16").module
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    modes.multiplies_bfloat16.cache_clear()
